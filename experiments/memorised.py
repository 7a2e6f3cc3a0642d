"""How much of what a solver of the recipe `sudoku` solves in training does it solve elsewhere?

python -m experiments.memorised CHECKPOINT --data DIR [--rows 300] [--out NAME]

Five kinds of puzzles: stored symmetries of the sources, which were trained on; puzzles of the same
file that were not; synthetic puzzles that were trained on; others by the same generator; and
validation puzzles. Which are solved after each number of steps goes to docs/results/NAME.json.
"""

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from experiments.stored import RESULTS, command_line, one_line, pack, this_device
from focus.data.corpus import build_corpus
from focus.data.sources import open_source
from focus.data.splits import make_splits
from focus.data.table import Table
from focus.errors import UserError
from focus.evaluation.puzzles import evaluate
from focus.files import write_text
from focus.model.solver import Solver
from focus.recipes import recipe

STEPS, MOST = (16, 64, 128), 1000  # of each kind at most
OTHER_SEED = 777  # of the synthetic puzzles that were not trained on


def kinds(data: str, rows: int) -> Iterator[tuple[str, Table]]:
    """Tables by name, each with so many puzzles at most."""
    config = recipe("sudoku")
    task, corpus = config.task, config.corpus
    splits = make_splits(open_source(data), task)
    trained = build_corpus(task, splits, corpus)
    stored = corpus.sources * (1 + corpus.symmetries)  # sources and their symmetries come first
    rng = np.random.default_rng(0)

    def drawn(first: int, last: int) -> Table:
        return trained[np.sort(rng.choice(np.arange(first, last), rows, replace=False))]

    sources = {question.tobytes() for question in trained.questions[: corpus.sources]}
    unused = [i for i, q in enumerate(splits.train.questions) if q.tobytes() not in sources]
    yield "stored symmetries of the sources (trained on)", drawn(corpus.sources, stored)
    yield "other puzzles of the same file", splits.train[np.array(unused[:rows])]
    yield "synthetic (trained on)", drawn(stored, len(trained))
    # The same sources, which the seed draws as well, and other puzzles from them.
    alone = replace(corpus, symmetries=0, synthetic=0)
    own = replace(splits, train=build_corpus(task, splits, alone))
    fresh = replace(corpus, sources=0, symmetries=0, synthetic=rows, seed=OTHER_SEED)
    yield "synthetic, by another seed", build_corpus(task, own, fresh)[np.arange(-rows, 0)]
    yield "validation", splits.validation[np.arange(rows)]


def measure(checkpoint: str, data: str, rows: int) -> dict:
    """Which puzzles of each kind a checkpoint solves."""
    if not 1 <= rows <= MOST:
        raise UserError(f"--rows takes a number from 1 to {MOST:,}, not {rows}")
    (device, device_name), found = this_device(), {}
    solver = Solver.from_pretrained(checkpoint).to(device)
    for name, table in kinds(data, rows):
        results = evaluate(solver, table, STEPS)
        found[name] = {
            "n": len(table), "exact": {str(r.steps): pack(r.exact) for r in results},
        }  # fmt: skip
        rates = [f"{r.steps}: {100 * r.exact.mean():.1f}" for r in results]
        print(f"{name:48} {'  '.join(rates)}", flush=True)
    what = "a full-length run of sudoku: exact on puzzles that were trained on, and on others"
    return {"what": what, "device": device_name, "kinds": found}


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("--data", required=True)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--out", default="memorised")
    words = parser.parse_args()
    with one_line("memorised"):
        stored = measure(words.checkpoint, words.data, words.rows)
    write_text(RESULTS / f"{words.out}.json", json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
