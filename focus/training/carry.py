"""Deep supervision: puzzles stay for several updates, and so do their states.

An update goes on from where the last one left a puzzle, detached; it is replaced by a new puzzle
after `steps` updates, or before, when the model believes its answer (`halt`) and has done the
least number of steps drawn for it.
"""

import itertools
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from focus.errors import UserError
from focus.model.state import State, choose
from focus.random import uniform
from focus.ranges import check_from, check_shares

_LEAST, _EXPLORES = 84, 85  # random streams


@dataclass(frozen=True)
class CarryConfig:
    """How long puzzles stay; TRM's values where it is used."""

    steps: int = 0  # updates for which a puzzle stays at most (16 for TRM); 0 = it never stays
    explore: float = 0.1  # share of puzzles that must stay for a random number of steps
    halt_weight: float = 0.5  # of the loss of the halting logit
    # (share of the run, cycles, refinements): a TRM is shallower until then; () = never. After
    # Qasim & Zhang 2025 (arXiv 2511.08653), who take 1 cycle of 2, then 2 of 4, then all.
    depths: tuple[tuple[float, int, int], ...] = ()

    def __post_init__(self):
        check_from(0, {"carry.steps": self.steps, "carry.halt-weight": self.halt_weight})
        check_shares({"carry.explore": self.explore})
        shares = [0.0, *(share for share, _, _ in self.depths), 1.0]
        rising = all(one < two for one, two in itertools.pairwise(shares))
        if not rising or any(min(depth[1:]) < 1 for depth in self.depths):
            raise UserError(
                "carry.depths is a list of (share of the run, cycles, refinements) whose shares "
                "rise between 0 and 1, with cycles and refinements from 1"
            )


class Carry:
    """The puzzles of a batch: when each was drawn, for how long it is here, its state."""

    def __init__(self, config: CarryConfig, initial: State):
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
    def keep(self, last: State, keys: Int[Tensor, " batch"]) -> None:
        """Keep the states after a step, and decide which puzzles have ended; keyed by puzzle."""
        self.state.copy_(last)
        self.age.add_(1)
        self.ended.copy_(self.age >= self.config.steps)
        if "halt" in last.u:
            believed = last.u["halt"][:, 0] > 0
            self.ended.logical_or_(believed & (self.age >= self._least(keys)))

    def _least(self, keys: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """Steps that a puzzle stays at least: 1, or a random number from 2."""
        drawn = 2 + (uniform(keys, _LEAST) * (self.config.steps - 1)).long()
        return torch.where(uniform(keys, _EXPLORES) < self.config.explore, drawn, 1)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that an update changes, by name."""
        named: dict[str, Tensor] = {"drawn": self.drawn, "age": self.age, "ended": self.ended}
        return {**named, **self.state.tensors()}
