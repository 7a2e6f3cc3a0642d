"""The solver: encode x once, revise the answer K times, decode once."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from focus.errors import UserError
from focus.model.backbone import BackboneConfig, LanguageModel, build_backbone
from focus.model.compiler import compiled
from focus.model.state import State
from focus.model.trm import TRM, TRMConfig
from focus.model.updater import Updater, UpdaterConfig
from focus.tasks.base import Codes, Task
from focus.tasks.records import Problem


@dataclass(frozen=True)
class SolverConfig:
    """The two parts of a solver, and how it comes to its answer."""

    backbone: BackboneConfig = field(default_factory=BackboneConfig)
    updater: UpdaterConfig = field(default_factory=UpdaterConfig)
    trm: TRMConfig = field(default_factory=TRMConfig)
    # written: Base and Direct LoRA SFT; trm: a TRM in place of the updater
    answer: Literal["revised", "written", "trm"] = "revised"


@dataclass(frozen=True)
class Rollout:
    """The answers of every step, the last state, and the states that were to be kept."""

    answers: Float[Tensor, "steps batch tokens channels"]  # z_1 ... z_K
    last: State
    kept: dict[int, State]


class Solver(nn.Module):
    """Theta = (theta, phi, psi): updater, adapter, projection."""

    def __init__(self, task: Task, config: SolverConfig):
        super().__init__()
        self.task, self.config = task, config
        is_trm = config.answer == "trm"
        width = config.trm.width if is_trm else config.updater.width
        self.backbone = build_backbone(task, config.backbone, width)
        self.updater = TRM(task, config.trm) if is_trm else Updater(task, config.updater)
        self.energy = task.energy
        plain = is_trm and config.trm.targets == "answer"
        self.loss = task.cross_entropy if plain else task.loss
        self.record: tuple[str, dict] | None = None  # config and notes of a loaded checkpoint

    def compile_parts(self) -> None:
        """Compile what training repeats, for one batch size: F, E_x, L_task, decoder layers."""
        self.updater.compile_step()
        self.energy, self.loss = compiled(self.energy), compiled(self.loss)
        if isinstance(self.backbone, LanguageModel):
            for layer in getattr(self.backbone.decoder(), "layers", ()):
                layer.compile(dynamic=False)

    def encode(self, x: Problem, read: Tensor | None = None) -> Any:
        """R_{phi,psi}(x) and all else that a rollout needs, computed once.

        `read` is what the backbone has read of x already.
        """
        R = self.backbone.project(self.backbone.read(x) if read is None else read)
        return self.updater.condition(R, x)

    def roll(
        self, state: State, conditioning: Any, x: Problem, steps: int,
        keep: Collection[int] = (),
    ) -> Rollout:  # fmt: skip
        """Apply F `steps` times; keeps the complete states after the chosen numbers of steps."""
        answers, kept = [], {}
        if 0 in keep:
            kept[0] = state
        for step in range(1, steps + 1):
            state = self.updater(state, conditioning, x)
            answers.append(state.z)
            if step in keep:
                kept[step] = state
        return Rollout(torch.stack(answers), state, kept)

    @classmethod
    def from_pretrained(cls, name: str | Path) -> "Solver":
        """The solver of a checkpoint folder, of a run's folder (its best), or of a hub id."""
        from focus.model.checkpoint import fetch, load_model

        model = load_model(fetch(str(name)))
        if not isinstance(model, Solver):
            raise UserError(f"{name} writes its answer; focus.model.checkpoint.load_model loads it")
        return model

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a checkpoint folder: adapter, updater, config, card."""
        from focus.model.checkpoint import save_model

        save_model(self, Path(folder))

    def push_to_hub(self, repository: str, private: bool = True) -> str:
        """Upload as a checkpoint to the hub; returns its address. Needs `hf auth login`."""
        from focus.model.checkpoint import push

        return push(self, repository, private)

    @torch.no_grad()
    def solve(self, questions: Codes, steps: int, batch: int = 256) -> Codes:
        """Answers of puzzles given as codes (rows, cells): K updates, one decode."""
        device = next(self.parameters()).device
        answers: list[Codes] = []
        with evaluating(self):
            for first in range(0, len(questions), batch):
                part = questions[first : first + batch]
                x, _ = self.task.unpack(self.task.pack(part, part).to(device))
                rollout = self.roll(self.updater.initial(x), self.encode(x), x, steps)
                answers.append(self.task.answer_codes(self.task.decode(rollout.last.z, x), x))
        return np.concatenate(answers)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode (no dropout) inside the block."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)
