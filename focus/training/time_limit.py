"""How long a training may take before it saves its state and leaves the rest to another call."""

import time
from collections.abc import Callable

from focus.errors import UserError

TimeLimit = Callable[[], bool]  # whether the time is over


def time_limit(minutes: float | None) -> TimeLimit:
    """Whether so many minutes have passed since this call; None is no limit."""
    if minutes is None:
        return lambda: False
    if not minutes > 0:  # nor is NaN
        raise UserError(f"--minutes takes a number above 0, not {minutes:g}")
    end = time.monotonic() + 60 * minutes
    return lambda: time.monotonic() >= end
