"""Evaluate a solver on a source task: a list of K in one rollout."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from focus.data.table import Table
from focus.evaluation.statistics import wilson_interval
from focus.evaluation.stopping import check_stop, roll_and_stop
from focus.model.checkpoint import Model
from focus.model.generate import batch_size
from focus.model.solver import Solver, evaluating
from focus.model.writer import Writer
from focus.tasks.base import Codes, Task
from focus.tasks.records import Problem, Target, TensorRecord

_TOKENS, _TOKENS_IF_DEEP = 4096, 1312  # at a time on a CPU, by what was fastest


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


def join(parts: Sequence[Evaluation]) -> Evaluation:
    """One evaluation of the rows of several; their order is that of the parts."""
    names = parts[0].diagnostics
    return Evaluation(
        parts[0].steps,
        np.concatenate([part.exact for part in parts]),
        np.concatenate([part.answers for part in parts]),
        {name: np.concatenate([part.diagnostics[name] for part in parts]) for name in names},
    )


def evaluate(
    model: Model,
    table: Table,
    steps: list[int],
    batch: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
    stop: bool = False,
) -> list[Evaluation]:
    """Exact rates and diagnostics at each K; a model that writes its answer has one result.

    `batch` puzzles at a time; by default as many as keep the device busy. With `stop`, puzzles
    whose answers obey the rules take no further steps; `taken` among the diagnostics counts them.
    """
    check_stop(model, stop)
    model.task.check_rows(table.questions)
    if batch is None:
        batch = _batch_size(model)
    if isinstance(model, Writer):
        return [_evaluate_writer(model, table, batch, progress)]
    return _evaluate_solver(model, table, steps, batch, progress, stop)


def _batch_size(model: Model) -> int:
    """Large batches on a GPU, where each launch costs the same; a language model needs memory.

    On a CPU activations should stay near the cache: two mazes at a time are a quarter faster than
    16 with a language model. What is written comes token by token, and each reads all weights.
    """
    has_language_model = model.config.backbone.name != "none"
    if next(model.parameters()).device.type == "cpu":
        if isinstance(model, Writer):
            return 16
        deep = has_language_model or model.config.answer == "trm"
        return max(1, (_TOKENS_IF_DEEP if deep else _TOKENS) // model.task.tokens)
    if isinstance(model, Writer):
        return batch_size(model.model, *model.lengths, "cuda")
    return 250 if has_language_model or model.task.padded else 1500


def _evaluate_writer(
    model: Writer, table: Table, batch: int, progress: Callable[[int], None]
) -> Evaluation:
    """Greedy completions through the strict parser; one that it refuses counts as wrong."""
    task, answers, scores = model.task, table.questions.copy(), []
    rows = task.pack(table.questions, table.answers)
    parsed = np.zeros(len(table), bool)
    with evaluating(model):
        for first in range(0, len(table), batch):
            part = slice(first, first + batch)
            for row, text in enumerate(model.write(table.questions[part]), first):
                answer = task.parse_text_target(table.questions[row], text)
                if answer is not None:
                    answers[row], parsed[row] = answer, True
            scores.append(_scores_of_written(task, rows[part], answers[part], parsed[part]))
            progress(min(first + batch, len(table)))
    exact = parsed & (answers == table.answers).all(1)
    names = scores[0] if scores else ()
    found = {name: np.concatenate([part[name] for part in scores]) for name in names}
    return Evaluation(0, exact, answers, {"parsed": parsed, **found})


def _scores_of_written(
    task: Task, rows: TensorRecord, answers: Codes, parsed: np.ndarray
) -> dict[str, np.ndarray]:
    """The diagnostics of what was written, where the task can tell; none for what was refused."""
    x, y = task.unpack(rows)
    reference = task.answer_codes(task.reference(y), x)  # in the place of what was refused
    tokens = task.answer_tokens(np.where(parsed[:, None], answers, reference), x)
    found = {} if tokens is None else task.diagnostics(tokens, x, y)
    return {name: values.numpy() * parsed for name, values in found.items()}


def _roll(
    solver: Solver, x: Problem, y: Target, steps: list[int]
) -> dict[int, tuple[Tensor, Tensor]]:
    """For each K the answers z of all puzzles, and K."""
    start, conditioning = solver.updater.initial(x), solver.encode(x)
    answers = solver.roll(start, conditioning, x, steps[-1]).answers
    return {k: (answers[k - 1], torch.full((len(x),), k)) for k in steps}


@torch.no_grad()
def _evaluate_solver(
    solver: Solver, table: Table, steps: list[int], batch: int, progress: Callable[[int], None],
    stop: bool,
) -> list[Evaluation]:  # fmt: skip
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
            after = (roll_and_stop if stop else _roll)(solver, x, y, steps)
        for k in steps:
            z, taken = after[k]
            decoded = task.decode(z, x)
            exact[k].append(task.exact(z, x, y).cpu().numpy())
            answers[k].append(task.answer_codes(decoded, x))
            found = {**task.diagnostics(decoded, x, y), "energy": task.energy(z, x, y)}
            if stop:
                found["taken"] = taken.float()
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
