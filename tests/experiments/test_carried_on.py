"""A saved run, carried on with a change of its schedules."""

import json
import re

import pytest

from experiments import carried_on
from focus.training.loop import Trainer
from tests.training.samples import tiny_run


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    trainer = Trainer(tiny_run("sudoku", updates=8), folder)
    trainer.begin()
    for _ in range(4):
        trainer.train_update()
        trainer.after_update()
    trainer.save()
    with open(folder / "metrics.jsonl", "a") as later:  # of updates after the save
        later.write('{"update": 5}\n')
    return folder


def call(monkeypatch, *words: str) -> None:
    monkeypatch.setattr("sys.argv", ["carried_on", *words])
    carried_on.main()


def test_without_a_change_it_is_the_run_itself_and_changes_differ(run, tmp_path, monkeypatch):
    monkeypatch.setattr(carried_on, "RESULTS", tmp_path)
    saved = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    words = ("--until", "8", "--every", "4", "--only", "as-is", "half-rate", "no-dropout")
    call(monkeypatch, str(run), *words)
    runs = json.loads((tmp_path / "carried-on.json").read_text())["runs"]
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == saved
    trainer = Trainer(tiny_run("sudoku", updates=8), run)
    trainer.resume()
    trainer.step_runner.metric_sums.reset()
    for _ in range(4):
        trainer.train_update()
    expected = trainer.step_runner.metric_sums.read()
    assert runs["as-is"] == [{"update": 8, **{k: expected[k] for k in ("loss", "exact")}}]
    assert len({lines[0]["loss"] for lines in runs.values()}) == 3


def test_a_run_that_is_beyond_is_one_line(run, monkeypatch, capsys):
    with pytest.raises(SystemExit, match="2"):
        call(monkeypatch, str(run), "--until", "4")
    assert re.match(r"carried_on: .* update 4 already; raise --until\n\Z", capsys.readouterr().err)
    (run / "last").rename(run / "elsewhere")
    with pytest.raises(SystemExit, match="2"):
        call(monkeypatch, str(run), "--until", "8")
    assert "holds no saved state" in capsys.readouterr().err
