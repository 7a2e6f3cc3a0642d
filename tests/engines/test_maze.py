"""Search in mazes, and their generator."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from focus.engines import maze_generator, maze_search
from focus.engines.maze_search import GOAL, START, WALL


def slow_search(maze: np.ndarray, size: int) -> tuple[dict[int, int], dict[int, int]]:
    """Distances and parents from the definition: queue, order down, left, right, up."""
    start = int(np.flatnonzero(maze == START)[0])
    distance, parent, queue = {start: 0}, {}, deque([start])
    while queue:
        cell = queue.popleft()
        row, col = divmod(cell, size)
        for r, c in ((row + 1, col), (row, col - 1), (row, col + 1), (row - 1, col)):
            other = r * size + c
            inside = 0 <= r < size and 0 <= c < size
            if inside and maze[other] != WALL and other not in distance:
                distance[other], parent[other] = distance[cell] + 1, cell
                queue.append(other)
    return distance, parent


def random_maze(seed: int, size: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    maze = (rng.random(size * size) > 0.35).astype(np.uint8)
    start, goal = rng.permutation(size * size)[:2]
    maze[start], maze[goal] = START, GOAL
    return maze


@given(seed=st.integers(0, 2**32), size=st.integers(2, 12))
def test_search_equals_the_slow_search(seed, size):
    maze = random_maze(seed, size)
    codes, distances, paths, _ = maze_search.search_many(maze[None], size)
    distance, parent = slow_search(maze, size)
    assert {c: d for c, d in enumerate(distances[0].tolist()) if d >= 0} == distance
    steps = (size, -1, 1, -size)
    assert {c: c + steps[codes[0, c]] for c in parent} == parent
    goal = int(np.flatnonzero(maze == GOAL)[0])
    path = set()
    if goal in distance:
        path = {goal}
        while goal in parent:
            goal = parent[goal]
            path.add(goal)
    assert set(np.flatnonzero(paths[0]).tolist()) == path


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_canonical_path_is_the_published_answer_of_every_maze(data_folder, split):
    from focus.data.table import read_table
    from focus.tasks import Maze

    table = read_table(data_folder / "maze-hard" / f"{split}.csv.gz", Maze())
    verdict = Maze().judge(table.questions, table.answers)
    assert verdict.canonical.sum() == 1000
    assert verdict.unique.sum() == 0  # every Maze-Hard maze has ties


def test_number_of_shortest_paths():
    corridor = np.array([[START, 1, GOAL], [0, 0, 0], [0, 0, 0]], np.uint8).reshape(1, 9)
    room = np.array([[START, 1, 1], [1, 1, 1], [1, 1, GOAL]], np.uint8).reshape(1, 9)
    assert maze_search.search_many(corridor, 3)[3][0] == 1
    assert maze_search.search_many(room, 3)[3][0] == 2  # counted up to two


def test_the_eight_symmetries_are_different_and_closed():
    maze = random_maze(1, 7)
    images = maze_search.dihedral(maze[None], 7)[0]
    assert (images[0] == maze).all()
    as_set = {image.tobytes() for image in images}
    assert len(as_set) == 8
    for image in images:
        assert {i.tobytes() for i in maze_search.dihedral(image[None], 7)[0]} == as_set


@pytest.mark.parametrize("farthest", [False, True])
@pytest.mark.parametrize(("size", "least"), [(10, 15), (30, 109), (70, 150)])
def test_generated_mazes_have_long_paths(size, least, farthest):
    mazes = maze_generator.generate_mazes(size, 3, 0, 12, least, (0.30, 0.46), farthest)
    _, distances, paths, _ = maze_search.search_many(mazes, size)
    moves = paths.sum(1) - 1
    assert (moves >= least).all()
    if farthest:
        assert (moves == distances.max(1)).all()
    alone = maze_generator.generate_mazes(size, 3, 7, 1, least, (0.30, 0.46), farthest)
    assert (alone[0] == mazes[7]).all()


def test_generated_mazes_look_like_maze_hard(real_mazes):
    mazes = maze_generator.generate_mazes(30, 1, 0, 300, 109, (0.30, 0.46), False)
    moves = maze_search.search_many(mazes, 30)[2].sum(1) - 1
    real = maze_search.search_many(real_mazes.questions, 30)[2].sum(1) - 1
    assert abs((mazes == WALL).mean() - (real_mazes.questions == WALL).mean()) < 0.01
    assert abs(np.median(moves) - np.median(real)) <= 2


def test_impossible_mazes_are_given_up():
    mazes = maze_generator.generate_mazes(5, 0, 0, 2, 40, (0.3, 0.46), False, attempts=50)
    assert (mazes == WALL).all()
