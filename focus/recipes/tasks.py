"""Tasks and backbones: the paper's settings, and small ones for a CPU."""

from collections.abc import Callable
from dataclasses import replace

from focus.curation.config import CurationConfig, ReplayConfig
from focus.data.corpus import CorpusConfig
from focus.model.backbone import BackboneConfig
from focus.model.base import SolverConfig
from focus.model.pretrained import HUB_IDS, TINY
from focus.model.updater import UpdaterConfig
from focus.tasks import Maze, Sudoku, task_class
from focus.training.config import OptimizerConfig, RunConfig, TeacherConfig

BACKBONES = ("none", *HUB_IDS, *TINY)


def with_backbone(config: RunConfig, name: str = "none") -> RunConfig:
    """The run with a language model."""
    backbone = replace(config.solver.backbone, name=name)
    return replace(config, solver=replace(config.solver, backbone=backbone))


def sudoku() -> RunConfig:
    """Sudoku-Extreme with the paper's settings and data; where knots and stages change is ours.

    707 sources under 100 symmetries each and 50,000 synthetic puzzles; no further symmetries. Its
    teacher is a TRM on the same puzzles (`runs/sudoku_teacher.sh`). Gradients are scaled by 0.8
    from each step to the one before, which is ours: what comes from far is mostly noise. A language
    model reads the puzzle once; the paper does not say how it is printed.
    """
    knots = ((0.2, 0.9), (0.4, 0.65), (0.6, 0.35), (0.8, 0.12), (1.0, 0.02))
    return RunConfig(
        task=Sudoku(grids_in_prompt=1),
        solver=SolverConfig(updater=UpdaterConfig(bptt_gradient_scale=0.8)),
        optimizer=OptimizerConfig(knots=knots, accumulate=1),
        corpus=CorpusConfig(sources=707, symmetries=100, synthetic=50_000), augment=False,
        teacher=TeacherConfig("sudoku-teacher"),
    )  # fmt: skip


def sudoku_quick() -> RunConfig:
    """Sudoku-Extreme in minutes on one GPU; all that differs from the paper's settings is ours.

    No teacher, large batches, Muon at a high rate, averaged weights, replay of solved states, an
    answer that decays, no dropout in the adapter (it costs a quarter of the encoder), and more
    puzzles: only 5 % of the examples come from the 1,000 of train, because the updater memorises
    them when half of the examples do.
    """
    config = sudoku()
    updater = replace(config.solver.updater, answer_decay=0.05)
    return replace(
        config,
        task=Sudoku(answer_features="logits"),
        solver=SolverConfig(BackboneConfig(lora_dropout=0.0), updater),
        optimizer=OptimizerConfig(
            "muon", updates=11_500, batch=192, accumulate=1, learning_rate=2e-3,
            lora_learning_rate=1e-4, ema=0.999,
        ),
        curation=replace(config.curation, replay_solved=True), teacher=TeacherConfig(),
        corpus=CorpusConfig(), augment=True, more_data=("extra",), train_share=0.05,
        step_weights="uniform", eval_every=2_300, save_every=2_300, log_every=100,
    )  # fmt: skip


def maze() -> RunConfig:
    """Maze-Hard with the paper's settings, without a teacher (`runs/maze_teacher.sh`)."""
    return RunConfig(
        task=Maze(max_tokens=656),
        solver=SolverConfig(updater=UpdaterConfig(answer_scale=0.5)),
        optimizer=OptimizerConfig(
            updates=16_000, accumulate=1, learning_rate=2e-4, knots=((1.0, 0.0),)
        ),
        replay=ReplayConfig(
            start=3_000 / 16_000, stages=((1.0, 16, 4),), probability=(0.12, 0.30),
            ramp=4_500 / 16_000, weight=1.0, base_always=False,
            base_mixture=(0.45, 0.35, 0.20), fixed_mixture=(0.45, 0.35, 0.20),
        ),
        curation=CurationConfig(candidates=(0, 2, 4, 6, 8, 10, 12), beta=0.05),
        teacher=TeacherConfig(
            weight=0.005, temperature=4.0, start=3_000 / 16_000, warmup=2_000 / 16_000
        ),
        eval_steps=16,
    )  # fmt: skip


def maze_quick() -> RunConfig:
    """Maze-Hard in minutes on one GPU; all that differs from the paper's settings is ours.

    Messages between neighbouring cells inside each update in place of a structural bias, large
    updates from the start, averaged weights, replay of solved states, an answer that decays, no
    dropout in the adapter.
    """
    config = maze()
    return replace(
        config,
        task=Maze(max_tokens=656, answer_features="logits"),
        solver=SolverConfig(
            BackboneConfig(lora_dropout=0.0),
            UpdaterConfig(answer_scale=0.5, structure="none", hops=6, answer_decay=0.05),
        ),
        optimizer=OptimizerConfig(
            updates=4_000, batch=24, accumulate=1, learning_rate=1e-3, lora_learning_rate=1e-4,
            warmup=100, ema=0.996,
        ),
        # Rollouts of 64 steps near the end: a solved maze is to stay solved for longer than K.
        replay=replace(
            config.replay, base_mixture=(1.0, 0.0, 0.0), stages=((0.6, 16, 4), (1.0, 64, 4))
        ),
        curation=replace(config.curation, replay_solved=True),
        eval_every=800, save_every=800,
    )  # fmt: skip


def mini_sudoku() -> RunConfig:
    """4x4 Sudoku: a minute on two cores."""
    return RunConfig(
        task=Sudoku(box=2),
        solver=SolverConfig(updater=UpdaterConfig(width=64)),
        optimizer=OptimizerConfig(
            updates=600, batch=64, accumulate=1, learning_rate=2e-3, lora_learning_rate=1e-3,
            warmup=50,
        ),
        replay=ReplayConfig(stages=((0.5, 8, 4), (1.0, 16, 4))),
        curation=CurationConfig(candidates=(0, 2, 4, 8, 12)),
        steps=6, eval_steps=16, eval_every=100, eval_rows=400, log_every=10, save_every=100,
        data="generated", augment=False,  # a symmetry of a training puzzle may be a test puzzle
    )  # fmt: skip


def mini_maze() -> RunConfig:
    """10x10 mazes: some minutes on two cores."""
    return replace(
        maze(),
        task=Maze(size=10, min_path=15, max_tokens=90),
        solver=SolverConfig(updater=UpdaterConfig(width=64, answer_scale=0.5)),
        optimizer=OptimizerConfig(
            updates=600, batch=32, accumulate=1, learning_rate=2e-3, lora_learning_rate=1e-3,
            warmup=50,
        ),
        steps=8, eval_steps=16, eval_every=100, eval_rows=200, log_every=10, save_every=100,
        data="generated",
    )  # fmt: skip


def other_task(name: str) -> RunConfig:
    """A task of another package: small, to start from."""
    mini = mini_sudoku()
    return replace(
        mini, task=task_class(name).of_side(None),
        solver=SolverConfig(updater=UpdaterConfig(width=128)),
    )  # fmt: skip


TASKS: dict[str, Callable[[], RunConfig]] = {
    "sudoku": sudoku,
    "sudoku-quick": sudoku_quick,
    "maze": maze,
    "maze-quick": maze_quick,
    "mini-sudoku": mini_sudoku,
    "mini-maze": mini_maze,
}
