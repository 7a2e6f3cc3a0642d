"""How the answer is revised: z <- clamp_x(clip((1 - leak) z + alpha Delta))."""

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


def test_without_a_leak_a_resting_answer_rests():
    before, after, _ = _step(SIZES, 3.0)
    torch.testing.assert_close(after, before)


def test_a_leak_forgets_its_share_of_every_blank_and_no_given():
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
