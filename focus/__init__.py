"""FOCUS: train models that revise an answer instead of writing it once.

The few names that most users need; everything is loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from focus.evaluation.source import evaluate
    from focus.model.solver import Solver
    from focus.recipes import recipe
    from focus.tasks import Maze, Sudoku, Task
    from focus.training.loop import Trainer

__all__ = ["Maze", "Solver", "Sudoku", "Task", "Trainer", "evaluate", "recipe"]

_HOMES = {
    "Maze": "focus.tasks",
    "Solver": "focus.model.solver",
    "Sudoku": "focus.tasks",
    "Task": "focus.tasks",
    "Trainer": "focus.training.loop",
    "evaluate": "focus.evaluation.source",
    "recipe": "focus.recipes",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'focus' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
