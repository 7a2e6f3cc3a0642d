"""FOCUS and the methods it is compared with: Algorithm 1 with one choice of states or another."""

from collections.abc import Hashable, Sequence

import torch

from focus.curation.algorithm import Algorithm1, SelfTrajectory, StateChooser
from focus.curation.config import Stage
from focus.curation.records import Batch, Losses
from focus.curation.selectors import SELECTORS, Selector
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


def chooser_of(config: RunConfig) -> StateChooser:
    """How a method chooses the states that are replayed."""
    if config.replay.method in ("fixed-mix", "none"):  # none never replays
        return FixedMix(Mixture(config.replay.fixed_mixture))
    return SelfTrajectory(selector_of(config), config.curation)


class Curated(Objective):
    """Base rollouts and, when the coin says so, the replay of a chosen state."""

    def __init__(
        self, solver: Solver, config: RunConfig, rows: TensorRecord,
        distillation: Distillation | None = None,
    ):  # fmt: skip
        """`rows` are the training puzzles."""
        replay = config.replay
        self.solver, self.distillation = solver, distillation
        self.mixes = replay.base_mixture[0] < 1
        base = BaseRollouts(
            config.steps, config.step_weights, Mixture(replay.base_mixture),
            config.deep_supervision.halt_weight, [] if distillation is None else [distillation],
        )  # fmt: skip
        may_be_empty = replay.selects and (
            replay.base_always
            or not always_a_candidate(config.task, rows, config.curation.candidates)
        )
        self.algorithm = Algorithm1(
            chooser_of(config), base, config.curation, replay.base_always, may_be_empty
        )

    def begin(self, scheduled: Scheduled) -> None:
        if self.distillation is not None:
            self.distillation.set_weight(scheduled.teacher_weight)

    def branch(self, replays: bool, stage: Stage) -> Hashable:
        distils = self.distillation is not None and self.distillation.active
        return (distils, replays, *(stage if replays or self.mixes else ()))

    def losses(self, batch: Batch, replays: bool, stage: Stage) -> Losses:
        return self.algorithm(self.solver, batch, replays, stage)


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
