"""`focus diagnose` tells what happens along a rollout."""

import json

import numpy as np
import pytest
import torch

from focus.cli import main
from focus.data.sources import Generated
from focus.data.splits import make_splits
from focus.evaluation.diagnose import Diagnosis, Moment, diagnose, open_numbers, steps_to_look_at
from focus.model.checkpoint import build_model, save_model
from focus.model.solver import Solver
from focus.training.loop import Trainer
from tests.training.samples import tiny_run


@pytest.fixture(scope="module", params=["sudoku", "maze"])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    Trainer(tiny_run(request.param, updates=4), folder).run()
    return folder


def a_diagnosis(solved: list[list[bool]], steps: list[int]) -> Diagnosis:
    zeros = {name: 0.0 for name in ("energy", "confidence", "moved", "at_bounds", "memory")}
    moments = [
        Moment(step, float(np.mean(row)), 0, 0, memory_moved=0.0, mean={}, spread={}, **zeros)
        for step, row in zip(steps, solved, strict=True)
    ]
    return Diagnosis(moments, np.array(solved))


def test_the_steps_are_few_and_end_with_the_last():
    assert steps_to_look_at(16) == [0, 1, 2, 3, 4, 6, 8, 12, 16]
    assert steps_to_look_at(1024)[-1] == 1024
    assert len(steps_to_look_at(1024)) == 21
    assert steps_to_look_at(1) == [0, 1]


def test_the_verdict_counts_what_is_lost():
    kept = a_diagnosis([[False, False], [True, False], [True, True]], [0, 8, 16])
    assert kept.verdict() == "more steps do not hurt: 100.0 % at K = 16 is the best"
    lost = a_diagnosis([[True] * 9, [True] * 2 + [False] * 7], [8, 1024])
    assert lost.verdict() == (
        "more steps hurt: 100.0 % at K = 8, 22.2 % at K = 1,024; 7 of 9 puzzles are lost again"
    )


def test_nothing_solved_is_said():
    assert a_diagnosis([[False], [False]], [0, 8]).verdict() == "nothing is solved at any K up to 8"


def test_one_puzzle_lost_is_no_evidence_that_steps_hurt():
    lost = a_diagnosis([[True, True, True, False], [True, False, False, True]], [8, 16])
    assert lost.verdict() == (
        "more steps are not seen to hurt: 75.0 % at K = 8, 50.0 % at K = 16; 2 of 4 puzzles are "
        "lost again and 1 gained"
    )


def test_the_best_of_many_rows_has_to_lose_more_to_be_a_proof():
    few = [[True] * 6, [False] * 6]  # p is 0.03
    assert a_diagnosis(few, [8, 16]).verdict().startswith("more steps hurt")
    many = [*([[False] * 6] * 4), *few]
    assert a_diagnosis(many, [0, 1, 2, 4, 8, 16]).verdict().startswith("more steps are not seen")


def test_numbers_that_the_puzzle_sets_are_left_out():
    config = tiny_run("sudoku")
    table = make_splits(Generated(train=10, test=10), config.task).test
    x = config.task.problem(table.questions)
    free = open_numbers(config.task, x)
    assert (free.any(-1) == (x.grid == 0)).all()


def test_a_solver_that_rests_does_not_move():
    config = tiny_run("sudoku")
    torch.manual_seed(0)
    solver = build_model(config.task, config.solver)  # its head is zero: no increment
    assert isinstance(solver, Solver)
    table = make_splits(Generated(train=10, test=20), config.task).test
    diagnosis = diagnose(solver, table, 8, batch=3)
    assert all(one.moved == 0 and one.mean["class"] == 0 for one in diagnosis.moments)
    assert diagnosis.moments[-1].memory > 0
    assert diagnosis.solved.shape == (7, len(table))


def test_batches_do_not_matter(run):
    solver = Solver.from_pretrained(run)
    table = make_splits(Generated(train=10, test=20), solver.task).test
    one, other = (diagnose(solver, table, 6, batch=batch) for batch in (4, 20))
    assert (one.solved == other.solved).all()
    for left, right in zip(one.moments, other.moments, strict=True):
        assert left.energy == pytest.approx(right.energy, rel=1e-4)


def test_the_command_writes_a_table_and_a_figure(run, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["diagnose", str(run), "--steps", "6", "--limit", "5", "--out", str(out)]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "more steps" in text or "nothing is solved" in text
    assert (out / "rollout.svg").stat().st_size > 1000
    stored = json.loads((out / "diagnosis.json").read_text())
    assert [row["step"] for row in stored["results"]] == [0, 1, 2, 3, 4, 6]
    assert main([*words[:-2], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"] == stored["results"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--steps", "0"], "from 1"),
        (["--limit", "0"], "--limit takes a number from 1"),
        (["--split", "no"], "train, validation and test"),
        (["--task", "queens"], "queens"),
        (["--data", "nowhere"], "no such file"),
    ],
)
def test_bad_words_are_one_line(words, problem, tmp_path, capsys):
    config = tiny_run("sudoku")
    save_model(build_model(config.task, config.solver), tmp_path / "model")
    assert main(["diagnose", str(tmp_path / "model"), *words]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert len(error.strip().splitlines()) == 1
