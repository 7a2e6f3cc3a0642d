"""The CUDA graphs of an update: each is recorded at its first use and replayed from then on."""

from collections.abc import Callable, Hashable

import torch
from torch import Tensor

from focus.graphs import record, warm_up


class Graphs:
    """Graphs by key. A replay changes only the tensors that `changing` lists."""

    def __init__(self, device: str, changing: Callable[[], list[Tensor]]):
        self.device, self.changing = device, changing
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        # All graphs share their memory: what a replay leaves is in tensors of our own.
        self._pool = torch.cuda.graph_pool_handle()

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        """Replay the work of a key, recorded at the key's first use."""
        if key not in self._graphs:
            self._graphs[key] = self._capture(work)
        self._graphs[key].replay()

    def _capture(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """Record a piece of work; what the warm-ups changed is put back."""
        random_state = torch.cuda.get_rng_state(self.device)
        before = [tensor.detach().clone() for tensor in self.changing()]
        warm_up(work)
        graph = record(work, self._pool)
        with torch.no_grad():
            for tensor, value in zip(self.changing(), before, strict=True):
                tensor.copy_(value)
        torch.cuda.set_rng_state(random_state, self.device)
        return graph
