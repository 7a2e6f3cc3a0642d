"""A maze solver on mazes larger than those it was trained on.

python -m experiments.larger_mazes CHECKPOINT FILE... [--steps 16,32,64,128]

Each file holds mazes of one side, as `focus data generate --task maze --side N` makes them. Figures
of other checkpoints that are stored stay.
"""

import json
from pathlib import Path

from experiments.stored import (
    RESULTS,
    command_line,
    numbers,
    one_line,
    stored_results,
    this_device,
)
from focus.data.sources import open_source
from focus.data.table import side_of_file
from focus.evaluation.puzzles import evaluate
from focus.files import write_text
from focus.model.checkpoint import fetch, load_model

STORED = RESULTS / "maze-larger.json"


def measure(checkpoint: str, files: list[Path], steps: list[int]) -> dict:
    """The figures of a checkpoint, by side."""
    device, name = this_device()
    figures: dict = {"device": name}
    for file in files:
        side = side_of_file(file)
        model = load_model(fetch(checkpoint), side).to(device)
        table = open_source(str(file)).load(model.task, "test")
        results = evaluate(model, table, steps)
        figures[str(side)] = [result.summary() for result in results]
        for row in figures[str(side)]:
            print(side, json.dumps(row), flush=True)
    return figures


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--steps", type=numbers(), default="16,32,64,128")
    words = parser.parse_args()
    with one_line("larger_mazes"):
        figures = measure(words.checkpoint, words.files, words.steps)
    stored = stored_results(STORED.stem) if STORED.exists() else {}
    stored[Path(words.checkpoint).name] = figures
    write_text(STORED, json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
