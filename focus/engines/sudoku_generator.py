"""Make Sudokus with one solution, none of whose clues can be spared.

Two modes. *unbiased*: clues of a random grid are dropped in random order as long as the solution
stays unique, and the result is drawn by its number of clues so that minimal puzzles come out as
often as they exist. *neighbourhood*: from a seed puzzle take out a clue, put others in until the
solution is unique, thin, and keep the result when its rating falls into the wanted band; the
public lists of hardest puzzles were grown by such {-k,+k} searches.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from focus.engines.rng import below, shuffle, stream, uniform
from focus.engines.sudoku_equivalence import line_orders
from focus.engines.sudoku_solver import (
    ascending,
    geometry,
    is_unique,
    new_workspace,
    search,
    solve_many,
)

_SOLUTIONS = 48  # puzzles that open up to more solutions than this are not worth closing again
_DRAWS = 16  # ways tried to close one opened puzzle
_TRIES = 40  # openings tried per move before another seed puzzle is taken
_SEEDS = 25  # seed puzzles tried before a unit gives up


@njit(nogil=True, cache=True)
def _thin(puzzle, state, solutions, workspace, geo):
    """Drop clues in random order as long as the solution stays unique."""
    clues = np.flatnonzero(puzzle)
    shuffle(state, clues)
    for cell in clues:
        kept = puzzle[cell]
        puzzle[cell] = 0
        if not is_unique(puzzle, solutions, workspace, geo):
            puzzle[cell] = kept


@njit(nogil=True, cache=True)
def _transform(puzzle, state, orders, side):
    """A uniformly drawn symmetry of the puzzle."""
    rows = orders[below(state, len(orders))]
    cols = orders[below(state, len(orders))]
    digits = np.arange(1, side + 1)
    shuffle(state, digits)
    transpose = below(state, 2)
    out = np.zeros_like(puzzle)
    for r in range(side):
        for c in range(side):
            digit = puzzle[rows[r] * side + cols[c]]
            if digit:
                out[c * side + r if transpose else r * side + c] = digits[digit - 1]
    return out


# Share of minimal 9x9 puzzles with 20, 21, ... 32 clues (Berthier, "Unbiased statistics of a
# CSP", 2009), and how often thinning a full grid ends there (60,000 puzzles of this generator,
# seed 123; 29 and up pooled). Thinning favours few clues; given the number of clues its puzzles
# are close to unbiased, so drawing by the ratio mends it.
_TRUE_SHARE = np.array(
    [1.32e-9, 3.4e-7, 3.48e-5, 1.48e-3, 0.0228, 0.1342, 0.3191, 0.3271, 0.1548, 0.0402]
)
_THINNED = np.array([2, 145, 2094, 10239, 20627, 17815, 7392, 1512, 162, 12]) / 60_000
_ACCEPT = _TRUE_SHARE / _THINNED / (_TRUE_SHARE / _THINNED).max()
_FEWEST = 20


@njit(nogil=True, cache=True)
def _thinned_grids(puzzles, first_unit, seed, accept, geo, orders):
    cells = geo.side * geo.side
    solutions = np.zeros((2, cells), np.uint8)
    workspace = new_workspace(cells)
    blank = np.zeros(cells, np.uint8)
    for row in range(len(puzzles)):
        state = stream(seed, first_unit + row)
        while True:
            search(blank, 1, solutions, workspace, geo, state)
            puzzle = solutions[0].copy()
            _thin(puzzle, state, solutions, workspace, geo)
            clues = np.count_nonzero(puzzle) - _FEWEST
            if uniform(state) < accept[min(max(clues, 0), len(accept) - 1)]:
                break
        puzzles[row] = _transform(puzzle, state, orders, geo.side)


def thinned(box: int, seed: int, first_unit: int, count: int, unbiased: bool) -> np.ndarray:
    """Minimal puzzles of units `first_unit`…; `unbiased` corrects the number of clues (9x9)."""
    puzzles = np.zeros((count, box**4), np.uint8)
    accept = _ACCEPT if unbiased and box == 3 else np.ones(1)
    _thinned_grids(puzzles, first_unit, seed, accept, geometry(box), line_orders(box))
    return puzzles


@njit(nogil=True, cache=True)
def _add_clues(puzzle, state, solutions, count):
    """Add clues of one of `count` known solutions until they rule out all the others."""
    chosen = below(state, count)
    alive = np.ones(count, np.bool_)
    order = np.arange(len(puzzle))
    shuffle(state, order)
    left = count
    while left > 1:
        # A single clue that leaves the chosen solution alone is best; else the first that helps.
        pick = -1
        for cell in order:
            agree = 0
            for other in range(count):
                agree += alive[other] and solutions[other, cell] == solutions[chosen, cell]
            if agree == 1:
                pick = cell
                break
            if pick < 0 and agree < left:
                pick = cell
        puzzle[pick] = solutions[chosen, pick]
        left = 0
        for other in range(count):
            alive[other] = alive[other] and solutions[other, pick] == puzzle[pick]
            left += alive[other]


@njit(nogil=True, cache=True)
def _move(puzzle, state, low, high, most, solutions, workspace, geo, orders):
    """Try to replace `puzzle` by a neighbour rated inside [low, high]; returns its rating or -1."""
    opened = puzzle.copy()
    clues = np.flatnonzero(opened)
    shuffle(state, clues)
    opened[clues[: 1 + below(state, most)]] = 0
    count, _ = search(opened, _SOLUTIONS, solutions, workspace, geo, state)
    if count == _SOLUTIONS:
        return -1
    known = solutions[:count].copy()
    for _ in range(_DRAWS):
        candidate = opened.copy()
        _add_clues(candidate, state, known, count)
        if np.array_equal(candidate, puzzle):
            continue
        candidate = _transform(candidate, state, orders, geo.side)
        _, guesses = search(candidate, 2, solutions, workspace, geo, ascending())
        # Thinning is the dear part, and hardly turns an easy puzzle into a hard one.
        if not low // 2 <= guesses <= high:
            continue
        _thin(candidate, state, solutions, workspace, geo)
        _, guesses = search(candidate, 2, solutions, workspace, geo, ascending())
        if low <= guesses <= high:
            puzzle[:] = candidate
            return guesses
    return -1


@njit(nogil=True, cache=True)
def _neighbourhood(
    puzzles, ratings, seeds, starts, low, high, first_unit, seed, moves, most, geo, orders
):
    cells = geo.side * geo.side
    solutions = np.zeros((_SOLUTIONS, cells), np.uint8)
    workspace = new_workspace(cells)
    for row in range(len(puzzles)):
        state = stream(seed, first_unit + row)
        band = below(state, len(low))
        for _ in range(_SEEDS):
            current = seeds[starts[band] + below(state, starts[band + 1] - starts[band])].copy()
            moved = 0
            for _ in range(_TRIES * moves):
                guesses = _move(
                    current, state, low[band], high[band], most, solutions, workspace, geo, orders
                )
                moved += guesses >= 0
                if moved == moves:
                    break
            if moved == moves:
                puzzles[row] = current
                ratings[row] = guesses
                break


@dataclass(frozen=True)
class SeedBands:
    """Seed puzzles sorted by rating and cut into bands of (nearly) equal number.

    Puzzles that stay inside a band drawn at random have the seeds' distribution of ratings, up
    to about 1/bands in Kolmogorov-Smirnov distance.
    """

    puzzles: np.ndarray  # (seeds, cells)
    starts: np.ndarray  # (bands + 1,) first seed of each band
    low: np.ndarray  # (bands,) lowest rating
    high: np.ndarray  # (bands,) highest rating

    @classmethod
    def of(cls, puzzles: np.ndarray, box: int, bands: int = 16) -> "SeedBands":
        """Rate the puzzles and cut them into at most `bands` bands."""
        _, found, ratings = solve_many(puzzles, box)
        if not (found == 1).all():
            raise ValueError("every seed puzzle needs exactly one solution")
        order = np.argsort(ratings, kind="stable")
        bands = min(bands, len(puzzles))
        starts = np.linspace(0, len(puzzles), bands + 1).round().astype(np.int64)
        ratings = ratings[order]
        return cls(
            np.ascontiguousarray(puzzles[order], np.uint8),
            starts, ratings[starts[:-1]], ratings[starts[1:] - 1],
        )  # fmt: skip


def neighbourhood(
    box: int, seed: int, first_unit: int, count: int, seeds: SeedBands, moves: int, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Puzzles `moves` moves of up to `most` clues away from seed puzzles, rated in their band.

    A unit that finds none leaves its row blank and its rating -1.
    """
    puzzles = np.zeros((count, box**4), np.uint8)
    ratings = np.full(count, -1, np.int64)
    _neighbourhood(
        puzzles, ratings, seeds.puzzles, seeds.starts, seeds.low, seeds.high,
        first_unit, seed, moves, most, geometry(box), line_orders(box),
    )  # fmt: skip
    return puzzles, ratings
