"""Collect a trajectory, select a state on it, replay it: the inner part of Algorithm 1."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from focus.curation.defect import contraction_defect, defect_penalty
from focus.curation.selectors import Selector
from focus.errors import UserError
from focus.model.solver import Solver, evaluating
from focus.model.state import State, pick_states
from focus.random import uniform
from focus.ranges import check_from
from focus.tasks.base import StepWeights
from focus.tasks.records import Problem, Target, constant

_HOLD = 91  # random stream


@dataclass(frozen=True)
class CurationConfig:
    """State selection and replay; names and values of the paper's table."""

    candidates: tuple[int, ...] = (0, 2, 4, 8, 12, 16, 24, 32, 48, 64, 80, 96, 112)
    rho: float = 0.985  # target reduction per step
    gamma: float = 0.0  # defect of the frontier
    epsilon: float = 0.05  # smoothing of the energy
    beta: float = 0.08  # weight of the defect penalty (0.08 / 0.05); 0 switches it off
    restore_memory: bool = True  # replay from (z, u); False starts from z with fresh memory
    # (ours) also replay the end of a rollout that ends exact, so that it stays: where there is no
    # candidate, and for half of those that have one
    hold: bool = False
    step_weights: StepWeights = "linear"  # weights of the losses of the h replayed steps

    def __post_init__(self):
        if not 0 < self.rho <= 1 or self.epsilon <= 0:
            raise UserError("curation.rho lies above 0 and up to 1, curation.epsilon above 0")
        check_from(0, {"curation.beta": self.beta})
        check_from(0, {"curation.candidates": min(self.candidates, default=0)})


@dataclass(frozen=True)
class Selection:
    """The state to replay for each example, and what is known of it."""

    state: State  # s_f = stopgrad(s_{t*})
    step: Int[Tensor, " batch"]  # t*
    eligible: Bool[Tensor, " batch"]  # the state was chosen from C_x; else it means nothing,
    held: Bool[Tensor, " batch"]  # or is the exact end of the rollout, to be held
    ends_exact: Bool[Tensor, " batch"]  # the rollout's end
    energy: Float[Tensor, " batch"]  # E_x at t*
    defect: Float[Tensor, " batch"]  # D at t*
    defects: Float[Tensor, "candidates batch"]


@torch.no_grad()
def select(
    solver: Solver, x: Problem, y: Target, conditioning: Any, K_p: int, h: int,
    selector: Selector, config: CurationConfig, keys: Int[Tensor, " batch"],
) -> Selection:  # fmt: skip
    """Roll out from s_0 without gradients in evaluation mode, score the candidates, choose."""
    task = solver.task
    steps = [t for t in config.candidates if t + h <= K_p]
    with evaluating(solver):
        rollout = solver.roll(
            solver.updater.initial(x), conditioning.detach(), x, K_p,
            keep={*steps, *(t + h for t in steps)},
        )  # fmt: skip
    at = torch.stack([rollout.kept[t].z for t in steps])
    after = torch.stack([rollout.kept[t + h].z for t in steps])
    energy, later = solver.energy(at, x, y), solver.energy(after, x, y)
    defects = contraction_defect(energy, later, h, config.rho, config.epsilon)
    ends_exact = task.exact(rollout.last.z, x, y)
    eligible = task.eligible(task.exact(at, x, y), task.exact(after, x, y), ends_exact)
    chosen = selector(defects, energy, eligible, keys)
    any_eligible = eligible.any(0)
    held = torch.zeros_like(any_eligible)
    if config.hold:
        held = ends_exact & (~any_eligible | (uniform(keys, _HOLD) < 0.5))
    state = pick_states(
        [*(rollout.kept[t] for t in steps), rollout.last], torch.where(held, len(steps), chosen)
    )
    if not config.restore_memory:
        state = replace(state, u=solver.updater.initial(x).u)
    every = torch.arange(len(chosen), device=chosen.device)
    return Selection(
        state.detach(), constant(tuple(steps), chosen.device)[chosen], any_eligible & ~held,
        held, ends_exact,
        energy[chosen, every], defects[chosen, every], defects,
    )  # fmt: skip


def replay_loss(
    solver: Solver, x: Problem, y: Target, conditioning: Any, selection: Selection,
    h: int, config: CurationConfig,
) -> Float[Tensor, " batch"]:  # fmt: skip
    """l_aux = L_task(s~_1:h) + beta [D^rep - gamma]_+^2 per example; 0 where C_x is empty.

    A held state has the task loss alone.
    """
    rollout = solver.roll(selection.state, conditioning, x, h)
    loss = solver.loss(rollout.answers, x, y, config.step_weights)
    if config.beta:
        reached = solver.energy(rollout.last.z, x, y)
        defect = contraction_defect(selection.energy, reached, h, config.rho, config.epsilon)
        loss = loss + config.beta * defect_penalty(defect, config.gamma) * selection.eligible
    return loss * (selection.eligible | selection.held)
