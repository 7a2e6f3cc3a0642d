"""Stopping where the rules are met: the same answers for fewer steps."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from focus.cli import main
from focus.errors import UserError
from focus.evaluation.controls import controlled
from focus.evaluation.puzzles import check_early_stop, evaluate
from focus.evaluation.symmetry_retries import retry_under_symmetries
from focus.model.backbone import BackboneConfig
from focus.model.base import SolverConfig
from focus.model.solver import Solver
from focus.model.writer import Writer
from focus.tasks import Maze, Sudoku

STEPS = [1, 4, 8, 16]


@pytest.fixture(scope="module")
def solver() -> Solver:
    return Solver.from_pretrained("sudoku-none")


def test_a_puzzle_ends_with_the_first_answer_that_obeys_the_rules(solver, real_sudokus):
    """Against the slow way: every step of all puzzles, and the first valid one picked."""
    table = real_sudokus[:20]
    every = evaluate(solver, table, list(range(1, STEPS[-1] + 1)))
    found = evaluate(solver, table, STEPS, batch=25, early_stop=True)
    valid = np.stack([result.diagnostics["valid"] == 1 for result in every])
    for result in found:
        upto = valid[: result.steps]
        last = np.where(upto.any(0), upto.argmax(0), result.steps - 1)
        np.testing.assert_array_equal(result.diagnostics["taken"], last + 1)
        expected = np.stack([one.answers for one in every])[last, np.arange(len(table))]
        np.testing.assert_array_equal(result.answers, expected)
        np.testing.assert_array_equal(result.exact, upto.any(0))
    assert 0 < found[-1].exact.sum() < len(table)
    assert found[-1].summary()["taken"] < STEPS[-1]


def test_labels_are_not_looked_at(solver, real_sudokus):
    table = real_sudokus[:20]
    wrong = replace(table, answers=np.roll(table.answers, 1, 0))
    one, two = (evaluate(solver, labelled, [16], early_stop=True)[0] for labelled in (table, wrong))
    np.testing.assert_array_equal(one.answers, two.answers)
    np.testing.assert_array_equal(one.diagnostics["taken"], two.diagnostics["taken"])


def test_further_tries_stop_too_and_all_their_steps_count(solver, real_sudokus):
    table = real_sudokus[:20]
    (plain,) = evaluate(solver, table, [16])
    (stopped,) = evaluate(solver, table, [16], early_stop=True)
    found = retry_under_symmetries(solver, table, stopped, 2, early_stop=True)
    assert found.exact.sum() > plain.exact.sum()
    tries = 1 + found.diagnostics["symmetry_retries"]
    taken = found.diagnostics["taken"]
    assert (taken <= 16 * tries).all()
    assert (taken > 16 * (tries - 1)).all()
    assert (taken[~found.exact] == 48).all()


def test_a_puzzle_keeps_its_own_encoding_when_others_end(real_sudokus):
    """A control that takes R from the puzzle before it must go on taking it from that one."""
    torch.manual_seed(0)
    task = Sudoku()
    solver = Solver(task, SolverConfig(BackboneConfig("tiny-llama"))).eval()
    x, y = task.unpack(task.pack(real_sudokus.questions[:4], real_sudokus.answers[:4]))
    # The second puzzle ends at once: its answer is given.
    x = replace(x, grid=torch.where(torch.arange(4)[:, None] == 1, y.label + 1, x.grid))
    with torch.no_grad(), controlled(solver, "shuffled"):
        start = solver.updater.initial(x)
        whole = solver.roll(start, solver.encode(x), x, 3).last.z
        (last,) = solver.predict(x, real_sudokus.questions[:4], [3], early_stop=True)
    z, taken = last.z, last.taken
    assert taken.tolist() == [3, 1, 3, 3]
    going = taken == 3
    torch.testing.assert_close(z[going], whole[going], rtol=1e-4, atol=1e-5)


def test_only_where_a_valid_answer_is_the_correct_one():
    maze = Solver(Maze(size=6, min_path=6, max_tokens=36), SolverConfig())
    with pytest.raises(
        UserError, match="does not work for maze: an answer that obeys the rules may still be wrong"
    ):
        check_early_stop(maze, True)
    writer = Writer(Sudoku(), SolverConfig(BackboneConfig("tiny-llama"), answer="written"))
    with pytest.raises(UserError, match="writes its answer"):
        check_early_stop(writer, True)
    check_early_stop(maze, False)


def test_the_command_stops(data_folder, capsys):
    words = (
        f"eval sudoku-none --data {data_folder} --limit 12 --steps 16 --json --early-stop".split()
    )
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["early_stop"] is True
    assert 1 <= told["results"][0]["taken"] < 16


def test_a_single_puzzle_stops(solver, real_sudokus, capsys):
    (found,) = evaluate(solver, real_sudokus[:20], [16], early_stop=True)
    row = int(np.flatnonzero(found.exact & (found.diagnostics["taken"] > 1))[0])
    taken = int(found.diagnostics["taken"][row])
    puzzle = Sudoku().question_text(real_sudokus.questions[row])
    words = ["solve", puzzle, "--checkpoint", "sudoku-none", "--steps", "16"]
    assert main([*words, "--early-stop", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["valid"], told["steps"]) == (True, taken)
    assert told["answer"] == Sudoku().answer_text(real_sudokus.answers[row])
    assert main([*words, "--early-stop"]) == 0
    assert f"solved in {taken} steps" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 16
