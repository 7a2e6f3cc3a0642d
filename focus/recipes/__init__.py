"""Recipes: functions that return a complete config. A name is TASK[/BACKBONE][/METHOD].

`sudoku` is FOCUS without a language model, `sudoku/qwen3-1.7b` the paper's main run,
`maze/smollm2-135m/random` another method on another backbone. A variant is a few lines on top.
`trm-sudoku` trains a TRM, `trm-sudoku/focus` one with replay. A task of another package goes by its
own name.
"""

from dataclasses import replace
from pathlib import Path

from focus.errors import UserError, did_you_mean
from focus.recipes.methods import METHODS
from focus.recipes.tasks import BACKBONES, TASKS, other_task, with_backbone
from focus.recipes.trm import TRM_METHODS, TRMS, with_carried_replay
from focus.tasks import known_tasks
from focus.training.config import RunConfig, read_config

__all__ = ["BACKBONES", "METHODS", "TASKS", "TRMS", "TRM_METHODS", "recipe"]


def recipe(name: str) -> RunConfig:
    """The config of a recipe or of a stored `config.json`; `UserError` for what is neither."""
    if name.endswith(".json"):
        return read_config(Path(name))
    task, *rest = name.split("/")
    if task in TRMS:
        return replace(_trm(name, task, rest), recipe=name)
    if task not in TASKS and task not in known_tasks():
        others = (other for other in known_tasks() if other not in TASKS)
        raise UserError(
            f"unknown task {task!r} in {name!r}; tasks: {', '.join([*TASKS, *others])}; TRMs: "
            f"{', '.join(TRMS)}{did_you_mean(task, [*known_tasks(), *TASKS, *TRMS])}"
        )
    backbones = [word for word in rest if word in BACKBONES]
    methods = [word for word in rest if word in METHODS]
    unknown = [word for word in rest if word not in BACKBONES and word not in METHODS]
    if unknown or len(backbones) > 1 or len(methods) > 1:
        wrong = unknown[0] if unknown else name
        raise UserError(
            f"{wrong!r} is neither a backbone nor a method; a recipe is TASK[/BACKBONE][/METHOD] "
            f"with a backbone of {', '.join(BACKBONES)} and a method of {', '.join(METHODS)}; "
            "another model is set by --solver.backbone.name HUB_ID_OR_FOLDER"
            f"{did_you_mean(wrong, [*BACKBONES, *METHODS])}"
        )
    method = methods[0] if methods else "focus"
    config = with_backbone(TASKS[task]() if task in TASKS else other_task(task), *backbones)
    return replace(METHODS[method](config), recipe=name, method=method)


def _trm(name: str, task: str, rest: list[str]) -> RunConfig:
    """A TRM, plain or with its own states replayed."""
    config = TRMS[task]()
    if not rest:
        return replace(config, method="trm")
    (method,) = rest if len(rest) == 1 else ("",)
    for trm_method in TRM_METHODS:
        if method == trm_method:
            return replace(with_carried_replay(config, trm_method), method=f"trm-{trm_method}")
    raise UserError(
        f"{name!r} is not a recipe; a TRM is {task}, or {task}/{'|'.join(TRM_METHODS)} with its "
        "own states replayed"
    )
