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
from focus.engines.sudoku_equivalence import invariant_hash, line_orders
from focus.engines.sudoku_solver import (
    ascending,
    geometry,
    is_unique,
    new_workspace,
    search,
    solve_many,
)

_SOLUTIONS = 24  # puzzles that open up to more solutions hardly ever close to a hard one
_DRAWS = 16  # ways tried to close one opened puzzle
# Symmetries that a rating is averaged over: one alone varies by a factor of two to five. The mean
# of n that misses a band by more than a factor 1 + 2/n will not come back.
_SYMMETRIES = 6
_SLACK = 2
_TRIES = 40  # openings tried per puzzle before another seed puzzle is taken
_SEEDS = 80  # seed puzzles tried before a unit gives up


@njit(nogil=True, cache=True)
def _thin(puzzle, state, solutions, workspace, geo):
    """Drop clues in random order as long as the solution stays unique."""
    clues = np.flatnonzero(puzzle)
    shuffle(state, clues)
    for cell in clues:
        clue = puzzle[cell]
        puzzle[cell] = 0
        if not is_unique(puzzle, solutions, workspace, geo):
            puzzle[cell] = clue


@njit(nogil=True, cache=True)
def _is_minimal(puzzle, solutions, workspace, geo):
    """Whether no clue of a puzzle with one solution can be spared."""
    for cell in np.flatnonzero(puzzle):
        clue = puzzle[cell]
        puzzle[cell] = 0
        unique = is_unique(puzzle, solutions, workspace, geo)
        puzzle[cell] = clue
        if unique:
            return False
    return True


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
    workspace = new_workspace(geo)
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
def _mean_rating(puzzle, symmetries, low, high, state, solutions, workspace, geo, orders):
    """Guesses averaged over random symmetries; stops early when [low, high] is out of reach."""
    total = 0
    for number in range(1, symmetries + 1):
        image = _transform(puzzle, state, orders, geo.side)
        _, guesses = search(image, 2, solutions, workspace, geo, ascending())
        total += guesses
        mean, slack = total / number, 1 + _SLACK / number
        if mean * slack < low or mean > high * slack:
            break
    return mean


@njit(nogil=True, cache=True)
def _symmetric_ratings(puzzles, symmetries, geo, orders):
    solutions = np.zeros((2, puzzles.shape[1]), np.uint8)
    workspace = new_workspace(geo)
    ratings = np.zeros(len(puzzles))
    for row in range(len(puzzles)):
        state = stream(0, row)
        ratings[row] = _mean_rating(
            puzzles[row], symmetries, 0.0, np.inf, state, solutions, workspace, geo, orders
        )
    return ratings


def symmetric_ratings(puzzles: np.ndarray, box: int, symmetries: int = _SYMMETRIES) -> np.ndarray:
    """Ratings that do not depend on how a puzzle is transformed, up to the noise of a few."""
    puzzles = np.ascontiguousarray(puzzles, np.uint8)
    return _symmetric_ratings(puzzles, symmetries, geometry(box), line_orders(box))


@njit(nogil=True, cache=True)
def _move(puzzle, state, low, high, solutions, workspace, geo, orders):
    """Try to replace `puzzle` by a neighbour rated inside [low, high]; returns its rating or -1."""
    opened = puzzle.copy()
    clues = np.flatnonzero(opened)
    shuffle(state, clues)
    below(state, 1)  # a draw without a use; seeds that are published count on it
    opened[clues[:1]] = 0
    count, _ = search(opened, _SOLUTIONS, solutions, workspace, geo, state)
    if count == _SOLUTIONS:
        return -1.0
    completions = solutions[:count].copy()
    for _ in range(_DRAWS):
        candidate = opened.copy()
        _add_clues(candidate, state, completions, count)
        if np.array_equal(candidate, puzzle):
            continue
        rating = _mean_rating(
            candidate, _SYMMETRIES, low, high, state, solutions, workspace, geo, orders
        )
        if low <= rating <= high and _is_minimal(candidate, solutions, workspace, geo):
            puzzle[:] = _transform(candidate, state, orders, geo.side)
            return rating
    return -1.0


