"""What goes beyond the paper: several updates from one encoding, Muon, scaled gradients, EMA."""

from dataclasses import replace

import pytest
import torch

from focus.errors import UserError
from focus.model.base import SolverConfig
from focus.model.checkpoint import trained_weights
from focus.model.solver import Solver
from focus.model.state import State
from focus.model.updater import UpdaterConfig
from focus.recipes import recipe
from focus.tasks import Sudoku
from focus.training.loop import Trainer
from focus.training.optimizer import Muon, make_parts, orthogonal
from tests.tasks.samples import batch
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
        adapter = next(
            part for part in trainer.step_runner.optimizer.parts if part.name == "adapter"
        )
        for optimizer in adapter.optimizers:
            optimizer.step = lambda adapter=adapter, found=found: found.append(
                [weight.grad.clone() for weight in adapter.weights]
            )
        trainer.train_update()
        trainer.train_update()
        gradients.append(found)
    one_by_one, together = gradients
    assert (len(one_by_one), len(together)) == (2, 1)
    for first, second, mean in zip(*one_by_one, together[0], strict=True):
        torch.testing.assert_close(mean, (first + second) / 2, rtol=1e-3, atol=1e-7)


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


def test_orthogonal_brings_singular_values_near_one():
    torch.manual_seed(0)
    found = torch.linalg.svdvals(orthogonal(torch.randn(3, 16, 40)))
    assert found.min() > 0.5
    assert found.max() < 1.3


def test_muon_moves_stacked_matrices_one_by_one(tmp_path):
    """q, k and v have orthogonal steps of their own, of the size of AdamW's."""
    config = a_run(backbone="none")
    trainer = Trainer(replace(config, optimizer=replace(config.optimizer, kind="muon")), tmp_path)
    (updater,) = trainer.step_runner.optimizer.parts
    muon = next(o for o in updater.optimizers if isinstance(o, Muon))
    block = trainer.model.updater.blocks[0]
    assert {id(block.qkv.weight), id(block.down.weight)} <= {
        id(weight) for weight in muon.param_groups[0]["params"]
    }
    before = block.qkv.weight.detach().clone()
    torch.manual_seed(0)
    for weight in updater.weights:
        weight.grad = torch.randn_like(weight)
    muon.weight_decay, muon.param_groups[0]["lr"] = 0.0, 0.1
    muon.step()
    for moved in (before - block.qkv.weight.detach()).chunk(3):
        values = torch.linalg.svdvals(moved / (0.1 * 0.2 * 32**0.5))
        assert values.median() == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize(("name", "stacked"), [("sudoku", {2, 1}), ("maze", {3, 1, 2})])
def test_muon_moves_the_matrices_of_a_teacher_s_layers(name, stacked):
    config = recipe(f"trm-mini-{name}")
    solver = Solver(config.task, config.solver)
    optimizer = replace(config.optimizer, kind="muon")
    (part,) = make_parts(solver, dict(solver.named_parameters()), optimizer)
    plain, muon = part.optimizers
    inner = {id(weight) for weight in solver.updater.net.parameters()}
    assert {id(weight) for weight in muon.param_groups[0]["params"]} == inner
    assert set(muon.stacked) == stacked
    assert id(solver.updater.head.weight) in {id(w) for w in plain.param_groups[0]["params"]}


def test_damping_keeps_the_values_and_weakens_what_comes_from_far():
    """A gradient that passes n steps back is damped n times."""
    task = Sudoku(box=2)
    x, _ = batch(task)
    found = []
    for bptt_gradient_scale in (1.0, 0.5):
        torch.manual_seed(0)
        solver = Solver(
            task,
            SolverConfig(
                updater=UpdaterConfig(32, bptt_gradient_scale=bptt_gradient_scale, dropout=0.0)
            ),
        )
        torch.nn.init.normal_(solver.updater.head.weight, std=0.1)
        start = solver.updater.initial(x)
        z = start.z.clone().requires_grad_()
        memory = start.u["memory"].detach().requires_grad_()
        rollout = solver.roll(State(z, {"memory": memory}), solver.encode(x), x, 3)
        rollout.last.z.square().sum().backward()
        found.append((rollout.last.z, z.grad, memory.grad))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=0, atol=0)
    for plain, damped in zip(found[0][1:], found[1][1:], strict=True):
        torch.testing.assert_close(damped, plain * 0.5**3, rtol=1e-4, atol=1e-7)


def test_the_average_forgets_the_start_of_a_short_run(tmp_path):
    """With a decay of 0.999, 40 updates would else leave 96 % of the untrained weights in it."""
    config = a_run(40, backbone="none")
    config = replace(config, optimizer=replace(config.optimizer, ema=0.999))
    trainer = Trainer(config, tmp_path)
    start = {n: w.clone() for n, w in trained_weights(trainer.model).items()}
    for _ in range(40):
        trainer.train_update()
    for name, weight in trained_weights(trainer.model).items():
        moved, kept = (
            weight - start[name],
            trainer.step_runner.optimizer.average[name] - start[name],
        )
        assert (kept * moved).sum() > 0.3 * (moved * moved).sum(), name
