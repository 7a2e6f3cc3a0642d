"""The solver: encode x once, revise the answer K times, decode once."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from focus.errors import UserError
from focus.model.backbone import Backbone, build_backbone
from focus.model.base import Model, Prediction, SolverConfig, check_batch, check_steps, evaluating
from focus.model.compiler import compiled
from focus.model.recurrence import Conditioning, Recurrence, Rollout
from focus.model.state import State
from focus.model.trm import TRM
from focus.model.updater import Updater
from focus.tasks.base import Codes, Task
from focus.tasks.records import Problem

_TOKENS, _TOKENS_IF_DEEP = 4096, 1312  # at a time on a CPU, by what was fastest
_USUAL_STEPS = 16  # of a solver that no run has trained


@dataclass(frozen=True)
class Trajectory:
    """The answers of every step, the last state, and the states of the steps to keep."""

    answers: Float[Tensor, "steps batch tokens channels"]  # z_1 ... z_K
    last: State
    states: dict[int, State]  # by number of steps


@dataclass(frozen=True)
class Revision:
    """The answer to a puzzle after some steps."""

    step: int
    answer: str
    valid: bool  # it obeys the rules
    confidence: float  # probability of the decoded answer, mean over the cells that are open
    energy: float | None  # E_x, where the correct answer was given


class Solver(Model):
    """Theta = (theta, phi, psi): updater, adapter, projection.

    solver = Solver.from_pretrained("sudoku-none")
    solver.solve(puzzle)                    # text in, text out; a list gives a list
    for revision in solver.trajectory(puzzle):
        print(revision.step, revision.answer, revision.confidence)
    """

    def __init__(self, task: Task, config: SolverConfig):
        super().__init__(task, config)
        is_trm = config.answer == "trm"
        width = config.trm.width if is_trm else config.updater.width
        self.backbone = build_backbone(task, config.backbone, width)
        self.updater: Recurrence = (
            TRM(task, config.trm) if is_trm else Updater(task, config.updater)
        )
        self.energy = task.energy
        self.loss = task.cross_entropy if self.updater.learns_answer_only else task.loss

    # ------------------------------------------------------------------ for users
    @classmethod
    def from_pretrained(
        cls, name: str | Path, *, revision: str | None = None, token: str | bool | None = None,
        cache_dir: str | Path | None = None, local_files_only: bool = False,
    ) -> "Solver":  # fmt: skip
        """The solver of a release, a checkpoint folder, a run's folder (its best), or a hub id.

        `revision`, `token`, `cache_dir` and `local_files_only` are those of the hub.
        """
        from focus.model.checkpoint import fetch, load_model

        folder = fetch(
            str(name), revision=revision, token=token, cache_dir=cache_dir,
            local_files_only=local_files_only,
        )  # fmt: skip
        return solver_of(load_model(folder), str(name))

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a checkpoint folder: adapter, updater, config, card."""
        from focus.model.checkpoint import save_model

        save_model(self, Path(folder))

    def push_to_hub(
        self, repository: str, *, private: bool = True, commit_message: str | None = None,
        revision: str | None = None, token: str | bool | None = None,
    ) -> str:  # fmt: skip
        """Upload as a checkpoint to the hub; returns its address. Needs `hf auth login`."""
        from focus.model.checkpoint import push

        return push(
            self, repository, private=private, commit_message=commit_message, revision=revision,
            token=token,
        )  # fmt: skip

    @property
    def default_steps(self) -> int:
        """The number of steps K that the checkpoint was validated with."""
        config = {} if self.record is None else json.loads(self.record[0])
        return int(config.get("eval_steps", _USUAL_STEPS))

    def solve(
        self, puzzles: str | Sequence[str], steps: int | None = None, batch: int | None = None
    ) -> str | list[str]:
        """The answer to a puzzle as text, or the answers to several: K steps, one decode.

        `steps` is the checkpoint's own number by default. An answer may be wrong: `task.judge`
        checks it against the rules.
        """
        questions = self._parse(puzzles)
        answers = self.answer(questions, self._steps(steps), batch)
        texts = [self.task.answer_text(answer) for answer in answers]
        return texts[0] if isinstance(puzzles, str) else texts

    @torch.no_grad()
    def trajectory(
        self, puzzles: str | Sequence[str], steps: int | None = None,
        answers: str | Sequence[str] | None = None,
    ) -> Iterator[Any]:  # fmt: skip
        """The `Revision` of every step, from s_0 on; lists of them for several puzzles.

        `answers` are the correct ones, where they are known: the energy needs them.
        """
        task, one = self.task, isinstance(puzzles, str)
        questions = self._parse(puzzles)
        x, y = task.problem(questions).to(self.device), None
        if answers is not None:
            labels = task.encode_answers([answers] if isinstance(answers, str) else list(answers))
            x, y = task.unpack(task.pack(questions, labels).to(self.device))

        def revisions(step: int, state: State) -> list[Revision]:
            decoded = task.decode(state.z, x)
            chosen = task.class_logits(state.z, x).float().softmax(-1)
            chosen = chosen.gather(-1, decoded[..., None])[..., 0] * task.open_tokens(x)
            sure = chosen.sum(-1) / task.open_tokens(x).sum(-1).clamp(min=1)
            energy = [None] * len(questions) if y is None else task.energy(state.z, x, y).tolist()
            texts = map(task.answer_text, task.answer_codes(decoded, x))
            valid = task.obeys(decoded, x).tolist()
            return [
                Revision(step, *values)
                for values in zip(texts, valid, sure.tolist(), energy, strict=True)
            ]

        with evaluating(self):
            rollout = self.rollout(x)
            for step in range(self._steps(steps) + 1):
                each = revisions(step, next(rollout) if step else rollout.state)
                yield each[0] if one else each

    def _steps(self, steps: int | None) -> int:
        steps = self.default_steps if steps is None else steps
        check_steps(steps)
        return steps

    def _parse(self, puzzles: str | Sequence[str]) -> Codes:
        texts = [puzzles] if isinstance(puzzles, str) else list(puzzles)
        if not texts:
            return np.zeros((0, self.task.cells), np.uint8)
        return np.stack([self.task.parse(text) for text in texts])

    # ------------------------------------------------------------------ the parts
    def encode(self, x: Problem, hidden: Tensor | None = None) -> Conditioning:
        """R_{phi,psi}(x) (equation 1) and all else that a rollout needs, computed once.

        `hidden` is what the backbone has read of x already.
        """
        R = self.backbone.project(self.backbone.read(x) if hidden is None else hidden)
        return self.updater.condition(R, x)

    def rollout(self, x: Problem) -> Rollout:
        """The states of a batch from s_0 on."""
        return Rollout(self.updater, x, self.encode(x), self.updater.initial(x))

    def roll(
        self, state: State, conditioning: Conditioning, x: Problem, steps: int,
        keep: Collection[int] = (),
    ) -> Trajectory:  # fmt: skip
        """Apply F `steps` times; keeps the complete states after the chosen numbers of steps."""
        rollout = Rollout(self.updater, x, conditioning, state)
        states = {0: state} if 0 in keep else {}
        answers = []
        for step, reached in enumerate(islice(rollout, steps), 1):
            answers.append(reached.z)
            if step in keep:
                states[step] = reached
        return Trajectory(torch.stack(answers), rollout.state, states)

    @torch.no_grad()
    def answer(self, questions: Codes, steps: int, batch: int | None = None) -> Codes:
        """Answers (rows, cells) to puzzles given as codes (rows, cells)."""
        check_batch(batch)
        batch = batch or self.eval_batch_size()
        answers = [np.zeros((0, self.task.cells), np.uint8)]
        for first in range(0, len(questions), batch):
            part = questions[first : first + batch]
            x = self.task.problem(part).to(self.device)
            answers += [p.answers for p in self.predict(x, part, [steps])]
        return np.concatenate(answers)

    @torch.no_grad()
    def predict(
        self, x: Problem, questions: Codes, steps: Sequence[int], early_stop: bool = False
    ) -> Iterator[Prediction]:
        """The answers after each number of steps, in one rollout.

        With `early_stop`, puzzles whose answers obey the rules take no further steps; whether an
        answer does is seen without knowing the right one.
        """
        task = self.task
        with evaluating(self):
            rollout = self.rollout(x)
            left = torch.arange(len(x), device=self.device)  # puzzles that go on
            z, taken = rollout.state.z.clone(), torch.zeros_like(left)
            for step in range(1, steps[-1] + 1):
                if not early_stop:
                    z = next(rollout).z
                elif len(left):
                    state = next(rollout)
                    z[left], taken[left] = state.z, step
                    goes_on = ~task.obeys(task.decode(state.z, rollout.x), rollout.x)
                    if not goes_on.all():
                        left = left[goes_on]
                        rollout.keep(goes_on)
                if step in steps:
                    codes = task.answer_codes(task.decode(z, x), x)
                    yield Prediction(step, codes, z.clone(), taken.clone() if early_stop else None)

    # ----------------------------------------------------------------- what it costs
    @property
    def language_model(self) -> Any:
        return self.backbone.language_model

    def ahead_encoder(self) -> Backbone | None:
        return self.backbone if self.language_model is not None else None

    def eval_batch_size(self) -> int:
        """Large batches on a GPU, where each launch costs the same; a language model needs memory.

        On a CPU activations should stay near the cache: two mazes at a time are a quarter faster
        than 16 with a language model.
        """
        heavy = self.language_model is not None
        if self.device.type == "cpu":
            deep = heavy or self.updater.relative_step_time > 1
            return max(1, (_TOKENS_IF_DEEP if deep else _TOKENS) // self.task.tokens)
        return 250 if heavy or self.task.padded else 1500

    def encoder_bytes(self) -> int:
        return self.backbone.read_bytes()

    def rollout_bytes(self, steps: int, replayed_steps: int, kept_states: int) -> int:
        return self.updater.rollout_bytes(steps, replayed_steps, kept_states)

    def update_flops(self, steps: int, updates_per_encode: int = 1) -> float:
        """Operations of a base update of one puzzle, forward and back."""
        updater = (1 + self.updater.backward_over_forward()) * self.updater.step_flops() * steps
        return updater + self.backbone.read_flops() / updates_per_encode

    def compile_parts(self) -> None:
        """Compile what training repeats, for one batch size: F, E_x, L_task, decoder layers."""
        self.updater.compile_step()
        self.energy, self.loss = compiled(self.energy), compiled(self.loss)
        self.backbone.compile_layers()


def solver_of(model: Model, name: str) -> Solver:
    """The model as one that revises; `UserError` for one that writes its answer."""
    if not isinstance(model, Solver):
        raise UserError(f"{name} writes its answer; it has no revisions")
    return model
