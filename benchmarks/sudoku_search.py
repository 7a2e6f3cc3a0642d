"""How long the uniqueness check of a Sudoku takes, against OR-tools and py-sudoku.

    FOCUS_DATA=DIR python -m benchmarks.sudoku_search [--json]

Median milliseconds per puzzle on Sudoku-Extreme test (generated puzzles without FOCUS_DATA), one
core, after compilation. The alternatives are measured in the same run on the same puzzles:
OR-tools CP-SAT proves uniqueness by searching for a second solution, py-sudoku only solves.
"""

import argparse
import json
import time

import numpy as np

from benchmarks.timing import median_seconds
from focus.data.sources import open_source
from focus.engines.sudoku_solver import solve_many
from focus.tasks import Sudoku


def cp_sat_is_unique(puzzle: np.ndarray) -> bool:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    grid = [model.new_int_var(1, 9, f"c{i}") for i in range(81)]
    for k in range(9):
        top, left = k // 3 * 3, k % 3 * 3
        model.add_all_different(grid[k * 9 : k * 9 + 9])
        model.add_all_different(grid[k::9])
        model.add_all_different(
            [grid[(top + r) * 9 + left + c] for r in range(3) for c in range(3)]
        )
    for cell, digit in enumerate(puzzle):
        if digit:
            model.add(grid[cell] == int(digit))

    class Count(cp_model.CpSolverSolutionCallback):
        solutions = 0

        def on_solution_callback(self):
            self.solutions += 1
            if self.solutions == 2:
                self.stop_search()

    solver, count = cp_model.CpSolver(), Count()
    solver.parameters.enumerate_all_solutions = True
    solver.parameters.num_workers = 1
    solver.solve(model, count)
    return count.solutions == 1


def py_sudoku_solve(puzzle: np.ndarray) -> bool:
    from sudoku import Sudoku as PySudoku

    board = [[int(d) or None for d in row] for row in puzzle.reshape(9, 9)]
    return PySudoku(3, 3, board=board).solve().validate()


def per_puzzle_ms(check, puzzles) -> float:
    taken = []
    for puzzle in puzzles:
        start = time.perf_counter()
        assert check(puzzle)
        taken.append(time.perf_counter() - start)
    return 1000 * float(np.median(taken))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rivals", type=int, default=100, help="puzzles for the alternatives")
    arguments = parser.parse_args()
    source = open_source(None)
    puzzles = source.load(Sudoku(), "test").questions
    solve_many(puzzles[:1], 3)
    ours = per_puzzle_ms(lambda p: solve_many(p[None], 3)[1][0] == 1, puzzles[:2000])
    in_bulk = 1000 * median_seconds(lambda: solve_many(puzzles[:2000], 3), 3) / 2000
    few = puzzles[: arguments.rivals]
    ours_on_few = per_puzzle_ms(lambda p: solve_many(p[None], 3)[1][0] == 1, few)
    cp_sat, py_sudoku = per_puzzle_ms(cp_sat_is_unique, few), per_puzzle_ms(py_sudoku_solve, few)
    result = {
        "puzzles": source.describe(),
        "median_ms": round(ours, 4),
        "mean_ms_in_bulk": round(in_bulk, 4),
        "cp_sat_median_ms": round(cp_sat, 2),
        "py_sudoku_median_ms": round(py_sudoku, 2),
        "faster_than_cp_sat": round(cp_sat / ours_on_few, 1),
        "faster_than_py_sudoku": round(py_sudoku / ours_on_few, 1),
    }
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"uniqueness check, {result['puzzles']}: median {ours:.3f} ms a puzzle")
    print(f"  {in_bulk:.3f} ms on average when 2,000 are checked in one call")
    print(f"  OR-tools CP-SAT {cp_sat:.1f} ms: {cp_sat / ours_on_few:.0f} times slower")
    print(
        f"  py-sudoku (solve only) {py_sudoku:.1f} ms: {py_sudoku / ours_on_few:.0f} times slower"
    )


if __name__ == "__main__":
    main()
