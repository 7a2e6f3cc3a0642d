"""Which puzzles a mini-batch holds."""

from dataclasses import replace

import torch

from focus.training.loop import Trainer
from tests.training.samples import tiny_run


def test_hints_belong_to_the_draw_of_a_puzzle(tmp_path):
    plain = tiny_run("sudoku", "none", 2)
    samplers = [
        Trainer(replace(plain, hints=hints), tmp_path / str(hints)).step_runner.sampler
        for hints in (0, 3)
    ]
    example = torch.arange(64)
    drawn_at = example % 5
    without, hinted = (one.batch(torch.tensor(7), drawn_at, example) for one in samplers)
    revealed = (hinted.x.grid > 0) & (without.x.grid == 0)
    assert set(revealed.sum(1).tolist()) == {0, 1, 2, 3}
    assert torch.equal(hinted.x.grid[~revealed], without.x.grid[~revealed])
    assert torch.equal(hinted.x.grid[revealed] - 1, hinted.y.label[revealed])
    # The same while the puzzle stays, and when a language model reads it ahead.
    later = samplers[1].batch(torch.tensor(8), drawn_at, example)
    assert torch.equal(later.x.grid, hinted.x.grid)
    assert torch.equal(samplers[1].problems(drawn_at, example).grid, hinted.x.grid)
    again = samplers[1].batch(torch.tensor(7), drawn_at + 5, example)
    assert not torch.equal(again.x.grid, hinted.x.grid)
