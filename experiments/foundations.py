"""Measure all figures of the foundations and store them; print their table.

FOCUS_DATA=DIR python -m experiments.foundations            # about 20 minutes on two cores
python -m experiments.foundations --table                   # the table of the stored figures
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from experiments.stored import RESULTS, measure_or_show
from focus.data.generation import ks_distance
from focus.data.sources import open_source
from focus.data.table import read_table
from focus.engines.sudoku_generator import symmetric_ratings
from focus.errors import UserError
from focus.tasks import Sudoku

STORED = RESULTS / "foundations.json"
COUNT = 50_000
AVERAGED = 10_000  # puzzles whose ratings are averaged over symmetries


def timed_json(*words: str) -> tuple[dict, float]:
    """Run a command that prints JSON; what it printed, and its wall-clock seconds."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["nothing"]
        raise UserError(f"{' '.join(words)} ended with {done.returncode} and said: {said[-1]}")
    return json.loads(done.stdout), round(time.perf_counter() - start, 1)


def measure() -> dict:
    """Everything, one after the other."""
    audit, audit_seconds = timed_json("-m", "focus", "data", "audit", "--json")
    result: dict = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "audit_seconds": audit_seconds,
        "audit": audit,
    }
    for name in ("sudoku_search", "maze_decoder", "generators"):
        result[name], _ = timed_json("-m", f"benchmarks.{name}", "--json")
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder, "grown.csv.gz"))
        _, seconds = timed_json(
            "-m", "focus", "data", "generate", "--mode", "neighbourhood",
            "--grow-from", "extra", "--count", str(COUNT), "--seed", "1", "--out", out, "--json",
        )  # fmt: skip
        task = Sudoku()
        grown = read_table(Path(out), task)
        test = open_source(None).load(task, "test").questions
        symmetric = [symmetric_ratings(q[:AVERAGED], 3) for q in (grown.questions, test)]
        result["neighbourhood"] = {
            "puzzles": len(grown),
            "seconds": seconds,
            "ks_distance_to_test": round(
                ks_distance(grown.columns["rating"].astype(int), task.rate(test)), 4
            ),
            # A rating depends on the symmetry a puzzle is under: the same, averaged over six.
            "ks_distance_symmetric": round(ks_distance(*symmetric), 4),
            "median_symmetric": [round(float(np.median(ratings))) for ratings in symmetric],
        }
    return result


def table(figures: dict) -> str:
    """The figures as a Markdown table."""
    reports = {report["dataset"]: report for report in figures["audit"]["results"]}
    sudokus = [r for name, r in reports.items() if name.startswith("sudoku")]
    mazes = [r for name, r in reports.items() if name.startswith("maze")]
    search, decoder = figures["sudoku_search"], figures["maze_decoder"]
    grown, maze = figures["neighbourhood"], figures["generators"]["maze"]
    rows = [
        ("Sudoku-Extreme and extra puzzles valid and unique",
         f"{sum(r['unique'] for r in sudokus):,} of {sum(r['rows'] for r in sudokus):,}"),
        ("Maze-Hard answers equal to our canonical path",
         f"{sum(r['canonical'] for r in mazes):,} of {sum(r['rows'] for r in mazes):,}"),
        ("leaks between splits, under all symmetries", f"{figures['audit']['leaks']}"),
        (f"the whole audit, {figures['cores']} cores", f"{figures['audit_seconds']:.0f} s"),
        ("uniqueness check, median on Sudoku-Extreme test, one core",
         f"{search['median_ms']:.2f} ms ({search['faster_than_cp_sat']:.0f}× OR-tools CP-SAT, "
         f"{search['faster_than_py_sudoku']:.0f}× py-sudoku)"),
        (f"{grown['puzzles']:,} Sudokus as hard as Sudoku-Extreme (neighbourhood mode)",
         f"{grown['seconds'] / 60:.0f} min, KS distance to the test set's ratings "
         f"{grown['ks_distance_to_test']:.3f}, averaged over symmetries "
         f"{grown['ks_distance_symmetric']:.3f}"),
        ("Maze-Hard-like mazes, one core",
         f"{maze['distant_per_second_a_core']}/s (goal among all distant cells), "
         f"{maze['farthest_per_second_a_core']}/s (farthest goal)"),
        ("wall share, median path: generated / real",
         f"{maze['distant_wall_share']} / {maze['real_wall_share']}, "
         f"{maze['distant_median_moves']} / {maze['real_median_moves']} moves"),
        (f"decoding {decoder['mazes']:,} mazes in one batch on the CPU",
         f"{decoder['decode_seconds']:.2f} s"),
    ]  # fmt: skip
    return "\n".join(["| what | measured |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)])


def main() -> None:
    """The command line."""
    measure_or_show(__doc__, STORED, measure, table)


if __name__ == "__main__":
    main()
