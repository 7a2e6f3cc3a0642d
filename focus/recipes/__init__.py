"""Recipes: functions that return a complete config. A name is TASK[/BACKBONE][/METHOD].

`sudoku` is FOCUS without a language model, `sudoku/qwen3-1.7b` the paper's main run,
`maze/smollm2-135m/random` another method on another backbone. A variant is a few lines on top.
A task of another package goes by its own name. Teachers (TRM) have recipes of their own.
"""

from pathlib import Path
from typing import cast

from focus.errors import UserError
from focus.recipes.methods import METHODS
from focus.recipes.tasks import BACKBONES, TASKS, other_task, with_backbone
from focus.recipes.teachers import COMEBACKS, TEACHERS, with_comebacks
from focus.tasks import known_tasks
from focus.training.config import Method, RunConfig, read_config

__all__ = ["BACKBONES", "COMEBACKS", "METHODS", "TASKS", "TEACHERS", "recipe", "teacher"]


def recipe(name: str) -> RunConfig:
    """The config of a recipe or of a stored `config.json`; `UserError` for what is neither."""
    if name.endswith(".json"):
        return read_config(Path(name))
    task, *rest = name.split("/")
    if task not in TASKS and task not in known_tasks():
        known = ", ".join([*TASKS, *(other for other in known_tasks() if other not in TASKS)])
        raise UserError(f"unknown task {task!r} in {name!r}; tasks: {known}")
    backbones = [word for word in rest if word in BACKBONES]
    methods = [word for word in rest if word in METHODS]
    unknown = [word for word in rest if word not in BACKBONES and word not in METHODS]
    if unknown or len(backbones) > 1 or len(methods) > 1:
        wrong = unknown[0] if unknown else name
        raise UserError(
            f"{wrong!r} is no backbone or method; a recipe is TASK[/BACKBONE][/METHOD] with a "
            f"backbone of {', '.join(BACKBONES)} and a method of {', '.join(METHODS)}; another "
            "model is set by --solver.backbone.name HUB_ID_OR_FOLDER"
        )
    config = with_backbone(TASKS[task]() if task in TASKS else other_task(task), *backbones)
    return METHODS[methods[0] if methods else "focus"](config)


def teacher(name: str) -> RunConfig:
    """The config of a teacher's recipe, TASK[/METHOD], or of a stored `config.json`."""
    if name.endswith(".json"):
        return read_config(Path(name))
    task, _, method = name.partition("/")
    if task not in TEACHERS or (method and method not in COMEBACKS):
        raise UserError(
            f"no teacher {name!r}; teachers: {', '.join(TEACHERS)}, with states of their own "
            f"replayed: TASK/{'|'.join(COMEBACKS)}"
        )
    config = TEACHERS[task]()
    return with_comebacks(config, cast(Method, method)) if method else config
