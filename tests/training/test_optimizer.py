"""AdamW and Muon over one vector, and the average of the weights."""

from dataclasses import replace

import pytest
import torch

from focus.model.checkpoint import load_model, trained_weights
from focus.model.solver import Solver
from focus.recipes import recipe
from focus.training.loop import Trainer
from focus.training.optimizer import Muon, Optimizer, orthogonal
from focus.training.state import optimizer_tensors, restore_optimizer
from tests.training.samples import tiny_run


def a_run(updates: int = 8, backbone: str = "none", **changes):
    config = tiny_run("sudoku", backbone, updates)
    optimizer = replace(config.optimizer, **{"accumulate": 1, "ema": 0.9, **changes})
    return replace(config, optimizer=optimizer, save_every=updates, eval_every=updates)


def test_adamw_moves_the_weights_of_a_part_as_one(tmp_path):
    trainer = Trainer(a_run(backbone="tiny-llama"), tmp_path)
    optimizer = trainer.step_runner.optimizer
    vector = optimizer.vector
    before = {name: weight.clone() for name, weight in trained_weights(trainer.model).items()}
    for _ in range(3):
        trainer.train_update()
    assert [part.name for part in optimizer.parts] == ["updater", "adapter"]
    for part in optimizer.parts:
        (adamw,) = part.optimizers
        (moved,) = adamw.param_groups[0]["params"]
        assert moved.data_ptr() == vector.values[part.place].data_ptr()
        assert moved.grad.data_ptr() == vector.gradients[part.place].data_ptr()
    values, gradients = vector.split(vector.values), vector.split(vector.gradients)
    assert set(before) == set(values)
    for name, weight in trainer.model.named_parameters():
        if weight.requires_grad:
            assert weight.data_ptr() == values[name].data_ptr(), name
            assert weight.grad.data_ptr() == gradients[name].data_ptr(), name
            assert vector.places[name].start % 64 == 0
            assert not torch.equal(weight, before[name]), name


def test_what_lies_between_the_weights_stays_zero(tmp_path):
    trainer = Trainer(a_run(backbone="tiny-llama"), tmp_path)
    optimizer = trainer.step_runner.optimizer
    for _ in range(3):
        trainer.train_update()
    between = torch.ones_like(optimizer.vector.values, dtype=torch.bool)
    for place in optimizer.vector.places.values():
        between[place] = False
    assert between[optimizer.parts[0].place].any()
    for part in optimizer.parts:
        (state,) = part.optimizers[0].state.values()
        for moments in (state["exp_avg"], state["exp_avg_sq"]):
            assert moments.any()
            assert not moments[between[part.place]].any()
    for whole in (optimizer.vector.values, optimizer.averaged):
        assert not whole[between].any()


def test_moments_that_were_stored_by_name_move_each_weight_as_its_own_adamw_would(tmp_path):
    optimizer = Trainer(a_run(backbone="tiny-llama"), tmp_path).step_runner.optimizer
    torch.manual_seed(0)
    stored, alone = {}, {}
    for name, weight in optimizer.vector.named.items():
        weight.grad.normal_(std=1e-3)
        own = alone[name] = torch.nn.Parameter(weight.detach().clone())
        own.grad = weight.grad.clone()
        peak = optimizer.config.lora_learning_rate if "lora_" in name else 1e-3
        adamw = torch.optim.AdamW(
            [own], peak, betas=(0.9, optimizer.config.beta2),
            weight_decay=optimizer.config.weight_decay,
        )  # fmt: skip
        adamw.state[own] = {
            "step": torch.tensor(7.0),
            "exp_avg": torch.randn_like(own) * 1e-3,
            "exp_avg_sq": torch.rand_like(own) * 1e-6,
        }
        stored |= {f"{key}/{name}": value.clone() for key, value in adamw.state[own].items()}
        adamw.step()
    optimizer.config = replace(optimizer.config, clip=1e9)
    optimizer.parts[0].optimizers[0].param_groups[0]["peak"] = 1e-3
    optimizer.set_learning_rates(1.0)
    restore_optimizer(optimizer, stored)
    optimizer.step(torch.tensor(7), 1)
    for name, weight in optimizer.vector.named.items():
        assert torch.equal(weight, alone[name]), name
    again = optimizer_tensors(optimizer)
    assert {name: value.shape for name, value in again.items()} == {
        name: value.shape for name, value in stored.items()
    }
    assert again[f"step/{name}"] == 8


