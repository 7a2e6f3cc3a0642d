"""Runs that are trained together are the runs that each would be alone."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from focus.cli import main
from focus.errors import UserError
from focus.training.config import DeepSupervisionConfig, RunConfig
from focus.training.loop import Trainer
from focus.training.stack import Stack, StackedRuns
from focus.training.state import optimizer_tensors
from tests.training.samples import tiny_run


def a_run(
    method: str = "focus", seed: int = 1, updates: int = 6, dropout: float = 0.0,
    task: str = "sudoku", backbone: str = "none", structure: str = "bias",
) -> RunConfig:  # fmt: skip
    config = tiny_run(task, backbone, updates=updates, method=method)
    updater = replace(
        config.solver.updater, dropout=dropout, structure=structure, bptt_gradient_scale=0.8
    )  # fmt: skip
    encoder = replace(config.solver.backbone, lora_dropout=dropout)
    return replace(
        config, seed=seed, solver=replace(config.solver, updater=updater, backbone=encoder),
        optimizer=replace(config.optimizer, accumulate=1),
    )  # fmt: skip


def lines(folder: Path) -> list[dict]:
    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("task", "backbone", "structure"),
    [("sudoku", "none", "none"), ("maze", "none", "bias"), ("sudoku", "tiny-llama", "bias")],
)
def test_a_run_of_a_stack_has_the_losses_of_the_run_alone(tmp_path, task, backbone, structure):
    methods = ("focus", "random", "no-penalty", "random-penalty", "focus")
    runs = {
        tmp_path / f"{n}": a_run(method, seed, task=task, backbone=backbone, structure=structure)
        for n, (method, seed) in enumerate(zip(methods, (1, 1, 2, 2, 3), strict=True))
    }
    Stack(runs).run()
    for folder, config in runs.items():
        Trainer(config, tmp_path / "alone" / folder.name).run()
        ours, alone = lines(folder), lines(tmp_path / "alone" / folder.name)
        assert any(line["replayed"] for line in alone)
        for one, other in zip(ours, alone, strict=True):
            for name in ("loss", "gradient", "exact", "replayed", "D"):
                assert one[name] == pytest.approx(other[name], rel=2e-3, abs=1e-4), name


def test_the_vector_of_each_run_is_a_row_of_the_stack(tmp_path):
    runs = {tmp_path / f"{seed}": a_run(seed=seed, backbone="tiny-llama") for seed in (1, 2, 3)}
    trainers = Stack(runs).trainers
    stack = StackedRuns(trainers, "cpu")
    places = [tensor.data_ptr() for tensor in stack._changing()]
    before = {name: weight.detach().clone() for name, weight in stack.solver.weights.items()}
    for _ in range(4):  # at first the head and lora_B are zero, and others do not learn
        stack.train_update()
    assert [tensor.data_ptr() for tensor in stack._changing()] == places
    assert len({*places}) == len(places)
    storage = stack.solver.weights["updater.head.weight"].untyped_storage().data_ptr()
    for number, trainer in enumerate(trainers):
        optimizer = trainer.step_runner.optimizer
        assert optimizer.vector.values.untyped_storage().data_ptr() == storage
        for part in optimizer.parts:
            (moved,) = part.optimizers[0].param_groups[0]["params"]
            assert moved.data_ptr() == optimizer.vector.values[part.place].data_ptr()
        for name, weight in optimizer.vector.named.items():
            joined = stack.solver.weights[name]
            assert not joined._is_view()  # autocast would convert it at every use
            assert weight.data_ptr() == joined[number].data_ptr(), name
            assert weight.grad.data_ptr() == joined.grad[number].data_ptr(), name
            assert not torch.equal(weight, before[name][number]), name


@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_the_state_of_a_run_of_a_stack_is_that_of_a_run_alone(tmp_path, ema):
    plain = a_run()
    runs = {
        tmp_path / f"{seed}": replace(
            plain, seed=seed, optimizer=replace(plain.optimizer, ema=ema)
        ) for seed in (1, 2)
    }  # fmt: skip
    stack = Stack(runs)
    stack.run()
    for (folder, config), trainer in zip(runs.items(), stack.trainers, strict=True):
        alone = Trainer(config, folder)
        alone.resume()
        ours, theirs = (one.step_runner.optimizer for one in (trainer, alone))
        for kind in (optimizer_tensors, lambda o: o.vector.named, lambda o: o.average):
            stored = kind(theirs)
            for name, value in kind(ours).items():
                assert value.any(), name
                assert torch.equal(value, stored[name]), name


def test_runs_of_a_stack_may_have_optimizers_of_their_own(tmp_path):
    plain = a_run()
    changes = ({}, {"learning_rate": 3e-3}, {"knots": ((0.5, 0.1), (1.0, 0.1)), "beta2": 0.999})
    runs = {
        tmp_path / f"{n}": replace(plain, optimizer=replace(plain.optimizer, **change))
        for n, change in enumerate(changes)
    }
    Stack(runs).run()
    for folder, config in runs.items():
        Trainer(config, tmp_path / "alone" / folder.name).run()
        ours, alone = (lines(one)[-1] for one in (folder, tmp_path / "alone" / folder.name))
        assert ours["loss"] == pytest.approx(alone["loss"], rel=2e-3), config.optimizer
    assert len({lines(folder)[-1]["loss"] for folder in runs}) == 3


def test_runs_of_a_stack_that_a_kill_left_apart_catch_up(tmp_path):
    whole = {tmp_path / "whole" / str(seed): a_run(seed=seed) for seed in (1, 2)}
    Stack(whole).run()
    runs = {tmp_path / "cut" / str(seed): a_run(seed=seed) for seed in (1, 2)}
    short = Stack(runs)
    for trainer in short.trainers:
        trainer.begin()
    for trainer, updates in zip(short.trainers, (2, 4), strict=True):  # killed between two saves
        for _ in range(updates):
            trainer.train_update()
            trainer.after_update()
    again = Stack(runs)
    assert [trainer.update for trainer in again.trainers] == [2, 4]
    again.run()
    for one, other in zip(whole, runs, strict=True):
        ours, theirs = lines(one)[-1], lines(other)[-1]
        assert theirs["update"] == 6
        assert theirs["loss"] == pytest.approx(ours["loss"], rel=2e-3)


def test_a_stack_learns_with_dropout(tmp_path):
    folder = tmp_path / "run"
    Stack({folder: a_run(updates=30, dropout=0.05)}).run()
    losses = [line["loss"] for line in lines(folder)]
    assert sum(losses[-5:]) < sum(losses[:5])


def test_what_cannot_share_updates_is_refused(tmp_path):
    other = replace(a_run(), steps=4)
    with pytest.raises(UserError, match="differ in --steps"):
        Stack({tmp_path / "a": a_run(), tmp_path / "b": other})
    carried = replace(a_run("no-replay"), deep_supervision=DeepSupervisionConfig(steps=4))
    for first in (carried, a_run()):  # whose penalty carried states cannot have
        with pytest.raises(UserError, match=r"deep-supervision\.steps 0"):
            Stack({tmp_path / "a": first, tmp_path / "b": carried})
    with pytest.raises(UserError, match="all replay states"):
        Stack({tmp_path / "a": a_run(), tmp_path / "b": a_run("recurrent")})


def test_the_command_trains_seeds_together_and_goes_on_without_its_flags(tmp_path, capsys):
    out = str(tmp_path / "runs")
    few = ["--optimizer.batch", "4", "--eval-rows", "4", "--save-every", "1", "--eval-steps", "2"]
    words = ["train", "mini-sudoku", "--seeds", "1", "2", "--out", out]
    assert main([*words, *few, "--optimizer.updates", "2"]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        f"{out}/seed-1", f"{out}/seed-2"
    ]  # fmt: skip
    assert main(words) == 2
    assert "add --resume" in capsys.readouterr().err
    assert main([*words, "--resume"]) == 0
    assert lines(tmp_path / "runs" / "seed-2")[-1]["update"] == 2
    assert main(["train", "mini-sudoku", "--out", out, "--resume"]) == 0  # the seeds are found
    assert "seed-2" in capsys.readouterr().out
    assert not (tmp_path / "runs" / "metrics.jsonl").exists()
    for seed in ("seed-1", "seed-2"):  # carried elsewhere, as the documents say
        (tmp_path / "there" / seed).mkdir(parents=True)
        shutil.move(tmp_path / "runs" / seed / "last", tmp_path / "there" / seed)
    assert main(["train", "mini-sudoku", "--out", str(tmp_path / "there"), "--resume"]) == 0
    assert "seed-2" in capsys.readouterr().out
    for bad, problem in ((["1", "1"], "names a seed twice"), (["-1"], "seed")):
        assert main(["train", "mini-sudoku", "--seeds", *bad, "--out", out + "x"]) == 2
        assert problem in capsys.readouterr().err
    assert not (tmp_path / "runsx").exists()
