"""Dropout for compiled code: a hash of a number's place and a seed decides whether it stays.

A compiler draws a number of Philox for every element, a hundred instructions that are most of the
kernel they end up in. Ten instructions of a 32-bit hash serve as well here, and cost nothing beside
reading and writing the numbers.
"""

import torch
from jaxtyping import Int
from torch import Tensor, nn

_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B - (1 << 32)  # the "lowbias32" constants of Wellons


def draw_seeds(count: int, device: torch.device) -> Int[Tensor, " count"]:
    """Fresh seeds from the device's generator."""
    return torch.randint(-(1 << 31), 1 << 31, (count,), dtype=torch.int32, device=device)


def hashed_dropout(x: Tensor, share: float, seed: Int[Tensor, ""]) -> Tensor:
    """Zero a share of the numbers and scale up the rest, as `dropout` does."""
    place = torch.arange(x.numel(), dtype=torch.int32, device=x.device).view(x.shape)
    keep_mask = _mix(_mix(place) ^ seed) >= int(share * (1 << 32)) - (1 << 31)
    return torch.where(keep_mask, x * (1 / (1 - share)), 0.0)


class HashedDropout(nn.Module):
    """Dropout by a hash as a layer; whoever runs it sets its seed before every pass."""

    def __init__(self, share: float):
        super().__init__()
        self.share = share
        self.seed: Int[Tensor, ""] | None = None

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        assert self.seed is not None, "a training pass without seeds"
        return hashed_dropout(x, self.share, self.seed)


def _mix(word: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """A hash of 32-bit words; products wrap around, shifts bring in zeros."""
    word = word ^ ((word >> 16) & 0xFFFF)
    word = word * _FIRST
    word = word ^ ((word >> 15) & 0x1FFFF)
    word = word * _SECOND
    return word ^ ((word >> 16) & 0xFFFF)
