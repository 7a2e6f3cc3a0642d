"""FOCUS: train models that revise an answer instead of writing it once.

Solve a puzzle, look at its repair step by step, train by a recipe, evaluate what was trained:

    puzzle = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
    solver = focus.Solver.from_pretrained("sudoku-none")
    solver.solve(puzzle)  # the answer as text
    [(revision.step, revision.valid) for revision in solver.trajectory(puzzle)]
    trainer = focus.Trainer(focus.recipe("mini-sudoku"), Path("runs-out/mini-sudoku"))
    trainer.run()  # about a minute on a CPU
    focus.evaluate(trainer.model, trainer.splits.test, [4, 16])[-1].summary()

A recipe is a `RunConfig`, named TASK[/BACKBONE][/METHOD]; `dataclasses.replace` makes a variant.
`Sudoku` and `Maze` are the tasks that are built in, `Task` is what a new one derives from. The same
things as commands: `focus --help`. Every name is loaded on first use, so that the package itself is
imported in no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__: str  # of the installed package; read when it is asked for

if TYPE_CHECKING:
    from focus.evaluation.puzzles import evaluate
    from focus.model.solver import Solver
    from focus.recipes import recipe
    from focus.tasks import Maze, Sudoku, Task
    from focus.training.config import RunConfig
    from focus.training.loop import Trainer

__all__ = [
    "Maze", "RunConfig", "Solver", "Sudoku", "Task", "Trainer", "__version__", "evaluate", "recipe",
]  # fmt: skip

_HOMES = {
    "Maze": "focus.tasks",
    "RunConfig": "focus.training.config",
    "Solver": "focus.model.solver",
    "Sudoku": "focus.tasks",
    "Task": "focus.tasks",
    "Trainer": "focus.training.loop",
    "evaluate": "focus.evaluation.puzzles",
    "recipe": "focus.recipes",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("focus-solver")
    if name not in _HOMES:
        raise AttributeError(f"module 'focus' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
