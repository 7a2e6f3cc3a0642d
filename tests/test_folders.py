"""A folder is replaced only where all of it is ours."""

import contextlib
from pathlib import Path

import pytest

from focus.errors import UserError
from focus.folders import atomic_folder
from focus.model.base import SolverConfig
from focus.model.solver import Solver
from focus.model.updater import UpdaterConfig
from focus.tasks import Sudoku


@pytest.fixture(scope="module")
def solver() -> Solver:
    return Solver(Sudoku(box=2), SolverConfig(updater=UpdaterConfig(width=32)))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_folder_with_something_else_in_it_is_left_alone(solver, tmp_path):
    (tmp_path / "mine" / ".git").mkdir(parents=True)
    (tmp_path / "mine" / ".git" / "HEAD").write_text("ref")
    (tmp_path / "mine" / "notes.txt").write_text("years of work")
    before = contents(tmp_path)
    with pytest.raises(UserError, match="which is no part of a checkpoint; choose a new or empty"):
        solver.save_pretrained(tmp_path / "mine")
    assert contents(tmp_path) == before


def test_a_link_and_a_file_are_not_replaced(solver, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("text")
    for name, why in (("link", "is a link"), ("file", "is a file")):
        with pytest.raises(UserError, match=why):
            solver.save_pretrained(tmp_path / name)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "text"


def test_the_present_folder_is_not_replaced(solver, tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    for name in (".", "..", str(tmp_path)):
        with pytest.raises(UserError, match="is the folder that you are in, or above it"):
            solver.save_pretrained(name)


def test_a_checkpoint_is_replaced_until_something_was_added_to_it(solver, tmp_path):
    folder = tmp_path / "checkpoint"
    folder.mkdir()  # an empty one is fine
    solver.save_pretrained(folder)
    (folder / "README.md").write_text("people may write here")
    solver.save_pretrained(folder)
    Solver.from_pretrained(folder)
    (folder / "thesis.tex").write_text("chapter 1")
    with pytest.raises(UserError, match=r"holds thesis\.tex"):
        solver.save_pretrained(folder)
    assert (folder / "thesis.tex").exists()


def test_a_failed_write_leaves_what_was_there(solver, tmp_path):
    solver.save_pretrained(tmp_path / "checkpoint")
    before = contents(tmp_path / "checkpoint")
    with contextlib.suppress(ZeroDivisionError), atomic_folder(tmp_path / "checkpoint") as fresh:
        (fresh / "half").write_text(str(1 / 0))
    assert contents(tmp_path / "checkpoint") == before
