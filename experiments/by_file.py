"""What the runs in the paper's regime solve, by the file that a test puzzle comes from.

python -m experiments.by_file            # asks the data ($FOCUS_DATA) for the files
python -m experiments.by_file --table    # the table of the stored figures

Sudoku-Extreme joins files of very different difficulty. Guesses are those of our search.
"""

import base64

import numpy as np

from experiments.stored import RESULTS, markdown, measure_or_show, points
from experiments.verdicts import stored_bits
from focus.data.sources import DATA_VARIABLE, open_source
from focus.data.splits import load_split
from focus.errors import UserError
from focus.evaluation.statistics import effect_over_seeds
from focus.tasks import Sudoku

STORED = RESULTS / "sudoku-test-files.json"
_COLUMN = "source"  # of Sudoku-Extreme: the file that it has a puzzle from
_FEWEST = 50  # puzzles of a file that has a row


def measure() -> dict:
    """The file of every test puzzle, and how hard the puzzles of each file are."""
    task, place = Sudoku(), open_source(None)
    table = load_split(place, task, "test")
    if _COLUMN not in table.columns:
        raise UserError(
            f"{place.describe()}: its test puzzles have no column {_COLUMN}; set {DATA_VARIABLE} "
            "to a folder with Sudoku-Extreme"
        )
    tested = len(stored_bits("campaign-primary")["focus"][1][128])
    if len(table) != tested:
        raise UserError(
            f"{place.describe()}: {len(table):,} test puzzles, but the stored runs were tested on "
            f"{tested:,}; set {DATA_VARIABLE} to the data that they had"
        )
    names, which = np.unique(table.columns[_COLUMN].astype(str), return_inverse=True)
    guesses = task.rate(table.questions)
    return {
        "files": list(names),
        "median_guesses": [float(np.median(guesses[which == n])) for n in range(len(names))],
        "which": base64.b64encode(which.astype(np.uint8).tobytes()).decode(),
    }


def of_file(figures: dict, name: str) -> np.ndarray:
    """Which test puzzles come from a file."""
    which = np.frombuffer(base64.b64decode(figures["which"]), np.uint8)
    return which == figures["files"].index(name)


def solved(study: str, method: str, in_file: np.ndarray) -> np.ndarray:
    """(seeds, puzzles): which of some puzzles the runs of a method solve at K = 128."""
    runs = stored_bits(f"campaign-{study}")[method]
    return np.stack([bits[128][in_file] for _, bits in sorted(runs.items())])


def table(figures: dict) -> str:
    """Rates at K = 128 in the mean of the seeds, from the easiest file to the hardest."""
    short = ("focus", "energy-hard", "permuted")
    rows = [["file", "puzzles", "median guesses", *(f"a third: {name}" for name in short)]]
    rows[0] += ["full length: focus", "full length: random", "focus over random"]
    hardness = dict(zip(figures["files"], figures["median_guesses"], strict=True))
    for name in sorted(hardness, key=hardness.__getitem__):
        in_file = of_file(figures, name)
        if in_file.sum() < _FEWEST:
            continue
        third = [solved("secondary-third", method, in_file) for method in short]
        focus, random = (solved("primary", method, in_file) for method in ("focus", "random"))
        rates = [f"{100 * runs.mean():.1f}" for runs in (*third, focus, random)]
        difference = points(*effect_over_seeds(focus, random)[:3])
        guesses = f"{hardness[name]:.0f}"
        rows.append([f"`{name}`", f"{in_file.sum():,}", guesses, *rates, difference])
    return markdown(rows)


def main() -> None:
    """The command line."""
    measure_or_show(__doc__, STORED, measure, table)


if __name__ == "__main__":
    main()
