"""The tasks by name: Sudoku and Maze here, others through the entry point group `focus.tasks`."""

from importlib.metadata import EntryPoint, entry_points

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
    return _loaded(others[name])


def _loaded(entry: EntryPoint) -> type[Task]:
    """The class behind an entry point; refuses what would fail later without saying why."""
    try:
        loaded = entry.load()
    except Exception as error:  # whatever another package does when it is imported
        raise UserError(
            f"the task {entry.name!r} ({entry.value}) fails to load: {error}"
        ) from error
    if not (isinstance(loaded, type) and issubclass(loaded, Task)):
        raise UserError(f"the task {entry.name!r} ({entry.value}) is not a class derived from Task")
    if missing := sorted(getattr(loaded, "__abstractmethods__", ())):
        raise UserError(f"the task {entry.name!r} ({entry.value}) lacks {', '.join(missing)}")
    if loaded.name != entry.name:
        raise UserError(
            f"the task {entry.name!r} ({entry.value}) calls itself {loaded.name!r}: its name must "
            "be that of its entry point, by which checkpoints find it"
        )
    return loaded


def known_tasks() -> list[str]:
    """The names of all tasks, those of other packages last."""
    others = {entry.name for entry in entry_points(group=_GROUP)} - set(BUILT_IN)
    return [*BUILT_IN, *sorted(others)]


__all__ = ["BUILT_IN", "Maze", "Sudoku", "Task", "known_tasks", "task_class"]
