"""CUDA graphs: a piece of work recorded once and replayed from then on."""

from collections.abc import Callable
from typing import Any

import torch

WARM_UPS = 2  # eager runs before a recording, which settle what libraries allocate


def record(work: Callable[[], None], pool: Any = None) -> torch.cuda.CUDAGraph:
    """A graph of some work, which is done `WARM_UPS` times first; `pool` is memory to share."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        work()
    return graph
