"""A step on packed weights is the plain step, gradients included."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from tests.model.flat_parameter_samples import BIAS, HOPS, a_solver, gradients
from tests.tasks.samples import batch


@pytest.mark.parametrize("config", [BIAS, HOPS], ids=["bias", "hops"])
def test_a_packed_step_is_the_plain_one(config, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)  # a minute on a CPU
    solver = a_solver(config, "cpu")
    x, y = batch(solver.task)
    plain = gradients(solver, x, y)
    solver.updater.compile_step()
    packed = gradients(solver, x, y)
    assert plain.keys() == packed.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(packed[name], gradient, msg=name)


def test_packed_weights_are_those_of_the_moment(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    solver = a_solver(BIAS, "cpu").eval()
    x, _ = batch(solver.task)
    solver.updater.compile_step()

    def answer() -> torch.Tensor:
        with torch.no_grad():
            return solver.roll(solver.updater.initial(x), solver.encode(x), x, 2).last.z

    before = answer()
    with torch.no_grad():
        solver.updater.head.weight.mul_(2)
    assert not torch.allclose(before, answer())


def test_dropout_of_a_packed_step_follows_the_generator(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    solver = a_solver(replace(BIAS, dropout=0.2), "cpu")
    x, y = batch(solver.task)
    solver.updater.compile_step()
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(gradients(solver, x, y)["updater.blocks.0.down.weight"])
    assert torch.equal(found[0], found[1])
    assert not torch.allclose(found[0], found[2])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_compiled_step_is_the_plain_one():
    command = [sys.executable, "-m", "tests.model.flat_parameter_samples", "cuda:0"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
