"""How commands speak: progress on a terminal's standard error, JSON on standard output."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TaskID

from focus.files import json_text


def progress(*columns: ProgressColumn, shown: bool = True) -> Progress:
    """A line of progress on a terminal; in a log nothing, not even an empty line."""
    console = Console(stderr=True)
    hidden = not shown or not console.is_terminal
    columns = columns or Progress.get_default_columns()
    return Progress(*columns, console=console, transient=True, disable=hidden)


@contextmanager
def progress_lines(
    shown: bool = True, logged: bool = False
) -> Iterator[Callable[[str, int, int], None]]:
    """A line of progress for each thing that the block tells of: what, how much done, of how much.

    With `logged`, a log gets a line when something is begun.
    """
    bar, lines = progress(shown=shown), dict[str, TaskID]()

    def tell(what: str, done: int, total: int) -> None:
        if what not in lines:
            if logged and shown and not bar.console.is_terminal:
                bar.console.print(f"{what}: {total:,}")
            bar.start()
            lines[what] = bar.add_task(what, total=total)
        bar.update(lines[what], completed=done)

    try:
        yield tell
    finally:
        if lines:
            bar.stop()


def print_json(value: Any) -> None:
    """One JSON object, and nothing else, on standard output."""
    sys.stdout.write(json_text(value) + "\n")
