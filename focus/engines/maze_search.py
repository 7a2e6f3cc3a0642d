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
def breadth_first(maze, start, size, code, distance, queue):
    """Fill `code` and `distance` (-1 where unreachable) of one maze; returns cells reached."""
    for cell in range(size * size):
        code[cell] = BLOCKED if maze[cell] == WALL else UNREACHABLE
        distance[cell] = -1
    code[start] = ROOT
    distance[start] = 0
    queue[0] = start
    head, tail = 0, 1
    while head < tail:
        cell = queue[head]
        head += 1
        row, col = cell // size, cell % size
        for direction in range(4):
            if direction == 0:
                inside, neighbour = row + 1 < size, cell + size
            elif direction == 1:
                inside, neighbour = col > 0, cell - 1
            elif direction == 2:
                inside, neighbour = col + 1 < size, cell + 1
            else:
                inside, neighbour = row > 0, cell - size
            if inside and code[neighbour] == UNREACHABLE:
                code[neighbour] = 3 - direction
                distance[neighbour] = distance[cell] + 1
                queue[tail] = neighbour
                tail += 1
    return tail


@njit(nogil=True, cache=True)
def parent_of(cell, direction, size):
    """The neighbour of a cell in a direction 0-3."""
    if direction == 0:
        return cell + size
    if direction == 1:
        return cell - 1
    if direction == 2:
        return cell + 1
    return cell - size


@njit(nogil=True, cache=True)
def _search_rows(mazes, size, codes, distances, paths, counts):
    queue = np.empty(size * size, np.int64)
    ways = np.empty(size * size, np.int64)
    for row in range(len(mazes)):
        start = goal = -1
        for cell in range(size * size):
            if mazes[row, cell] == START:
                start = cell
            elif mazes[row, cell] == GOAL:
                goal = cell
        reached = breadth_first(mazes[row], start, size, codes[row], distances[row], queue)
        if distances[row, goal] < 0:
            continue
        # Cells leave the queue in order of distance, so each is counted after its parents.
        ways[start] = 1
        for place in range(1, reached):
            cell = queue[place]
            ways[cell] = 0
            for step in (size, -1, 1, -size):
                other = cell + step
                if other < 0 or other >= size * size:
                    continue
                if abs(step) == 1 and other // size != cell // size:
                    continue
                if distances[row, other] == distances[row, cell] - 1 and distances[row, other] >= 0:
                    ways[cell] = min(2, ways[cell] + ways[other])
        counts[row] = ways[goal]
        cell = goal
        paths[row, goal] = True
        while cell != start:
            cell = parent_of(cell, codes[row, cell], size)
            paths[row, cell] = True


def search_many(mazes: np.ndarray, size: int) -> tuple[np.ndarray, ...]:
    """Search (rows, cells) mazes with one start and one goal each.

    Returns codes (rows, cells), distances from the start (-1 unreachable), canonical paths as
    booleans with both ends (all False when the goal is unreachable), and the number of shortest
    paths, counted up to 2.
    """
    mazes = np.ascontiguousarray(mazes, np.uint8)
    if ((mazes == START).sum(1) != 1).any() or ((mazes == GOAL).sum(1) != 1).any():
        raise ValueError("every maze needs exactly one start and one goal")
    codes = np.empty_like(mazes)
    distances = np.empty(mazes.shape, np.int32)
    paths = np.zeros(mazes.shape, np.bool_)
    counts = np.zeros(len(mazes), np.int64)
    _search_rows(mazes, size, codes, distances, paths, counts)
    return codes, distances, paths, counts


def dihedral(mazes: np.ndarray, size: int) -> np.ndarray:
    """The eight symmetries of each maze: (rows, cells) -> (rows, 8, cells), the first unchanged."""
    grids = mazes.reshape(-1, size, size)
    turned = [np.rot90(grids, turns, axes=(1, 2)) for turns in range(4)]
    both = turned + [grid[:, :, ::-1] for grid in turned]
    return np.stack(both, 1).reshape(len(mazes), 8, size * size)
