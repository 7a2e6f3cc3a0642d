"""Recipes: functions that return a complete config. A variant is a few lines on top of another."""

from collections.abc import Callable
from dataclasses import replace

from focus.curation.replay import CurationConfig
from focus.errors import UserError
from focus.model.solver import SolverConfig
from focus.model.updater import UpdaterConfig
from focus.tasks import Maze, Sudoku
from focus.training.config import OptimizerConfig, ReplayConfig, RunConfig


def sudoku() -> RunConfig:
    """Sudoku-Extreme with the paper's settings, without a language model."""
    return RunConfig()


def maze() -> RunConfig:
    """Maze-Hard with the paper's settings, without a language model."""
    return RunConfig(
        task=Maze(max_tokens=656),
        solver=SolverConfig(updater=UpdaterConfig(answer_scale=0.5)),
        optimizer=OptimizerConfig(updates=16_000, accumulate=16, learning_rate=2e-4),
        replay=ReplayConfig(
            start=3_000 / 16_000, stages=((1.0, 16, 4),), probability=(0.12, 0.30),
            ramp=4_500 / 16_000, weight=1.0, base_always=False,
            base_mixture=(0.45, 0.35, 0.20), fixed_mixture=(0.45, 0.35, 0.20),
        ),
        curation=CurationConfig(candidates=(0, 2, 4, 6, 8, 10, 12), beta=0.05),
        eval_steps=16,
    )  # fmt: skip


def mini_sudoku() -> RunConfig:
    """4x4 Sudoku for a CPU: minutes on two cores."""
    return RunConfig(
        task=Sudoku(box=2),
        solver=SolverConfig(updater=UpdaterConfig(width=64)),
        optimizer=OptimizerConfig(
            updates=600, batch=64, accumulate=1, learning_rate=2e-3, warmup=50
        ),
        replay=ReplayConfig(stages=((0.5, 8, 4), (1.0, 16, 4))),
        curation=CurationConfig(candidates=(0, 2, 4, 8, 12)),
        steps=6, eval_steps=16, eval_every=100, eval_rows=400, save_every=100,
        data="generated", augment=False,  # a symmetry of a training puzzle may be a test puzzle
    )  # fmt: skip


def mini_maze() -> RunConfig:
    """10x10 mazes for a CPU: minutes on two cores."""
    base = maze()
    return replace(
        base,
        task=Maze(size=10, min_path=15, max_tokens=90),
        solver=SolverConfig(updater=UpdaterConfig(width=64, answer_scale=0.5)),
        optimizer=OptimizerConfig(
            updates=300, batch=32, accumulate=1, learning_rate=2e-3, warmup=50
        ),
        steps=8, eval_steps=16, eval_every=100, eval_rows=200, save_every=100,
        data="generated",
    )  # fmt: skip


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "sudoku": sudoku,
    "maze": maze,
    "mini-sudoku": mini_sudoku,
    "mini-maze": mini_maze,
}


def recipe(name: str) -> RunConfig:
    """The config of a recipe; raises `UserError` for an unknown name."""
    if name not in RECIPES:
        raise UserError(f"unknown recipe {name!r}; recipes: {', '.join(RECIPES)}")
    return RECIPES[name]()
