"""CUDA graphs: a piece of work recorded once and replayed from then on."""

import gc
from collections.abc import Callable
from typing import Any

import torch

WARM_UPS = 2  # eager runs before a recording, which settle what libraries allocate


def warm_up(work: Callable[[], None]) -> None:
    """Do some work `WARM_UPS` times on a stream of its own, as a recording wants it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    gc.collect()  # gradient nodes left in cycles would tie a recording to this stream


def record(work: Callable[[], None], pool: Any = None) -> torch.cuda.CUDAGraph:
    """A graph of some work that was warmed up; nothing is done yet. `pool` is memory to share."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        work()
    return graph
