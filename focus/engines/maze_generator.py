"""Make mazes like Maze-Hard: random walls, a start, and a goal far away from it.

Walls are drawn cell by cell with a share that is itself drawn per maze; a maze is kept when some
cell lies at least `min_path` moves from the start. The goal is one of those cells (*distant*,
as in Maze-Hard, where the goal is the farthest cell in only 7 % of mazes) or the *farthest* one.
"""

import numpy as np
from numba import njit

from focus.engines.maze_search import GOAL, OPEN, START, WALL
from focus.engines.rng import below, next_word, stream, uniform

_CHUNK, _CHUNK_BITS, _ONE = np.uint64(0xFFFF), np.uint64(16), np.uint64(1)
_WORD = 62  # rows up to this wide, with a border, fit a machine word

_STARTS = 96  # starts tried in a maze whose ends lie far enough apart
_WEIGHT = 60  # a start with this many distant cells, or more, is always taken


@njit(nogil=True, cache=True)
def _draw_walls(maze, bits, state, share, size):
    """Each inner cell is a wall with the given probability; one random word serves four cells.

    `bits` receives the open cells of each row as a mask, for `_farthest`.
    """
    threshold = np.uint64(share * 65536)
    word = np.uint64(0)
    left = 0
    for row in range(1, size + 1):
        first = row * (size + 2) + 1
        mask = np.uint64(0)
        for cell in range(first, first + size):
            if left == 0:
                word = next_word(state)
                left = 4
            is_open = word & _CHUNK >= threshold
            maze[cell] = OPEN if is_open else WALL
            mask |= np.uint64(is_open) << np.uint64((cell - first + 1) & 63)
            word >>= _CHUNK_BITS
            left -= 1
        bits[row] = mask


@njit(nogil=True, cache=True)
def _farthest(bits, row, column, unseen, frontier, grown):
    """Moves from a cell to the farthest one, and its row and column, by flooding whole rows."""
    unseen[:] = bits
    frontier[:] = 0
    frontier[row] = _ONE << np.uint64(column)
    last = frontier[row]
    depth = -1
    alive = True
    while alive:
        depth += 1
        alive = False
        for r in range(1, len(bits) - 1):
            here = frontier[r]
            spread = (here << _ONE) | (here >> _ONE) | frontier[r - 1] | frontier[r + 1]
            grown[r] = spread & unseen[r]
            if grown[r]:
                alive, row, last = True, r, grown[r]
        for r in range(1, len(bits) - 1):
            unseen[r] &= ~grown[r]
            frontier[r] = grown[r]
    column = 0
    while not last & _ONE:
        last >>= _ONE
        column += 1
    return depth, row, column


@njit(nogil=True, cache=True)
def _sweep(maze, start, width, seen, stamp, distance, queue):
    """Distances from `start` in a maze with a border of walls; returns the cells reached.

    A cell has been seen in this sweep when `seen` holds the sweep's stamp: nothing to clear.
    """
    seen[start] = stamp
    distance[start] = 0
    queue[0] = start
    head, tail = 0, 1
    while head < tail:
        cell = queue[head]
        head += 1
        for step in (width, -1, 1, -width):
            neighbour = cell + step
            if maze[neighbour] != WALL and seen[neighbour] != stamp:
                seen[neighbour] = stamp
                distance[neighbour] = distance[cell] + 1
                queue[tail] = neighbour
                tail += 1
    return tail


@njit(nogil=True, cache=True)
def _first_at_least(queue, distance, reached, least):
    """Where, in a queue sorted by distance, the cells at least that far away begin."""
    first = reached
    while first > 0 and distance[queue[first - 1]] >= least:
        first -= 1
    return first


@njit(nogil=True, cache=True)
def _generate(mazes, size, seed, first_unit, min_path, low_share, high_share, farthest, attempts):
    width = size + 2
    maze = np.zeros(width * width, np.uint8)
    seen = np.zeros(width * width, np.int64)
    distance = np.zeros(width * width, np.int64)
    queue = np.empty(size * size, np.int64)
    starts = np.empty(size * size, np.int64)
    bits = np.zeros(width, np.uint64)
    unseen = np.zeros(width, np.uint64)
    frontier = np.zeros(width, np.uint64)
    grown = np.zeros(width, np.uint64)
    stamp = 0
    for row in range(len(mazes)):
        state = stream(seed, first_unit + row)
        start = goal = 0
        for _ in range(attempts):
            share = low_share + (high_share - low_share) * uniform(state)
            _draw_walls(maze, bits, state, share, size)
            inner = below(state, size * size)
            start = (inner // size + 1) * width + inner % size + 1
            if maze[start] == WALL:
                continue
            # The cell farthest from the start ends, nearly, the longest path. Two cells of a
            # component are at most twice the eccentricity of a third apart.
            if size <= _WORD:
                depth, r, c = _farthest(
                    bits, start // width, start % width, unseen, frontier, grown
                )
                if 2 * depth < min_path:
                    continue
                depth, _, _ = _farthest(bits, r, c, unseen, frontier, grown)
                if depth < min_path:
                    continue
                end = r * width + c
            else:
                stamp += 1
                reached = _sweep(maze, start, width, seen, stamp, distance, queue)
                end = queue[reached - 1]
            stamp += 1
            reached = _sweep(maze, end, width, seen, stamp, distance, queue)
            middle = queue[reached - 1]
            if distance[middle] < min_path:
                continue
            # Every pair that far apart ends far from a cell in the middle of the longest path:
            # only the cells at the end of the queue of a sweep from there can be starts.
            for _ in range(distance[middle] // 2):
                for step in (width, -1, 1, -width):
                    closer = middle + step
                    if seen[closer] == stamp and distance[closer] < distance[middle]:
                        middle = closer
                        break
            stamp += 1
            reached = _sweep(maze, middle, width, seen, stamp, distance, queue)
            least = min_path - distance[queue[reached - 1]]
            first = _first_at_least(queue, distance, reached, least)
            count = reached - first
            starts[:count] = queue[first:reached]
            for _ in range(1 + _STARTS * count // reached):
                start = starts[below(state, count)]
                stamp += 1
                reached = _sweep(maze, start, width, seen, stamp, distance, queue)
                first = _first_at_least(queue, distance, reached, min_path)
                # Maze-Hard looks like start and goal drawn together until they are far apart:
                # a start is then as likely as it has distant cells.
                if first == reached or (
                    not farthest and uniform(state) * _WEIGHT >= reached - first
                ):
                    continue
                goal = queue[reached - 1 if farthest else first + below(state, reached - first)]
                break
            if goal:
                break
        if goal:
            maze[start] = START
            maze[goal] = GOAL
            mazes[row] = maze.reshape(width, width)[1:-1, 1:-1].copy().reshape(-1)
        else:
            mazes[row] = WALL


def generate_mazes(
    size: int,
    seed: int,
    first_unit: int,
    count: int,
    min_path: int,
    wall_share: tuple[float, float],
    farthest: bool,
    attempts: int = 20_000,
) -> np.ndarray:
    """Mazes of units `first_unit`…; a unit that finds none in `attempts` is all walls."""
    mazes = np.empty((count, size * size), np.uint8)
    _generate(mazes, size, seed, first_unit, min_path, *wall_share, farthest, attempts)
    return mazes
