"""Small groups of tensors that travel together: puzzles, targets, what the updater sees."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

Record = TypeVar("Record", bound="TensorRecord")
Function = TypeVar("Function", bound=Callable)
SomeRows = Bool[Tensor, " batch"] | Int[Tensor, " some"]  # of a batch: a mask, or their numbers


@lru_cache
def constant(values: tuple, device: torch.device) -> Tensor:
    """A small tensor of fixed values, copied to a device once: a captured graph may not copy."""
    return torch.tensor(values, device=device)


def constant_when_compiled(function: Function) -> Function:
    """What `torch.compiler.assume_constant_result` does, without loading the compiler.

    Loading it takes a second, which everybody who imports a task would wait.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@dataclass(frozen=True)
class TensorRecord:
    """A dataclass whose fields are tensors with one shared leading batch axis."""

    def map(self: Record, function: Callable[[Tensor], Tensor]) -> Record:
        """The record with `function` applied to every tensor."""
        return type(self)(**{f.name: function(getattr(self, f.name)) for f in fields(self)})

    def to(self: Record, device: torch.device | str) -> Record:
        """The record on another device."""
        return self.map(lambda tensor: tensor.to(device))

    def __getitem__(self: Record, rows: Tensor | slice) -> Record:
        """The record of the chosen rows."""
        return self.map(lambda tensor: tensor[rows])

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))


@dataclass(frozen=True)
class Rows(TensorRecord):
    """Puzzles as they are stored on a device: compact, one row each, a code per cell."""

    question: UInt8[Tensor, "rows cells"]
    answer: UInt8[Tensor, "rows cells"]


@dataclass(frozen=True)
class Problem(TensorRecord):
    """x: all that a model may see of a batch of puzzles."""

    grid: Int[Tensor, "batch cells"]  # symbol code of every cell, as the prompt shows it
    cell: Int[Tensor, "batch tokens"]  # the cell of each token
    mask: Bool[Tensor, "batch tokens"]  # False where a token is padding


@dataclass(frozen=True)
class Target(TensorRecord):
    """y*: the correct answer of a batch of puzzles, for losses and scores only."""


@dataclass(frozen=True)
class Context(TensorRecord):
    """c_x: deterministic inputs per token. Never the result of a search."""

    position: Int[Tensor, "batch tokens axes"]  # row, column
    category: Int[Tensor, "batch tokens kinds"]  # class numbers, see `Task.category_sizes`
    bits: Float[Tensor, "batch tokens bits"]  # 0/1 inputs
