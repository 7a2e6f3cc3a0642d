"""The puzzles of a batch that stay for several updates, with the states they have reached."""

import torch
from jaxtyping import Int
from torch import Tensor

from focus.model.recurrence import Recurrence
from focus.model.state import State, choose
from focus.random import Stream, uniform
from focus.training.config import DeepSupervisionConfig


class CarriedStates:
    """The puzzles of a batch: when each was drawn, for how long it is here, its state."""

    def __init__(self, config: DeepSupervisionConfig, initial: State):
        """`initial` gives the shapes of the states."""
        self.config = config
        batch, device = len(initial.z), initial.z.device
        self.drawn = torch.full((batch,), -1, device=device)
        # The first puzzles count as of different ages, so that they are not all replaced at once.
        self.age = torch.arange(batch, device=device) % max(1, config.steps)
        self.ended = torch.ones(batch, dtype=torch.bool, device=device)
        self.state = initial.map(lambda tensor: tensor.detach().clone())

    def draw(self, update: Tensor) -> Int[Tensor, " batch"]:
        """The updates for which the puzzles of this one were drawn; ended ones are drawn now."""
        self.age.masked_fill_(self.ended & (self.drawn >= 0), 0)
        self.drawn.copy_(torch.where(self.ended, update, self.drawn))
        return self.drawn.clone()

    def start(self, initial: State) -> State:
        """The states to go on from."""
        return choose(self.ended, initial, self.state)

    @torch.no_grad()
    def keep(self, last: State, recurrence: Recurrence, keys: Int[Tensor, " batch"]) -> None:
        """Keep the states after a step, and decide which puzzles have ended; keyed by puzzle."""
        self.state.copy_(last)
        self.age.add_(1)
        self.ended.copy_(self.age >= self.config.steps)
        believed = recurrence.believes_solved(last)
        self.ended.logical_or_(believed & (self.age >= self._least(keys)))

    def _least(self, keys: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """Steps that a puzzle stays at least: 1, or a random number from 2."""
        drawn = 2 + (uniform(keys, Stream.LEAST_STEPS) * (self.config.steps - 1)).long()
        return torch.where(uniform(keys, Stream.EXPLORES) < self.config.explore, drawn, 1)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that an update changes, by name."""
        named: dict[str, Tensor] = {"drawn": self.drawn, "age": self.age, "ended": self.ended}
        return {**named, **self.state.tensors()}
