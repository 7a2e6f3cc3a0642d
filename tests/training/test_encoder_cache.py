"""What goes beyond the paper: several updates from one encoding, Muon, scaled gradients, EMA."""

from dataclasses import replace

import pytest
import torch

from focus.errors import UserError
from focus.model.checkpoint import trained_weights
from focus.model.updater import UpdaterConfig
from focus.training.loop import Trainer
from tests.training.samples import tiny_run


def a_run(updates: int = 8, backbone: str = "tiny-llama", **changes):
    config = tiny_run("sudoku", backbone, updates)
    optimizer = replace(config.optimizer, accumulate=1, ema=0.9)
    config = replace(config, optimizer=optimizer, save_every=updates, eval_every=updates)
    return replace(config, **changes)


def test_the_adapter_learns_once_an_interval_from_the_mean_of_its_updates(tmp_path):
    """With the updater at rest, an interval's gradient is the mean of its batches' gradients."""
    still = replace(a_run().optimizer, learning_rate=0.0, weight_decay=0.0, clip=1e9)
    backbone = replace(a_run().solver.backbone, lora_dropout=0.0)
    solver = replace(
        a_run().solver, backbone=backbone, updater=UpdaterConfig(width=32, dropout=0.0)
    )
    config = a_run(2, solver=solver, optimizer=replace(still, updates=2))
    gradients = []
    for ahead in (1, 2):
        trainer = Trainer(replace(config, encode_batches=ahead), tmp_path / str(ahead))
        head = trainer.model.updater.head
        torch.nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(0))
        found = []
        (adapter,) = trainer.step_runner.optimizer.named("adapter")
        (gradient,) = trainer.step_runner.optimizer.gradients("adapter")
        for optimizer in adapter.optimizers:
            optimizer.step = lambda gradient=gradient, found=found: found.append(gradient.clone())
        trainer.train_update()
        trainer.train_update()
        gradients.append(found)
    one_by_one, together = gradients
    assert (len(one_by_one), len(together)) == (2, 1)
    first, second = one_by_one
    torch.testing.assert_close(together[0], (first + second) / 2, rtol=1e-3, atol=1e-7)


def test_updates_from_one_encoding_use_the_same_puzzles_again(tmp_path):
    trainer = Trainer(a_run(8, encode_batches=2, updates_per_encode=2), tmp_path)
    seen, sampler = [], trainer.step_runner.sampler
    batch = sampler.batch

    def watch(*arguments):
        drawn = batch(*arguments)
        seen.append(drawn.x.grid)
        return drawn

    sampler.batch = watch
    for _ in range(8):
        trainer.train_update()
    for first in (0, 4):
        assert torch.equal(seen[first], seen[first + 2])
        assert torch.equal(seen[first + 1], seen[first + 3])
        assert not torch.equal(seen[first], seen[first + 1])
    assert not torch.equal(seen[0], seen[4])


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_encode_intervals_resume_bit_for_bit(tmp_path, kind):
    config = a_run(8, encode_batches=2, updates_per_encode=2, save_every=4)
    config = replace(config, optimizer=replace(config.optimizer, kind=kind))
    whole = Trainer(config, tmp_path)
    for _ in range(4):
        whole.train_update()
    whole.save()
    again = Trainer(config, tmp_path)
    again.resume()
    for trainer in (whole, again):
        for _ in range(4):
            trainer.train_update()
    for name, weight in trained_weights(whole.model).items():
        assert torch.equal(weight, trained_weights(again.model)[name]), name
        assert torch.equal(
            whole.step_runner.optimizer.average[name], again.step_runner.optimizer.average[name]
        ), name


def test_an_encode_interval_must_fit_the_run():
    with pytest.raises(UserError, match="save-every"):
        a_run(8, encode_batches=4, save_every=6)
    config = tiny_run("sudoku")  # of two mini-batches
    with pytest.raises(UserError, match="accumulate"):
        replace(config, updates_per_encode=2)
