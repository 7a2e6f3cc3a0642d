"""FOCUS and the methods it is compared with: Algorithm 1 with one choice of states or another."""

from collections.abc import Hashable, Sequence
from dataclasses import fields

import torch
from torch import Tensor

from focus.curation.algorithm import Algorithm1, SelfTrajectory, StateChooser
from focus.curation.config import Stage
from focus.curation.records import Batch, Losses
from focus.curation.selectors import SELECTORS, Selector, Several
from focus.model.solver import Solver
from focus.tasks.base import Task
from focus.tasks.records import TensorRecord
from focus.training.config import RunConfig
from focus.training.objectives.base_rollouts import BaseRollouts
from focus.training.objectives.distillation import Distillation
from focus.training.objectives.objective import Objective
from focus.training.objectives.start_states import FixedMix, Mixture
from focus.training.schedule import Scheduled

_AT_A_TIME = 1024  # puzzles


def selector_of(config: RunConfig) -> Selector:
    """The selector of a replay method."""
    return SELECTORS[config.replay.method](config.curation.gamma)


def mixture_of(configs: Sequence[RunConfig], shares: tuple[float, float, float]) -> Mixture:
    """Start states for a batch that methods have equal parts of."""
    return Mixture(shares, configs[0].optimizer.batch, len(configs))


def chooser_of(configs: Sequence[RunConfig]) -> StateChooser:
    """How methods choose the states that are replayed, each for its part of a batch."""
    first = configs[0]
    if not first.replay.selects:  # none never replays
        return FixedMix(mixture_of(configs, first.replay.fixed_mixture))
    selectors = tuple(selector_of(config) for config in configs)
    selector = selectors[0] if len(selectors) == 1 else Several(selectors)
    return SelfTrajectory(selector, first.curation)


class Curated(Objective):
    """Base rollouts and, when the coin says so, the replay of a chosen state."""

    def __init__(
        self, solver: Solver, configs: Sequence[RunConfig], rows: TensorRecord,
        distillation: Distillation | None = None,
    ):  # fmt: skip
        """`rows` are the training puzzles.

        Several configs, of the runs of a stack, differ here in seed, selector and penalty alone.
        """
        config = configs[0]
        replay = config.replay
        self.solver, self.distillation = solver, distillation
        self.mixes = replay.base_mixture[0] < 1
        base = BaseRollouts(
            config.steps, config.step_weights, mixture_of(configs, replay.base_mixture),
            config.deep_supervision.halt_weight, [] if distillation is None else [distillation],
        )  # fmt: skip
        may_be_empty = replay.selects and (
            replay.base_always
            or not always_a_candidate(config.task, rows, config.curation.candidates)
        )
        self.algorithm = Algorithm1(
            chooser_of(configs), base, config.curation, _beta(configs, rows), replay.base_always,
            may_be_empty,
        )  # fmt: skip

    def begin(self, scheduled: Scheduled) -> None:
        if self.distillation is not None:
            self.distillation.set_weight(scheduled.teacher_weight)

    def branch(self, replays: bool, stage: Stage) -> Hashable:
        distils = self.distillation is not None and self.distillation.active
        return (distils, replays, *(stage if replays or self.mixes else ()))

    def losses(self, batch: Batch, replays: bool, stage: Stage) -> Losses:
        return self.algorithm(self.solver, batch, replays, stage)


def _beta(configs: Sequence[RunConfig], rows: TensorRecord) -> float | Tensor:
    """The weight of the penalty: one, or where runs differ in it one for each example."""
    weights = [config.curation.beta for config in configs]
    if len(set(weights)) == 1:
        return weights[0]
    device = getattr(rows, fields(rows)[0].name).device
    return torch.tensor(weights, device=device).repeat_interleave(configs[0].optimizer.batch)


@torch.no_grad()
def always_a_candidate(task: Task, rows: TensorRecord, candidates: Sequence[int]) -> bool:
    """Whether C_x is never empty: s_0 is in it, unsolved for every stored puzzle.

    So it is with mazes whose paths are long. Their replay then needs no fallback.
    """
    solved = torch.ones(1, 1, dtype=torch.bool)
    if 0 not in candidates or not task.eligible(~solved, solved, solved[0]).all():
        return False
    for variant in task.variants(rows):
        for first in range(0, len(rows), _AT_A_TIME):
            x, y = task.unpack(variant[first : first + _AT_A_TIME])
            if task.exact(task.initial(x), x, y).any():
                return False
    return True
