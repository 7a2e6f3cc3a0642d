"""Further tries under symmetries: more puzzles come out, and the right way round."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from focus.cli import main
from focus.data.table import write_table
from focus.errors import UserError
from focus.evaluation.puzzles import evaluate
from focus.evaluation.symmetry_retries import check_symmetry_retries, retry_under_symmetries
from focus.model.backbone import BackboneConfig
from focus.model.base import SolverConfig
from focus.model.solver import Solver
from focus.model.writer import Writer
from focus.tasks import Maze, Sudoku


@pytest.fixture(scope="module")
def solver() -> Solver:
    return Solver.from_pretrained("sudoku-none")


def test_the_inverse_transform_undoes_a_symmetry(real_sudokus):
    task, keys = Sudoku(), torch.arange(len(real_sudokus)) * 7919
    moved = task.transform(real_sudokus.questions, keys)
    answers = task.transform(real_sudokus.answers, keys)
    assert (moved != real_sudokus.questions).any(1).all()
    assert task.judge(moved, answers).valid.all()
    np.testing.assert_array_equal(task.inverse_transform(moved, keys), real_sudokus.questions)
    np.testing.assert_array_equal(task.inverse_transform(answers, keys), real_sudokus.answers)


def test_retries_solve_more_puzzles_and_are_transformed_back(solver, real_sudokus):
    table = real_sudokus[:20]
    (plain,) = evaluate(solver, table, [16])
    found = retry_under_symmetries(solver, table, plain, 3)
    assert plain.exact.sum() < found.exact.sum()
    # What was right stays; what was solved later is the label itself, in its own orientation.
    np.testing.assert_array_equal(found.answers[plain.exact], plain.answers[plain.exact])
    np.testing.assert_array_equal((found.answers == table.answers).all(1), found.exact)
    np.testing.assert_array_equal(found.exact, found.diagnostics["valid"] == 1)
    symmetry_retries = found.diagnostics["symmetry_retries"]
    assert (symmetry_retries[plain.exact] == 0).all()
    assert (symmetry_retries[~found.exact] == 3).all()
    assert set(symmetry_retries[found.exact & ~plain.exact]) <= {1, 2, 3}


def test_labels_are_not_looked_at(solver, real_sudokus):
    table = real_sudokus[:10]
    wrong = replace(table, answers=np.roll(table.answers, 1, 0))
    found = []
    for labelled in (table, wrong):
        (plain,) = evaluate(solver, labelled, [16])
        found.append(retry_under_symmetries(solver, labelled, plain, 2))
    np.testing.assert_array_equal(found[0].answers, found[1].answers)
    for name in ("symmetry_retries", "valid"):
        np.testing.assert_array_equal(found[0].diagnostics[name], found[1].diagnostics[name])


def test_the_commands_retry(solver, real_sudokus, tmp_path, capsys):
    (plain,) = evaluate(solver, real_sudokus[:20], [16])
    found = retry_under_symmetries(solver, real_sudokus[:20], plain, 3)
    hard = int(np.flatnonzero(found.diagnostics["symmetry_retries"] * found.exact)[0])
    table = real_sudokus[hard : hard + 1]
    write_table(tmp_path / "hard.csv", table, Sudoku())
    words = f"eval sudoku-none --data {tmp_path / 'hard.csv'} --steps 16 --json"
    assert main(words.split()) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["exact"] == 0
    assert main([*words.split(), "--symmetry-retries", "20"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["results"][0]["exact"], told["symmetry_retries"]) == (1, 20)
    puzzle = Sudoku().question_text(table.questions[0])
    words = ["solve", puzzle, "--checkpoint", "sudoku-none", "--steps", "16"]
    assert main([*words, "--symmetry-retries", "20", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["valid"]
    assert told["symmetry_retries"] >= 1
    assert told["answer"] == Sudoku().answer_text(table.answers[0])
    assert main([*words, "--symmetry-retries", "20"]) == 0
    assert f"solved at symmetry retry {told['symmetry_retries']}" in capsys.readouterr().out
    assert main(words) == 0
    assert "not solved in 16 steps:" in capsys.readouterr().out
    assert main([*words, "--symmetry-retries", "-1"]) == 2
    assert "--symmetry-retries takes a number from 0" in capsys.readouterr().err


def test_mazes_and_writers_have_no_further_tries(tmp_path, capsys):
    """Refused before anything is evaluated."""
    Solver(Maze(size=8), SolverConfig()).save_pretrained(tmp_path / "maze")
    words = ["eval", str(tmp_path / "maze"), "--symmetry-retries", "2", "--data", "generated"]
    assert main(words) == 2
    assert (
        "does not work for maze: a transformed puzzle may have another answer"
        in capsys.readouterr().err
    )
    writer = Writer(Sudoku(box=2), SolverConfig(BackboneConfig("tiny-llama"), answer="written"))
    with pytest.raises(UserError, match="writes its answer"):
        check_symmetry_retries(writer, 1)
