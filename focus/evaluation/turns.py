"""Further tries: a puzzle whose answer breaks its rules is turned by a symmetry and solved again.

Whether an answer obeys the rules is seen without knowing the right one, and a puzzle that came out
costs nothing more. A turned puzzle is a fresh one to the solver, so that tries fail nearly
independently, while further steps of the same rollout mostly go on where it is stuck.
"""

from dataclasses import replace

import numpy as np
import torch

from focus.data.table import Table
from focus.errors import UserError
from focus.evaluation.source import Evaluation, evaluate
from focus.model.checkpoint import Model
from focus.model.solver import Solver
from focus.random import example_keys


def check_turns(model: Model, turns: int) -> None:
    """Refuse further tries where there can be none."""
    if turns < 0:
        raise UserError(f"--turns takes a number from 0, not {turns}")
    if turns and not isinstance(model, Solver):
        raise UserError("--turns is for solvers that revise; this one writes its answer")
    if turns and not model.task.can_turn:
        raise UserError(f"--turns: a turned {model.task.name} may have another answer")


def try_turned(
    model: Model, table: Table, found: Evaluation, turns: int, batch: int | None = None,
    stop: bool = False,
) -> Evaluation:  # fmt: skip
    """The evaluation with answers that break the rules replaced by the first turned one that does
    not, of at most `turns` for each puzzle; `turns` among its diagnostics counts them."""
    check_turns(model, turns)
    task = model.task
    exact, answers = found.exact.copy(), found.answers.copy()
    diagnostics = {name: values.copy() for name, values in found.diagnostics.items()}
    diagnostics["turns"] = np.zeros(len(table))
    for turn in range(1, turns + 1):
        left = np.flatnonzero(diagnostics["valid"] == 0)
        if not len(left):
            break
        keys = example_keys(0, turn, torch.from_numpy(left))
        questions, labels = (task.turn(c[left], keys) for c in (table.questions, table.answers))
        turned = Table(questions, labels, table.ids[left], table.origin)
        (again,) = evaluate(model, turned, [found.steps], batch, stop=stop)
        right = again.diagnostics["valid"] == 1
        at = left[right]
        diagnostics["turns"][left] = turn
        exact[at] = again.exact[right]
        answers[at] = task.turn_back(again.answers[right], keys[torch.from_numpy(right)])
        for name, values in again.diagnostics.items():
            if name not in diagnostics:
                continue
            if name == "taken":  # by all tries
                diagnostics[name][left] += values
            else:
                diagnostics[name][at] = values[right]
    return replace(found, exact=exact, answers=answers, diagnostics=diagnostics)
