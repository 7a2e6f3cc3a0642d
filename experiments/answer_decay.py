"""What a leak does to a trained solver: the same weights, revising with other leaks.

python -m experiments.answer_decay CHECKPOINT --leaks 0,0.02,0.05 --split validation --limit 200 [--store]

Without a leak the answer's logits add up over a rollout, and a wrong cell that was believed for
long takes long to turn. The script rolls out with each leak in place of the trained one.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch

from experiments.stored import RESULTS
from focus.data.sources import open_source
from focus.data.splits import load_split
from focus.evaluation.puzzles import evaluate
from focus.files import write_text
from focus.model.solver import Solver

STORED = RESULTS / "answer-decay.json"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--leaks", default="0,0.02,0.05,0.1")
    parser.add_argument("--steps", default="16,32,64,128,256")
    parser.add_argument("--split", default="validation")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--data")
    parser.add_argument("--what", default="", help="what the checkpoint is, for the stored figures")
    parser.add_argument("--store", action="store_true")
    words = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    solver = Solver.from_pretrained(words.checkpoint).to(device)
    trained = solver.config.updater
    table = load_split(open_source(words.data), solver.task, words.split)[: words.limit]
    rows = []
    for leak in (float(text) for text in words.leaks.split(",")):
        solver.updater.config = replace(trained, answer_decay=leak)
        steps = [int(number) for number in words.steps.split(",")]
        found = evaluate(solver, table, steps)
        rows += [{"answer_decay": leak, **result.summary()} for result in found]
        told = ", ".join(f"K = {r.steps}: {100 * r.exact.mean():.1f}" for r in found)
        print(f"leak {leak}: {told}", flush=True)
    if words.store:
        figures = {
            "what": words.what, "trained_leak": trained.answer_decay, "split": words.split, "results": rows
        }  # fmt: skip
        write_text(STORED, json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
