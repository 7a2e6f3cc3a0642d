"""What the Python API refuses, it refuses before any work and with our own error."""

import json

import numpy as np
import pytest

import focus
from focus.cli import main
from focus.data.table import Table
from focus.errors import UserError
from focus.files import json_text, parse_object
from focus.hub import reachable_hub
from focus.model.base import SolverConfig
from focus.model.updater import UpdaterConfig
from tests.training.samples import tiny_run

PUZZLE = "1...34....21...3"


@pytest.fixture(scope="module")
def solver():
    config = SolverConfig(updater=UpdaterConfig(width=32))
    return focus.Solver(focus.Sudoku(box=2), config)


@pytest.fixture
def no_connection(monkeypatch):
    """A hub that cannot be reached, as on a machine without a network."""
    monkeypatch.setattr("focus.hub._answers", lambda: False)


def test_a_run_takes_the_name_of_a_folder(tmp_path):
    trainer = focus.Trainer(tiny_run("sudoku", updates=0), str(tmp_path / "run"))
    assert trainer.run()["n"] > 0
    assert (tmp_path / "run" / "best").is_dir()


def test_one_number_of_steps_will_do(solver):
    questions = solver.task.encode_questions([PUZZLE])
    table = Table(questions, questions, np.arange(1), "test")
    (result,) = focus.evaluate(solver, table, 4)
    assert result.steps == 4


@pytest.mark.parametrize("steps", [0, -1, 1.5, "4", True, [], [4, 0], 10**12])
def test_steps_that_cannot_be_taken_are_refused(solver, steps):
    questions = solver.task.encode_questions([PUZZLE])
    table = Table(questions, questions, np.arange(1), "test")
    with pytest.raises(UserError, match="steps"):
        focus.evaluate(solver, table, steps)


def test_no_steps_and_no_batch_are_refused(solver):
    with pytest.raises(UserError, match="steps are numbers from 1"):
        solver.solve(PUZZLE, steps=0)
    with pytest.raises(UserError, match="steps are numbers from 1"):
        next(solver.trajectory(PUZZLE, steps=0))
    with pytest.raises(UserError, match="batch is a number from 1"):
        solver.solve(PUZZLE, steps=1, batch=0)


@pytest.mark.parametrize(
    ("puzzle", "message"),
    [
        ("", "0 characters"),
        ("1", "1 character, 16 are needed"),
        (81 * ".", "81 characters"),
        ([PUZZLE, "12"], "2 characters"),
        (16 * "x", "'x' at position 1"),
    ],
)
def test_puzzles_that_are_none_are_refused(solver, puzzle, message):
    with pytest.raises(UserError, match=message):
        solver.solve(puzzle, steps=1)


def test_without_puzzles_there_are_no_answers(solver):
    assert solver.solve([], steps=1) == []


def test_without_a_connection_the_hub_is_given_up_at_once(solver, no_connection, capsys):
    with pytest.raises(UserError, match="the hub does not take me/mine"):
        solver.push_to_hub("me/mine")
    with pytest.raises(UserError, match="the hub does not give it"):
        focus.Solver.from_pretrained("me/there-is-none")
    assert main(["data", "show", "--data", "hub:me/there-is-none"]) == 2
    said = capsys.readouterr().err
    assert "the hub does not answer" in said
    assert said.count("\n") == 1
    words = ["train", "mini-sudoku", "--data", "generated", "--out", "nowhere"]
    assert main([*words, "--solver.backbone.name", "me/there-is-none"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_hub_is_as_it_was_afterwards(no_connection):
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    with reachable_hub():
        assert constants.HF_HUB_OFFLINE
    assert before == constants.HF_HUB_OFFLINE


def test_json_has_no_nan():
    text = json_text({"energy": float("nan"), "rates": [1.0, float("inf")], "n": 3})
    assert json.loads(text) == {"energy": None, "rates": [1.0, None], "n": 3}
    assert parse_object(text, "it")["energy"] is None


@pytest.mark.parametrize("words", [
    ["data", "generate", "--count", "1", "--out", "x.csv"], ["train", "mini-sudoku"],
    ["solve", "--example", "easy"],
])  # fmt: skip
def test_a_seed_is_the_same_everywhere(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, message in (("-1", "seed must be at least 0"), (str(2**32), "at most 4,294,967,295")):
        assert main([*words, "--seed", seed]) == 2
        assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_version_of_another_type_is_told_from_the_number(tmp_path):
    (tmp_path / "config.json").write_text('{"format": "6", "task": {"name": "sudoku"}}')
    with pytest.raises(UserError, match="has format '6'; this version reads format 6"):
        focus.recipe(str(tmp_path / "config.json"))
