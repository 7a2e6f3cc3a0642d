"""Where a rollout begins (q_base, q_FM): an initial, a corrupted or a visited state."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool
from torch import Tensor

from focus.curation.config import Stage
from focus.curation.records import Batch, Selection
from focus.model.base import evaluating
from focus.model.recurrence import Conditioning
from focus.model.solver import Solver
from focus.model.state import State, pick_states
from focus.random import Stream, uniform


@dataclass(frozen=True)
class Mixture:
    """Start states drawn from initial, corrupted and visited ones in fixed shares."""

    shares: tuple[float, float, float]

    def __call__(
        self, solver: Solver, batch: Batch, conditioning: Conditioning, stage: Stage
    ) -> tuple[State, Bool[Tensor, " batch"]]:
        """The states, and which of them are initial."""
        x, y, keys, K_p, shares = batch.x, batch.y, batch.keys, stage.K_p, self.shares
        initial = solver.updater.initial(x)
        if shares[0] == 1.0:
            return initial, torch.ones_like(keys, dtype=torch.bool)
        corrupted = replace(initial, z=solver.task.corrupt(x, y, keys))
        with torch.no_grad(), evaluating(solver):
            steps = range(1, K_p + 1)
            tau = solver.roll(initial, conditioning.detach(), x, K_p, keep=set(steps))
        step = (uniform(keys, Stream.START_STEP) * K_p).long()
        visited = pick_states([tau.states[t] for t in steps], step).detach()
        draw = uniform(keys, Stream.START_KIND)
        kind = (draw >= shares[0]).long() + (draw >= shares[0] + shares[1]).long()
        return pick_states([initial, corrupted, visited], kind), kind == 0


@dataclass(frozen=True)
class FixedMix:
    """Fixed Mix: the replayed state is drawn from the mixture, whatever the model can do."""

    mixture: Mixture

    def __call__(
        self, solver: Solver, batch: Batch, conditioning: Conditioning, stage: Stage
    ) -> Selection:
        """Every example is replayed."""
        state, _ = self.mixture(solver, batch, conditioning, stage)
        no = torch.zeros_like(batch.keys, dtype=torch.bool)
        return Selection(state, from_candidates=~no, solved=no, ends_exact=no)
