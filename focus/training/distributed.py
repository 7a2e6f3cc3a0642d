"""Several processes, one run: who trains which examples, and how their gradients meet.

Every draw is keyed by the example's place in the global batch, so that any number of processes
trains on the same puzzles from the same states as one process does.
"""

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from focus.errors import UserError


@dataclass(frozen=True)
class Processes:
    """The processes of a run; one, unless torchrun started more."""

    rank: int = 0
    count: int = 1

    @classmethod
    def join(cls, device: str) -> "Processes":
        """Meet the other processes that torchrun started, if it did."""
        asked = os.environ.get("WORLD_SIZE", "1")
        if not asked.isdecimal() or int(asked) < 1:
            raise UserError(f"WORLD_SIZE is {asked!r}, not a number of processes; unset it")
        count = int(asked)
        if count == 1:
            return cls()
        backend = "nccl" if device.startswith("cuda") else "gloo"
        dist.init_process_group(backend, timeout=timedelta(minutes=30))
        return cls(dist.get_rank(), count)

    @property
    def first(self) -> bool:
        """Whether this process writes files and talks to the user."""
        return self.rank == 0

    def share(self, batch: int, accumulate: int) -> list[tuple[int, slice]]:
        """The mini-batches of this process, and which of a mini-batch's examples it takes."""
        size = batch // accumulate
        if accumulate % self.count == 0:
            return [(m, slice(0, size)) for m in range(self.rank, accumulate, self.count)]
        if size % self.count == 0:
            part = size // self.count
            mine = slice(self.rank * part, (self.rank + 1) * part)
            return [(m, mine) for m in range(accumulate)]
        raise UserError(
            f"{self.count} processes cannot share {accumulate} mini-batches of {size}: make "
            "optimizer.accumulate, or the mini-batch, a multiple of the number of processes"
        )

    def add_up(self, tensors: list[Tensor]) -> None:
        """Replace every tensor by its sum over the processes, in one message."""
        if self.count == 1 or not tensors:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        dist.all_reduce(flat)
        for tensor, summed in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            tensor.copy_(summed.view_as(tensor))

    def gather(self, value: Any) -> list[Any]:
        """The value of every process, in their order."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        dist.all_gather_object(values, value)
        return values

    def meet(self) -> None:
        """Wait for the others: one that leaves early breaks the connections of those at work."""
        if self.count > 1:
            dist.barrier()

    def leave(self) -> None:
        """Part from the other processes."""
        if self.count > 1:
            dist.destroy_process_group()
