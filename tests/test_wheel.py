"""The wheel: built, installed in an empty environment, used from an empty folder."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MB = 10**6
PUZZLE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
ANSWER = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"


def in_package(folder: Path) -> set[str]:
    files = (path for path in (folder / "focus").rglob("*") if path.is_file())
    return {f.relative_to(folder).as_posix() for f in files if "__pycache__" not in f.parts}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy, so that nothing left in build/ gets in."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "focus", folder / "focus", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", "dist"]
    subprocess.run([sys.executable, "-m", "pip", *words, "."], cwd=folder, check=True)
    (built,) = (folder / "dist").glob("focus_solver-*.whl")
    return built


@pytest.fixture(scope="module")
def focus(wheel, tmp_path_factory):
    """Runs the installed command; its dependencies are those of this environment."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "venv")
    python = folder / "venv" / "bin" / "python"
    words = ["--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    (packages,) = (folder / "venv").glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name in ("home", "empty"):
        (folder / name).mkdir()
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("FOCUS_", "PYTHON"))}
    variables |= {"HOME": str(folder / "home"), "HF_HUB_OFFLINE": "1"}

    def run(*words: str) -> subprocess.CompletedProcess:
        command = [python.with_name("focus"), *words]
        return subprocess.run(
            command, cwd=folder / "empty", env=variables, capture_output=True, text=True
        )

    return run


def test_a_wheel_is_light_and_holds_the_whole_package(wheel):
    assert wheel.stat().st_size <= 15 * MB
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    outside = {name for name in names if not name.startswith("focus/")}
    assert all(".dist-info/" in name for name in outside)
    assert names - outside == in_package(ROOT)
    solvers = {name.split("/")[2] for name in names if name.startswith("focus/releases/")}
    assert solvers == {"maze-none", "sudoku-none"}


def test_all_weights_in_the_tree_stay_small():
    folders = (ROOT / "focus" / "releases", ROOT / "releases")
    weights = [path for folder in folders for path in folder.rglob("*.safetensors")]
    assert len(weights) >= 6
    assert sum(path.stat().st_size for path in weights) <= 64 * MB


def test_a_puzzle_is_solved_at_once_without_a_language_model(focus):
    done = focus("solve", PUZZLE, "--json")
    assert done.returncode == 0, done.stderr
    solved = json.loads(done.stdout)
    assert (solved["answer"], solved["valid"]) == (ANSWER, True)


def test_a_release_that_is_not_in_the_wheel_is_one_line_that_says_where_it_is(focus):
    done = focus("solve", PUZZLE, "--checkpoint", "sudoku-trm")
    assert done.returncode == 2
    assert "here: maze-none, sudoku-none;" in done.stderr
    assert "focus-solver/NAME from the hub, or releases/NAME of a checkout" in done.stderr
    assert len(done.stderr.splitlines()) == 1
