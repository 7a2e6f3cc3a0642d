"""How much GPU memory a run will need, told before it starts.

A rough sum: weights, what AdamW keeps, and activations that the backward pass needs. It counts
tensors by the sizes of the models, not by running them, and errs upwards: for `sudoku-quick` with
SmolLM2 and `read_ahead` 4 it says 118 GiB, where an H200 was using 85.
"""

from dataclasses import dataclass

from torch import nn

from focus.model.backbone import LanguageModel
from focus.model.checkpoint import Model
from focus.model.solver import Solver
from focus.model.trm import TRM
from focus.training.config import RunConfig

_GIB = 2**30
_LM_TENSORS = 11  # stored activations of a decoder layer, in widths per token (bf16),
_LM_HIDDEN = 4  # and in widths of its hidden part
_UPDATER_TENSORS = 24  # stored activations of an updater layer, in widths per token (bf16)
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
    return MemoryEstimate(
        weights / _GIB,
        4 * copies * trained / _GIB,
        config.read_ahead * batch * _language_model_bytes(model) / _GIB,
        batch * _updater_bytes(model, config) / _GIB,
    )


def _language_model_bytes(model: Model) -> int:
    """Activations of one prompt."""
    if isinstance(model, Solver):
        if not isinstance(model.backbone, LanguageModel):
            return 0
        language_model, length = model.backbone.model, len(model.backbone.prompt.template)
        vocabulary = 0
    else:
        language_model, length = model.model, sum(model.lengths)
        vocabulary = 10 * length * language_model.config.vocab_size  # logits, in two precisions
    config = language_model.config
    # Models of GPT-2's kind have four times their width unless they say otherwise.
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    wide = _LM_TENSORS * config.hidden_size + _LM_HIDDEN * inner
    layers = config.num_hidden_layers
    if _checkpointing(language_model):
        return 2 * length * (layers * config.hidden_size + wide) + vocabulary
    return 2 * length * layers * wide + vocabulary


def _checkpointing(model: nn.Module) -> bool:
    return any(getattr(part, "gradient_checkpointing", False) for part in model.modules())


def _updater_bytes(model: Model, config: RunConfig) -> int:
    """Activations of the rollouts that are back-propagated through."""
    if not isinstance(model, Solver):
        return 0
    if isinstance(model.updater, TRM):  # only one cycle of a step has gradients
        trm = model.updater.config
        layers = (trm.inner + 1) * trm.layers * config.steps
        # Both latents of the states that a puzzle may come back to.
        states = len(config.curation.candidates) if config.replay.method != "none" else 0
        per_token = layers * _UPDATER_TENSORS + 2 * states
        return 2 * model.task.tokens * trm.width * per_token
    sizes = model.updater.config
    tokens = model.task.tokens + sizes.registers
    replayed = max(h for _, _, h in config.replay.stages) if config.replay.method != "none" else 0
    layer = tokens * sizes.width * _UPDATER_TENSORS
    return 2 * (config.steps + replayed) * sizes.layers * layer
