"""Solve, count and rate Sudokus: candidate bitmasks, naked and hidden singles, then guessing.

The puzzle is an array of `side * side` digits, 0 for a blank; `box` is 2 (4x4) or 3 (9x9).
`guesses`, the number of values tried at branch points until uniqueness is decided, is our
difficulty rating: it depends on this solver alone, so compare it only with itself.
"""

from collections import namedtuple
from functools import cache

import numpy as np
from numba import njit

from focus.engines.rng import next_word

NO_END = 2**62  # more guesses than any search makes
Geometry = namedtuple("Geometry", "box side peers units unit_of bit_digit bit_count")


@cache
def geometry(box: int) -> Geometry:
    """Index tables of a Sudoku whose boxes are `box` x `box`."""
    side = box * box
    cell = np.arange(side * side)
    row, col = cell // side, cell % side
    unit_of = np.stack([row, side + col, 2 * side + row // box * box + col // box], 1)
    units = np.stack([np.flatnonzero((unit_of == unit).any(1)) for unit in range(3 * side)])
    peers = np.stack(
        [
            np.setdiff1d(np.flatnonzero((unit_of == unit_of[i]).any(1)), [i])
            for i in range(side * side)
        ]
    )
    masks = np.arange(1 << side)
    bit_count = ((masks[:, None] >> np.arange(side)) & 1).sum(1).astype(np.uint8)
    bit_digit = np.zeros(1 << side, np.uint8)
    bit_digit[1 << np.arange(side)] = np.arange(1, side + 1)
    narrow = np.uint8  # cell numbers fit a byte, and small tables stay in the cache
    return Geometry(
        box, side, peers.astype(narrow), units.astype(narrow), unit_of.astype(narrow),
        bit_digit, bit_count,
    )  # fmt: skip


@njit(nogil=True, cache=True)
def _settle(candidates, queue, pending, geo):
    """Propagate `pending` newly fixed cells and all singles; False on contradiction."""
    full = np.uint16((1 << geo.side) - 1)
    while True:
        while pending > 0:
            pending -= 1
            cell = queue[pending]
            bit = candidates[cell]
            if bit == 0:
                return False
            for peer in geo.peers[cell]:
                left = candidates[peer]
                if left & bit:
                    left ^= bit
                    if left == 0:
                        return False
                    candidates[peer] = left
                    if left & (left - np.uint16(1)) == 0:
                        queue[pending] = peer
                        pending += 1
        for unit in range(3 * geo.side):
            once = np.uint16(0)
            twice = np.uint16(0)
            fixed = np.uint16(0)
            for cell in geo.units[unit]:
                left = candidates[cell]
                twice |= once & left
                once |= left
                if left & (left - np.uint16(1)) == 0:
                    fixed |= left
            if once != full:
                return False
            hidden = once & ~twice & ~fixed
            if hidden:
                for cell in geo.units[unit]:
                    bit = candidates[cell] & hidden
                    if bit:
                        if bit & (bit - np.uint16(1)):
                            return False
                        candidates[cell] = bit
                        queue[pending] = cell
                        pending += 1
        if pending == 0:
            return True


@njit(nogil=True, cache=True)
def _branch_cell(candidates, geo):
    """The first cell with the fewest open candidates, or -1 when every cell is fixed."""
    best, fewest = -1, 99
    for cell in range(len(candidates)):
        count = geo.bit_count[candidates[cell]]
        if 1 < count < fewest:
            best, fewest = cell, count
            if count == 2:
                break
    return best


@njit(nogil=True, cache=True)
def search(puzzle, limit, solutions, workspace, geo, order, patience=NO_END):
    """Find up to `limit` solutions; returns (solutions found, guesses).

    Gives up with -1 solutions after `patience` guesses: a few puzzles take tens of millions.

    `solutions` receives them; `workspace` is a (depth, cells) array to reuse between calls;
    `order` is a random state to try digits in random order, with state 0 for ascending order.
    """
    cells = len(puzzle)
    queue = np.empty(4 * cells, np.uint8)
    tried = np.empty(cells + 1, np.uint16)
    branch = np.empty(cells + 1, np.int64)
    full = np.uint16((1 << geo.side) - 1)
    candidates = workspace[0]
    pending = 0
    for cell in range(cells):
        if puzzle[cell]:
            candidates[cell] = np.uint16(1) << np.uint16(puzzle[cell] - 1)
            queue[pending] = cell
            pending += 1
        else:
            candidates[cell] = full
    # Two equal givens in a unit would each erase the other: propagation finds that at once.
    if not _settle(candidates, queue, pending, geo):
        return 0, 0
    found = guesses = depth = 0
    branch[0] = _branch_cell(candidates, geo)
    tried[0] = 0
    if branch[0] < 0:
        for cell in range(cells):
            solutions[0, cell] = geo.bit_digit[candidates[cell]]
        return 1, 0
    while depth >= 0:
        here = workspace[depth]
        cell = branch[depth]
        open_bits = here[cell] & ~tried[depth]
        if open_bits == 0:
            depth -= 1
            continue
        bit = open_bits & (~open_bits + np.uint16(1))
        if order[0] != 0:
            skip = np.int64(next_word(order) % np.uint64(geo.bit_count[open_bits]))
            for _ in range(skip):
                open_bits ^= bit
                bit = open_bits & (~open_bits + np.uint16(1))
        tried[depth] |= bit
        guesses += 1
        if guesses > patience:
            return -1, guesses
        child = workspace[depth + 1]
        child[:] = here
        child[cell] = bit
        queue[0] = cell
        if not _settle(child, queue, 1, geo):
            continue
        next_cell = _branch_cell(child, geo)
        if next_cell < 0:
            for i in range(cells):
                solutions[found, i] = geo.bit_digit[child[i]]
            found += 1
            if found == limit:
                return found, guesses
        else:
            depth += 1
            branch[depth] = next_cell
            tried[depth] = 0
    return found, guesses


@njit(nogil=True, cache=True)
def new_workspace(cells):
    """Scratch memory for `search`."""
    return np.empty((cells + 2, cells), np.uint16)


@njit(nogil=True, cache=True)
def ascending():
    """The `order` argument that makes `search` deterministic."""
    return np.zeros(1, np.uint64)


@njit(nogil=True, cache=True)
def _solve_rows(puzzles, answers, found, guesses, geo, patience):
    solutions = np.zeros((2, puzzles.shape[1]), np.uint8)
    workspace = new_workspace(puzzles.shape[1])
    order = ascending()
    for row in range(len(puzzles)):
        found[row], guesses[row] = search(
            puzzles[row], 2, solutions, workspace, geo, order, patience
        )
        if found[row] > 0:
            answers[row] = solutions[0]


def solve_many(
    puzzles: np.ndarray, box: int, patience: int = NO_END
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solve (rows, cells) puzzles: first solution, number of solutions (0, 1 or 2), guesses.

    The number is -1 where the search was given up after `patience` guesses.
    """
    puzzles = np.ascontiguousarray(puzzles, np.uint8)
    answers = np.zeros_like(puzzles)
    found = np.zeros(len(puzzles), np.int64)
    guesses = np.zeros(len(puzzles), np.int64)
    _solve_rows(puzzles, answers, found, guesses, geometry(box), patience)
    return answers, found, guesses


@njit(nogil=True, cache=True)
def is_unique(puzzle, solutions, workspace, geo):
    """Whether the puzzle has exactly one solution."""
    return search(puzzle, 2, solutions, workspace, geo, ascending())[0] == 1
