"""Evaluate a solver on a source task: a list of K in one rollout."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from focus.data.table import Table
from focus.evaluation.statistics import wilson_interval
from focus.model.solver import Solver, evaluating
from focus.tasks.base import Codes


@dataclass(frozen=True)
class Evaluation:
    """What came out at one K."""

    steps: int
    exact: np.ndarray  # (rows,) bool
    answers: Codes  # (rows, cells)
    diagnostics: dict[str, np.ndarray]  # (rows,) each

    def summary(self) -> dict:
        """Rates with their intervals, for tables and JSON."""
        hits, n = int(self.exact.sum()), len(self.exact)
        low, high = wilson_interval(hits, n)
        means = {name: float(values.mean()) for name, values in self.diagnostics.items()}
        return {
            "steps": self.steps, "exact": hits / max(1, n), "low": low, "high": high, "n": n,
            **means,
        }  # fmt: skip


@torch.no_grad()
def evaluate(
    solver: Solver,
    table: Table,
    steps: list[int],
    batch: int = 250,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Evaluation]:
    """Roll out once to the largest K and decode at each."""
    task, device = solver.task, next(solver.parameters()).device
    steps = sorted(set(steps))
    exact: dict[int, list] = {k: [] for k in steps}
    answers: dict[int, list] = {k: [] for k in steps}
    scores: dict[int, list[dict]] = {k: [] for k in steps}
    for first in range(0, len(table), batch):
        part = table[first : first + batch]
        x, y = task.unpack(task.pack(part.questions, part.answers).to(device))
        with evaluating(solver):
            rollout = solver.roll(
                solver.updater.initial(x), solver.encode(x), x, steps[-1], keep=set(steps)
            )
        for k in steps:
            z = rollout.kept[k].z
            decoded = task.decode(z, x)
            exact[k].append(task.exact(z, x, y).cpu().numpy())
            answers[k].append(task.answer_codes(decoded, x))
            found = task.diagnostics(decoded, x, y)
            scores[k].append({name: value.cpu().numpy() for name, value in found.items()})
        progress(first + len(part))
    return [
        Evaluation(
            k,
            np.concatenate(exact[k]),
            np.concatenate(answers[k]),
            {n: np.concatenate([part[n] for part in scores[k]]) for n in scores[k][0]},
        )
        for k in steps
    ]
