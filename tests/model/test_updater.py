"""How the answer is revised: z <- clamp_x(clip((1 - decay) z + alpha Delta))."""

from dataclasses import replace

import pytest
import torch

from focus.errors import UserError
from focus.model.base import SolverConfig
from focus.model.solver import Solver
from focus.model.state import State
from focus.model.updater import UpdaterConfig
from focus.tasks import Sudoku
from tests.tasks.samples import batch

SIZES = UpdaterConfig(width=64)


def _step(config: UpdaterConfig, scale: float):
    """One revision of a random answer by an untrained updater, whose increment is zero."""
    solver = Solver(Sudoku(), SolverConfig(updater=config)).eval()
    x, _ = batch(solver.task)
    z = scale * torch.randn(len(x.grid), 81, 9, generator=torch.Generator().manual_seed(0))
    state = State(solver.task.clamp(z, x), solver.updater.initial(x).u)
    with torch.no_grad():
        after = solver.updater(state, solver.encode(x), x)
    return state.z, after.z, x


def test_without_decay_a_resting_answer_rests():
    before, after, _ = _step(SIZES, 3.0)
    torch.testing.assert_close(after, before)


def test_decay_forgets_its_share_of_every_blank_and_no_given():
    before, after, x = _step(replace(SIZES, answer_decay=0.25), 3.0)
    given = x.grid > 0
    torch.testing.assert_close(after[~given], 0.75 * before[~given])
    torch.testing.assert_close(after[given], before[given])


def test_the_answer_stays_within_its_bounds():
    before, after, _ = _step(SIZES, 100.0)
    assert float(before.abs().max()) > 20
    assert float(after.abs().max()) <= 20


def test_the_answer_decays_by_a_share():
    with pytest.raises(UserError, match=r"solver\.updater\.answer-decay is a share from 0 to 1"):
        replace(SIZES, answer_decay=1.5)


def test_scaling_gradients_keeps_the_values_and_weakens_what_comes_from_far():
    """A gradient that passes n steps back is scaled n times."""
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
    for plain, scaled in zip(found[0][1:], found[1][1:], strict=True):
        torch.testing.assert_close(scaled, plain * 0.5**3, rtol=1e-4, atol=1e-7)
