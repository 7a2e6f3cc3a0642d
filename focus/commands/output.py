"""How commands speak: progress on a terminal's standard error, JSON on standard output."""

import sys
from typing import Any

from rich.console import Console
from rich.progress import Progress, ProgressColumn

from focus.files import json_text


def progress(*columns: ProgressColumn, shown: bool = True) -> Progress:
    """A line of progress on a terminal; in a log nothing, not even an empty line."""
    console = Console(stderr=True)
    hidden = not shown or not console.is_terminal
    columns = columns or Progress.get_default_columns()
    return Progress(*columns, console=console, transient=True, disable=hidden)


def print_json(value: Any) -> None:
    """One JSON object, and nothing else, on standard output."""
    sys.stdout.write(json_text(value) + "\n")
