"""Projections that read the same input, with their adapters, as one product.

With an adapter of its own each projection is three matrix products forward and five back, most of
them so small that launching them takes the time. Queries, keys and values of a layer read the same
input, and so do gate and up: joined, a layer of Qwen2.5 launches 55 kernels an update instead of 92
(counted by PyTorch's compiler). The frozen weights of joined projections are views of one matrix;
the adapters stay what they are, and are put together in every pass. What differs from peft is the
dropout: joined adapters see the same dropped input.

Only training is joined: elsewhere, and with the adapter off, a projection is peft's own. In
compiled training the adapters also drop by a hash (`dropout.py`).
"""

from collections.abc import Sequence
from typing import Any

import torch
from peft.tuners.lora.layer import Linear as LoraLinear
from torch import Tensor, nn
from torch.nn import functional

from focus.model.dropout import HashedDropout
from focus.model.layers import linear

_READ_TOGETHER = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
_ADAPTER = "default"  # peft's name for the only one


class JoinedProjections:
    """Projections of one input; whichever is called first computes all."""

    def __init__(self, members: Sequence[LoraLinear]):
        self.members = members
        bases: list[Any] = [member.base_layer for member in members]
        self.rows = [base.out_features for base in bases]
        self.weight = torch.cat([base.weight.data for base in bases])
        for base, part in zip(bases, self.weight.split(self.rows), strict=True):
            base.weight.data = part
        biased = bases[0].bias is not None
        self.bias = torch.cat([base.bias.data for base in bases]) if biased else None
        self.given: Tensor | None = None  # what all have read
        self.waiting: dict[int, Tensor] = {}  # outputs of the members that were not called yet

    def outputs(self, x: Tensor) -> tuple[Tensor, ...]:
        """What every member makes of its input."""
        first = self.members[0]
        downs, ups = (
            [getattr(member, part)[_ADAPTER].weight for member in self.members]
            for part in ("lora_A", "lora_B")
        )
        rank, count = downs[0].shape[-2], len(downs)
        # Each reads its own part of what the adapters' first matrices make.
        apart = [functional.pad(up, (n * rank, (count - 1 - n) * rank)) for n, up in enumerate(ups)]
        low = linear(first.lora_dropout[_ADAPTER](x), torch.cat(downs, -2))
        change = linear(low, torch.cat(apart, -2) * first.scaling[_ADAPTER])
        return (functional.linear(x, self.weight, self.bias) + change).split(self.rows, -1)


class JoinedLinear(LoraLinear):
    """A projection of `JoinedProjections`."""

    joined: JoinedProjections
    number: int  # among the members

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not self.training or self.disable_adapters or self.merged:
            return super().forward(x, *args, **kwargs)
        joined = self.joined
        if joined.given is not x or self.number not in joined.waiting:
            joined.given, joined.waiting = x, dict(enumerate(joined.outputs(x)))
        output = joined.waiting.pop(self.number)
        if not joined.waiting:
            joined.given = None
        return output


def join_projections(model: nn.Module) -> None:
    """Join what is read together, where a model has projections of the usual names.

    The model must not move to another device afterwards.
    """
    for part in model.modules():
        for names in _READ_TOGETHER:
            members: list[Any] = [getattr(part, name, None) for name in names]
            if not all(type(m) is LoraLinear and type(m.base_layer) is nn.Linear for m in members):
                continue
            if len({member.base_layer.bias is None for member in members}) > 1:
                continue
            joined = JoinedProjections(members)
            for number, member in enumerate(members):
                member.__class__ = JoinedLinear
                member.joined, member.number = joined, number


def hash_dropout(model: nn.Module) -> list[HashedDropout]:
    """Let adapters drop by a hash; gives what needs a seed before every pass."""
    hashed = []
    for part in model.modules():
        if not isinstance(part, LoraLinear):
            continue
        dropout = part.lora_dropout[_ADAPTER]
        if isinstance(dropout, nn.Dropout):
            part.lora_dropout[_ADAPTER] = dropout = HashedDropout(dropout.p)
        if isinstance(dropout, HashedDropout):
            hashed.append(dropout)
    return hashed
