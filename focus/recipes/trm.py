"""TRMs: with the published settings, for minutes on a GPU, for a CPU.

Published but for plain AdamW, a cosine to 1 % and clipped gradients.
"""

from collections.abc import Callable
from dataclasses import replace

from focus.curation.config import ReplayMethod
from focus.data.corpus import CorpusConfig
from focus.model.base import SolverConfig
from focus.model.trm import TRMConfig
from focus.recipes.tasks import maze, mini_maze, mini_sudoku, sudoku
from focus.training.config import DeepSupervisionConfig, OptimizerConfig, RunConfig


def _trm(config: RunConfig, trm: TRMConfig, optimizer: OptimizerConfig) -> RunConfig:
    """A run that trains a TRM by deep supervision instead of an updater by FOCUS."""
    task = config.task.answer_only() if trm.targets == "answer" else config.task
    return replace(
        config, task=task, solver=SolverConfig(trm=trm, answer="trm"), optimizer=optimizer,
        replay=replace(config.replay, method="none", base_mixture=(1.0, 0.0, 0.0)),
        teacher=replace(config.teacher, checkpoint=""),
        deep_supervision=DeepSupervisionConfig(steps=16), steps=1, step_weights="uniform",
        eval_steps=16, patience=20,  # late collapses are reported by many
    )  # fmt: skip


def _published(updates: int) -> OptimizerConfig:
    return OptimizerConfig(
        updates=updates, batch=768, accumulate=1, learning_rate=1e-4, warmup=2_000,
        knots=((1.0, 0.01),), weight_decay=1.0, ema=0.999,
    )  # fmt: skip


def trm_sudoku() -> RunConfig:
    """TRM on Sudoku-Extreme: tokens mixed by an MLP."""
    return _trm(sudoku(), TRMConfig(), _published(60_000))


def trm_sudoku_quick() -> RunConfig:
    """TRM on Sudoku-Extreme in a quarter of an hour on a large GPU, with the extra puzzles.

    Small batches, four times the learning rate, shallow at first.
    """
    config = trm_sudoku()
    return replace(
        config,
        optimizer=replace(
            config.optimizer, updates=38_000, batch=256, learning_rate=4e-4, warmup=1_000,
            weight_decay=0.6,
        ),
        deep_supervision=replace(config.deep_supervision, depths=((0.3, 1, 2), (0.6, 2, 4))),
        corpus=CorpusConfig(), augment=True, more_data=("extra",), train_share=0.05,
        eval_every=2_000, save_every=2_000, log_every=100,
        patience=6,
    )  # fmt: skip


def trm_maze() -> RunConfig:
    """TRM on Maze-Hard: attention, and four refinements a cycle."""
    return _trm(maze(), TRMConfig(mixer="attention", inner=4), _published(60_000))


def trm_maze_quick() -> RunConfig:
    """TRM on Maze-Hard in five minutes on a large GPU, beyond the published one.

    Half of the heads look at one neighbouring cell each, and the parent and distance of every cell
    are learned beside the path. Small batches, four times the learning rate, shallow at first. It
    wants more mazes than the 900 of Maze-Hard: `--more-data`.
    """
    trm = TRMConfig(mixer="attention", inner=4, neighbour_heads=4, targets="all")
    optimizer = replace(
        _published(5_000), batch=64, learning_rate=4e-4, warmup=500, weight_decay=0.6
    )
    config = _trm(maze(), trm, optimizer)
    return replace(
        config,
        deep_supervision=replace(config.deep_supervision, depths=((0.3, 1, 2), (0.6, 2, 3))),
        train_share=0.05, eval_every=500, save_every=500, log_every=100,
    )  # fmt: skip


def _small(config: RunConfig) -> OptimizerConfig:
    return replace(
        config.optimizer, updates=1_000, learning_rate=2e-3, knots=((1.0, 0.01),), ema=0.99
    )


def trm_mini_sudoku() -> RunConfig:
    """A small and shallow TRM on 4x4 Sudokus: a minute and a half on two cores."""
    config = mini_sudoku()
    # Without the published weight decay it memorises its 2,000 puzzles.
    optimizer = replace(_small(config), weight_decay=1.0)
    config = _trm(config, TRMConfig(width=64, heads=4, outer=1, inner=1), optimizer)
    return replace(config, deep_supervision=DeepSupervisionConfig(steps=8))


def trm_mini_maze() -> RunConfig:
    """A small and shallow TRM on 10x10 mazes, which learns parents and distances too."""
    config = mini_maze()
    optimizer = replace(_small(config), weight_decay=0.1)
    trm = TRMConfig(
        width=64, heads=4, mixer="attention", outer=1, inner=2, neighbour_heads=4, targets="all"
    )
    return replace(_trm(config, trm, optimizer), deep_supervision=DeepSupervisionConfig(steps=8))


TRMS: dict[str, Callable[[], RunConfig]] = {
    "trm-sudoku": trm_sudoku,
    "trm-sudoku-quick": trm_sudoku_quick,
    "trm-maze": trm_maze,
    "trm-maze-quick": trm_maze_quick,
    "trm-mini-sudoku": trm_mini_sudoku,
    "trm-mini-maze": trm_mini_maze,
}


def with_carried_replay(config: RunConfig, method: ReplayMethod) -> RunConfig:
    """FOCUS (or random, energy-hard) with deep supervision: `objectives/carried_replay.py`.

    After a tenth of the run every second puzzle that ends with an eligible state (a Sudoku:
    unsolved) comes back once, for a quarter of a stay.
    """
    steps = config.deep_supervision.steps
    h = max(1, steps // 4)
    candidates = tuple(range(0, steps - h + 1, max(1, steps // 8)))
    return replace(
        config, curation=replace(config.curation, candidates=candidates, beta=0.0),
        replay=replace(
            config.replay, method=method, start=0.1, probability=(0.5, 0.5),
            stages=((1.0, steps, h),),
        ),
    )  # fmt: skip


TRM_METHODS: tuple[ReplayMethod, ...] = ("focus", "random", "energy-hard")
