"""What the runs in the paper's regime solve, by the file that a test puzzle comes from.

python -m experiments.by_source            # asks the data ($FOCUS_DATA) for the files
python -m experiments.by_source --table    # the table of the stored figures

Sudoku-Extreme joins files of very different difficulty. Guesses are those of our search.
"""

import base64

import numpy as np

from experiments.stored import RESULTS, markdown, measure_or_show
from experiments.verdicts import stored_bits
from focus.data.sources import open_source
from focus.data.splits import load_split
from focus.evaluation.statistics import effect_over_seeds
from focus.tasks import Sudoku

STORED = RESULTS / "sudoku-test-sources.json"
_FEWEST = 50  # puzzles of a file that has a row


def measure() -> dict:
    """The file of every test puzzle, and how hard the puzzles of each file are."""
    task = Sudoku()
    table = load_split(open_source(None), task, "test")
    names, which = np.unique(table.columns["source"].astype(str), return_inverse=True)
    guesses = task.rate(table.questions)
    return {
        "files": list(names),
        "median_guesses": [float(np.median(guesses[which == n])) for n in range(len(names))],
        "which": base64.b64encode(which.astype(np.uint8).tobytes()).decode(),
    }


def table(figures: dict) -> str:
    """Rates at K = 128 in the mean of the seeds, from the easiest file to the hardest."""
    which = np.frombuffer(base64.b64decode(figures["which"]), np.uint8)
    third, full = stored_bits("campaign-secondary-third"), stored_bits("campaign-primary")
    short, focus, random = (
        np.stack([solved[128] for _, solved in sorted(runs.items())])
        for runs in (third["focus"], full["focus"], full["random"])
    )
    head = ["file", "puzzles", "median guesses", "FOCUS, a third of the length"]
    rows = [[*head, "FOCUS, full length", "Random, full length", "difference"]]
    guesses = figures["median_guesses"]
    for number in sorted(range(len(guesses)), key=guesses.__getitem__):
        own = which == number
        if own.sum() < _FEWEST:
            continue
        rates = [f"{100 * solved[:, own].mean():.1f}" for solved in (short, focus, random)]
        effect, low, high, _ = (
            100 * value for value in effect_over_seeds(focus[:, own], random[:, own])
        )
        difference = f"{effect:+.1f} [{low:+.1f}, {high:+.1f}]"
        name, count = figures["files"][number], f"{own.sum():,}"
        rows.append([f"`{name}`", count, f"{guesses[number]:.0f}", *rates, difference])
    return markdown(rows)


if __name__ == "__main__":
    measure_or_show(__doc__, STORED, measure, table)
