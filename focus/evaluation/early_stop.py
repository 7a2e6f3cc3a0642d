"""Early stop: a puzzle whose answer obeys the rules takes no further steps.

Whether an answer obeys the rules is seen without knowing the right one; where a puzzle has one
solution (`Task.valid_is_correct`), such an answer is right, and further steps could only spoil it.
Most puzzles are solved early, so that a rollout costs a fraction of its steps.
"""

from focus.errors import UserError
from focus.model.base import Model
from focus.model.solver import solver_of


def check_early_stop(model: Model, early_stop: bool) -> None:
    """Refuse to stop where nobody can see that a puzzle is solved."""
    if not early_stop:
        return
    solver = solver_of(model, "--early-stop: this model")
    if not solver.task.valid_is_correct:
        raise UserError(
            f"--early-stop does not work for {solver.task.name}: an answer that obeys the rules "
            "may still be wrong"
        )