@pytest.mark.parametrize("ema", [0.0, 0.9])
@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_putting_back_what_an_update_changes_undoes_it(tmp_path, kind, ema):
    trainer = Trainer(a_run(kind=kind, ema=ema), tmp_path)
    optimizer = trainer.step_runner.optimizer

    def everything():
        whole = [trained_weights(trainer.model), optimizer.average, optimizer_tensors(optimizer)]
        return [value.clone() for named in whole for value in named.values()]

    trainer.train_update()
    first, saved = everything(), [tensor.clone() for tensor in optimizer.tensors()]
    trainer.train_update()
    assert not all(map(torch.equal, first, everything()))
    for tensor, value in zip(optimizer.tensors(), saved, strict=True):
        tensor.copy_(value)
    assert all(map(torch.equal, first, everything()))


@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_the_average_is_what_is_validated_and_the_weights_go_on(tmp_path, ema):
    config = a_run(4, ema=ema)
    trainer = Trainer(config, tmp_path)
    trainer.run()
    weights, average = trained_weights(trainer.model), trainer.step_runner.optimizer.average
    best = trained_weights(load_model(tmp_path / "best"))
    again = Trainer(config, tmp_path)
    again.resume()
    resumed = again.step_runner.optimizer.average
    for name, weight in weights.items():
        assert torch.equal(weight, average[name]) == (ema == 0), name
        assert torch.equal(best[name], average[name]), name
        assert torch.equal(resumed[name], average[name]), name
        assert torch.equal(trained_weights(again.model)[name], weight), name


def test_orthogonal_brings_singular_values_near_one():
    torch.manual_seed(0)
    found = torch.linalg.svdvals(orthogonal(torch.randn(3, 16, 40)))
    assert found.min() > 0.5
    assert found.max() < 1.3


def test_muon_moves_stacked_matrices_one_by_one(tmp_path):
    """q, k and v have orthogonal steps of their own, of the size of AdamW's."""
    trainer = Trainer(a_run(kind="muon"), tmp_path)
    optimizer = trainer.step_runner.optimizer
    (updater,) = optimizer.parts
    muon = next(o for o in updater.optimizers if isinstance(o, Muon))
    block = trainer.model.updater.blocks[0]
    assert {id(block.qkv.weight), id(block.down.weight)} <= {
        id(weight) for weight in muon.param_groups[0]["params"]
    }
    before = block.qkv.weight.detach().clone()
    torch.manual_seed(0)
    for weight in optimizer.vector.named.values():
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
    optimizer = Optimizer(solver, replace(config.optimizer, kind="muon"))
    (part,) = optimizer.parts
    _, muon = part.optimizers
    inner = {id(weight) for weight in solver.updater.net.parameters()}
    assert {id(weight) for weight in muon.param_groups[0]["params"]} == inner
    assert set(muon.stacked) == stacked
    by_adamw = {name for name in optimizer_tensors(optimizer) if name.startswith("exp_avg_sq/")}
    assert by_adamw == {
        f"exp_avg_sq/{n}" for n, w in solver.named_parameters() if id(w) not in inner
    }


def test_the_average_forgets_the_start_of_a_short_run(tmp_path):
    """With a decay of 0.999, 40 updates would else leave 96 % of the untrained weights in it."""
    trainer = Trainer(a_run(40, ema=0.999), tmp_path)
    start = {n: w.clone() for n, w in trained_weights(trainer.model).items()}
    for _ in range(40):
        trainer.train_update()
    for name, weight in trained_weights(trainer.model).items():
        moved, kept = (
            weight - start[name],
            trainer.step_runner.optimizer.average[name] - start[name],
        )
        assert (kept * moved).sum() > 0.3 * (moved * moved).sum(), name
