"""Linear, Embedding and RMSNorm whose weights may be those of several solvers.

A weight with one axis more than usual holds a weight for each of `n` solvers (`stacked.py`): the
rows of a batch then fall into `n` equal parts, one for each. `torch.func.functional_call` puts
such weights into the place of a module's own.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from focus.model.precision import EPSILON

_ALIGNED = 8  # numbers in bf16 that fast products take at a time


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b; with several weights a batched product, of sizes that a GPU likes."""
    if weight.ndim == 2:
        return functional.linear(x, weight, bias)
    rows, columns = weight.shape[1:]
    apart = x.reshape(len(weight), -1, columns)
    if x.is_cuda and (rows % _ALIGNED or columns % _ALIGNED):
        weight = functional.pad(weight, (0, -columns % _ALIGNED, 0, -rows % _ALIGNED))
        apart = functional.pad(apart, (0, -columns % _ALIGNED))
    together = torch.bmm(apart, weight.mT)[..., :rows]
    if bias is not None:
        together = together + bias[:, None]
    return together.reshape(*x.shape[:-1], rows)


class Linear(nn.Linear):
    """`nn.Linear` of one solver or several."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class Embedding(nn.Embedding):
    """`nn.Embedding`; with several tables each row of the batch has its own."""

    def forward(self, x: Tensor) -> Tensor:
        if self.weight.ndim == 2:
            return super().forward(x)
        number, classes = self.weight.shape[:2]
        table = torch.arange(number, device=x.device).repeat_interleave(len(x) // number)
        offset = (table * classes).view(-1, *(1 for _ in x.shape[1:]))
        return functional.embedding(x + offset, self.weight.flatten(0, 1))


class RMSNorm(nn.RMSNorm):
    """RMSNorm whose float32 weight follows its input's precision, as the fused kernel needs."""

    def __init__(self, width: int, eps: float | None = EPSILON):
        super().__init__(width, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        weight = self.weight.to(x.dtype)
        if weight.ndim == 1:
            return functional.rms_norm(x, self.normalized_shape, weight, self.eps).to(x.dtype)
        apart = functional.rms_norm(x, self.normalized_shape, None, self.eps).to(x.dtype)
        return (apart.unflatten(0, (len(weight), -1)) * weight[:, None, None]).flatten(0, 1)
