"""Are two Sudoku puzzles the same up to the Sudoku symmetries?

The group: relabel digits, permute rows within bands, bands, columns within stacks, stacks,
transpose. An invariant hash groups the puzzles that may be equivalent; `equivalent` decides
exactly, by matching rows and columns whose colours agree and checking the digits.
"""

from functools import cache
from itertools import permutations, product

import numpy as np
from numba import njit

_ROUNDS = 3
_M1 = np.uint64(0xFF51AFD7ED558CCD)
_M2 = np.uint64(0xC4CEB9FE1A85EC53)
_S33 = np.uint64(33)
_ROW = np.uint64(0x9E3779B97F4A7C15)
_BOX = np.uint64(0xD1B54A32D192ED03)
_BAND = np.uint64(0x8CB92BA72F3D8DD7)
_DIGIT = np.uint64(0xAEF17502108EF2D9)


@cache
def line_orders(box: int) -> np.ndarray:
    """Every order of `box`² lines that keeps bands together: (orders, side)."""
    inner = list(permutations(range(box)))
    orders = [
        [band * box + line for band, lines in zip(bands, within, strict=True) for line in lines]
        for bands in inner
        for within in product(inner, repeat=box)
    ]
    return np.array(orders, np.int64)


@njit(nogil=True, cache=True)
def _mix(word):
    word = (word ^ (word >> _S33)) * _M1
    word = (word ^ (word >> _S33)) * _M2
    return word ^ (word >> _S33)


@njit(nogil=True, cache=True)
def _colours(puzzle, box):
    """Colour cells so that equivalent cells of equivalent puzzles get equal colours."""
    side = box * box
    colour = np.empty(side * side, np.uint64)
    for cell in range(side * side):
        colour[cell] = np.uint64(1 if puzzle[cell] else 2)
    row = np.empty(side, np.uint64)
    col = np.empty(side, np.uint64)
    block = np.empty(side, np.uint64)
    band = np.empty(box, np.uint64)
    stack = np.empty(box, np.uint64)
    digit = np.empty(side + 1, np.uint64)
    for _ in range(_ROUNDS):
        row[:] = 0
        col[:] = 0
        block[:] = 0
        band[:] = 0
        stack[:] = 0
        digit[:] = 0
        for cell in range(side * side):
            r, c = cell // side, cell % side
            mixed = _mix(colour[cell])
            row[r] += mixed
            col[c] += mixed
            block[r // box * box + c // box] += mixed
            digit[puzzle[cell]] += mixed
        for line in range(side):
            band[line // box] += _mix(row[line])
            stack[line // box] += _mix(col[line])
        digit[0] = 0
        for cell in range(side * side):
            r, c = cell // side, cell % side
            lines = _mix(row[r] + _BAND * band[r // box]) + _mix(col[c] + _BAND * stack[c // box])
            colour[cell] = _mix(
                colour[cell]
                + _ROW * lines
                + _BOX * _mix(block[r // box * box + c // box])
                + _DIGIT * _mix(digit[puzzle[cell]])
            )
    return colour


@njit(nogil=True, cache=True)
def invariant_hash(puzzle, box):
    """A 64-bit hash that is equal for equivalent puzzles."""
    colour = _colours(puzzle, box)
    total = np.uint64(0)
    for cell in range(len(colour)):
        total += _mix(colour[cell])
    return total


@njit(nogil=True, cache=True)
def _hash_rows(puzzles, box, out):
    for row in range(len(puzzles)):
        out[row] = invariant_hash(puzzles[row], box)


def invariant_hashes(puzzles: np.ndarray, box: int) -> np.ndarray:
    """The invariant hash of each puzzle."""
    out = np.zeros(len(puzzles), np.uint64)
    _hash_rows(np.ascontiguousarray(puzzles, np.uint8), box, out)
    return out


@njit(nogil=True, cache=True)
def _line_colours(colour, side):
    rows = np.zeros(side, np.uint64)
    cols = np.zeros(side, np.uint64)
    for cell in range(side * side):
        rows[cell // side] += _mix(colour[cell])
        cols[cell % side] += _mix(colour[cell])
    return rows, cols


@njit(nogil=True, cache=True)
def _same_digits(first, second, row_order, col_order, side):
    """Whether `second` is `first` with lines taken in the given orders and digits relabelled."""
    forward = np.zeros(side + 1, np.uint8)
    backward = np.zeros(side + 1, np.uint8)
    for r in range(side):
        for c in range(side):
            a = first[row_order[r] * side + col_order[c]]
            b = second[r * side + c]
            if (a == 0) != (b == 0):
                return False
            if a:
                if forward[a] == 0 and backward[b] == 0:
                    forward[a] = b
                    backward[b] = a
                elif forward[a] != b:
                    return False
    return True


@njit(nogil=True, cache=True)
def _equivalent(first, second, box, orders):
    side = box * box
    second_rows, second_cols = _line_colours(_colours(second, box), side)
    turned = np.empty_like(first)
    for transposed in range(2):
        if transposed:
            for cell in range(side * side):
                turned[cell] = first[cell % side * side + cell // side]
        else:
            turned[:] = first
        rows, cols = _line_colours(_colours(turned, box), side)
        for i in range(len(orders)):
            if not np.all(rows[orders[i]] == second_rows):
                continue
            for j in range(len(orders)):
                if not np.all(cols[orders[j]] == second_cols):
                    continue
                if _same_digits(turned, second, orders[i], orders[j], side):
                    return True
    return False


def equivalent(first: np.ndarray, second: np.ndarray, box: int) -> bool:
    """Whether some symmetry turns the first puzzle into the second."""
    first, second = np.ascontiguousarray(first, np.uint8), np.ascontiguousarray(second, np.uint8)
    return bool(_equivalent(first, second, box, line_orders(box)))
