"""A solved puzzle stays solved, and more steps do not hurt."""

from dataclasses import replace

import pytest

from focus.evaluation.puzzles import evaluate
from focus.recipes import recipe
from focus.training.loop import Trainer


@pytest.mark.parametrize(
    ("name", "updates", "least"), [("mini-sudoku", 150, 45), ("mini-maze", 80, 8)]
)
def test_a_thousand_steps_solve_what_sixteen_do(name, updates, least, tmp_path):
    """Shortened recipes; the whole ones are in docs/results/mini-runs.json."""
    config = recipe(name)
    config = replace(
        config, optimizer=replace(config.optimizer, updates=updates), eval_every=updates,
        save_every=updates, eval_rows=20,
    )  # fmt: skip
    trainer = Trainer(config, tmp_path)
    trainer.run()
    few, many = evaluate(trainer.model, trainer.splits.test[:50], [16, 1024])
    assert few.exact.sum() >= least
    assert many.exact.sum() >= few.exact.sum() - 1
