"""How much GPU memory a run will need, told before it starts.

A rough sum: weights, what AdamW keeps, and activations that the backward pass needs. It counts
tensors by the sizes of the models, not by running them, and errs upwards: for `sudoku-quick` with
SmolLM2 and `encode_batches` 4 it says 118 GiB, where an H200 was using 85.
"""

import math
from dataclasses import dataclass

import torch

from focus.model.backbone import recompute_activations
from focus.model.base import Model
from focus.training.config import RunConfig

_GIB = 2**30
_LOST = 1.2  # fragments and what libraries keep


@dataclass(frozen=True)
class MemoryEstimate:
    """GiB by purpose."""

    weights: float
    optimizer: float
    language_model: float
    updater: float

    @property
    def total(self) -> float:
        """All of it."""
        return _LOST * (self.weights + self.optimizer + self.language_model + self.updater)

    def __str__(self) -> str:
        return (
            f"about {self.total:.1f} GiB: weights {self.weights:.1f}, optimizer "
            f"{self.optimizer:.1f}, activations {self.language_model:.1f} (language model) and "
            f"{self.updater:.1f} (updater)"
        )


def estimate_memory(model: Model, config: RunConfig, processes: int = 1) -> MemoryEstimate:
    """GiB that training this model takes on each of the processes."""
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    batch = config.optimizer.batch // config.optimizer.accumulate
    if config.optimizer.accumulate % processes:
        batch = max(1, batch // processes)
    copies = 4 if config.optimizer.ema else 3  # gradient, two moments, average
    replays = config.replay.method != "none"
    replayed_steps = max(h for _, _, h in config.replay.stages) if replays else 0
    kept_states = len(config.curation.candidates) if replays else 0
    rollouts = model.rollout_bytes(config.steps, replayed_steps, kept_states)
    return MemoryEstimate(
        weights / _GIB,
        4 * copies * trained / _GIB,
        config.encode_batches * batch * model.encoder_bytes() / _GIB,
        batch * rollouts / _GIB,
    )


def fit_memory(model: Model, config: RunConfig, device: str, processes: int = 1) -> MemoryEstimate:
    """The estimate, with activations recomputed where that is left open and they would not fit."""
    estimate = estimate_memory(model, config, processes)
    left_open = config.solver.backbone.gradient_checkpointing is None
    if left_open and model.language_model is not None and estimate.total > memory_of(device):
        recompute_activations(model.language_model)
        estimate = estimate_memory(model, config, processes)
    return estimate


def memory_of(device: str) -> float:
    """GiB of a device; a CPU's are not counted."""
    if device == "cpu":
        return math.inf
    return torch.cuda.get_device_properties(device).total_memory / _GIB
