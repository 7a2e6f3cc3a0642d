"""Activations keep the precision they are computed in."""

import torch
from torch.nn import functional

from focus.model.layers import RMSNorm
from focus.model.precision import rms_norm


def test_a_norm_keeps_the_precision_of_its_input(monkeypatch):
    """Autocast of torch 2.13 on a GPU computes norms in float32, as this stand-in does."""
    norm = functional.rms_norm
    monkeypatch.setattr(
        functional, "rms_norm", lambda *words, **named: norm(*words, **named).float()
    )
    x = torch.randn(2, 3, 8, dtype=torch.bfloat16)
    several = RMSNorm(8)
    weight = torch.ones(2, 8)
    for normed in (
        rms_norm(x), RMSNorm(8)(x), torch.func.functional_call(several, {"weight": weight}, x),
    ):  # fmt: skip
        assert normed.dtype == torch.bfloat16
