"""What the language model has read, kept for the updates that use it.

The model reads the puzzles of one or more updates at once, outside the captured part: its
matrices are large, so that launching them costs nothing. The updates take what it read from
`hidden` and leave in `gradient` how it should have been; one pass back through the model at the
end teaches the adapter for all of them.
"""

import torch
from torch import Tensor

from focus.model.backbone import LanguageModel
from focus.tasks.records import Problem


class Reading:
    """One reading: `slots` batches of the same size."""

    def __init__(self, model: LanguageModel, slots: int):
        self.model, self.slots = model, slots
        self.hidden: Tensor | None = None
        self.gradient: Tensor | None = None
        self._with_history: Tensor | None = None

    def read(self, x: Problem) -> None:
        """Read the puzzles of all slots, in their order."""
        found = self.model.read(x)
        if self.hidden is None or self.gradient is None:
            shape = (self.slots, len(found) // self.slots, *found.shape[1:])
            self.hidden = torch.zeros(shape, dtype=found.dtype, device=found.device)
            self.gradient = torch.zeros(shape, device=found.device)
        self.hidden.copy_(found.detach().view_as(self.hidden))
        self.gradient.zero_()
        self._with_history = found if found.requires_grad else None

    def take(self, slot: Tensor) -> Tensor:
        """What was read for a slot (a tensor, so that a captured update can be told which)."""
        assert self.hidden is not None
        return self.hidden.index_select(0, slot[None])[0].requires_grad_()

    def give(self, slot: Tensor, gradient: Tensor) -> None:
        """Add an update's gradient."""
        assert self.gradient is not None
        self.gradient.index_add_(0, slot[None], gradient.to(self.gradient.dtype)[None])

    def teach(self, updates: int) -> None:
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
