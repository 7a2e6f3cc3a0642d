"""Algorithm 1 of the paper: the losses of one mini-batch.

`[n]` is line n of Algorithm 1, `(n)` equation n; [5] is the batch axis. Around it stand the loop
over updates and mini-batches (`training/loop.py`, [1] to [4]), what l_base is made of
(`training/objectives/`, [6]), and the sum with w_aux and the step of the optimizer
(`training/step_runner.py`, [22] to [25]). The auxiliary loss comes first here, because only then it
is known which examples fall back to l_base ([18], [19]).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from focus.curation.config import CurationConfig, Stage
from focus.curation.defect import contraction_defect, defect_penalty
from focus.curation.records import BaseLoss, Batch, Losses, Scores, Selection
from focus.curation.selectors import Selector
from focus.model.base import evaluating
from focus.model.recurrence import Conditioning
from focus.model.solver import Solver
from focus.model.state import pick_states
from focus.random import Stream, uniform
from focus.tasks.records import constant

StateChooser = Callable[[Solver, Batch, Conditioning, Stage], Selection]
BaseLossFunction = Callable[[Solver, Batch, Conditioning, Stage, bool], BaseLoss]


@dataclass(frozen=True)
class Algorithm1:
    """The losses of a mini-batch, for a way to choose states and a base loss."""

    choose: StateChooser
    base: BaseLossFunction
    config: CurationConfig
    beta: float | Float[Tensor, " batch"]  # weight of the penalty: one, or one for each example
    base_always: bool  # Sudoku; on mazes replay takes the place of the base loss
    may_be_empty: bool  # whether some example may have no candidate

    def __call__(self, solver: Solver, batch: Batch, replays: bool, stage: Stage) -> Losses:
        """l_base and l_aux of every example; `replays` is the coin a of [4]."""
        # [14] R with gradients, once for all rollouts: the same gradient as computing it again, up
        # to the adapter's dropout, which they share.
        conditioning = solver.encode(batch.x, batch.hidden)  # (1)
        losses = Losses.zero(batch)  # [7]
        not_replayed = torch.ones_like(batch.keys, dtype=torch.bool)
        if replays:  # [8]
            selection = self.choose(solver, batch, conditioning, stage)  # [9] to [13]
            l_aux = replay_loss(
                solver, batch, conditioning, selection, stage, self.config, self.beta
            )
            losses = replace(
                losses, auxiliary=l_aux, selection=selection, exact=selection.ends_exact.float(),
                replayed=selection.from_candidates.float(),
            )  # fmt: skip
            not_replayed = ~selection.replayed
        in_its_place = replays and not self.base_always  # Maze: l_base or l_aux, never both
        if not in_its_place or self.may_be_empty:  # [6]
            base = self.base(solver, batch, conditioning, stage, in_its_place)
            l_base = base.loss * not_replayed if in_its_place else base.loss  # [18], [19]
            losses = replace(losses, base=l_base, exact=base.exact, last=base.last)
        return losses


@dataclass(frozen=True)
class SelfTrajectory:
    """Collect the model's own trajectory, score the candidates on it, choose one, restore it."""

    selector: Selector
    config: CurationConfig

    @torch.no_grad()
    def __call__(
        self, solver: Solver, batch: Batch, conditioning: Conditioning, stage: Stage
    ) -> Selection:
        """s_f of every example."""
        x, y, task, config, (K_p, h) = batch.x, batch.y, solver.task, self.config, stage
        steps = [t for t in config.candidates if t + h <= K_p]  # [10]
        with evaluating(solver):  # [9] tau = (s_0, ..., s_{K_p})
            tau = solver.roll(
                solver.updater.initial(x), conditioning.detach(), x, K_p,
                keep={*steps, *(t + h for t in steps)},
            )  # fmt: skip
        z_t = torch.stack([tau.states[t].z for t in steps])
        z_h = torch.stack([tau.states[t + h].z for t in steps])
        energy, energy_h = solver.energy(z_t, x, y), solver.energy(z_h, x, y)
        defects = contraction_defect(energy, energy_h, h, config.rho, config.epsilon)  # [10] (3)
        ends_exact = task.exact(tau.last.z, x, y)
        eligible = task.eligible(  # [10] C_x
            exact_at=task.exact(z_t, x, y), exact_after=task.exact(z_h, x, y), exact_end=ends_exact
        )
        nonempty = eligible.any(0)  # [11]
        chosen = self.selector(defects, energy, eligible, batch.keys)  # [12] (4)
        solved = self._replay_solved(ends_exact, nonempty, batch.keys)
        states = [*(tau.states[t] for t in steps), tau.last]
        s_f = pick_states(states, torch.where(solved, len(steps), chosen)).detach()  # [13] z, u
        if not config.restore_memory:
            s_f = replace(s_f, u=solver.updater.initial(x).detach().u)
        rows = torch.arange(len(chosen), device=chosen.device)
        step = constant(tuple(steps), chosen.device)[chosen]
        scores = Scores(step, energy[chosen, rows], defects[chosen, rows])
        return Selection(s_f, nonempty & ~solved, solved, ends_exact, scores)

    def _replay_solved(
        self, ends_exact: Bool[Tensor, " batch"], nonempty: Bool[Tensor, " batch"],
        keys: Int[Tensor, " batch"],
    ) -> Bool[Tensor, " batch"]:  # fmt: skip
        """Ours: which rollouts are replayed from their exact end, so that it stays exact."""
        if not self.config.replay_solved:
            return torch.zeros_like(nonempty)
        return ends_exact & (~nonempty | (uniform(keys, Stream.REPLAY_SOLVED) < 0.5))


def replay_loss(
    solver: Solver, batch: Batch, conditioning: Conditioning, selection: Selection, stage: Stage,
    config: CurationConfig, beta: float | Float[Tensor, " batch"],
) -> Float[Tensor, " batch"]:  # fmt: skip
    """l_aux = L_task(s~_1:h) + beta [D^rep - gamma]_+^2; 0 where C_x is empty."""
    x, y, h = batch.x, batch.y, stage.h
    replay = solver.roll(selection.state, conditioning, x, h)  # [15] (5)
    loss = solver.loss(replay.answers, x, y, config.step_weights)  # [16]
    if selection.scores is not None and (isinstance(beta, Tensor) or beta > 0):
        energy_h = solver.energy(replay.last.z, x, y)
        defect = contraction_defect(  # [16] (3)
            selection.scores.energy, energy_h, h, config.rho, config.epsilon
        )
        penalty = beta * defect_penalty(defect, config.gamma)
        loss = loss + penalty * selection.from_candidates  # [17] (6)
    return loss * selection.replayed
