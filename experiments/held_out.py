"""Which Sudokus our rates are about: their hashes, and the test file made again from public ones.

python -m experiments.held_out store TEST.csv           # docs/results/sudoku-test-puzzles.json
python -m experiments.held_out find CORPUS.csv OUT.csv  # TEST.csv, from the public corpus

Stored are the first six bytes of each puzzle's SHA-256 (81 characters, `.` for a blank), in the
order of the test file: the first 1,000 are for validation. CORPUS is any CSV with the columns
question and answer that holds these puzzles among others, such as those of Sudoku-Extreme.
"""

import argparse
import base64
import hashlib
import json
from pathlib import Path

import numpy as np

from experiments.stored import RESULTS, command_line, one_line, stored_results
from focus.data.table import Table, read_table, write_table
from focus.errors import UserError
from focus.files import write_text
from focus.tasks import Sudoku

_NAME, _LENGTH = "sudoku-test-puzzles", 6


def hashes(table: Table) -> list[bytes]:
    """Names of puzzles that give nothing of them away."""
    texts = (Sudoku().question_text(question).encode() for question in table.questions)
    return [hashlib.sha256(text).digest()[:_LENGTH] for text in texts]


def stored_hashes() -> list[bytes]:
    """Of our test file, row by row."""
    whole = base64.b64decode(stored_results(_NAME)["hashes"])
    return [whole[first : first + _LENGTH] for first in range(0, len(whole), _LENGTH)]


def store(words: argparse.Namespace) -> None:
    """Keep the hashes of a test file."""
    found = hashes(read_table(words.test, Sudoku()))
    about = {"n": len(found), "hashes": base64.b64encode(b"".join(found)).decode()}
    write_text(RESULTS / f"{_NAME}.json", json.dumps(about, indent=1) + "\n")


def find(words: argparse.Namespace) -> None:
    """Write our test file from a larger one."""
    corpus, wanted = read_table(words.corpus, Sudoku()), stored_hashes()
    places = {value: place for place, value in enumerate(hashes(corpus))}
    if missing := sum(value not in places for value in wanted):
        raise UserError(f"{words.corpus} lacks {missing:,} of the {len(wanted):,} puzzles")
    write_table(words.out, corpus[np.array([places[value] for value in wanted])], Sudoku())
    print(f"{words.out}: {len(wanted):,} puzzles, the first 1,000 for validation")


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parts = parser.add_subparsers(required=True)
    stored = parts.add_parser("store")
    stored.add_argument("test", type=Path)
    stored.set_defaults(call=store)
    made = parts.add_parser("find")
    made.add_argument("corpus", type=Path)
    made.add_argument("out", type=Path)
    made.set_defaults(call=find)
    words = parser.parse_args()
    with one_line("held_out"):
        words.call(words)


if __name__ == "__main__":
    main()
