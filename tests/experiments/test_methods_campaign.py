"""The comparison of methods: one budget for all, runs of another one refused, paired by puzzle."""

import argparse
import json

import numpy as np
import pytest

from experiments.compared import COMPARED, paths_table, table
from experiments.methods import a_run, budget, finished_runs
from experiments.stored import pack
from focus.errors import UserError


def words(**changes) -> argparse.Namespace:
    usual = {
        "recipe": "sudoku-quick", "updates": 1600, "batch": None, "more_data": (),
        "train_share": 0.05, "encode_batches": 1, "updates_per_encode": 1, "limit": None,
        "teacher": "", "most_steps": None,
    }  # fmt: skip
    return argparse.Namespace(**{**usual, **changes})


@pytest.mark.parametrize("recipe", ["sudoku-quick", "maze-quick"])
def test_all_runs_have_one_budget_and_one_updater(recipe):
    runs = [a_run(recipe, method, words(), 3) for method in COMPARED]
    assert {run.optimizer for run in runs} == {runs[0].optimizer}
    assert {run.solver.updater for run in runs} == {runs[0].solver.updater}
    assert runs[0].solver.updater.structure == "bias"
    assert not runs[0].solver.updater.hops
    assert runs[0].optimizer.updates == 1600
    assert not any(run.curation.replay_solved for run in runs)


def test_what_writes_reads_as_many_batches_and_what_is_not_trained_none():
    with_model = words(encode_batches=2, updates_per_encode=4)
    name = "sudoku-quick/smollm2-135m"
    focus, direct, base = (a_run(name, m, with_model, 1) for m in ("focus", "direct", "base"))
    read = [c.optimizer.updates / c.updates_per_encode for c in (focus, direct)]
    assert read == [400, 400]
    assert base.optimizer.updates == 0


def test_runs_of_another_budget_are_refused(tmp_path):
    (tmp_path / "focus-1").mkdir()
    run = {"method": "focus", "seed": 1, "budget": budget(words())}
    (tmp_path / "focus-1" / "run.json").write_text(json.dumps(run))
    assert finished_runs(tmp_path, words()) == [{"method": "focus", "seed": 1}]
    for other in (
        words(updates=8),
        words(teacher="sudoku-none"),
        words(limit=5),
        words(most_steps=64),
    ):
        with pytest.raises(UserError, match="another budget"):
            finished_runs(tmp_path, other)


def a_result(method: str, seed: int, right: int) -> dict:
    exact = np.arange(100) < right
    result = {"steps": 128, "exact": right / 100, "low": 0.0, "high": 1.0, "n": 100}
    return {
        "method": method, "seed": seed, "seconds": None, "results": [result],
        "correct": {"128": pack(exact)},
    }  # fmt: skip


def test_differences_are_paired_by_seed_and_puzzle():
    runs = [a_result("focus", 1, 50), a_result("focus", 2, 60)]
    runs += [a_result("random", 1, 51), a_result("random", 2, 50)]
    found = table({"budget": budget(words()), "runs": runs}).splitlines()
    assert "GPU s" not in found[0]
    assert "55.0 (50.0 to 60.0)" in found[2]
    # One puzzle more is nothing; ten fewer, and none more, are something: 60 and 50 of other
    # puzzles would not be.
    assert "| -4.5 (-10.0 to +1.0; 1 of 2) |" in found[3]


def test_a_run_with_a_teacher_is_paired_with_the_same_method_without():
    plain = {
        "budget": budget(words()),
        "runs": [a_result("focus", 1, 50), a_result("random", 1, 50)],
    }
    with_teacher = {
        "budget": budget(words()),
        "runs": [a_result("focus", 1, 80), a_result("random", 1, 50)],
    }
    found = table(with_teacher, plain).splitlines()
    assert "| to focus | to no teacher |" in found[0]
    assert "| – | +30.0 (1 of 1) |" in found[2]
    assert "| -30.0 (1 of 1) | +0.0 (0 of 1) |" in found[3]


def test_only_the_steps_that_were_tested_are_shown():
    figures = {"budget": budget(words(most_steps=128)), "runs": [a_result("focus", 1, 50)]}
    head = table(figures).splitlines()[0]
    assert "K = 128" in head
    assert "K = 256" not in head


def test_paths_of_mazes_are_shown_at_each_k():
    runs = [a_result(name, 1, 50) for name in ("focus", "direct", "base")]
    runs[1]["results"] = [{"steps": 0, "valid": 0.5, "optimal": 0.25, "path_f1": 0.75}]
    runs[2]["results"] = [{"steps": 0, "parsed": 0.0}]
    runs[0]["results"] = [
        {"steps": k, "valid": k / 100, "optimal": 0.0, "path_f1": 1.0} for k in (8, 16)
    ]
    budgeted = budget(words(recipe="maze-quick", most_steps=16))
    shown = paths_table({"budget": budgeted, "runs": runs}).splitlines()
    assert shown[0] == "| method (valid / shortest / F1) | K = 1 | K = 8 | K = 16 |"
    assert shown[2] == "| focus | – | 8.0 / 0.0 / 100.0 | 16.0 / 0.0 / 100.0 |"
    assert shown[3:] == ["| direct | – | – | 50.0 / 25.0 / 75.0 |"]  # base: not measured
