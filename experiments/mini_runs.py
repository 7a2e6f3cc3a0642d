"""Train the mini recipes to their end, test them, and store curves and figures.

python -m experiments.mini_runs            # about eight minutes on two cores
python -m experiments.mini_runs --table    # the table of the stored figures
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from experiments.foundations import timed_json
from experiments.stored import RESULTS, measure_or_show

STORED = RESULTS / "mini-runs.json"
NAMES = ("mini-sudoku", "mini-maze")


def measure() -> dict:
    """Both runs, one after the other; their curves are stored beside the figures."""
    figures: dict = {"cores": os.cpu_count()}
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            run = str(Path(folder, "run"))
            start = time.perf_counter()
            subprocess.run([sys.executable, "-m", "focus", "train", name, "--out", run], check=True)
            seconds = time.perf_counter() - start
            tested, _ = timed_json("-m", "focus", "eval", run, "--steps", "1,4,16,1024", "--json")
            shutil.copy(Path(run, "metrics.jsonl"), RESULTS / f"{name}.jsonl")
        figures[name] = {"seconds": round(seconds), "test": tested["results"]}
    return figures


def table(figures: dict) -> str:
    """The figures as a Markdown table."""
    lines = [
        "| recipe | training | exact on unseen puzzles, K = 1 / 4 / 16 / 1,024 | n |",
        "|---|---|---|---|",
    ]
    for name in NAMES:
        tested = figures[name]["test"]
        rates = " / ".join(f"{100 * row['exact']:.1f}" for row in tested)
        last = f"[{100 * tested[-1]['low']:.1f}, {100 * tested[-1]['high']:.1f}]"
        row = f"| `{name}` | {figures[name]['seconds']} s | {rates} % {last} | {tested[-1]['n']} |"
        lines.append(row)
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    measure_or_show(__doc__, STORED, measure, table)


if __name__ == "__main__":
    main()
