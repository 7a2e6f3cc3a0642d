"""How one command runs another, without knowing the table of them."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar

# Takes the words of a command and returns its exit code; `focus.cli` puts its own in place.
run_command: ContextVar[Callable[[Sequence[str]], int]] = ContextVar("run_command")
