"""Deep supervision: puzzles stay for several updates, and so do their states.

An update goes on from where the last one left a puzzle, detached; it is replaced by a new puzzle
after `steps` updates, or before, when the model believes its answer (`halt`) and has done the
least number of steps drawn for it.
"""

from collections.abc import Hashable
from contextlib import nullcontext
from dataclasses import replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from focus.curation.config import Stage
from focus.curation.records import Batch, Losses
from focus.model.recurrence import Conditioning
from focus.model.solver import Solver
from focus.model.state import State
from focus.tasks.records import TensorRecord
from focus.training.config import RunConfig
from focus.training.objectives.base_rollouts import BaseRollouts
from focus.training.objectives.carried_replay import CarriedReplay
from focus.training.objectives.carried_states import CarriedStates
from focus.training.objectives.curated import selector_of
from focus.training.objectives.objective import Objective
from focus.training.schedule import Scheduled


class DeepSupervision(Objective):
    """Base rollouts that go on from carried states, which may be replayed (`carried_replay.py`)."""

    def __init__(self, solver: Solver, config: RunConfig, rows: TensorRecord, batch: int):
        x, _ = solver.task.unpack(rows[torch.zeros(batch, dtype=torch.long)])
        supervision = config.deep_supervision
        self.solver = solver
        self.carried = CarriedStates(supervision, solver.updater.initial(x.to(solver.device)))
        self.base = BaseRollouts(
            config.steps, config.step_weights, self._starts, supervision.halt_weight
        )
        self.replay: CarriedReplay | None = None
        if config.replay.method != "none":
            self.replay = CarriedReplay(
                self.carried, solver, config.curation, selector_of(config), config.steps_per_t
            )
        self.depth: tuple[int, int] | None = None

    def _starts(
        self, solver: Solver, batch: Batch, conditioning: Conditioning, stage: Stage
    ) -> tuple[State, Bool[Tensor, " batch"]]:
        return self.carried.start(solver.updater.initial(batch.x)), self.carried.ended

    def begin(self, scheduled: Scheduled) -> None:
        self.depth = scheduled.depth
        if self.replay is not None:
            self.replay.probability.fill_(scheduled.replay_probability)

    def draw_puzzles(self, update: Tensor, usual: Tensor) -> Int[Tensor, " batch"]:
        return self.carried.draw(update)

    def branch(self, replays: bool, stage: Stage) -> Hashable:
        return (self.depth, *(() if self.replay is None else stage))

    def losses(self, batch: Batch, replays: bool, stage: Stage) -> Losses:
        solver = self.solver
        if self.replay is not None:
            start = self.carried.start(solver.updater.initial(batch.x))
            self.replay.before_step(start, batch.x, batch.y)
        with nullcontext() if self.depth is None else solver.updater.at_depth(*self.depth):
            base = self.base(solver, batch, solver.encode(batch.x), stage, from_initial=False)
        return replace(Losses.zero(batch), base=base.loss, exact=base.exact, last=base.last)

    def after_backward(self, batch: Batch, losses: Losses, stage: Stage) -> Losses:
        assert losses.last is not None
        self.carried.keep(losses.last, self.solver.updater, batch.puzzle_keys)
        return losses if self.replay is None else self.replay.after_step(batch, losses, stage.h)

    def tensors(self) -> dict[str, Tensor]:
        replayed = {} if self.replay is None else self.replay.tensors()
        named = {f"carried_replay.{name}": tensor for name, tensor in replayed.items()}
        return {**self.carried.tensors(), **named}
