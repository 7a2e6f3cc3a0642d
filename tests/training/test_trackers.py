"""`--report-to`: what a tracker is shown, and that none can end a run.

A module of the same interface stands in for trackio and W&B; where the real packages are installed
(pip install 'focus-solver[trackio,wandb]'), the last test runs with them.
"""

import json
import sqlite3
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest

from focus.cli import main
from focus.training.loop import Trainer
from focus.training.metrics import D_EDGES
from tests.training.samples import tiny_run


class Package(types.ModuleType):
    """The part of trackio's and W&B's interface that a run uses; keeps what it is told."""

    Settings = dict

    def __init__(self, name: str, fails_at: int | None = None):
        super().__init__(name)
        self.fails_at, self.begun, self.logged, self.finished = fails_at, {}, {}, 0

    def init(self, **words):
        self.begun = words
        return self

    def Histogram(self, np_histogram):  # noqa: N802
        return np_histogram

    def log(self, values, step):
        if step == self.fails_at:
            raise ConnectionError("gone")
        self.logged[step] = values

    def finish(self):
        self.finished += 1


def metrics(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_a_tracker_is_shown_every_line_and_the_config(name, tmp_path, monkeypatch):
    package = Package(name)
    monkeypatch.setitem(sys.modules, name, package)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    config = replace(tiny_run("sudoku", updates=4, probability=(1.0, 1.0)), report_to=name)
    Trainer(config, tmp_path / "mine").run()
    own = package.begun["name" if name == "trackio" else "id"]
    assert own.startswith("mine-")
    assert package.begun["config"]["optimizer"]["updates"] == 4
    assert package.begun.get("mode") == ("offline" if name == "wandb" else None)
    lines = metrics(tmp_path / "mine")
    assert list(package.logged) == [line["update"] for line in lines] == [1, 2, 3, 4]
    for line in lines:
        shown = package.logged[line["update"]]
        assert (shown["train/loss"], shown["train/h"]) == (line["loss"], line["h"])
        counts, edges = shown["replay/D"]
        assert counts == line["D_histogram"]
        assert len(edges) == len(counts) + 1 == len(D_EDGES) + 2
    assert shown["validation/exact"] == line["validation"]["exact"]
    assert package.finished == 1
    assert not (tmp_path / "mine" / "tensorboard").exists()


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_a_run_that_goes_on_is_the_same_run_and_another_folder_is_another(
    name, tmp_path, monkeypatch
):
    package = Package(name)
    monkeypatch.setitem(sys.modules, name, package)
    config, seen = replace(tiny_run("sudoku", updates=4), report_to=name, save_every=1), []
    for folder in ("a/mine:1", "a/mine:1", "b/mine:1"):
        trainer = Trainer(config, tmp_path / folder)
        if (tmp_path / folder / "last").exists():
            trainer.resume()
        trainer.begin()
        trainer.train_update()
        trainer.after_update()
        trainer.metrics.close()
        assert package.begun["resume"] == "allow"
        seen.append(package.begun["name" if name == "trackio" else "id"])
    assert seen[0] == seen[1] != seen[2]
    assert all(own.startswith("mine-1-") for own in seen)  # W&B refuses some signs


def test_the_user_s_own_variable_lets_wandb_online(tmp_path, monkeypatch):
    package = Package("wandb")
    monkeypatch.setitem(sys.modules, "wandb", package)
    monkeypatch.setenv("WANDB_MODE", "online")
    Trainer(replace(tiny_run("sudoku", updates=1), report_to="wandb"), tmp_path).run()
    assert package.begun["mode"] == "online"


def test_a_tracker_that_fails_is_told_of_once_and_the_run_goes_on(tmp_path, monkeypatch):
    package = Package("wandb", fails_at=2)
    monkeypatch.setitem(sys.modules, "wandb", package)
    config = replace(tiny_run("sudoku", updates=4), report_to="wandb")
    with pytest.warns(UserWarning, match=r"wandb \(ConnectionError: gone\)") as warned:
        Trainer(config, tmp_path).run()
    assert len(warned) == 1
    assert list(package.logged) == [1]
    assert [line["update"] for line in metrics(tmp_path)] == [1, 2, 3, 4]


def test_a_missing_package_is_one_line_that_names_the_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)  # as if it were not installed
    words = ["train", "mini-sudoku", "--report-to", "wandb", "--out", str(tmp_path / "run")]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "pip install 'focus-solver[wandb]'" in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_none_writes_metrics_alone_and_a_run_may_go_on_with_another(tmp_path):
    config = replace(tiny_run("sudoku", updates=4), report_to="none")
    first = Trainer(config, tmp_path)
    first.begin()
    for _ in range(2):
        first.train_update()
        first.after_update()
    assert len(metrics(tmp_path)) == 2
    assert not (tmp_path / "tensorboard").exists()
    other = Trainer(replace(config, report_to="tensorboard"), tmp_path)
    other.resume()
    other.run()
    assert len(metrics(tmp_path)) == 4
    assert list((tmp_path / "tensorboard").glob("events*"))


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_the_real_package_stores_a_run_on_this_machine(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "store"))
    pytest.importorskip(name)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    config = replace(tiny_run("sudoku", updates=2, probability=(1.0, 1.0)), report_to=name)
    first = Trainer(config, tmp_path / "mine")
    first.begin()
    first.train_update()
    first.after_update()
    first.save()
    first.metrics.close()
    second = Trainer(config, tmp_path / "mine")
    second.resume()
    second.run()
    if name == "wandb":
        stored = sorted((tmp_path / "mine" / "wandb").glob("offline-run-*/run-*.wandb"))
        assert len({path.name for path in stored}) == 1  # one id
        assert b"validation/exact" in stored[-1].read_bytes()
    else:
        (path,) = tmp_path.glob("store/focus.db")
        with sqlite3.connect(path) as store:
            rows = store.execute("select step, run_name from metrics order by step").fetchall()
        assert [step for step, _ in rows] == [1, 2]
        assert len({run for _, run in rows}) == 1
