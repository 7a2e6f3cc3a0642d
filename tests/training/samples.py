"""Runs small enough for tests."""

from dataclasses import replace

from focus.model.backbone import BackboneConfig
from focus.model.solver import SolverConfig
from focus.model.updater import UpdaterConfig
from focus.recipes import mini_maze, mini_sudoku
from focus.tasks import Maze
from focus.training.config import RunConfig


def tiny_run(task: str, backbone: str = "none", updates: int = 6, **replay) -> RunConfig:
    """A few updates of a mini recipe, replaying from the start."""
    base = mini_sudoku() if task == "sudoku" else mini_maze()
    if task == "maze":
        base = replace(base, task=Maze(size=6, min_path=6, max_tokens=36))
    return replace(
        base,
        solver=SolverConfig(BackboneConfig(backbone, rank=4), UpdaterConfig(width=32)),
        optimizer=replace(base.optimizer, updates=updates, batch=8, accumulate=2, warmup=2),
        replay=replace(
            base.replay,
            **{"start": 0.0, "probability": (0.6, 0.6), "stages": ((1.0, 8, 4),), **replay},
        ),
        steps=3, eval_steps=4, eval_every=updates, eval_rows=20, log_every=1, save_every=2,
    )  # fmt: skip
