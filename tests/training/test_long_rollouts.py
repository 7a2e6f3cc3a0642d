"""A solved puzzle stays solved, and more steps do not hurt."""

from dataclasses import replace

import pytest

from focus.evaluation.puzzles import evaluate
from focus.recipes import recipe
from focus.training.config import RunConfig
from focus.training.loop import Trainer


def smaller(config: RunConfig) -> RunConfig:
    """Mazes of 6 x 6, which are learned in a minute."""
    return replace(config, task=replace(config.task, size=6, min_path=6, max_tokens=36))


@pytest.mark.parametrize(
    ("config", "updates", "least"),
    [
        (recipe("mini-sudoku"), 150, 45),
        (smaller(recipe("mini-maze")), 300, 45),
        pytest.param(recipe("mini-maze"), 100, 12, marks=pytest.mark.long),
    ],
)
def test_a_thousand_steps_solve_what_sixteen_do(config, updates, least, tmp_path):
    """Shortened recipes; the whole ones are in docs/results/mini-runs.json.

    A maze solver that has not learned yet loses mazes on long rollouts and wins others.
    """
    config = replace(
        config, optimizer=replace(config.optimizer, updates=updates), eval_every=updates,
        save_every=updates, eval_rows=20,
    )  # fmt: skip
    trainer = Trainer(config, tmp_path)
    trainer.run()
    few, many = evaluate(trainer.model, trainer.splits.test[:50], [16, 1024])
    assert few.exact.sum() >= least
    assert many.exact.sum() >= few.exact.sum() - 1
