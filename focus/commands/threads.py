"""How many threads PyTorch takes: one for each core that is idle.

The threads of an operation wait for each other. On a core that other work holds, one of them waits
for its turn, and all others wait for it, in every operation: a solve that takes six seconds alone
then takes one or two minutes. With the threads that idle cores can carry it takes twice as long.

Training keeps the number that it has: how sums are rounded depends on it, and a resumed run equals
an unbroken one.
"""

import os
import statistics
import time
from pathlib import Path

import torch

_LOADS = Path("/proc/loadavg")
_VARIABLE = "OMP_NUM_THREADS"
_ALL = torch.get_num_threads()  # what PyTorch would take


def use_idle_cores() -> None:
    """Take no more threads than cores are idle; $OMP_NUM_THREADS, where it is set, decides."""
    if _VARIABLE not in os.environ:
        torch.set_num_threads(min(_ALL, idle_cores()))


def idle_cores() -> int:
    """Cores of this process that nothing else uses now, as far as is known; at least 1."""
    every = os.cpu_count() or 1  # what runs may run on cores that are not ours
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else every
    return max(1, min(own, every - _busy()))


def _busy() -> int:
    """Threads of others that run. The average load of the last minute, only where this is not
    told: it holds what has ended, such as the command before, and little of what has just begun."""
    try:
        return round(statistics.median(_running() - 1 for _ in range(5)))  # this one runs too
    except (OSError, ValueError, IndexError):
        return round(os.getloadavg()[0]) if hasattr(os, "getloadavg") else 0


def _running() -> int:
    time.sleep(0.01)  # what comes and goes is not counted: it leaves the core soon
    return int(_LOADS.read_text().split()[3].partition("/")[0])
