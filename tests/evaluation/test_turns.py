"""Further tries under symmetries: more puzzles come out, and the right way round."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from focus.cli import main
from focus.data.table import write_table
from focus.errors import UserError
from focus.evaluation.source import evaluate
from focus.evaluation.turns import check_turns, try_turned
from focus.model.backbone import BackboneConfig
from focus.model.solver import Solver, SolverConfig
from focus.model.writer import Writer
from focus.tasks import Maze, Sudoku


@pytest.fixture(scope="module")
def solver() -> Solver:
    return Solver.from_pretrained("sudoku-none")


def test_turning_back_undoes_turning(real_sudokus):
    task, keys = Sudoku(), torch.arange(len(real_sudokus)) * 7919
    turned = task.turn(real_sudokus.questions, keys)
    answers = task.turn(real_sudokus.answers, keys)
    assert (turned != real_sudokus.questions).any(1).all()
    assert task.judge(turned, answers).valid.all()
    np.testing.assert_array_equal(task.turn_back(turned, keys), real_sudokus.questions)
    np.testing.assert_array_equal(task.turn_back(answers, keys), real_sudokus.answers)


def test_turned_puzzles_come_out_more_often_and_are_turned_back(solver, real_sudokus):
    table = real_sudokus[:40]
    (plain,) = evaluate(solver, table, [16])
    found = try_turned(solver, table, plain, 3)
    assert plain.exact.sum() < found.exact.sum()
    # What was right stays; what came out later is the label itself, in its own orientation.
    np.testing.assert_array_equal(found.answers[plain.exact], plain.answers[plain.exact])
    np.testing.assert_array_equal((found.answers == table.answers).all(1), found.exact)
    np.testing.assert_array_equal(found.exact, found.diagnostics["valid"] == 1)
    turns = found.diagnostics["turns"]
    assert (turns[plain.exact] == 0).all()
    assert (turns[~found.exact] == 3).all()
    assert set(turns[found.exact & ~plain.exact]) <= {1, 2, 3}


def test_labels_are_not_looked_at(solver, real_sudokus):
    table = real_sudokus[:20]
    wrong = replace(table, answers=np.roll(table.answers, 1, 0))
    found = []
    for labelled in (table, wrong):
        (plain,) = evaluate(solver, labelled, [16])
        found.append(try_turned(solver, labelled, plain, 2))
    np.testing.assert_array_equal(found[0].answers, found[1].answers)
    for name in ("turns", "valid"):
        np.testing.assert_array_equal(found[0].diagnostics[name], found[1].diagnostics[name])


def test_the_commands_take_turns(solver, real_sudokus, tmp_path, capsys):
    (plain,) = evaluate(solver, real_sudokus[:40], [16])
    found = try_turned(solver, real_sudokus[:40], plain, 3)
    hard = int(np.flatnonzero(found.diagnostics["turns"] * found.exact)[0])
    table = real_sudokus[hard : hard + 1]
    write_table(tmp_path / "hard.csv", table, Sudoku())
    words = f"eval sudoku-none --data {tmp_path / 'hard.csv'} --steps 16 --json"
    assert main(words.split()) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["exact"] == 0
    assert main([*words.split(), "--turns", "20"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["results"][0]["exact"], told["turns"]) == (1, 20)
    puzzle = Sudoku().question_text(table.questions[0])
    words = ["solve", puzzle, "--checkpoint", "sudoku-none", "--steps", "16"]
    assert main([*words, "--turns", "20", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["valid"]
    assert told["turns"] >= 1
    assert told["answer"] == Sudoku().answer_text(table.answers[0])
    assert main([*words, "--turns", "20"]) == 0
    assert f"solved at turn {told['turns']}" in capsys.readouterr().out
    assert main(words) == 0
    assert "not solved in 16 steps:" in capsys.readouterr().out
    assert main([*words, "--turns", "-1"]) == 2
    assert "--turns takes a number from 0" in capsys.readouterr().err


def test_mazes_and_writers_have_no_further_tries(tmp_path, capsys):
    """Refused before anything is evaluated."""
    Solver(Maze(size=8), SolverConfig()).save_pretrained(tmp_path / "maze")
    assert main(["eval", str(tmp_path / "maze"), "--turns", "2", "--data", "generated"]) == 2
    assert "a turned maze may have another answer" in capsys.readouterr().err
    writer = Writer(Sudoku(box=2), SolverConfig(BackboneConfig("tiny-llama"), answer="written"))
    with pytest.raises(UserError, match="writes its answer"):
        check_turns(writer, 1)
