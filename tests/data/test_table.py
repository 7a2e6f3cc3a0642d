"""Data files are read whole or refused with name and line."""

import gzip

import numpy as np
import pytest

from focus.data import table as table_module
from focus.data.table import read_table, task_of_file, write_table
from focus.errors import UserError
from focus.evaluation.transfer import find_benchmarks
from focus.tasks import Maze, Sudoku

QUESTION, ANSWER = "1...34....21...3", "1234341243211243"
GOOD = f"question,answer\n{QUESTION},{ANSWER}\n"


@pytest.mark.parametrize("name", ["puzzles.csv", "puzzles.csv.gz"])
def test_what_is_written_is_read_again(tmp_path, name):
    task = Sudoku()
    source = tmp_path / "in.csv"
    questions, answers = task.generate(0, 0, 5, "minimal")
    lines = ["source,question,answer,rating"]
    for row, (q, a) in enumerate(zip(questions, answers, strict=True)):
        lines.append(f'"odd, name",{task.question_text(q)},{task.answer_text(a)},{row}')
    source.write_text("\n".join(lines) + "\n")
    table = read_table(source, task)
    write_table(tmp_path / name, table, task)
    again = read_table(tmp_path / name, task)
    assert (again.questions == questions).all()
    assert (again.answers == answers).all()
    assert again.columns["rating"].tolist() == [str(row) for row in range(5)]
    assert again.columns["source"][0] == "odd, name"
    first = (tmp_path / name).read_bytes()
    write_table(tmp_path / name, table, task)
    assert (tmp_path / name).read_bytes() == first


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"question,answer\n", "has a header but no rows"),
        (b"question,solution\na,b\n", "no column 'answer'; its columns are question, solution"),
        (GOOD.encode() + b"1.,2\n", "line 3: the sudoku has 2 characters, 16 are needed"),
        (GOOD.encode() + QUESTION.encode() + b"\n", "line 3: 1 fields, the header has 2"),
        (GOOD.replace("1...", "x...").encode(), "line 2: .*'x'"),
        (GOOD.replace(ANSWER, "1" * 15 + "9").encode(), "line 2: the answer has '9'"),
        (GOOD.encode() + b'"open quote', "line 3: .*quot|line 3: unexpected end of data"),
        (b"\xff\xfe\x00bad", "is not UTF-8"),
        (gzip.compress(GOOD.encode(), mtime=0)[:-6], "damaged gzip"),
        (b"\x1f\x8bnot gzip at all", "damaged gzip"),
    ],
)
def test_damaged_files_are_refused_by_name_and_line(tmp_path, content, message):
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        read_table(path, Sudoku(box=2))
    assert "bad.csv" in str(caught.value)


def test_missing_files_and_folders_are_refused(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read_table(tmp_path / "none.csv", Sudoku())
    with pytest.raises(UserError, match="is a folder"):
        read_table(tmp_path, Sudoku())


def test_a_full_disk_leaves_no_file(tmp_path, monkeypatch):
    task = Sudoku(box=2)
    path = tmp_path / "good.csv"
    path.write_text(GOOD)
    table = read_table(path, task)

    def full(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(UserError, match=r"cannot write .*No space left"):
        write_table(tmp_path / "out.csv", table, task)
    assert [p.name for p in tmp_path.iterdir()] == ["good.csv"]


def test_the_size_of_a_task_is_read_off_the_file(tmp_path):
    path = tmp_path / "small.csv"
    path.write_text(GOOD)
    assert task_of_file(path, Sudoku) == Sudoku(box=2)
    maze = Maze(size=6, min_path=6)
    questions, answers = maze.generate(0, 0, 2, "distant")
    table = read_table(path, Sudoku(box=2))
    write_table(
        tmp_path / "maze.csv",
        type(table)(questions, answers, np.arange(2), "test"),
        maze,
    )
    assert task_of_file(tmp_path / "maze.csv", Maze) == Maze(size=6)


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(table_module, "LARGEST_FILE", 10_000)
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"0" * 1_000_000))
    with pytest.raises(UserError, match="holds more than"):
        table_module.read_text(tmp_path / "bomb.csv.gz")


def test_so_is_a_benchmark_that_unpacks_to_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(table_module, "LARGEST_FILE", 10_000)
    (tmp_path / "math").mkdir()
    (tmp_path / "math" / "test.jsonl.gz").write_bytes(gzip.compress(b"0" * 1_000_000))
    with pytest.raises(UserError, match="holds more than"):
        find_benchmarks("math")[0].items(str(tmp_path))
