"""CUDA graphs: a piece of work recorded once and replayed from then on."""

import gc
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from focus.errors import UserError, first_line

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


class Graphs:
    """Graphs by key, recorded at first use. A replay changes only the tensors of `changing`."""

    def __init__(self, device: str, changing: Callable[[], list[Tensor]], captured: bool):
        """Where nothing is `captured`, work is done as it is written."""
        self.device, self.changing, self.captured = device, changing, captured
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        # All graphs share their memory: what a replay leaves is in tensors of our own.
        self._pool = torch.cuda.graph_pool_handle() if captured else None

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        """Replay the work of a key, recorded at the key's first use."""
        if not self.captured:
            work()
            return
        if key not in self._graphs:
            self._graphs[key] = self._capture(work)
        self._graphs[key].replay()

    def _capture(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """Record a piece of work; what the warm-ups changed is put back."""
        random_state = torch.cuda.get_rng_state(self.device)
        before = [tensor.detach().clone() for tensor in self.changing()]
        warm_up(work)
        try:
            graph = record(work, self._pool)
        except RuntimeError as error:
            raise UserError(
                f"an update of this run cannot be recorded as a CUDA graph ({first_line(error)}); "
                "--capture False runs it as it is, slower"
            ) from error
        with torch.no_grad():
            for tensor, value in zip(self.changing(), before, strict=True):
                tensor.copy_(value)
        torch.cuda.set_rng_state(random_state, self.device)
        return graph
