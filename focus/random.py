"""Random numbers keyed by (seed, update, example, stream), never by process or call order.

Plain integer tensor operations, so the same keys give the same numbers on CPU and GPU, in eager
code and inside a captured CUDA graph, for one process or many. Exact resume and data-parallel
equality rest on it.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

_LOW32 = 0xFFFFFFFF


def _mix(word: Tensor) -> Tensor:
    """A 32-bit integer hash (the "lowbias32" constants of Wellons) on int64 tensors."""
    word = word ^ (word >> 16)
    word = (word * 0x7FEB352D) & _LOW32
    word = word ^ (word >> 15)
    word = (word * 0x846CA68B) & _LOW32
    return word ^ (word >> 16)


def example_keys(
    seed: int, update: int | Int[Tensor, ""] | Int[Tensor, " batch"], example: Int[Tensor, " batch"]
) -> Int[Tensor, " batch"]:
    """One key per example of an update (or of one each); `example` is its index in the batch."""
    key = _mix((example * 0 + (seed & _LOW32)) ^ 0x9E3779B9)
    key = _mix(key ^ ((update * 0x85EBCA6B) & _LOW32))
    return _mix(key ^ ((example * 0xC2B2AE35) & _LOW32))


def uniform(keys: Int[Tensor, " batch"], stream: int, *shape: int) -> Float[Tensor, "batch *shape"]:
    """Floats in [0, 1) of shape (batch, *shape); each `stream` is independent of the others."""
    count = 1
    for extent in shape:
        count *= extent
    counter = torch.arange(count, device=keys.device)
    words = _mix(_mix(keys ^ ((stream * 0x27D4EB2F + 1) & _LOW32))[:, None] + counter & _LOW32)
    return (_mix(words ^ 0x165667B1) >> 8).float().mul(2.0**-24).reshape(len(keys), *shape)


def permutations(
    keys: Int[Tensor, " batch"], stream: int, *shape: int
) -> Int[Tensor, "batch *shape"]:
    """Uniform permutations of the last axis of `shape`."""
    return uniform(keys, stream, *shape).argsort(dim=-1, stable=True)


def normal(keys: Int[Tensor, " batch"], stream: int, *shape: int) -> Float[Tensor, "batch *shape"]:
    """Standard normal numbers, by the inverse error function."""
    centred = uniform(keys, stream, *shape).clamp(2.0**-25, 1 - 2.0**-25).mul(2).sub(1)
    return centred.erfinv().mul(2.0**0.5)
