"""s = (z, u): the answer being revised and the updater's memory, kept and restored together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class State:
    """z is the task's answer; u is the updater's, a small named set of tensors."""

    z: Float[Tensor, "batch tokens channels"]
    u: dict[str, Tensor]

    def map(self, function: Callable[[Tensor], Tensor]) -> "State":
        """The state with `function` applied to every tensor."""
        return State(function(self.z), {name: function(value) for name, value in self.u.items()})

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor by name."""
        return {"z": self.z, **{f"u.{name}": value for name, value in self.u.items()}}

    @staticmethod
    def of(tensors: dict[str, Tensor]) -> "State":
        """The inverse of `tensors`."""
        u = {n.removeprefix("u."): value for n, value in tensors.items() if n.startswith("u.")}
        return State(tensors["z"], u)

    def copy_(self, other: "State") -> None:
        """Take over another state's values."""
        values = other.tensors()
        for name, tensor in self.tensors().items():
            tensor.copy_(values[name])

    def detach(self) -> "State":
        """stopgrad(s)."""
        return self.map(lambda tensor: tensor.detach())


def pick_states(states: Sequence[State], chosen: Int[Tensor, " batch"]) -> State:
    """Of several states of the same batch, for each example the one it chose."""
    every, named = torch.arange(len(chosen), device=chosen.device), [s.tensors() for s in states]
    return State.of({
        name: torch.stack([one[name] for one in named])[chosen, every] for name in named[0]
    })  # fmt: skip


def choose(condition: Bool[Tensor, " batch"], one: State, other: State) -> State:
    """For each example the one state where the condition holds, else the other."""
    others = other.tensors()

    def pick(yes: Tensor, no: Tensor) -> Tensor:
        return torch.where(condition.view(-1, *(1 for _ in yes.shape[1:])), yes, no)

    return State.of({name: pick(yes, others[name]) for name, yes in one.tensors().items()})
