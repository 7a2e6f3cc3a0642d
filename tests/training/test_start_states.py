"""Start states come in their shares, and visited ones are those of the model's own rollouts."""

import pytest
import torch

from focus.curation.config import Stage
from focus.model.base import SolverConfig, evaluating
from focus.model.solver import Solver
from focus.model.updater import UpdaterConfig
from focus.random import Stream, example_keys, stratified, uniform
from focus.training.objectives.start_states import Mixture
from tests.curation.samples import minibatch
from tests.tasks.samples import TASKS, batch

STAGE = Stage(5, 2)


@pytest.mark.parametrize("shares", [(0.45, 0.35, 0.20), (0.5, 0.25, 0.25), (0.0, 0.0, 1.0)])
@pytest.mark.parametrize("runs", [1, 2])
def test_every_kind_of_start_has_its_share_and_is_what_its_name_says(shares, runs):
    task = TASKS["maze6"]
    torch.manual_seed(0)
    solver = Solver(task, SolverConfig(updater=UpdaterConfig(width=32)))
    torch.nn.init.normal_(solver.updater.head.weight, std=0.5)
    x, y = batch(task, count=8)
    keys = example_keys(1, 7, torch.arange(8))
    examples = minibatch(x, y, keys)
    conditioning = solver.encode(x)
    every = torch.arange(8 // runs).repeat(runs)
    draw = stratified(7, every, 8 // runs)
    examples = type(examples)(**{**vars(examples), "stratified": draw})
    start, initial = Mixture(shares, 8 // runs, runs)(solver, examples, conditioning, STAGE)

    kind = (draw >= shares[0]).long() + (draw >= shares[0] + shares[1]).long()
    assert torch.equal(initial, kind == 0)
    for number, share in enumerate(shares):
        for own in (kind == number).view(runs, -1):
            assert abs(own.sum() - share * len(own)) < 1 + 1e-6
    with torch.no_grad(), evaluating(solver):
        tau = solver.roll(solver.updater.initial(x), conditioning, x, 5, keep=range(6))
    step = 1 + (uniform(keys, Stream.START_STEP) * 5).long()
    expected = {0: tau.states[0].z, 1: task.corrupt(x, y, keys)}
    for row in range(8):
        other = expected.get(int(kind[row]), tau.states[int(step[row])].z)
        torch.testing.assert_close(start.z[row], other[row])
        if kind[row] == 2:
            memory = tau.states[int(step[row])].u["memory"]
            torch.testing.assert_close(start.u["memory"][row], memory[row])


@pytest.mark.parametrize(
    ("shares", "count"), [((0.333333, 0.333333, 0.333334), 24), ((0.36, 0.35, 0.29), 100)]
)
def test_no_example_that_begins_visited_is_left_out_for_rounding(shares, count):
    mixture, example = Mixture(shares, count), torch.arange(count)
    for update in range(4000):
        draw = stratified(update, example, count)
        visited = (draw >= shares[0] + shares[1]).nonzero()[:, 0]
        assert set(visited.tolist()) <= set(mixture._may_be_visited(draw).tolist())
