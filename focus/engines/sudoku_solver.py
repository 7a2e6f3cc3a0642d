"""Solve, count and rate Sudokus: naked and hidden singles on bit boards, then guessing.

The puzzle is an array of `side * side` digits, 0 for a blank; `box` is 2 (4x4) or 3 (9x9).
`guesses`, the number of values tried at branch points until uniqueness is decided, is our
difficulty rating: it depends on this solver alone, so compare it only with itself.

A board is one row of integers: for each digit and band (`box` rows of cells) the bits of the cells
that may still hold the digit, then for each band those of the cells that are fixed. Bit `side * r +
c` is row r of the band, column c.
"""

from collections import namedtuple
from functools import cache

import numpy as np
from numba import njit

from focus.engines.rng import next_word

NO_END = 2**62  # more guesses than any search makes
# `bands` and `digits` are tuples, whose lengths the compiler knows: it unrolls loops over them.
Geometry = namedtuple("Geometry", "bands digits box side not_peers box_bits cell_of_bit")
_BIT_NAMES = 37  # 2**k mod 37 differs for all k < 36


@cache
def geometry(box: int) -> Geometry:
    """Index tables of a Sudoku whose boxes are `box` x `box`."""
    side = box * box
    cell = np.arange(side * side)
    row, col = cell // side, cell % side
    unit_of = np.stack([row, col, row // box * box + col // box])
    peers = (unit_of[:, :, None] == unit_of[:, None, :]).any(0) & (cell[:, None] != cell)
    bits = 1 << np.arange(box * side)
    not_peers = (~peers.reshape(side * side, box, box * side) * bits).sum(2).astype(np.int32)
    box_bits = np.array([bits[col[: box * side] // box == at].sum() for at in range(box)])
    cell_of_bit = np.zeros(_BIT_NAMES, np.int64)
    cell_of_bit[bits % _BIT_NAMES] = np.arange(box * side)
    return Geometry(
        tuple(range(box)), tuple(range(side)), box, side, not_peers, box_bits, cell_of_bit
    )


@njit(nogil=True, cache=True, inline="always")
def _fix(board, band, bit, digit, geo):
    """Put a digit into a cell; returns the set of digits that lost a candidate."""
    bands, digits = len(geo.bands), len(geo.digits)
    changed = 1 << digit
    for other in range(digits):
        if other != digit and board[other * bands + band] & bit:
            board[other * bands + band] ^= bit
            changed |= 1 << other
    _erase_peers(board, band, bit, digit, geo)
    return changed


@njit(nogil=True, cache=True, inline="always")
def _erase_peers(board, band, bit, digit, geo):
    """No peer of the cell may hold its digit any more; the cell counts as fixed."""
    bands, digits = len(geo.bands), len(geo.digits)
    cell = bands * digits * band + geo.cell_of_bit[bit % _BIT_NAMES]
    for other in range(bands):
        board[digit * bands + other] &= geo.not_peers[cell, other]
    board[digits * bands + band] |= bit


@njit(nogil=True, cache=True)
def _settle(board, changed, geo):
    """Follow all singles; `changed` are the digits to look at. False on contradiction."""
    bands, digits = len(geo.bands), len(geo.digits)
    every_cell = (1 << bands * digits) - 1
    while True:
        progress = False
        for band in range(bands):
            once = twice = 0
            for digit in range(digits):
                cells = np.int64(board[digit * bands + band])
                twice |= once & cells
                once |= cells
            if once != every_cell:
                return False
            naked = once & ~twice & ~np.int64(board[digits * bands + band])
            if naked:
                progress = True
                for digit in range(digits):
                    single = naked & np.int64(board[digit * bands + band])
                    while single:
                        bit = single & -single
                        _erase_peers(board, band, bit, digit, geo)
                        single &= np.int64(board[digit * bands + band]) & ~bit
                        changed |= 1 << digit
        if progress:
            continue
        for digit in range(digits):
            if changed >> digit & 1:
                changed ^= 1 << digit
                more = _hidden_singles(board, digit, geo)
                if more < 0:
                    return False
                if more:
                    changed |= more
                    progress = True
                    break
        if not progress:
            return True


@njit(nogil=True, cache=True)
def _hidden_singles(board, digit, geo):
    """Fix the cells that alone hold a digit in a row, column or box.

    Returns the digits that lost a candidate, or -1 where the digit has no place in some unit.
    """
    bands, digits = len(geo.bands), len(geo.digits)
    line = (1 << digits) - 1
    once = twice = lines = 0
    for band in range(bands):
        for row in range(bands):
            cells = np.int64(board[digit * bands + band]) >> row * digits & line
            if cells == 0:
                return -1
            twice |= once & cells
            once |= cells
    if once != line:
        return -1
    for row in range(bands):
        lines |= (once & ~twice) << row * digits
    changed = 0
    for band in range(bands):
        held = np.int64(board[digit * bands + band])
        alone = held & lines
        for at in range(bands):
            cells = held & line << at * digits
            if cells & (cells - 1) == 0:
                alone |= cells
            cells = held & geo.box_bits[at]
            if cells == 0:
                return -1
            if cells & (cells - 1) == 0:
                alone |= cells
        alone &= ~np.int64(board[digits * bands + band])
        while alone:
            bit = alone & -alone
            alone ^= bit
            if not board[digit * bands + band] & bit:
                return -1  # a peer took the digit just now
            changed |= _fix(board, band, bit, digit, geo)
    return changed


@njit(nogil=True, cache=True)
def _branch_cell(board, geo):
    """The first cell with the fewest open candidates, or -1 when every cell is fixed."""
    bands, digits = len(geo.bands), len(geo.digits)
    best, fewest = -1, digits + 1
    for band in range(bands):
        once = twice = thrice = 0
        for digit in range(digits):
            cells = np.int64(board[digit * bands + band])
            thrice |= twice & cells
            twice |= once & cells
            once |= cells
        first = bands * digits * band
        pairs = twice & ~thrice
        if pairs:
            return first + geo.cell_of_bit[(pairs & -pairs) % _BIT_NAMES]
        while thrice:
            bit = thrice & -thrice
            thrice ^= bit
            count = 0
            for digit in range(digits):
                count += board[digit * bands + band] & bit != 0
            if count < fewest:
                best, fewest = first + geo.cell_of_bit[bit % _BIT_NAMES], count
    return best


@njit(nogil=True, cache=True, inline="always")
def _place(cell, geo):
    """Band and bit of a cell."""
    band = cell // (len(geo.bands) * len(geo.digits))
    return band, np.int64(1) << cell - band * len(geo.bands) * len(geo.digits)


@njit(nogil=True, cache=True)
def _candidates(board, cell, geo):
    """The set of digits that a cell may hold."""
    band, bit = _place(cell, geo)
    result = 0
    for digit in range(len(geo.digits)):
        if board[digit * len(geo.bands) + band] & bit:
            result |= 1 << digit
    return result


@njit(nogil=True, cache=True)
def _read(board, solution, geo):
    """The digits of a board whose cells are all fixed."""
    for cell in range(len(solution)):
        digits = _candidates(board, cell, geo)
        solution[cell] = 1
        while digits > 1:
            digits >>= 1
            solution[cell] += 1


@njit(nogil=True, cache=True)
def search(puzzle, limit, solutions, workspace, geo, order, patience=NO_END):
    """Find up to `limit` solutions; returns (solutions found, guesses).

    Gives up with -1 solutions after `patience` guesses: a few puzzles take tens of millions.

    `solutions` receives them; `workspace` holds a board for each depth, to reuse between calls;
    `order` is a random state to try digits in random order, with state 0 for ascending order.
    """
    bands, digits, cells = len(geo.bands), len(geo.digits), len(puzzle)
    branch = np.empty(cells + 1, np.int64)
    untried = np.empty(cells + 1, np.int64)
    board, given = workspace[0], workspace[1]
    board[: bands * digits] = (1 << bands * digits) - 1
    board[bands * digits :] = 0
    given[:] = 0
    for cell in range(cells):
        if puzzle[cell]:
            band, bit = _place(cell, geo)
            digit = np.int64(puzzle[cell]) - 1
            if not board[digit * bands + band] & bit:
                return 0, 0
            _erase_peers(board, band, bit, digit, geo)
            given[digit * bands + band] |= bit
    for word in range(bands * digits):  # a given is no other digit
        board[word] &= given[word] | ~board[bands * digits + word % bands]
    if not _settle(board, (1 << digits) - 1, geo):
        return 0, 0
    found = guesses = depth = 0
    branch[0] = _branch_cell(board, geo)
    if branch[0] < 0:
        _read(board, solutions[0], geo)
        return 1, 0
    untried[0] = _candidates(board, branch[0], geo)
    while depth >= 0:
        if untried[depth] == 0:
            depth -= 1
            continue
        left = untried[depth]
        if order[0] != 0:
            count, rest = 0, left
            while rest:
                rest &= rest - 1
                count += 1
            for _ in range(np.int64(next_word(order) % np.uint64(count))):
                left &= left - 1
        untried[depth] ^= left & -left
        guesses += 1
        if guesses > patience:
            return -1, guesses
        digit = 0
        while not left >> digit & 1:
            digit += 1
        child = workspace[depth + 1]
        for word in range(len(child)):
            child[word] = workspace[depth, word]
        band, bit = _place(branch[depth], geo)
        if not _settle(child, _fix(child, band, bit, digit, geo), geo):
            continue
        next_cell = _branch_cell(child, geo)
        if next_cell < 0:
            _read(child, solutions[found], geo)
            found += 1
            if found == limit:
                return found, guesses
        else:
            depth += 1
            branch[depth] = next_cell
            untried[depth] = _candidates(child, next_cell, geo)
    return found, guesses


@njit(nogil=True, cache=True)
def new_workspace(geo):
    """Scratch memory for `search`."""
    return np.empty((geo.side * geo.side + 2, geo.box * geo.side + geo.box), np.int32)


@njit(nogil=True, cache=True)
def ascending():
    """The `order` argument that makes `search` deterministic."""
    return np.zeros(1, np.uint64)


@njit(nogil=True, cache=True)
def _solve_rows(puzzles, answers, found, guesses, geo, patience):
    solutions = np.zeros((2, puzzles.shape[1]), np.uint8)
    workspace = new_workspace(geo)
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
    if puzzles.max(initial=0) > box * box:  # compiled code checks no bounds
        raise ValueError(f"digits go up to {box * box}, not {puzzles.max()}")
    answers = np.zeros_like(puzzles)
    found = np.zeros(len(puzzles), np.int64)
    guesses = np.zeros(len(puzzles), np.int64)
    _solve_rows(puzzles, answers, found, guesses, geometry(box), patience)
    return answers, found, guesses


@njit(nogil=True, cache=True)
def is_unique(puzzle, solutions, workspace, geo):
    """Whether the puzzle has exactly one solution."""
    return search(puzzle, 2, solutions, workspace, geo, ascending())[0] == 1
