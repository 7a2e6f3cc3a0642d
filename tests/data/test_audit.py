"""The audit finds what was planted, and nothing in the real data."""

import numpy as np
import pytest

from focus.data.audit import audit, find_files
from focus.data.table import Table, read_table, write_table
from focus.errors import UserError
from focus.tasks import Maze, Sudoku
from tests.engines.test_sudoku import transformed


def write(folder, split, task, questions, answers):
    folder.mkdir(exist_ok=True)
    table = Table(questions, answers, np.arange(len(questions)), "test")
    write_table(folder / f"{split}.csv", table, task)


def test_planted_leaks_duplicates_and_errors_are_found(tmp_path):
    task = Sudoku()
    questions, answers = task.generate(8, 0, 40, "minimal")
    train, test = questions[:20], questions[20:].copy()
    test_answers = answers[20:].copy()
    test[0] = transformed(train[5], 3, seed=1)  # leak, disguised by a symmetry
    test_answers[0] = task.solve(test[0])
    test[1], test_answers[1] = test[2], test_answers[2]  # duplicate
    test_answers[3, 0], test_answers[3, 1] = test_answers[3, 1], test_answers[3, 0]  # bad answer
    test[4][np.flatnonzero(test[4])[0]] = 0  # no longer unique
    folder = tmp_path / "sudoku-extreme"
    write(folder, "train", task, train, answers[:20])
    write(folder, "test", task, test, test_answers)
    reports = {r.dataset: r for r in audit(find_files(tmp_path, [task]))}
    clean, dirty = reports["sudoku-extreme/train"], reports["sudoku-extreme/test"]
    assert (clean.rows, clean.valid, clean.unique, clean.leaks) == (20, 20, 20, 0)
    assert dirty.leaks == 1
    assert dirty.leaked_from == {"sudoku-extreme/train": 1}
    assert dirty.duplicates == 1
    assert dirty.valid == 19
    assert dirty.unique == 19
    assert dirty.canonical == 18
    assert [p.split(":")[0] for p in dirty.problems] == ["row 4", "row 5"]


def test_maze_answers_must_be_canonical_and_leaks_are_seen_through_symmetries(tmp_path):
    task = Maze(size=10, min_path=15)
    questions, answers = task.generate(3, 0, 12, "distant")
    flipped = np.ascontiguousarray(questions.reshape(-1, 10, 10)[:, :, ::-1]).reshape(-1, 100)
    turned = np.ascontiguousarray(np.rot90(questions.reshape(-1, 10, 10), axes=(1, 2)))
    turned = turned.reshape(-1, 100)
    turned_answers = np.stack([task.solve(maze) for maze in turned])
    turned_answers[0][turned_answers[0] == 4] = 1  # an answer without a path
    folder = tmp_path / "maze-hard"
    write(folder, "train", task, questions[:6], answers[:6])
    write(folder, "test", task, turned, turned_answers)
    report = audit(find_files(tmp_path, [task]))[1]
    assert report.leaks == 6
    assert report.valid == 11
    assert report.canonical == 11
    assert "no shortest path" in report.problems[0]
    assert task.equivalent(questions[0], flipped[0])


def test_a_valid_but_not_canonical_path_is_told_apart():
    task = Maze(size=3)
    question = task.parse("S  \n   \n  G")
    other = task.encode_answers(["Soo" + "  o" + "  G"])
    canonical = task.solve(question)[None]
    verdict = task.judge(np.stack([question, question]), np.concatenate([canonical, other]))
    assert verdict.valid.tolist() == [True, True]
    assert verdict.canonical.tolist() == [True, False]
    assert verdict.unique.tolist() == [False, False]


def test_nothing_to_audit_is_said(tmp_path):
    with pytest.raises(UserError, match="holds no puzzle files"):
        find_files(tmp_path, [Sudoku(), Maze()])
    with pytest.raises(UserError, match="no such file"):
        find_files(tmp_path / "none", [Sudoku()])


def test_the_real_data_is_clean(data_folder):
    """All but the 99,044 extra puzzles, which make test-all audits."""
    files = [
        (p, t) for p, t in find_files(data_folder, [Sudoku(), Maze()]) if "extra" not in p.name
    ]
    for report in audit(files):
        assert report.rows == report.valid == report.canonical
        assert report.leaks == report.duplicates == 0
        assert report.unique == (None if "maze" in report.dataset else report.rows)


@pytest.mark.long
def test_the_extra_puzzles_are_clean(data_folder):
    reports = audit(find_files(data_folder, [Sudoku()]))
    extra = next(r for r in reports if r.dataset.endswith("extra"))
    assert extra.rows == extra.valid == extra.unique == 99_044
    assert sum(r.leaks for r in reports) == 0


def test_the_reader_and_the_writer_agree_on_real_rows(real_sudokus, tmp_path):
    write_table(tmp_path / "again.csv.gz", real_sudokus, Sudoku())
    again = read_table(tmp_path / "again.csv.gz", Sudoku())
    assert (again.questions == real_sudokus.questions).all()
    assert (again.columns["rating"] == real_sudokus.columns["rating"]).all()