@njit(nogil=True, cache=True)
def _walks(puzzles, ratings, seeds, first, last, low, high, first_unit, seed, geo, orders):
    cells = geo.side * geo.side
    solutions = np.zeros((_SOLUTIONS, cells), np.uint8)
    workspace = new_workspace(geo)
    for row in range(len(puzzles)):
        state = stream(seed, first_unit + row)
        band = below(state, len(low))
        taken = 0
        seen = np.zeros(puzzles.shape[1] + 1, np.uint64)
        for _ in range(_SEEDS):
            current = seeds[first[band] + below(state, last[band] - first[band])].copy()
            seen[-1] = invariant_hash(current, geo.box)
            failures = 0
            while failures < _TRIES and taken < puzzles.shape[1]:
                failures += 1
                rating = _move(
                    current, state, low[band], high[band], solutions, workspace, geo, orders
                )
                if rating < 0:
                    continue
                name = invariant_hash(current, geo.box)
                if np.any(seen == name):
                    continue  # the walk came back to where it was
                failures = 0
                seen[taken] = name
                puzzles[row, taken] = current
                ratings[row, taken] = rating
                taken += 1


@dataclass(frozen=True)
class SeedBands:
    """Bands of ratings, and the seed puzzles in each.

    The bands hold (nearly) equal numbers of the puzzles whose ratings are wanted: puzzles that
    stay inside a band drawn at random have their distribution, up to about 1/bands in
    Kolmogorov-Smirnov distance.
    """

    puzzles: np.ndarray  # (seeds, cells), sorted by rating
    first: np.ndarray  # (bands,) first seed of a band
    last: np.ndarray  # (bands,) one after its last seed
    low: np.ndarray  # (bands,) lowest rating
    high: np.ndarray  # (bands,) highest rating

    @classmethod
    def of(
        cls, puzzles: np.ndarray, box: int, bands: int, like: np.ndarray | None = None
    ) -> "SeedBands":
        """Rate the seeds and put them into bands of the ratings of `like` (default: their own)."""
        _, solution_counts, _ = solve_many(puzzles, box)
        if not (solution_counts == 1).all():
            raise ValueError("every seed puzzle needs exactly one solution")
        ratings = symmetric_ratings(puzzles, box, symmetries=2)  # enough for a place to start from
        order = np.argsort(ratings, kind="stable")
        ratings = ratings[order]
        wanted = np.sort(symmetric_ratings(puzzles if like is None else like, box))
        edges = np.linspace(0, len(wanted), min(bands, len(wanted)) + 1).round().astype(np.int64)
        low, high = wanted[edges[:-1]], wanted[edges[1:] - 1]
        first = np.searchsorted(ratings, low, side="left")
        last = np.searchsorted(ratings, high, side="right")
        served = last > first  # a band without a seed cannot be served
        return cls(
            np.ascontiguousarray(puzzles[order], np.uint8),
            first[served], last[served], low[served], high[served],
        )  # fmt: skip


def neighbourhood(
    box: int, seed: int, first_unit: int, count: int, seeds: SeedBands, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Walks from seed puzzles through neighbours rated inside the seed's band.

    A unit is a walk of `length` puzzles, each one clue away from the one before.
    Returns puzzles (units, length, cells) and ratings (units, length), which are -1, with a
    blank puzzle, where a walk could not be continued.
    """
    puzzles = np.zeros((count, length, box**4), np.uint8)
    ratings = np.full((count, length), -1.0)
    _walks(
        puzzles, ratings, seeds.puzzles, seeds.first, seeds.last, seeds.low, seeds.high,
        first_unit, seed, geometry(box), line_orders(box),
    )  # fmt: skip
    return puzzles, ratings
