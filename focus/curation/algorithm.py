"""Algorithm 1 of the paper: the losses of one mini-batch.

`[n]` is line n of Algorithm 1, `(n)` equation n. Around it stand the loop over updates and
mini-batches (`training/loop.py`, [1] to [4]), what l_base is made of (`training/objectives/`, [6]),
and the optimizer ([22] to [25]). The auxiliary loss comes first here, because only then it is known
which examples fall back to l_base ([18], [19]).
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

Choose = Callable[[Solver, Batch, Conditioning, Stage], Selection]
Base = Callable[[Solver, Batch, Conditioning, Stage, bool], BaseLoss]


@dataclass(frozen=True)
class Algorithm1:
    """The losses of a mini-batch, for a way to choose states and a base loss."""

    choose: Choose
    base: Base
    config: CurationConfig
    base_always: bool  # Sudoku; on mazes replay takes the place of the base loss
    fallback: bool  # whether examples without a candidate must be expected

    def __call__(self, solver: Solver, batch: Batch, replays: bool, stage: Stage) -> Losses:
        """l_base and l_aux of every example; `replays` is the coin a of [4]."""
        # [14] R with gradients, once for both losses: the same gradient as computing it again.
        conditioning = solver.encode(batch.x, batch.read)  # (1)
        zero = torch.zeros(len(batch.keys), device=batch.keys.device)
        losses = Losses(base=zero, auxiliary=zero, exact=zero, replayed=zero)  # [7]
        instead = torch.ones_like(batch.keys, dtype=torch.bool)
        if replays:  # [8]
            selection = self.choose(solver, batch, conditioning, stage)  # [9] to [13]
            auxiliary = replay_loss(solver, batch, conditioning, selection, stage, self.config)
            exact, replayed = selection.ends_exact.float(), selection.eligible.float()
            losses = Losses(zero, auxiliary, exact, replayed, selection)
            instead = ~selection.trained  # [18] C_x is empty
        if self.base_always or not replays or self.fallback:  # [6]
            falls_back = replays and not self.base_always  # [19] an initial-state update, for some
            base = self.base(solver, batch, conditioning, stage, falls_back)
            loss = base.loss * instead if falls_back else base.loss
            losses = replace(losses, base=loss, exact=base.exact, last=base.last)
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
        steps = [t for t in config.candidates if t + h <= K_p]
        with evaluating(solver):  # [9] tau = (s_0, ..., s_{K_p})
            tau = solver.roll(
                solver.updater.initial(x), conditioning.detach(), x, K_p,
                keep={*steps, *(t + h for t in steps)},
            )  # fmt: skip
        z_t = torch.stack([tau.kept[t].z for t in steps])
        z_h = torch.stack([tau.kept[t + h].z for t in steps])
        energy, energy_h = solver.energy(z_t, x, y), solver.energy(z_h, x, y)
        defects = contraction_defect(energy, energy_h, h, config.rho, config.epsilon)  # (3)
        ends_exact = task.exact(tau.last.z, x, y)
        eligible = task.eligible(task.exact(z_t, x, y), task.exact(z_h, x, y), ends_exact)  # [10]
        chosen = self.selector(defects, energy, eligible, batch.keys)  # [12] (4)
        nonempty = eligible.any(0)  # [11]
        solved = self._replay_solved(ends_exact, nonempty, batch.keys)
        states = [*(tau.kept[t] for t in steps), tau.last]
        s_f = pick_states(states, torch.where(solved, len(steps), chosen))  # [13] z and u
        if not config.restore_memory:
            s_f = replace(s_f, u=solver.updater.initial(x).u)
        every = torch.arange(len(chosen), device=chosen.device)
        step = constant(tuple(steps), chosen.device)[chosen]
        scores = Scores(step, energy[chosen, every], defects[chosen, every])
        return Selection(s_f.detach(), nonempty & ~solved, solved, ends_exact, scores)

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
    config: CurationConfig,
) -> Float[Tensor, " batch"]:  # fmt: skip
    """l_aux = L_task(s~_1:h) + beta [D^rep - gamma]_+^2; 0 where C_x is empty."""
    x, y, h = batch.x, batch.y, stage.h
    replay = solver.roll(selection.state, conditioning, x, h)  # [15] (5)
    loss = solver.loss(replay.answers, x, y, config.step_weights)  # [16]
    if config.beta and selection.scores is not None:
        energy_h = solver.energy(replay.last.z, x, y)
        defect = contraction_defect(  # [16]
            selection.scores.energy, energy_h, h, config.rho, config.epsilon
        )
        penalty = config.beta * defect_penalty(defect, config.gamma)
        loss = loss + penalty * selection.eligible  # [17] (6)
    return loss * selection.trained
