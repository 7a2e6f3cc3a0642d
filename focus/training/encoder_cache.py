"""What the language model has read, kept for the updates that use it.

Where several updates share a reading, or where a CUDA graph cannot hold it, the model encodes
outside the captured update. The updates take what it read from `hidden` and add to `gradient`; one
pass back through the model at the end trains the adapter for all of them.
"""

import torch
from torch import Tensor

from focus.model.backbone import Backbone
from focus.tasks.records import Problem


class EncoderCache:
    """What was read of `slots` batches of the same size, and its gradient."""

    def __init__(self, backbone: Backbone, slots: int):
        self.backbone, self.slots = backbone, slots
        self.hidden: Tensor | None = None
        self.gradient: Tensor | None = None
        self._with_history: Tensor | None = None

    def encode(self, x: Problem) -> None:
        """Read the puzzles of all slots, in their order."""
        read = self.backbone.read(x)
        if self.hidden is None or self.gradient is None:
            shape = (self.slots, len(read) // self.slots, *read.shape[1:])
            self.hidden = torch.zeros(shape, dtype=read.dtype, device=read.device)
            self.gradient = torch.zeros(shape, device=read.device)
        self.hidden.copy_(read.detach().view_as(self.hidden))
        self.gradient.zero_()
        self._with_history = read if read.requires_grad else None

    def get(self, slot: Tensor) -> Tensor:
        """What was read for a slot (a tensor, so that a captured update can be told which)."""
        assert self.hidden is not None
        return self.hidden.index_select(0, slot[None])[0].requires_grad_()

    def accumulate_grad(self, slot: Tensor, gradient: Tensor) -> None:
        """Add an update's gradient."""
        assert self.gradient is not None
        self.gradient.index_add_(0, slot[None], gradient.to(self.gradient.dtype)[None])

    def backward(self, updates: int) -> None:
        """Pass the mean gradient of the updates back through the model."""
        if self._with_history is None:
            return
        assert self.gradient is not None
        gradient = (self.gradient / updates).view_as(self._with_history)
        self._with_history.backward(gradient.to(self._with_history.dtype))
        self._with_history = None

    def tensors(self) -> list[Tensor]:
        """What an update changes."""
        return [] if self.gradient is None else [self.gradient]
