"""A step on packed weights is the plain step, gradients included."""

import pytest
import torch

from focus.model.solver import Solver, SolverConfig
from focus.model.updater import UpdaterConfig
from focus.tasks import Sudoku
from tests.tasks.samples import batch

BIAS = UpdaterConfig(width=64, dropout=0.0, leak=0.05, damping=0.8)
HOPS = UpdaterConfig(width=64, dropout=0.0, structure="none", hops=2, hop_width=48, hop_hidden=64)


def gradients(solver: Solver, x, y) -> dict[str, torch.Tensor]:
    """Of a rollout and of one that goes on from a detached state, as replay does."""
    solver.zero_grad()
    conditioning = solver.encode(x)
    first = solver.roll(solver.updater.initial(x), conditioning, x, 3)
    second = solver.roll(first.last.detach(), conditioning, x, 2)
    answers = torch.cat([first.answers, second.answers])
    solver.task.loss(answers, x, y, "uniform").sum().backward()
    return {n: p.grad.clone() for n, p in solver.named_parameters() if p.grad is not None}


def a_solver(config: UpdaterConfig, device: str) -> Solver:
    torch.manual_seed(0)
    solver = Solver(Sudoku(), SolverConfig(updater=config)).to(device).train()
    torch.nn.init.normal_(solver.updater.head.weight, std=0.1)
    return solver


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


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("config", [BIAS, HOPS], ids=["bias", "hops"])
def test_a_compiled_step_is_the_plain_one(config):
    solver = a_solver(config, "cuda:0")
    x, y = (part.to("cuda:0") for part in batch(solver.task))
    plain = gradients(solver, x, y)
    solver.updater.compile_step()
    compiled = gradients(solver, x, y)
    assert plain.keys() == compiled.keys()
    for name, gradient in plain.items():
        missed = (compiled[name] - gradient).norm() / gradient.norm().clamp(min=1e-6)
        assert float(missed) < 0.03, f"{name}: {float(missed):.3f}"
