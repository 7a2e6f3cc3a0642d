"""How many puzzles are solved when those that break the rules are retried under symmetries.

python -m experiments.symmetry_retries CHECKPOINT --steps 64 --symmetry-retries 32 [--limit 1000]

Stores, for each number of retries, the exact rate on the test puzzles and the rollouts it took on
average. Figures of other checkpoints and steps in the file stay.
"""

import json
from pathlib import Path

import numpy as np

from experiments.stored import RESULTS, command_line, this_device
from focus.data.sources import open_source
from focus.data.splits import load_split
from focus.evaluation.puzzles import Evaluation, evaluate
from focus.evaluation.statistics import wilson_interval
from focus.evaluation.symmetry_retries import retry_under_symmetries
from focus.files import write_text
from focus.model.checkpoint import fetch, load_model

STORED = RESULTS / "symmetry-retries.json"


def rates(retried: Evaluation, most: int) -> list[dict]:
    """The exact rate after 0, 1, 2, 4, ... `most` retries, and the rollouts of a puzzle."""
    used, rows = retried.diagnostics["symmetry_retries"], []
    for retries in sorted({0, most, *(2**n for n in range(most.bit_length()))}):
        hits, n = int((retried.exact & (used <= retries)).sum()), len(used)
        low, high = wilson_interval(hits, n)
        rollouts = 1 + float(np.minimum(used, retries).mean())
        rows.append(
            {
                "symmetry_retries": retries, "exact": hits / n, "low": low, "high": high,
                "rollouts": rollouts,
            }
        )  # fmt: skip
    return rows


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("--steps", default="64")
    parser.add_argument("--symmetry-retries", type=int, default=32)
    parser.add_argument("--limit", type=int, help="test puzzles; all by default")
    parser.add_argument("--data")
    words = parser.parse_args()
    device, name = this_device()
    model = load_model(fetch(words.checkpoint)).to(device)
    table = load_split(open_source(words.data), model.task, "test")[: words.limit]
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else []
    for plain in evaluate(model, table, [int(number) for number in words.steps.split(",")]):
        retried = retry_under_symmetries(model, table, plain, words.symmetry_retries)
        results = rates(retried, words.symmetry_retries)
        about = {"checkpoint": Path(words.checkpoint).name, "steps": plain.steps}
        stored = [row for row in stored if {k: row[k] for k in about} != about]
        stored.append({**about, "n": len(table), "device": name, "results": results})
        for row in results:
            print(plain.steps, json.dumps(row), flush=True)
        write_text(STORED, json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
