"""Breadth-first search in mazes, and the canonical shortest path that defines their answer.

A maze is an array of `size * size` codes: 0 wall, 1 open, 2 start, 3 goal. The search runs from
the start, expands neighbours in the order down, left, right, up, and gives each cell the parent
that discovered it first; the path goal -> start along the parents is the canonical answer.
Directions are numbered in that order, so that the opposite of `d` is `3 - d`.
"""

import numpy as np
from numba import njit

WALL, OPEN, START, GOAL = 0, 1, 2, 3
# Codes of the search result: 0-3 point to the parent.
UNREACHABLE, BLOCKED, ROOT = 4, 5, 6


@njit(nogil=True, cache=True)
def _search_rows(mazes, width, codes, distances, paths, counts):
    """Search mazes that have a border of walls, which no step leaves."""
    steps = (width, -1, 1, -width)
    queue = np.empty(width * width, np.int64)
    ways = np.empty(width * width, np.int64)
    for row in range(len(mazes)):
        code, distance = codes[row], distances[row]
        start = goal = -1
        for cell in range(width * width):
            code[cell] = BLOCKED if mazes[row, cell] == WALL else UNREACHABLE
            if mazes[row, cell] == START:
                start = cell
            elif mazes[row, cell] == GOAL:
                goal = cell
        code[start], distance[start], queue[0] = ROOT, 0, start
        head, reached = 0, 1
        while head < reached:
            cell = queue[head]
            head += 1
            for direction in range(4):
                neighbour = cell + steps[direction]
                if code[neighbour] == UNREACHABLE:
                    code[neighbour] = 3 - direction
                    distance[neighbour] = distance[cell] + 1
                    queue[reached] = neighbour
                    reached += 1
        if distance[goal] < 0:
            continue
        # Cells leave the queue in order of distance, so each is counted after its parents.
        ways[start] = 1
        for cell in queue[1:reached]:
            ways[cell] = 0
            for step in steps:
                if distance[cell + step] == distance[cell] - 1:
                    ways[cell] = min(2, ways[cell] + ways[cell + step])
        counts[row] = ways[goal]
        cell = goal
        paths[row, goal] = True
        while cell != start:
            cell += steps[code[cell]]
            paths[row, cell] = True


def search_many(mazes: np.ndarray, size: int) -> tuple[np.ndarray, ...]:
    """Search (rows, cells) mazes with one start and one goal each.

    Returns codes (rows, cells), distances from the start (-1 unreachable), canonical paths as
    booleans with both ends (all False when the goal is unreachable), and the number of shortest
    paths, counted up to 2.
    """
    if ((mazes == START).sum(1) != 1).any() or ((mazes == GOAL).sum(1) != 1).any():
        raise ValueError("every maze needs exactly one start and one goal")
    rows, width = len(mazes), size + 2
    grids = mazes.astype(np.uint8).reshape(rows, size, size)
    bordered = np.pad(grids, ((0, 0), (1, 1), (1, 1)), constant_values=WALL).reshape(rows, -1)
    codes = np.empty_like(bordered)
    distances = np.full(bordered.shape, -1, np.int32)
    paths = np.zeros(bordered.shape, np.bool_)
    counts = np.zeros(rows, np.int64)
    _search_rows(bordered, width, codes, distances, paths, counts)
    inner = (
        array.reshape(rows, width, width)[:, 1:-1, 1:-1].reshape(rows, -1)
        for array in (codes, distances, paths)
    )
    return *inner, counts


def dihedral(mazes: np.ndarray, size: int) -> np.ndarray:
    """The eight symmetries of each maze: (rows, cells) -> (rows, 8, cells), the first unchanged."""
    grids = mazes.reshape(-1, size, size)
    turned = [np.rot90(grids, turns, axes=(1, 2)) for turns in range(4)]
    both = turned + [grid[:, :, ::-1] for grid in turned]
    return np.stack(both, 1).reshape(len(mazes), 8, size * size)
