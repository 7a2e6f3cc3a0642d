"""Solver, equivalence and generators of Sudokus."""

import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from focus.engines import sudoku_equivalence, sudoku_generator, sudoku_solver
from focus.engines.rng import stream


def brute_force_solutions(puzzle: np.ndarray, box: int) -> list[np.ndarray]:
    """All solutions by plain backtracking, written from the rules."""
    side, found = box * box, []

    def place(grid, cell):
        if cell == len(grid):
            found.append(grid.copy())
            return
        if grid[cell]:
            return place(grid, cell + 1)
        r, c = divmod(cell, side)
        for digit in range(1, side + 1):
            clash = any(
                grid[o] == digit
                for o in range(len(grid))
                if o // side == r
                or o % side == c
                or (o // side // box == r // box and o % side // box == c // box)
            )
            if not clash:
                grid[cell] = digit
                place(grid, cell + 1)
                grid[cell] = 0

    place(puzzle.copy(), 0)
    return found


@given(seed=st.integers(0, 2**32), blanks=st.integers(0, 16))
def test_solver_counts_what_brute_force_counts(seed, blanks):
    rng = np.random.default_rng(seed)
    puzzle = sudoku_generator.thinned(2, seed, 0, 1, unbiased=False)[0]
    puzzle[rng.permutation(16)[:blanks]] = 0
    expected = brute_force_solutions(puzzle, 2)
    answers, found, _ = sudoku_solver.solve_many(puzzle[None], 2)
    assert found[0] == min(2, len(expected))
    assert any((answers[0] == grid).all() for grid in expected)


def test_contradictory_givens_have_no_solution():
    puzzle = np.zeros((1, 81), np.uint8)
    puzzle[0, 0] = puzzle[0, 8] = 5
    assert sudoku_solver.solve_many(puzzle, 3)[1][0] == 0


def test_digits_that_a_grid_has_not_are_refused():
    with pytest.raises(ValueError, match="up to 4, not 5"):
        sudoku_solver.solve_many(np.full((1, 16), 5), 2)


def test_solver_agrees_with_the_published_answers(real_sudokus):
    answers, found, _ = sudoku_solver.solve_many(real_sudokus.questions, 3)
    assert (found == 1).all()
    assert (answers == real_sudokus.answers).all()


def test_published_seeds_give_the_puzzles_they_always_gave(real_sudokus):
    """Guesses decide what is generated; the training puzzles of the recipes are named by seeds."""
    assert sudoku_solver.solve_many(real_sudokus.questions, 3)[2].sum() == 55_829
    bands = sudoku_generator.SeedBands.of(real_sudokus.questions[:100], 3, bands=4)
    made = (
        sudoku_generator.thinned(3, 3, 0, 20, unbiased=True),
        sudoku_generator.thinned(2, 3, 0, 20, unbiased=False),
        sudoku_generator.neighbourhood(3, 1, 0, 5, bands, length=4)[0],
    )
    assert [hashlib.sha256(puzzles.tobytes()).hexdigest()[:16] for puzzles in made] == [
        "abe8fdb38e2b6ed2", "65002ebdfcc6a8a3", "fd0f101bb88316e6",
    ]  # fmt: skip


def transformed(puzzle: np.ndarray, box: int, seed: int) -> np.ndarray:
    """A random symmetry, written with numpy from its definition."""
    rng, side = np.random.default_rng(seed), box * box
    grid = np.concatenate([[0], rng.permutation(side) + 1])[puzzle].reshape(side, side)

    def order():
        return np.concatenate([b * box + rng.permutation(box) for b in rng.permutation(box)])

    grid = grid[order()][:, order()]
    return (grid.T if rng.random() < 0.5 else grid).reshape(-1).astype(np.uint8)


@given(seed=st.integers(0, 2**32))
def test_symmetric_puzzles_are_found_equivalent_and_others_are_not(seed):
    puzzle = sudoku_generator.thinned(3, seed, 0, 1, unbiased=False)[0]
    image = transformed(puzzle, 3, seed)
    hashes = sudoku_equivalence.invariant_hashes(np.stack([puzzle, image]), 3)
    assert hashes[0] == hashes[1]
    assert sudoku_equivalence.equivalent(puzzle, image, 3)
    # Moving one clue elsewhere keeps the number of clues; the puzzles are then not equivalent
    # unless a symmetry says so, which brute force over the 4x4 group checks below.
    clue, blank = np.flatnonzero(image)[0], np.flatnonzero(image == 0)[0]
    other = image.copy()
    other[blank], other[clue] = other[clue], 0
    assert not sudoku_equivalence.equivalent(puzzle, other, 3)


def test_equivalence_is_exact_over_the_whole_4x4_group():
    """Against every one of the 2 * 8 * 8 * 24 symmetries of 4x4 puzzles."""
    orders = sudoku_equivalence.line_orders(2)
    assert len(orders) == 8
    puzzles = sudoku_generator.thinned(2, 3, 0, 40, unbiased=False)
    first = puzzles[0].reshape(4, 4)
    images = set()
    for grid in (first, first.T):
        for rows, cols in itertools.product(orders, orders):
            moved = grid[rows][:, cols]
            for digits in itertools.permutations(range(1, 5)):
                images.add(np.array([0, *digits])[moved].astype(np.uint8).tobytes())
    verdicts = [sudoku_equivalence.equivalent(puzzles[0], p, 2) for p in puzzles]
    assert verdicts == [p.tobytes() in images for p in puzzles]
    assert any(verdicts[1:])
    assert not all(verdicts)


def test_a_full_group_of_9x9_line_orders():
    orders = sudoku_equivalence.line_orders(3)
    assert len(np.unique(orders, axis=0)) == 6**4


@pytest.mark.parametrize("box", [2, 3])
def test_thinned_puzzles_are_unique_and_minimal(box):
    puzzles = sudoku_generator.thinned(box, 11, 0, 12, unbiased=False)
    assert (sudoku_solver.solve_many(puzzles, box)[1] == 1).all()
    assert_minimal(puzzles, box)


def assert_minimal(puzzles: np.ndarray, box: int) -> None:
    for puzzle in puzzles:
        for cell in np.flatnonzero(puzzle):
            fewer = puzzle.copy()
            fewer[cell] = 0
            assert sudoku_solver.solve_many(fewer[None], box)[1][0] == 2


def test_unbiased_puzzles_have_the_true_numbers_of_clues():
    """Mean 26.577, standard deviation 1.116 (Berthier 2009); thinning alone gives 24.4."""
    clues = (sudoku_generator.thinned(3, 5, 0, 120, unbiased=True) > 0).sum(1)
    assert abs(clues.mean() - 26.577) < 4 * 1.116 / np.sqrt(120)


def test_neighbours_are_new_minimal_and_as_hard_as_their_seeds(data_folder):
    from focus.data.table import read_table
    from focus.tasks import Sudoku

    seeds = read_table(data_folder / "sudoku-extreme" / "train.csv.gz", Sudoku()).questions
    bands = sudoku_generator.SeedBands.of(seeds, 3, bands=12)
    puzzles, ratings = sudoku_generator.neighbourhood(3, 1, 0, 40, bands, length=4)
    puzzles, ratings = puzzles.reshape(-1, 81), ratings.reshape(-1)
    assert (ratings >= 0).all()
    _, found, _ = sudoku_solver.solve_many(puzzles, 3)
    assert (found == 1).all()
    assert_minimal(puzzles[:10], 3)
    hashes = sudoku_equivalence.invariant_hashes(np.concatenate([seeds, puzzles]), 3)
    assert len(np.unique(hashes)) > 1150
    for walk in puzzles.reshape(40, 4, 81):
        steps = itertools.pairwise(walk)
        assert not any(sudoku_equivalence.equivalent(a, b, 3) for a, b in steps)
    # Every rating lies in the band of some seed, and bands are drawn alike.
    inside = (ratings[:, None] >= bands.low) & (ratings[:, None] <= bands.high)
    assert inside.any(1).all()
    # A rating says how hard the puzzle is under any symmetry, so others agree with it.
    again = sudoku_generator.symmetric_ratings(puzzles, 3)
    assert abs(np.median(again) / np.median(ratings) - 1) < 0.25


def test_a_unit_does_not_depend_on_the_units_around_it():
    whole = sudoku_generator.thinned(3, 9, 0, 6, unbiased=False)
    parts = [sudoku_generator.thinned(3, 9, unit, 1, unbiased=False) for unit in range(6)]
    assert (whole == np.concatenate(parts)).all()
    assert len({int(stream(9, 0)[0]), int(stream(9, 1)[0]), int(stream(10, 0)[0])}) == 3
