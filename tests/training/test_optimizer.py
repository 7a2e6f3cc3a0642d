"""AdamW and Muon, and the average of the weights."""

from dataclasses import replace

import pytest
import torch

from focus.model.checkpoint import trained_weights
from focus.model.solver import Solver
from focus.recipes import recipe
from focus.training.loop import Trainer
from focus.training.optimizer import Muon, make_parts, orthogonal
from tests.training.samples import tiny_run


def a_run(updates: int = 8):
    config = tiny_run("sudoku", "none", updates)
    optimizer = replace(config.optimizer, accumulate=1, ema=0.9)
    return replace(config, optimizer=optimizer, save_every=updates, eval_every=updates)


def test_orthogonal_brings_singular_values_near_one():
    torch.manual_seed(0)
    found = torch.linalg.svdvals(orthogonal(torch.randn(3, 16, 40)))
    assert found.min() > 0.5
    assert found.max() < 1.3


def test_muon_moves_stacked_matrices_one_by_one(tmp_path):
    """q, k and v have orthogonal steps of their own, of the size of AdamW's."""
    config = a_run()
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
def test_muon_moves_the_matrices_of_a_trm_s_layers(name, stacked):
    config = recipe(f"trm-mini-{name}")
    solver = Solver(config.task, config.solver)
    optimizer = replace(config.optimizer, kind="muon")
    (part,) = make_parts(solver, dict(solver.named_parameters()), optimizer)
    plain, muon = part.optimizers
    inner = {id(weight) for weight in solver.updater.net.parameters()}
    assert {id(weight) for weight in muon.param_groups[0]["params"]} == inner
    assert set(muon.stacked) == stacked
    assert id(solver.updater.head.weight) in {id(w) for w in plain.param_groups[0]["params"]}


def test_the_average_forgets_the_start_of_a_short_run(tmp_path):
    """With a decay of 0.999, 40 updates would else leave 96 % of the untrained weights in it."""
    config = a_run(40)
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
