"""Many small runs as one: the updates of a stack of runs, in one captured graph.

Runs of a stack share data, stages and replay coins; they differ in seed, selector, penalty and in
what their optimizers do with a gradient.
Each is a `Trainer` with a folder of its own, which logs, validates, saves and resumes it; the stack
takes over what an update computes. A run of a stack draws the same puzzles, symmetries and coins as
the run alone, but not the same dropout.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from focus.cuda_graphs import Graphs
from focus.curation.config import Stage
from focus.curation.defect import defect_at_rest
from focus.errors import UserError
from focus.folders import find_folder
from focus.model.precision import mixed_precision
from focus.model.solver import solver_of
from focus.model.stacked import StackedSolver, why_not_stacked
from focus.training.config import RunConfig, first_difference
from focus.training.loop import Trainer, holds_a_run
from focus.training.objectives.curated import Curated
from focus.training.puzzles import Progress, load_puzzles
from focus.training.sampler import Sampler
from focus.training.schedule import scheduled
from focus.training.time_limit import TimeLimit


class Stack:
    """Runs that are trained together."""

    def __init__(
        self, runs: Mapping[Path, RunConfig], device: str = "cpu",
        progress: Progress = lambda what, done, total: None,
    ):  # fmt: skip
        """`runs` are configs by folder; a folder that holds a run goes on with it."""
        folders, configs = list(runs), list(runs.values())
        for config in configs:
            if reason := why_not_stackable(config, configs[0]):
                raise UserError(reason)
        puzzles = load_puzzles(configs[0], device, progress)
        self.device = device
        self.trainers = [
            Trainer(config, folder, device, puzzles=puzzles) for folder, config in runs.items()
        ]
        for folder, trainer in zip(folders, self.trainers, strict=True):
            if holds_a_run(folder) or find_folder(folder / "last") is not None:
                trainer.resume()

    def run(
        self, report: Callable[[int, list[dict]], None] = lambda update, lines: None,
        is_over: TimeLimit = lambda: False,
    ) -> None:  # fmt: skip
        """Train all runs to their end; those that a kill left behind catch up first.

        When `is_over` says that the time is, the states of all are saved.
        """
        for trainer in self.trainers:
            trainer.begin()
        end = self.trainers[0].config.optimizer.updates
        while (first := min(trainer.update for trainer in self.trainers)) < end:
            behind = [trainer for trainer in self.trainers if trainer.update == first]
            ahead = [trainer.update for trainer in self.trainers if trainer.update > first]
            until = min(ahead, default=end)
            StackedRuns(behind, self.device).run(until, report, is_over)
            if behind[0].update < until:
                for trainer in behind:
                    trainer.pause()
                break
        for trainer in self.trainers:
            trainer.metrics.close()


class StackedRuns:
    """The updates of runs that are at the same update."""

    def __init__(self, trainers: Sequence[Trainer], device: str):
        self.trainers, self.device = trainers, device
        first, configs = trainers[0], [trainer.config for trainer in trainers]
        self.config, self.puzzles = first.config, first.puzzles
        self.solver = StackedSolver(
            [solver_of(trainer.model, "the model") for trainer in trainers],
            [trainer.step_runner.optimizer.vector for trainer in trainers],
        )
        if self.config.compile and device != "cpu":
            self.solver.compile_parts()
        self.objective = Curated(self.solver, configs, self.puzzles.rows, self.puzzles.distillation)
        self.batch = self.config.optimizer.batch
        seeds = torch.tensor([config.seed for config in configs], device=device)
        self.sampler = Sampler(
            self.puzzles.rows, self.puzzles.own_rows, self.config,
            seeds.repeat_interleave(self.batch),
        )  # fmt: skip
        self.example = torch.arange(self.batch, device=device).repeat(len(trainers))
        self.update = torch.zeros((), dtype=torch.long, device=device)
        captured = self.config.capture and device != "cpu"
        captured = captured and self.solver.backbone.prepare_capture()
        self.graphs = Graphs(device, self._changing, captured)

    def run(
        self, until: int, report: Callable[[int, list[dict]], None], is_over: TimeLimit
    ) -> None:
        """Train until an update, or until the time is over."""
        first = self.trainers[0]
        while first.update < until:
            self.train_update()
            report(first.update, [trainer.after_update() for trainer in self.trainers])
            if is_over():
                break

    def train_update(self) -> None:
        """One update of every run."""
        first = self.trainers[0]
        now = scheduled(first.update, self.config)
        self.objective.begin(now)
        for trainer in self.trainers:  # learning rates may differ
            trainer.step_runner.begin(trainer.update, scheduled(first.update, trainer.config))
        self.solver.train()
        self.update.fill_(first.update)
        self.move(first.replays(0, now.replay_probability), now.stage)
        for trainer in self.trainers:
            trainer.update += 1

    def move(self, replays: bool, stage: Stage) -> None:
        """The device's part of an update: gradients, and a step of every optimizer."""
        key = self.objective.branch(replays, stage)
        self.graphs.run(key, lambda: self._accumulate(replays, stage))
        self.graphs.run("finish", self._finish)

    def _accumulate(self, replays: bool, stage: Stage) -> None:
        with mixed_precision(torch.device(self.device)):
            batch = self.sampler.batch(self.update, self.update, self.example)
            losses = self.objective.losses(batch, replays, stage)
            each = losses.base + self.config.replay.weight * losses.auxiliary
            (each.sum() / self.batch).backward()
        at_rest = defect_at_rest(stage.h, self.config.curation.rho)
        for number, trainer in enumerate(self.trainers):
            rows = slice(number * self.batch, (number + 1) * self.batch)
            loss = each[rows].detach().mean()
            trainer.step_runner.finite.logical_and_(loss.isfinite())
            trainer.step_runner.metric_sums.add_batch(loss, losses.of_rows(rows), at_rest)

    def _finish(self) -> None:
        for trainer in self.trainers:
            trainer.step_runner.move_weights()

    def _changing(self) -> list[Tensor]:
        return [tensor for trainer in self.trainers for tensor in trainer.step_runner.changing()]


def why_not_stackable(config: RunConfig, first: RunConfig) -> str | None:
    """Why a run cannot share its updates with another; None where it can."""
    ours = config.optimizer
    if config.deep_supervision.steps:
        return "runs of a stack have deep-supervision.steps 0"
    as_first = replace(
        config, seed=first.seed, method=first.method, data=first.data,
        replay=replace(config.replay, method=first.replay.method),
        curation=replace(config.curation, beta=first.curation.beta),
        optimizer=replace(
            first.optimizer, kind=ours.kind, accumulate=ours.accumulate, updates=ours.updates,
            batch=ours.batch,
        ),
    )  # fmt: skip
    if ours.kind != "adamw" or ours.accumulate > 1 or config.patience:
        return "runs of a stack have optimizer.kind adamw, optimizer.accumulate 1 and patience 0"
    if config.encode_interval > 1 or config.text_kl.weight:
        return "runs of a stack have encode-batches 1, updates-per-encode 1 and text-kl.weight 0"
    if config.replay.method != first.replay.method and not (
        config.replay.selects and first.replay.selects
    ):
        return "runs of a stack all replay states that a selector chooses, or none does"
    if other := first_difference(as_first, first):
        return (
            "runs of a stack may differ in seed, selector, penalty and optimizer, but not in "
            f"updates and batch; these differ in --{other}"
        )
    return why_not_stacked(config.solver)
