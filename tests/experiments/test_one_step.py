"""Single steps from a saved run: measured, and undone."""

import math

import pytest
import torch

from experiments import one_step
from experiments.one_step import OneStep, rank_correlation
from focus.training.loop import Trainer
from tests.training.samples import tiny_run


@pytest.fixture(scope="module", params=["sudoku", "maze"])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / request.param
    Trainer(tiny_run(request.param, updates=6), folder).run()
    return OneStep(folder, "cpu", held_out=20)


def test_a_step_changes_what_is_held_out_and_is_undone(run):
    before = run.held_out()
    pool = run.pool(0, 32)
    part = pool.eligible[0].nonzero()[:8, 0]
    after = run.after_step(pool, part, torch.zeros_like(part))
    assert after != before
    assert run.held_out() == before
    assert run.after_step(pool, part, torch.zeros_like(part)) == after


def test_a_step_of_no_size_gains_nothing(run):
    run.optimizer.set_learning_rates(0.0)
    part = torch.arange(8)
    assert run.after_step(run.pool(0, 16), part, torch.zeros_like(part)) == run.held_out()
    run.optimizer.set_learning_rates(1.0)


def test_groups_are_cut_by_their_distance_from_the_frontier(run):
    figures = run.study(pools=1, size=32, group=8)
    for t in {group["t"] for group in figures["groups"]}:
        distances = [group["distance"] for group in figures["groups"] if group["t"] == t]
        assert distances == sorted(distances)
    assert all(len(gains) > 0 for gains in figures["selectors"].values())
    assert "easiest" in one_step.table({"runs": {"one": figures}})


def test_rank_correlation():
    assert rank_correlation([1, 2, 3], [10, 20, 90]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 1, 2, 2], [5, 6, 5, 6]) == pytest.approx(0)
    assert math.isnan(rank_correlation([1, 1, 1], [1, 2, 3]))
