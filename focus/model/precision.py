"""Numbers on a device: bf16 matrix products on a GPU, float32 on a CPU, where bf16 is slower."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor
from torch.nn import functional


def working_dtype(device: torch.device) -> torch.dtype:
    """What activations are kept in."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def mixed_precision(device: torch.device) -> AbstractContextManager:
    """Matrix products in the working precision; trained weights stay float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


EPSILON = 1e-6  # the same for every precision


def rms_norm(x: Tensor) -> Tensor:
    """The last axis scaled to a mean square of 1; the layer that follows learns any scale.

    In the precision of x: from torch 2.13 on autocast makes it float32 on a GPU.
    """
    return functional.rms_norm(x, x.shape[-1:], eps=EPSILON).to(x.dtype)
