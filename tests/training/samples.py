"""Runs small enough for tests."""

from dataclasses import replace

from focus.model.backbone import BackboneConfig
from focus.model.updater import UpdaterConfig
from focus.recipes import METHODS, TASKS
from focus.tasks import Maze
from focus.training.config import RunConfig


def tiny_run(
    task: str, backbone: str = "none", updates: int = 6, method: str = "focus", **replay
) -> RunConfig:
    """A few updates of a mini recipe, replaying from the start."""
    config = TASKS[f"mini-{task}"]()
    if task == "maze":
        config = replace(config, task=Maze(size=6, min_path=6, max_tokens=36))
    solver = replace(
        config.solver, backbone=BackboneConfig(backbone, rank=4), updater=UpdaterConfig(width=32)
    )
    config = replace(
        config,
        solver=solver,
        optimizer=replace(config.optimizer, updates=updates, batch=8, accumulate=2, warmup=2),
        replay=replace(
            config.replay,
            **{"start": 0.0, "probability": (0.6, 0.6), "stages": ((1.0, 8, 4),), **replay},
        ),
        steps=3, eval_steps=4, eval_every=max(1, updates), eval_rows=20, log_every=1, save_every=2,
    )  # fmt: skip
    return METHODS[method](config)
