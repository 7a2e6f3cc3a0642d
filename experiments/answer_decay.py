"""What answer decay does to a trained solver: the same weights, revised with other decays.

python -m experiments.answer_decay CHECKPOINT --answer-decays 0,0.02,0.05 --limit 200 [--store]

Without decay the logits of the answer add up over a rollout, and a wrong cell that was believed for
long takes long to change. The script rolls out with each decay in place of the trained one.
"""

import json
from dataclasses import replace
from pathlib import Path

import torch

from experiments.stored import RESULTS, command_line
from focus.data.sources import open_source
from focus.data.splits import load_split
from focus.evaluation.puzzles import evaluate
from focus.files import write_text
from focus.model.solver import Solver

STORED = RESULTS / "answer-decay.json"


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--answer-decays", default="0,0.02,0.05,0.1")
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
    steps = [int(number) for number in words.steps.split(",")]
    for decay in (float(text) for text in words.answer_decays.split(",")):
        solver.updater.config = replace(trained, answer_decay=decay)
        results = evaluate(solver, table, steps)
        rows += [{"answer_decay": decay, **result.summary()} for result in results]
        rates = ", ".join(f"K = {r.steps}: {100 * r.exact.mean():.1f}" for r in results)
        print(f"answer decay {decay}: {rates}", flush=True)
    if words.store:
        figures = {
            "what": words.what, "trained_answer_decay": trained.answer_decay,
            "split": words.split, "results": rows,
        }  # fmt: skip
        write_text(STORED, json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
