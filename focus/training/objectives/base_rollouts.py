"""l_base: rollouts from q_base with the task loss, and what is added to it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from focus.curation.config import Stage
from focus.curation.records import BaseLoss, Batch
from focus.model.recurrence import Conditioning
from focus.model.solver import Solver
from focus.model.state import State
from focus.tasks.base import StepWeights

Starts = Callable[
    [Solver, Batch, Conditioning, Stage], tuple[State, Bool[Tensor, " batch"]]
]  # start states, and which of them are initial
Term = Callable[
    [Float[Tensor, "steps batch tokens channels"], Batch], Float[Tensor, " batch"]
]  # a loss of the answers of an initial-state rollout


@dataclass(frozen=True)
class BaseRollouts:
    """The base loss of a mini-batch."""

    steps: int
    step_weights: StepWeights
    starts: Starts
    halt_weight: float  # of what the recurrence learns besides its answer
    terms: Sequence[Term] = ()  # of rollouts from s_0 alone, such as distillation

    def __call__(
        self, solver: Solver, batch: Batch, conditioning: Conditioning, stage: Stage,
        from_initial: bool,
    ) -> BaseLoss:  # fmt: skip
        """`from_initial` asks for s_0 in place of q_base."""
        x, y = batch.x, batch.y
        if from_initial:
            start = solver.updater.initial(x)
            initial = torch.ones_like(batch.keys, dtype=torch.bool)
        else:
            start, initial = self.starts(solver, batch, conditioning, stage)
        rollout = solver.roll(start, conditioning, x, self.steps)
        loss = solver.loss(rollout.answers, x, y, self.step_weights)
        exact = solver.task.exact(rollout.answers[-1], x, y).float()
        loss = loss + self.halt_weight * solver.updater.halting_loss(rollout.last, exact)
        for term in self.terms:
            loss = loss + term(rollout.answers, batch) * initial
        return BaseLoss(loss, exact, rollout.last)
