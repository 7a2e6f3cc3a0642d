"""s = (z, u): the answer being revised and the updater's memory, kept and restored together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class State:
    """z is the task's answer; u is the updater's, a small named set of tensors."""

    z: Float[Tensor, "batch tokens channels"]
    u: dict[str, Tensor]

    def map(self, function: Callable[[Tensor], Tensor]) -> "State":
        """The state with `function` applied to every tensor."""
        return State(function(self.z), {name: function(value) for name, value in self.u.items()})

    def detach(self) -> "State":
        """stopgrad(s)."""
        return self.map(lambda tensor: tensor.detach())


def pick_states(states: Sequence[State], chosen: Int[Tensor, " batch"]) -> State:
    """Of several states of the same batch, for each example the one it chose."""
    every = torch.arange(len(chosen), device=chosen.device)

    def pick(tensors: list[Tensor]) -> Tensor:
        return torch.stack(tensors)[chosen, every]

    return State(
        pick([state.z for state in states]),
        {name: pick([state.u[name] for state in states]) for name in states[0].u},
    )
