"""The weights of a compiled step side by side in one vector.

A rollout repeats a step that is compiled by itself. Left alone, every repetition converts each
weight to bf16, each gradient back, and adds it to what the other steps found: some forty small
kernels a step, whose launches take longer than their work. Of one vector it is three.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from focus.model.compiler import compiled
from focus.model.precision import working_dtype

_ALIGNED = 8  # matrices begin at multiples of it, as kernels for bf16 like them


class FlatParameters:
    """A method of a module, compiled as a function of the module's weights and its arguments."""

    def __init__(self, module: nn.Module, method: str, parts: Sequence[str]):
        """`parts` are the first words of the names of the weights that the method uses."""
        self._method = Method(module, method)
        self._named = [
            (name, weight)
            for name, weight in self._method.named_parameters()
            if weight.requires_grad and name.split(".")[1] in parts
        ]
        self._named.sort(key=lambda named: named[1].numel() % _ALIGNED > 0)

    def flatten(self, weights: Sequence[Tensor] | None = None) -> Float[Tensor, "*several weights"]:
        """The weights as they are now; or such `weights` of several modules, a row for each."""
        if weights is None:
            return torch.cat([weight.flatten() for _, weight in self._named])
        rows = torch.cat([weight.flatten(1) for weight in weights], 1)
        return functional.pad(rows, (0, -rows.shape[1] % _ALIGNED))

    def unpacked(self, weights: Float[Tensor, "*several weights"], *arguments: Any) -> Any:
        """The method, with these weights (of several modules: side by side) for the module's."""
        sizes = [weight.numel() for _, weight in self._named]
        used = weights.to(working_dtype(weights.device))[..., : sum(sizes)]
        own = {
            name: part.view(*weights.shape[:-1], *weight.shape)
            for (name, weight), part in zip(self._named, used.split(sizes, -1), strict=True)
        }
        return torch.func.functional_call(self._method, own, arguments)

    def names(self) -> list[str]:
        """The names of the weights in their order, as the module knows them."""
        return [name.split(".", 1)[1] for name, _ in self._named]

    @cached_property
    def _compiled(self) -> Callable[..., Any]:
        return compiled(self.unpacked)

    def __call__(self, weights: Float[Tensor, "*several weights"], *arguments: Any) -> Any:
        """The compiled method."""
        return self._compiled(weights, *arguments)


class Method(nn.Module):
    """A module whose forward is a method of another."""

    def __init__(self, module: nn.Module, method: str):
        super().__init__()
        self.module, self.method = module, method

    def forward(self, *arguments: Any) -> Any:
        return getattr(self.module, self.method)(*arguments)
