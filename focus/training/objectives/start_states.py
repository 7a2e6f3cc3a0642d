"""Where a rollout begins (q_base, q_FM): an initial, a corrupted or a visited state."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
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
    """Initial, corrupted and visited start states in fixed shares of every update.

    Each example has each kind with the probability of its share. The kinds are spread evenly over
    the examples of an update, so that rollouts of few of them give all visited states.
    """

    shares: tuple[float, float, float]
    batch: int  # examples of an update
    runs: int = 1  # that have equal parts of a mini-batch

    def __call__(
        self, solver: Solver, batch: Batch, conditioning: Conditioning, stage: Stage
    ) -> tuple[State, Bool[Tensor, " batch"]]:
        """The states, and which of them are initial."""
        initial, shares = solver.updater.initial(batch.x), self.shares
        if shares[0] == 1.0:
            return initial, torch.ones_like(batch.keys, dtype=torch.bool)
        corrupted = replace(initial, z=solver.task.corrupt(batch.x, batch.y, batch.keys))
        visited = self._visited(solver, batch, conditioning, initial.detach(), stage.K_p)
        draw = batch.stratified
        kind = (draw >= shares[0]).long() + (draw >= shares[0] + shares[1]).long()
        return pick_states([initial, corrupted, visited], kind), kind == 0

    @torch.no_grad()
    def _visited(
        self, solver: Solver, batch: Batch, conditioning: Conditioning, initial: State, K_p: int
    ) -> State:
        """A visited state of the examples that begin with one, the initial state of the others."""
        rows = self._may_be_visited(batch.stratified)
        steps = range(1, K_p + 1)
        with evaluating(solver):
            tau = solver.roll(
                initial.map(lambda tensor: tensor[rows]), conditioning.detach()[rows],
                batch.x[rows], K_p, keep=set(steps),
            )  # fmt: skip
        step = (uniform(batch.keys[rows], Stream.START_STEP) * K_p).long()
        visited = pick_states([tau.states[t] for t in steps], step).tensors()
        return State.of({
            name: tensor.index_copy(0, rows, visited[name])
            for name, tensor in initial.tensors().items()
        })  # fmt: skip

    def _may_be_visited(self, draw: Float[Tensor, " batch"]) -> Int[Tensor, " some"]:
        """As many examples of each run as may begin visited: those with the highest draws."""
        own = draw.view(self.runs, -1)
        share = 1 - self.shares[0] - self.shares[1]
        count = min(own.shape[1], int(share * self.batch + 1e-3) + 1)
        first = torch.arange(self.runs, device=draw.device)[:, None] * own.shape[1]
        return (own.topk(count).indices + first).flatten()


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
