"""Symmetry retries: a puzzle whose answer breaks the rules is transformed and solved again.

Whether an answer obeys the rules is seen without knowing the right one, and a puzzle that is solved
costs nothing more. A transformed puzzle is a fresh one to the solver, so that tries fail nearly
independently, while further steps of the same rollout mostly go on where it is stuck.
"""

from dataclasses import replace

import numpy as np
import torch

from focus.data.table import Table
from focus.errors import UserError
from focus.evaluation.puzzles import Evaluation, evaluate
from focus.model.base import Model
from focus.model.solver import solver_of
from focus.random import example_keys

_MOST = 10_000  # symmetries of a puzzle that are tried


def check_symmetry_retries(model: Model, retries: int) -> None:
    """Refuse further tries where there can be none."""
    if not 0 <= retries <= _MOST:
        raise UserError(f"--symmetry-retries takes a number from 0 to {_MOST:,}, not {retries}")
    if not retries:
        return
    solver = solver_of(model, "--symmetry-retries: this model")
    if not solver.task.symmetries_keep_answer:
        raise UserError(
            f"--symmetry-retries does not work for {solver.task.name}: a transformed puzzle may "
            "have another answer"
        )


def retry_under_symmetries(
    model: Model, table: Table, first: Evaluation, retries: int, early_stop: bool = False
) -> Evaluation:
    """The evaluation with answers that break the rules replaced by the first retry that does not.

    At most `retries` for each puzzle; `symmetry_retries` among the diagnostics counts them.
    """
    check_symmetry_retries(model, retries)
    task = model.task
    exact, answers = first.exact.copy(), first.answers.copy()
    diagnostics = {name: values.copy() for name, values in first.diagnostics.items()}
    diagnostics["symmetry_retries"] = np.zeros(len(table))
    for retry in range(1, retries + 1):
        left = np.flatnonzero(diagnostics["valid"] == 0)
        if not len(left):
            break
        keys = example_keys(0, retry, torch.from_numpy(left))
        questions, labels = (
            task.transform(codes[left], keys) for codes in (table.questions, table.answers)
        )
        transformed = Table(questions, labels, table.ids[left], table.origin)
        (again,) = evaluate(model, transformed, [first.steps], early_stop=early_stop)
        right = again.diagnostics["valid"] == 1
        at = left[right]
        diagnostics["symmetry_retries"][left] = retry
        exact[at] = again.exact[right]
        answers[at] = task.inverse_transform(again.answers[right], keys[torch.from_numpy(right)])
        for name, values in again.diagnostics.items():
            if name not in diagnostics:
                continue
            if name == "taken":  # by all tries
                diagnostics[name][left] += values
            else:
                diagnostics[name][at] = values[right]
    return replace(first, exact=exact, answers=answers, diagnostics=diagnostics)
