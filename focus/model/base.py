"""What every model has in common, whether it revises its answer or writes it once."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Integral
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from focus.errors import UserError
from focus.model.backbone import Backbone, BackboneConfig
from focus.model.trm import TRMConfig
from focus.model.updater import UpdaterConfig
from focus.settings import Role, Settings
from focus.tasks.base import Codes, Task
from focus.tasks.records import Problem

MOST_STEPS = 100_000  # of a rollout


def check_steps(*numbers: Any) -> None:
    """Refuse numbers of steps K that no rollout can take."""
    for steps in numbers:
        whole = isinstance(steps, Integral) and not isinstance(steps, bool)
        if not whole or not 1 <= steps <= MOST_STEPS:
            raise UserError(f"steps are numbers from 1 to {MOST_STEPS:,}, not {steps!r}")


def check_batch(batch: int | None) -> None:
    """Refuse a number of puzzles at a time that is none; None leaves it to the model."""
    if batch is not None and batch < 1:
        raise UserError(f"batch is a number from 1, not {batch}")


@dataclass(frozen=True)
class SolverConfig(Settings, section="solver"):
    """The parts of a solver, and how it comes to its answer."""

    backbone: BackboneConfig = field(default_factory=BackboneConfig)
    updater: UpdaterConfig = field(default_factory=UpdaterConfig)
    trm: Annotated[TRMConfig, Role.METHOD] = field(default_factory=TRMConfig)
    # written: Base and Direct LoRA SFT; trm: a TRM in place of the updater
    answer: Annotated[Literal["revised", "written", "trm"], Role.METHOD] = "revised"


@dataclass(frozen=True)
class Prediction:
    """The answers of a batch after so many steps."""

    steps: int  # 0 for what is written
    answers: Codes  # (batch, cells)
    z: Float[Tensor, "batch tokens channels"] | None = None  # what they were decoded from
    taken: Int[Tensor, " batch"] | None = None  # steps of each puzzle, with an early stop
    parsed: np.ndarray | None = None  # (batch,) whether a completion states an answer at all


class Model(nn.Module, ABC):
    """A model of a task: it predicts answers, and says what training it takes."""

    def __init__(self, task: Task, config: SolverConfig):
        super().__init__()
        self.task, self.config = task, config
        self.record: tuple[str, dict] | None = None  # config and notes of a loaded checkpoint

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    @abstractmethod
    def language_model(self) -> Any:
        """The language model with its adapter; None where there is no language model."""

    def ahead_encoder(self) -> Backbone | None:
        """The backbone, where a language model could encode ahead of the updates; else None."""
        return None

    @property
    def has_adapter(self) -> bool:
        """Whether a language model with an adapter is part of it."""
        return self.language_model is not None and not self.config.backbone.frozen

    @property
    def adapted_model(self) -> Any:
        """The language model with its adapter; `UserError` where there is none."""
        if not self.has_adapter:
            raise UserError(f"the backbone {self.config.backbone.name}, as trained, has no adapter")
        return self.language_model

    @abstractmethod
    def predict(
        self, x: Problem, questions: Codes, steps: Sequence[int], early_stop: bool = False
    ) -> Iterator[Prediction]:
        """Predictions after each of the rising numbers of steps, in one rollout."""

    @abstractmethod
    def eval_batch_size(self) -> int:
        """Puzzles at a time that keep the device busy."""

    @abstractmethod
    def encoder_bytes(self) -> int:
        """Activations of the language model for one puzzle that a pass back needs."""

    def rollout_bytes(self, steps: int, replayed_steps: int, kept_states: int) -> int:
        """Activations of the rollouts of one puzzle that a pass back needs."""
        return 0

    def compile_parts(self) -> None:
        """Compile what training repeats, for one batch size."""

    def prepare_capture(self) -> bool:
        """Make ready for CUDA graphs; False where none can hold an update."""
        return True


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode (no dropout) inside the block."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)
