"""The first updates of the mini recipes lose what they lost when the curves were stored.

    python -m tests.training.test_golden      # store them anew, after a change that means to

12 updates, each loss within 1 % of the stored one: float noise between machines stays far below,
a changed draw, loss or schedule does not.
"""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from focus.recipes import recipe
from focus.training.loop import Trainer

STORED = Path(__file__).parents[1] / "assets" / "losses.json"
UPDATES = 12


def first_losses(name: str, folder: Path) -> list[float]:
    """Losses of the first updates, with replays from the third on."""
    config = recipe(name)
    config = replace(
        config, log_every=1, replay=replace(config.replay, start=2.5 / config.optimizer.updates)
    )
    trainer = Trainer(config, folder)
    found = []
    for _ in range(UPDATES):
        trainer.train_update()
        found.append(trainer.step_runner.metric_sums.read()["loss"])
        trainer.step_runner.metric_sums.reset()
    return found


@pytest.mark.parametrize("name", ["mini-sudoku", "mini-maze"])
def test_the_first_losses_are_the_stored_ones(name, tmp_path):
    stored = json.loads(STORED.read_text())[name]
    assert len(stored) == UPDATES
    assert first_losses(name, tmp_path) == pytest.approx(stored, rel=0.01)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        curves = {
            name: first_losses(name, Path(temporary)) for name in ("mini-sudoku", "mini-maze")
        }
    STORED.parent.mkdir(exist_ok=True)
    STORED.write_text(json.dumps(curves, indent=1) + "\n")
