"""The tasks by name: Sudoku and Maze here, others through the entry point group `focus.tasks`."""

from importlib.metadata import entry_points

from focus.errors import UserError
from focus.tasks.base import Task
from focus.tasks.maze import Maze
from focus.tasks.sudoku import Sudoku

_GROUP = "focus.tasks"
BUILT_IN: dict[str, type[Task]] = {Sudoku.name: Sudoku, Maze.name: Maze}


def task_class(name: str) -> type[Task]:
    """The class of a task; raises `UserError` for an unknown name."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    others = {entry.name: entry for entry in entry_points(group=_GROUP)}
    if name not in others:
        raise UserError(f"unknown task {name!r}; known tasks: {', '.join(known_tasks())}")
    return others[name].load()


def known_tasks() -> list[str]:
    """The names of all tasks, those of other packages last."""
    others = {entry.name for entry in entry_points(group=_GROUP)} - set(BUILT_IN)
    return [*BUILT_IN, *sorted(others)]


__all__ = ["BUILT_IN", "Maze", "Sudoku", "Task", "known_tasks", "task_class"]
