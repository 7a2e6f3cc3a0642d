"""Solvers with plain and compiled steps. Run as a program, it compares them on a device.

A test runs it in a process of its own: the compiler cannot see through the check of shapes that
tests switch on.
"""

import sys

import torch

from focus.model.base import SolverConfig
from focus.model.solver import Solver
from focus.model.updater import UpdaterConfig
from focus.tasks import Sudoku
from tests.tasks.samples import batch

BIAS = UpdaterConfig(width=64, dropout=0.0, answer_decay=0.05, bptt_gradient_scale=0.8)
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


def main(device: str) -> None:
    """Print how far the gradients of compiled steps are from those of plain ones, at worst."""
    for name, config in (("bias", BIAS), ("hops", HOPS)):
        solver = a_solver(config, device)
        x, y = (part.to(device) for part in batch(solver.task))
        plain = gradients(solver, x, y)
        solver.updater.compile_step()
        compiled = gradients(solver, x, y)
        assert plain.keys() == compiled.keys()
        missed = {
            n: float((compiled[n] - g).norm() / g.norm().clamp(min=1e-6)) for n, g in plain.items()
        }
        worst = max(missed, key=lambda n: missed[n])
        print(f"{name}: {worst} differs by {missed[worst]:.4f} of its length")
        assert missed[worst] < 0.03


if __name__ == "__main__":
    main(sys.argv[1])
