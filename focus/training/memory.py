"""How much GPU memory a run will need, estimated before it starts.

A sum of weights, what AdamW keeps, and activations that the backward pass needs, counted by the
sizes of the models. A recorded update (CUDA graph) has memory of its own beside that of the runs
that warmed it up, so that its activations count twice. docs/measured/speed.md has the estimates of
language models of 135 million to 8 billion weights beside what an H200 was using.
"""

import math
from dataclasses import dataclass

import torch

from focus.model.backbone import activation_bytes, recompute_activations, recomputes_activations
from focus.model.base import Model
from focus.training.config import RunConfig

_GIB = 2**30
_OVERHEAD = 1.08  # fragmentation and libraries, fitted to docs/results/bench-language-models.json
_FULL = 0.9  # of a device's memory, which others may use as well
_RECORDED = 2  # activations of an update that is recorded


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
        return _OVERHEAD * (self.weights + self.optimizer + self.language_model + self.updater)

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
    # Carried states are replayed in place of new puzzles, without further steps.
    adds_steps = replays and not config.deep_supervision.steps
    replayed_steps = max(h for _, _, h in config.replay.stages) if adds_steps else 0
    kept_states = len(config.curation.candidates) if replays else 0
    rollouts = model.rollout_bytes(config.steps, replayed_steps, kept_states)
    recorded = _RECORDED if config.capture else 1
    ahead = config.encode_interval > 1 or recomputes_activations(model)
    read = config.encode_batches * batch * model.encoder_bytes()
    text = config.text_kl
    if text.weight:  # float32 over the vocabulary: logits, both distributions, a gradient
        language_model = model.language_model
        tokens = text.length * language_model.config.vocab_size
        read += text.texts * (activation_bytes(language_model, text.length) + 16 * tokens)
    return MemoryEstimate(
        weights / _GIB,
        4 * copies * trained / _GIB,
        (1 if ahead else recorded) * read / _GIB,
        recorded * batch * rollouts / _GIB,
    )


def fit_memory(model: Model, config: RunConfig, device: str, processes: int = 1) -> MemoryEstimate:
    """The estimate, with activations recomputed where that is left open and they would not fit."""
    estimate = estimate_memory(model, config, processes)
    left_open = config.solver.backbone.gradient_checkpointing is None
    if (
        left_open
        and model.language_model is not None
        and estimate.total > _FULL * memory_of(device)
    ):
        recompute_activations(model.language_model)
        estimate = estimate_memory(model, config, processes)
    return estimate


def memory_of(device: str) -> float:
    """GiB of a device; a CPU's are not counted."""
    if device == "cpu":
        return math.inf
    return torch.cuda.get_device_properties(device).total_memory / _GIB
