"""A training state small enough to move between machines: 5 bytes a weight, 7 with an average.

- weights, 3 bytes: float32 rounded to its upper 24 bits, at most 2^-16 off;
- averages, 2 bytes: how they differ from the weights, in bf16;
- first moments, 1 byte: float8 with a scale per tensor; forgotten within some ten updates;
- second moments, 1 byte: 255 values between the lowest and the highest of a tensor, evenly spaced
  by logarithm. Over ten decades they are at most 5 % off, and a step of AdamW by half of that.

All else, steps and sums of metrics, is stored as it is.
"""

from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import pad

from focus.errors import UserError

_LARGEST_8_BIT = 448.0  # of float8_e4m3fn
_SPACES = 254  # between the 255 values of a second moment; the byte 0 is a zero
# Second moments below it are stored as it: their root is a hundredth of AdamW's epsilon.
_NEGLIGIBLE = 1e-20

Tensors = dict[str, Tensor]


def reduce_state(tensors: Tensors) -> Tensors:
    """The tensors of a state by KIND/NAME, and by scale/NAME and range/NAME what restores them."""
    small: Tensors = {}
    for name, value in tensors.items():
        kind, weight = name.split("/", 1)
        if kind == "weights":
            small[name] = _to_24_bits(value)
        elif kind == "average":
            stored_weight = _from_24_bits(_to_24_bits(tensors[f"weights/{weight}"]))
            small[name] = (value - stored_weight).bfloat16()
        elif kind == "exp_avg":
            scale = value.abs().max().clamp(min=1e-30) / _LARGEST_8_BIT
            small[name] = (value / scale).to(torch.float8_e4m3fn)
            small[f"scale/{weight}"] = scale
        elif kind == "exp_avg_sq":
            small[name], small[f"range/{weight}"] = _to_8_bits(value)
        else:
            small[name] = value
    return small


def restore_state(tensors: Tensors, path: Path) -> Tensors:
    """The inverse of `reduce_state`, but for what was rounded; `path` is for errors."""
    weights = {name: value for name, value in tensors.items() if name.startswith("weights/")}
    if any(value.dtype != torch.uint8 for value in weights.values()):
        raise UserError(
            f"{path} holds a portable state of another version: the run cannot go on; choose "
            "another folder to begin again"
        )
    whole = {name: _from_24_bits(value) for name, value in weights.items()}
    for name, value in whole.items():
        if not value.isfinite().all():  # bytes do not show it when they are read
            raise UserError(f"{path} is damaged: {name} holds values that are not finite")
    for name, value in tensors.items():
        kind, weight = name.split("/", 1)
        if kind == "average":
            whole[name] = whole[f"weights/{weight}"] + value.float()
        elif kind == "exp_avg":
            whole[name] = value.float() * tensors[f"scale/{weight}"]
        elif kind == "exp_avg_sq":
            whole[name] = _from_8_bits(value, tensors[f"range/{weight}"])
        elif kind not in ("weights", "scale", "range"):
            whole[name] = value.float()
    return whole


def _to_24_bits(value: Tensor) -> Tensor:
    """Bytes (*shape, 3) of float32 (*shape), rounded to nearest, ties to even."""
    bits = value.contiguous().view(torch.int32)
    rounded = bits + 0x7F + ((bits >> 8) & 1)
    bits = torch.where(value.isfinite(), rounded, bits)  # NaN would become a number
    return bits[..., None].view(torch.uint8)[..., 1:]


def _from_24_bits(value: Tensor) -> Tensor:
    return pad(value, (1, 0)).view(torch.float32)[..., 0]


def _to_8_bits(value: Tensor) -> tuple[Tensor, Tensor]:
    """Bytes of numbers from 0, and the logarithms of the lowest and highest above 0."""
    logarithms = value.clamp(min=_NEGLIGIBLE).log2()
    highest = logarithms.max()
    lowest = torch.where(value > 0, logarithms, highest).min()
    space = ((highest - lowest) / _SPACES).clamp(min=1e-6)  # all may be equal
    place = 1 + ((logarithms - lowest) / space).round()
    return (place * (value > 0)).to(torch.uint8), torch.stack([lowest, highest])


def _from_8_bits(value: Tensor, ends: Tensor) -> Tensor:
    lowest, highest = ends
    logarithms = lowest + (value.float() - 1) * ((highest - lowest) / _SPACES)
    return logarithms.exp2() * (value > 0)
