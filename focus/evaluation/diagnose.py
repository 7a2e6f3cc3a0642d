"""What happens along a rollout: where a solver gains, loses, drifts or winds up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from focus.data.table import Table
from focus.errors import UserError
from focus.evaluation.statistics import mcnemar
from focus.model.base import check_steps, evaluating
from focus.model.solver import Solver
from focus.model.state import State
from focus.tasks.base import Task
from focus.tasks.records import Problem

_BETWEEN = (1.0, 1.5)  # steps that are looked at: 1, 2, 3, 4, 6, 8, 12, 16, ...
_AT_BOUND = 0.1  # nearer to a bound than this
_CHANCE = 0.05  # a loss that is likelier than this is no evidence


@dataclass(frozen=True)
class Moment:
    """The state of all puzzles after some steps; numbers are means over puzzles and cells.

    Cells, logits and bounds are those that the puzzle leaves open.
    """

    step: int
    exact: float  # share of the puzzles solved
    gained: int  # puzzles solved now that were not at the row before,
    lost: int  # and the other way round
    energy: float  # E_x
    confidence: float  # probability of the decoded class
    moved: float  # size of the last step: root mean square of z_t - z_{t-1}
    at_bounds: float  # share of the numbers in z that stand at their bounds
    memory: float  # root mean square of u,
    memory_moved: float  # and of its change in the last step
    mean: dict[str, float]  # of each channel of z; what all classes share, no probability shows
    spread: dict[str, float]  # within a cell, or over cells where a channel has one number


@dataclass(frozen=True)
class Diagnosis:
    """A rollout, and which puzzles were solved at each row."""

    moments: list[Moment]
    solved: Bool[np.ndarray, "rows puzzles"]

    @property
    def best(self) -> Moment:
        """The first row with the most solved puzzles."""
        return max(self.moments, key=lambda moment: moment.exact)

    def verdict(self) -> str:
        """What more steps do, in a sentence; they hurt where that is no accident (McNemar).

        The best of many rows is the luckiest too: p is corrected for their number.
        """
        best, last, count = self.best, self.moments[-1], self.solved.shape[1]
        at_best, at_end = self.solved[self.moments.index(best)], self.solved[-1]
        lost, gained = int((at_best & ~at_end).sum()), int((at_end & ~at_best).sum())
        if not best.exact:
            return f"nothing is solved at any K up to {last.step:,}"
        most = f"{100 * best.exact:.1f} % at K = {best.step:,}"
        if last.exact >= best.exact:
            return f"more steps do not hurt: {most} is the best"
        hurt = mcnemar(lost, gained) * (len(self.moments) - 1) < _CHANCE
        what = "more steps hurt" if hurt else "more steps are not seen to hurt"
        end = f"{100 * last.exact:.1f} % at K = {last.step:,}"
        others = f" and {gained:,} gained" if gained else ""
        return f"{what}: {most}, {end}; {lost:,} of {count:,} puzzles are lost again{others}"


def steps_to_look_at(last: int) -> list[int]:
    """0, 1, 2, 3, 4, 6, 8, 12, ... and the last."""
    powers = range(last.bit_length() + 1)
    steps = {int(factor * 2**power) for power in powers for factor in _BETWEEN}
    return [0, *sorted(step for step in steps if step < last), last]


@torch.no_grad()
def diagnose(
    solver: Solver, table: Table, last: int, batch: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Diagnosis:  # fmt: skip
    """Roll puzzles out for `last` steps; `progress` is told the steps done, over all batches."""
    check_steps(last)
    if not len(table):
        raise UserError("there are no puzzles to look at")
    solver.task.check_rows(table.questions)
    batch = batch or solver.eval_batch_size()
    steps, parts, total = steps_to_look_at(last), [], -(-len(table) // batch) * last
    with evaluating(solver):
        for first in range(0, len(table), batch):
            done, part = first // batch * last, table[first : first + batch]
            parts.append(_look(solver, part, steps, partial(_add, progress, done, total)))
    return _joined(steps, parts)


def _add(progress: Callable[[int, int], None], done: int, total: int, steps: int) -> None:
    progress(done + steps, total)


def _look(
    solver: Solver, table: Table, steps: Sequence[int], progress: Callable[[int], None]
) -> tuple[Bool[np.ndarray, "rows puzzles"], list[dict[str, Any]]]:
    """Which puzzles of a batch are solved at each step, and the numbers of each step."""
    task = solver.task
    x, y = task.unpack(task.pack(table.questions, table.answers).to(solver.device))
    rollout, free = solver.rollout(x), open_numbers(task, x)
    before, solved, rows = rollout.state, [], []
    for step in range(steps[-1] + 1):
        state = next(rollout) if step else rollout.state
        if step in steps:
            solved.append(task.exact(state.z, x, y).cpu().numpy())
            energy = task.energy(state.z, x, y).mean().item()
            rows.append({"energy": energy, **_numbers(task, state, before, x, free)})
            progress(step)
        before = state
    return np.stack(solved), rows


def open_numbers(task: Task, x: Problem) -> Bool[Tensor, "batch tokens channels"]:
    """Which numbers of an answer the puzzle leaves open: those that the clamp does not set."""
    low, high = task.bounds(x.cell.device)
    shape = (*x.cell.shape, task.width)
    apart = task.clamp(low.expand(shape), x) != task.clamp(high.expand(shape), x)
    return apart & x.mask[..., None]


def _numbers(
    task: Task, state: State, before: State, x: Problem, free: Bool[Tensor, "..."]
) -> dict[str, Any]:
    z, (low, high) = state.z.float(), task.bounds(x.cell.device)
    bounded = (z - low < _AT_BOUND) | (high - z < _AT_BOUND)
    decoded = task.decode(state.z, x)
    sure = task.class_logits(z, x).softmax(-1).gather(-1, decoded[..., None])[..., 0]
    memory, earlier = _memory(state), _memory(before)
    mean, spread = {}, {}
    for channel in task.channels:
        own, open_ = z[..., channel.slice], free[..., channel.slice]
        mean[channel.name] = own[open_].mean().item()
        if channel.width == 1:
            spread[channel.name] = own[open_].std().item()
        else:
            top = own.masked_fill(~open_, -torch.inf).amax(-1)
            bottom = own.masked_fill(~open_, torch.inf).amin(-1)
            spread[channel.name] = (top - bottom)[open_.any(-1)].mean().item()
    return {
        "confidence": sure[task.open_tokens(x)].mean().item(),
        "moved": (z - before.z.float())[free].square().mean().sqrt().item(),
        "at_bounds": bounded[free].float().mean().item(),
        "memory": memory.square().mean().sqrt().item(),
        "memory_moved": (memory - earlier).square().mean().sqrt().item(),
        "mean": mean, "spread": spread,
    }  # fmt: skip


def _memory(state: State) -> Float[Tensor, " numbers"]:
    tensors = [value.float().flatten() for value in state.u.values() if value.is_floating_point()]
    return torch.cat(tensors) if tensors else state.z.new_zeros(1)


def _joined(
    steps: Sequence[int], parts: list[tuple[np.ndarray, list[dict[str, Any]]]]
) -> Diagnosis:
    solved = np.concatenate([part[0] for part in parts], 1)
    sizes = [part[0].shape[1] for part in parts]
    moments = []
    for row, step in enumerate(steps):
        now, earlier = solved[row], solved[max(0, row - 1)]
        gained, lost = int((now & ~earlier).sum()), int((earlier & ~now).sum())
        numbers = _averaged([part[1][row] for part in parts], sizes)
        moments.append(Moment(step, float(now.mean()), gained, lost, **numbers))
    return Diagnosis(moments, solved)


def _averaged(numbers: list[dict[str, Any]], sizes: list[int]) -> dict[str, Any]:
    """The mean of each number, groups of numbers included, weighted by the sizes."""
    return {
        name: _averaged([one[name] for one in numbers], sizes)
        if isinstance(value, dict)
        else float(np.average([one[name] for one in numbers], weights=sizes))
        for name, value in numbers[0].items()
    }
