"""The tasks by name: Sudoku and Maze here, others through the entry point group `focus.tasks`."""

from importlib.metadata import entry_points

from focus.errors import UserError
from focus.tasks.base import Task
from focus.tasks.maze import Maze
from focus.tasks.sudoku import Sudoku

BUILT_IN: dict[str, type[Task]] = {Sudoku.name: Sudoku, Maze.name: Maze}


def task_class(name: str) -> type[Task]:
    """The class of a task; raises `UserError` for an unknown name."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    others = {entry.name: entry for entry in entry_points(group="focus.tasks")}
    if name not in others:
        known = ", ".join(sorted([*BUILT_IN, *others]))
        raise UserError(f"unknown task {name!r}; known tasks: {known}")
    return others[name].load()


__all__ = ["BUILT_IN", "Maze", "Sudoku", "Task", "task_class"]
