"""What answer decay does to a trained solver: the same weights, revised with other decays.

python -m experiments.answer_decay CHECKPOINT --answer-decays 0,0.02,0.05 --limit 200 [--store]

Without decay the logits of the answer add up over a rollout, and a wrong cell that was believed for
long takes long to change. The script rolls out with each decay in place of the trained one.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

from experiments.stored import (
    RESULTS,
    command_line,
    markdown,
    numbers,
    one_line,
    rate,
    this_device,
)
from focus.data.sources import open_source
from focus.data.splits import load_split
from focus.errors import UserError
from focus.evaluation.puzzles import evaluate
from focus.files import write_text
from focus.model.solver import Solver

STORED = RESULTS / "answer-decay.json"


def table(figures: dict) -> str:
    """Exact rates of each decay."""
    results = figures["results"]
    steps = sorted({result["steps"] for result in results})
    rows = [["answer decay", *(f"K = {k}" for k in steps)]]
    for value in sorted({result["answer_decay"] for result in results}):
        at = {result["steps"]: result for result in results if result["answer_decay"] == value}
        rows.append([f"{value:g}", *(rate(at[k]) for k in steps)])
    return markdown(rows)


def measure(words: argparse.Namespace) -> dict:
    """The rates of a checkpoint with each decay."""
    solver = Solver.from_pretrained(words.checkpoint).to(this_device()[0])
    if solver.config.answer != "revised":
        raise UserError(f"{words.checkpoint} is a TRM, whose answer does not decay")
    trained = solver.config.updater
    puzzles = load_split(open_source(words.data), solver.task, words.split)[: words.limit]
    rows = []
    for decay in words.answer_decays:
        solver.updater.config = replace(trained, answer_decay=decay)
        results = evaluate(solver, puzzles, words.steps)
        rows += [{"answer_decay": decay, **result.summary()} for result in results]
        rates = ", ".join(f"K = {r.steps}: {100 * r.exact.mean():.1f}" for r in results)
        print(f"answer decay {decay}: {rates}", flush=True)
    return {
        "what": words.what, "trained_answer_decay": trained.answer_decay,
        "split": words.split, "results": rows,
    }  # fmt: skip


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--answer-decays", type=numbers(float), default="0,0.02,0.05,0.1")
    parser.add_argument("--steps", type=numbers(), default="16,32,64,128,256")
    parser.add_argument("--split", default="validation")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--data")
    parser.add_argument("--what", default="", help="what the checkpoint is, for the stored figures")
    parser.add_argument("--store", action="store_true")
    words = parser.parse_args()
    with one_line("answer_decay"):
        figures = measure(words)
        if words.store:
            write_text(STORED, json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
