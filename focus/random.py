"""Random numbers keyed by (seed, update, example, stream), never by process or call order.

Replay coins and kinds of start states do not depend on the seed: runs that are compared share them.

Plain integer tensor operations, so the same keys give the same numbers on CPU and GPU, in eager
code and inside a captured CUDA graph, for one process or many. Exact resume and data-parallel
equality rest on it.
"""

import math
from enum import IntEnum, unique
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

_LOW32 = 0xFFFFFFFF


@unique
class Stream(IntEnum):
    """What a random number is drawn for; numbers of different streams are independent.

    Every stream is listed here, so that no two can share a number. The numbers are part of what
    a seed means: changing one changes every run.
    """

    SYMMETRY = 0  # of `Task.augment`, drawn with keys of their own
    SYMMETRY_BANDS = 1
    SYMMETRY_ROWS = 2
    SYMMETRY_STACKS = 3
    SYMMETRY_COLUMNS = 4
    SYMMETRY_TRANSPOSE = 5
    CORRUPT_0 = 10  # of `Task.corrupt`, each task uses as many as it needs
    CORRUPT_1 = 11
    CORRUPT_2 = 12
    CORRUPT_3 = 13
    CORRUPT_4 = 14
    CORRUPT_5 = 15
    CORRUPT_6 = 16
    ROW = 70  # which training puzzle
    REPLAY_COIN = 71
    FURTHER_ROW = 72  # which of the further puzzles (`more_data`)
    FROM_TRAINING_SPLIT = 73  # whether an example comes from the training split
    HINTS = 74  # how many blanks of a puzzle are revealed
    HINTED_CELLS = 75
    START_STEP = 81  # which visited state
    LEAST_STEPS = 84  # deep supervision: steps before a puzzle may leave
    EXPLORES = 85  # deep supervision: whether that number is random
    CARRIED_REPLAY_COIN = 86
    UNIFORM_SELECTOR = 90
    REPLAY_SOLVED = 91
    PERMUTED_SELECTOR = 92


def _mix(word: Tensor) -> Tensor:
    """A 32-bit integer hash (the "lowbias32" constants of Wellons) on int64 tensors."""
    word = word ^ (word >> 16)
    word = (word * 0x7FEB352D) & _LOW32
    word = word ^ (word >> 15)
    word = (word * 0x846CA68B) & _LOW32
    return word ^ (word >> 16)


def example_keys(
    seed: int | Int[Tensor, " batch"], update: int | Int[Tensor, ""] | Int[Tensor, " batch"],
    example: Int[Tensor, " batch"],
) -> Int[Tensor, " batch"]:  # fmt: skip
    """One key per example of an update; `example` is its index in the batch.

    Seed and update may be one for all examples, or one for each.
    """
    key = _mix((example * 0 + (seed & _LOW32)) ^ 0x9E3779B9)
    key = _mix(key ^ ((update * 0x85EBCA6B) & _LOW32))
    return _mix(key ^ ((example * 0xC2B2AE35) & _LOW32))


def stratified(
    update: int | Int[Tensor, ""], example: Int[Tensor, " batch"], count: int
) -> Float[Tensor, " batch"]:
    """Floats in [0, 1), stratified over the `count` examples of an update.

    Any part of [0, 1) holds its share of the examples, up to one of them. From update to update all
    move on by the golden ratio, so that each example goes evenly through [0, 1), too.
    """
    turn = ((update * 0x9E3779B9 & _LOW32) >> 8) * 2.0**-24
    return (example / count + turn) % 1


def uniform(keys: Int[Tensor, " batch"], stream: int, *shape: int) -> Float[Tensor, "batch *shape"]:
    """Floats in [0, 1) of shape (batch, *shape); each `stream` is independent of the others."""
    count = math.prod(shape)
    counter = torch.arange(count, device=keys.device)
    begin = _mix(keys ^ _word(stream))[:, None]
    return _fractions(begin, counter).reshape(len(keys), *shape)


def uniforms(
    keys: Int[Tensor, " batch"], draws: tuple[tuple[int, tuple[int, ...]], ...]
) -> list[Float[Tensor, "batch *shape"]]:
    """What `uniform` gives for each (stream, shape), drawn at once: a fraction of the launches."""
    words, counter, sizes = _layout(draws, keys.device)
    numbers = _fractions(_mix(keys[:, None] ^ words), counter).split(sizes, 1)
    return [
        part.reshape(len(keys), *shape) for part, (_, shape) in zip(numbers, draws, strict=True)
    ]


def _word(stream: int) -> int:
    return (stream * 0x27D4EB2F + 1) & _LOW32


def _fractions(
    begin: Int[Tensor, "batch some"], counter: Int[Tensor, " count"]
) -> Float[Tensor, "batch count"]:
    words = _mix(begin + counter & _LOW32)
    return (_mix(words ^ 0x165667B1) >> 8).float().mul(2.0**-24)


@lru_cache
def _layout(
    draws: tuple[tuple[int, tuple[int, ...]], ...], device: torch.device
) -> tuple[Tensor, Tensor, list[int]]:
    """The stream's word and the counter of every number; made once, outside any captured graph."""
    sizes = [math.prod(shape) for _, shape in draws]
    words = [_word(stream) for stream, _ in draws]
    counter = [number for size in sizes for number in range(size)]
    by_number = torch.tensor(words).repeat_interleave(torch.tensor(sizes))
    return by_number.to(device), torch.tensor(counter, device=device), sizes


def order(numbers: Float[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """The uniform permutation that random numbers stand for: it sorts their last axis."""
    return numbers.argsort(dim=-1, stable=True)


def normal(keys: Int[Tensor, " batch"], stream: int, *shape: int) -> Float[Tensor, "batch *shape"]:
    """Standard normal numbers, by the inverse error function."""
    centred = uniform(keys, stream, *shape).clamp(2.0**-25, 1 - 2.0**-25).mul(2).sub(1)
    return centred.erfinv().mul(2.0**0.5)
