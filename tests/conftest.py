"""Shared fixtures. Shapes in signatures are checked at run time in every test."""

import os
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# Engines are compiled by numba, which cannot see through the check.
install_import_hook(["focus.tasks", "focus.random"], "beartype.beartype")

settings.register_profile("default", deadline=None, max_examples=20, derandomize=True)
settings.load_profile("default")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The real benchmark data; tests that need it skip where it is not there."""
    folder = os.environ.get("FOCUS_DATA")
    if not folder or not Path(folder, "sudoku-extreme").is_dir():
        pytest.skip("FOCUS_DATA does not name a folder with the benchmark data")
    return Path(folder)


@pytest.fixture(scope="session")
def real_sudokus(data_folder):
    """The first 300 test rows of Sudoku-Extreme, as a table."""
    from focus.data.table import read_table
    from focus.tasks import Sudoku

    return read_table(data_folder / "sudoku-extreme" / "test.csv.gz", Sudoku())[:300]


@pytest.fixture(scope="session")
def real_mazes(data_folder):
    """All test rows of Maze-Hard, as a table."""
    from focus.data.table import read_table
    from focus.tasks import Maze

    return read_table(data_folder / "maze-hard" / "test.csv.gz", Maze())
