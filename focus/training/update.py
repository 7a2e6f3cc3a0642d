"""One update of Algorithm 1, for every method of the paper."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor
from torch.nn import functional

from focus.curation.replay import Selection, replay_loss, select
from focus.curation.selectors import Frontier, HighestEnergy, Selector, Uniform
from focus.errors import UserError
from focus.model.checkpoint import Model
from focus.model.solver import Solver, evaluating
from focus.model.state import State, pick_states
from focus.model.writer import Writer
from focus.random import uniform
from focus.tasks.base import Task
from focus.tasks.records import Problem, Target, TensorRecord
from focus.training.carry import Carry
from focus.training.config import RunConfig
from focus.training.distil import distillation_loss

_MIXTURE, _ROLLOUT_STEP = 80, 81  # random streams
_AT_A_TIME = 1024  # puzzles


@dataclass(frozen=True)
class Losses:
    """Per-example losses of a mini-batch, and what is logged of it."""

    base: Float[Tensor, " batch"]
    auxiliary: Float[Tensor, " batch"]
    exact: Float[Tensor, " batch"]  # of the end of the base rollout, or of the one selected from
    replayed: Float[Tensor, " batch"]  # 1 where a selected state was trained on
    selection: Selection | None
    last: State | None = None  # where the base rollout ended


@dataclass(frozen=True)
class Taught:
    """What a teacher says of a batch, and how much it counts by now."""

    opinions: UInt8[Tensor, "batch taught tokens classes"]
    weight: Float[Tensor, ""]


def selector_of(config: RunConfig) -> Selector:
    """The selector of a method; Fixed Mix draws its states otherwise."""
    if config.replay.method not in ("focus", "random", "energy-hard"):
        raise UserError(f"replay.method {config.replay.method} selects no visited states")
    methods: dict[str, Selector] = {
        "focus": Frontier(config.curation.gamma),
        "random": Uniform(),
        "energy-hard": HighestEnergy(),
    }
    return methods[config.replay.method]


def mixture_state(
    solver: Solver, x: Problem, y: Target, conditioning: Any, K_p: int,
    shares: tuple[float, float, float], keys: Int[Tensor, " batch"],
) -> tuple[State, Bool[Tensor, " batch"]]:  # fmt: skip
    """Start states drawn from initial / corrupted target / visited; which of them are initial."""
    initial = solver.updater.initial(x)
    if shares[0] == 1.0:
        return initial, torch.ones_like(keys, dtype=torch.bool)
    corrupted = replace(initial, z=solver.task.corrupt(x, y, keys))
    with torch.no_grad(), evaluating(solver):
        rollout = solver.roll(initial, conditioning.detach(), x, K_p, keep=set(range(1, K_p + 1)))
    step = (uniform(keys, _ROLLOUT_STEP) * K_p).long()
    visited = pick_states([rollout.kept[t] for t in range(1, K_p + 1)], step).detach()
    draw = uniform(keys, _MIXTURE)
    kind = (draw >= shares[0]).long() + (draw >= shares[0] + shares[1]).long()
    return pick_states([initial, corrupted, visited], kind), kind == 0


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


def losses(
    model: Model, x: Problem, y: Target, keys: Int[Tensor, " batch"], config: RunConfig,
    replaying: bool, K_p: int, h: int, read: Tensor | None = None, carry: Carry | None = None,
    taught: Taught | None = None, fallback: bool = True,
) -> Losses:  # fmt: skip
    """l_base and l_aux of a mini-batch; R is computed once and shared by both.

    `read` is what the backbone has read of the puzzles already; `carry` holds the states from
    which base rollouts go on; `taught` is what a teacher says, for base rollouts from s_0 alone.
    Without `fallback` every example has a candidate, and where replay takes the place of the base
    loss there is none.
    """
    zero = torch.zeros(len(keys), device=keys.device)
    if isinstance(model, Writer):
        return Losses(model.loss(x, y), zero, zero, zero, None)
    solver, task, replay = model, model.task, config.replay
    conditioning = solver.encode(x, read)
    selection, auxiliary, base, exact, replayed = None, zero, zero, zero, zero
    last: State | None = None
    if replaying and replay.method == "fixed-mix":
        start, _ = mixture_state(solver, x, y, conditioning, K_p, replay.fixed_mixture, keys)
        answers = solver.roll(start, conditioning, x, h).answers
        auxiliary = solver.loss(answers, x, y, config.curation.step_weights)
        replayed = torch.ones_like(zero)
    elif replaying:
        selector = selector_of(config)
        selection = select(solver, x, y, conditioning, K_p, h, selector, config.curation, keys)
        auxiliary = replay_loss(solver, x, y, conditioning, selection, h, config.curation)
        replayed, exact = selection.eligible.float(), selection.ends_exact.float()
    if replay.base_always or not replaying or (selection is not None and fallback):
        # Where replay takes the place of the base loss, its fallback is an initial-state update.
        falling_back = replaying and not replay.base_always
        mixture = (1.0, 0.0, 0.0) if falling_back else replay.base_mixture
        start, initial = mixture_state(solver, x, y, conditioning, K_p, mixture, keys)
        if carry is not None:
            start = carry.start(start)
        rollout = solver.roll(start, conditioning, x, config.steps)
        answers, last = rollout.answers, rollout.last
        base = solver.loss(answers, x, y, config.step_weights)
        exact = task.exact(answers[-1], x, y).float()
        if "halt" in last.u:
            believed = last.u["halt"][:, 0]
            base = base + config.carry.halt_weight * functional.binary_cross_entropy_with_logits(
                believed, exact, reduction="none"
            )
        if taught is not None:
            distance = distillation_loss(
                task, answers, x, taught.opinions, config.teacher.temperature
            )
            base = base + taught.weight * distance * initial
        if replaying and not replay.base_always and selection is not None:
            # Maze: a replayed example has no base loss, one without a candidate has only that.
            base = base * ~(selection.eligible | selection.held)
    return Losses(base, auxiliary, exact, replayed, selection, last)
