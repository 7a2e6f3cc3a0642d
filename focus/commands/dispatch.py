"""How one command runs another, without knowing the table of them."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar


def _as_process(words: Sequence[str]) -> int:
    """A command in a process of its own."""
    return subprocess.run([sys.executable, "-m", "focus.cli", *words]).returncode


# Takes the words of a command and returns its exit code; `focus.cli` puts its own in place, which
# saves the start of a process.
run_command: ContextVar[Callable[[Sequence[str]], int]] = ContextVar(
    "run_command", default=_as_process
)
