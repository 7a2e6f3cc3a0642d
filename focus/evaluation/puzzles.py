"""Evaluate a model on the puzzles it was trained for: a list of K in one rollout."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from focus.data.table import Table
from focus.errors import UserError
from focus.evaluation.statistics import wilson_interval
from focus.model.base import Model, Prediction, check_batch, check_steps, evaluating
from focus.model.solver import solver_of
from focus.tasks.base import Codes, Task
from focus.tasks.records import Problem, Target


@dataclass(frozen=True)
class Evaluation:
    """The answers and scores at one K."""

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


def join(parts: Sequence[Evaluation]) -> Evaluation:
    """One evaluation of the rows of several; their order is that of the parts."""
    names = parts[0].diagnostics
    return Evaluation(
        parts[0].steps,
        np.concatenate([part.exact for part in parts]),
        np.concatenate([part.answers for part in parts]),
        {name: np.concatenate([part.diagnostics[name] for part in parts]) for name in names},
    )


def check_early_stop(model: Model, early_stop: bool) -> None:
    """Refuse to stop where nobody can see that a puzzle is solved.

    Whether an answer obeys the rules is seen without knowing the right one; where a puzzle has one
    solution (`Task.valid_is_correct`), such an answer is right, and further steps could only spoil
    it. Most puzzles are solved early, so that a rollout costs a fraction of its steps.
    """
    if not early_stop:
        return
    solver = solver_of(model, "--early-stop: this model")
    if not solver.task.valid_is_correct:
        raise UserError(
            f"--early-stop does not work for {solver.task.name}: an answer that obeys the rules "
            "may still be wrong"
        )


@torch.no_grad()
def evaluate(
    model: Model,
    table: Table,
    steps: int | Sequence[int],
    batch: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
    early_stop: bool = False,
) -> list[Evaluation]:
    """Exact rates and diagnostics at each K; a model that writes its answer has one result.

    `batch` puzzles at a time; by default as many as keep the device busy. With `early_stop`,
    puzzles whose answers obey the rules take no further steps; `taken` among the diagnostics
    counts them.
    """
    check_early_stop(model, early_stop)
    numbers = list(steps) if isinstance(steps, Iterable) else [steps]
    if not numbers:
        raise UserError("name at least one number of steps")
    check_steps(*numbers)
    numbers = sorted(set(numbers))
    check_batch(batch)
    if not len(table):
        raise UserError("there are no puzzles to evaluate")
    task = model.task
    task.check_rows(table.questions)
    batch = batch or model.eval_batch_size()
    by_steps: dict[int, list[Evaluation]] = {}
    with evaluating(model):
        for first in range(0, len(table), batch):
            part = table[first : first + batch]
            x, y = task.unpack(task.pack(part.questions, part.answers).to(model.device))
            for prediction in model.predict(x, part.questions, numbers, early_stop):
                scored = _score(task, prediction, x, y, part.answers)
                by_steps.setdefault(prediction.steps, []).append(scored)
            progress(first + len(part))
    return [join(parts) for parts in by_steps.values()]


def _score(task: Task, prediction: Prediction, x: Problem, y: Target, correct: Codes) -> Evaluation:
    """Exactness and diagnostics of a batch."""
    if prediction.z is None:
        return _score_written(task, prediction, x, y, correct)
    scores = task.diagnostics(task.decode(prediction.z, x), x, y)
    scores["energy"] = task.energy(prediction.z, x, y)
    if prediction.taken is not None:
        scores["taken"] = prediction.taken.float()
    exact = task.exact(prediction.z, x, y).cpu().numpy()
    diagnostics = {name: values.cpu().numpy() for name, values in scores.items()}
    return Evaluation(prediction.steps, exact, prediction.answers, diagnostics)


def _score_written(
    task: Task, prediction: Prediction, x: Problem, y: Target, correct: Codes
) -> Evaluation:
    """Diagnostics of what was written, where the task can tell; 0 for what was refused."""
    parsed, answers = prediction.parsed, prediction.answers
    assert parsed is not None
    reference = task.answer_codes(task.reference(y), x)  # in the place of what was refused
    tokens = task.answer_tokens(np.where(parsed[:, None], answers, reference), x)
    scores = {} if tokens is None else task.diagnostics(tokens, x, y)
    exact = parsed & (answers == correct).all(1)
    diagnostics = {name: values.cpu().numpy() * parsed for name, values in scores.items()}
    return Evaluation(prediction.steps, exact, answers, {"parsed": parsed, **diagnostics})
