"""Stop where the rules are met: a puzzle whose answer obeys them takes no further steps.

Whether an answer obeys the rules is seen without knowing the right one; where a puzzle has one
solution (`Task.rules_tell`), such an answer is right, and further steps could only spoil it. Most
puzzles come out early, so that a rollout costs a fraction of its steps.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from focus.errors import UserError
from focus.model.checkpoint import Model
from focus.model.solver import Solver
from focus.tasks.records import Problem, Target


def check_stop(model: Model, stop: bool) -> None:
    """Refuse to stop where nobody can see that a puzzle came out."""
    if stop and not isinstance(model, Solver):
        raise UserError("--stop is for solvers that revise; this one writes its answer")
    if stop and not model.task.rules_tell:
        raise UserError(f"--stop: a {model.task.name} that obeys the rules may still be wrong")


def roll_and_stop(
    solver: Solver, x: Problem, y: Target, steps: list[int]
) -> dict[int, tuple[Float[Tensor, "batch tokens channels"], Int[Tensor, " batch"]]]:
    """For each K in rising order the answers z, and how many steps each puzzle has taken."""
    R = solver.backbone.project(solver.backbone.read(x))
    state, conditioning = solver.updater.initial(x), solver.updater.condition(R, x)
    left = torch.arange(len(x), device=state.z.device)  # puzzles that go on
    z, taken = state.z.clone(), torch.zeros_like(left)
    found = {}
    for step in range(1, steps[-1] + 1):
        if len(left):
            state = solver.updater(state, conditioning, x)
            z[left], taken[left] = state.z, step
            scores = solver.task.diagnostics(solver.task.decode(state.z, x), x, y)
            goes_on = scores["valid"] == 0
            if not goes_on.all():
                x, y, R, left = x[goes_on], y[goes_on], R[goes_on], left[goes_on]
                state = state.map(lambda tensor, rows=goes_on: tensor[rows])
                conditioning = solver.updater.condition(R, x)
        if step in steps:
            found[step] = z.clone(), taken.clone()
    return found
