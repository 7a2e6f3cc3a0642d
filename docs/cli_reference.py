"""Write docs/reference/cli.md: the help of every command.

python -m docs.cli_reference
"""

import contextlib
import io
import os
import textwrap
from pathlib import Path
from unittest import mock

from focus.cli import COMMANDS, main
from focus.files import write_text

STORED = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
WIDTH = 100
HEAD = """\
# Commands

Written by `python -m docs.cli_reference` from what `focus COMMAND --help` prints; a test
compares them. `focus --version` tells the version.

Every command exits with 0 when it is done, with 2 when the input is wrong (one line on standard
error says what, where and what would be right), with 1 when the fault is ours, with 130 when it was
stopped by Ctrl-C. `--json`, where there is one, prints one JSON object on standard output and
nothing else there; progress goes to standard error.

Three variables of the environment count: `FOCUS_DATA` is the source of puzzles where no `--data`
is given, `FOCUS_CACHE` the folder of converted language models and cached soft targets of teachers
(default `~/.cache/focus`), `OMP_NUM_THREADS` the threads of PyTorch (default: as many as cores
are idle when the command starts).
"""
SETTINGS = """\
## Settings of a run

`focus train RECIPE --help`, here for `sudoku`, the paper's settings. `focus bench train` and
`focus bench select` take the same settings after their recipe, without `--out`, `--resume` and
`--minutes`. A boolean is given as a word: `--curation.replay-solved True`.
"""


def help_of(*words: str) -> str:
    """What a command prints when it is asked for help, at a fixed width."""
    printed = io.StringIO()
    plain = {"COLUMNS": str(WIDTH), "NO_COLOR": "1"}
    with mock.patch.dict(os.environ, plain), contextlib.redirect_stdout(printed):
        main([*words, "--help"])
    lines: list[str] = []
    for line in printed.getvalue().strip().splitlines():
        indent = " " * (20 if line.startswith("  ") else 0)  # in the list of commands
        lines += textwrap.wrap(line, WIDTH, subsequent_indent=indent) or [""]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def page() -> str:
    """The whole page."""
    parts = [HEAD, "## All of them\n", help_of()]
    for command in COMMANDS:
        parts += [f"## focus {command}\n", help_of(*command.split())]
    return "\n".join([*parts, SETTINGS, help_of("train", "sudoku")])


if __name__ == "__main__":
    write_text(STORED, page())
    print(STORED)
