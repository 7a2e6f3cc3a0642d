"""Shares of R that depend on the puzzle, and a solver that is given another R."""

import json
import sys
from dataclasses import replace

import pytest
import torch

from experiments import reading
from experiments.stored import unpack
from focus.errors import UserError
from focus.evaluation.puzzles import evaluate
from focus.evaluation.transfer.items import Item
from focus.model.checkpoint import load_model, save_model
from focus.model.solver import solver_of
from focus.training.loop import Trainer
from tests.training.samples import tiny_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    trainer = Trainer(tiny_run("sudoku", "tiny-llama", updates=4), folder / "run")
    trainer.run()
    save_model(trainer.model, folder / "made")
    return folder / "made", trainer.splits.validation[:12]


TEXTS = ("What is one and one? It is two.", "What is two and two? It is four.")


def test_shares_of_what_is_known():
    R = torch.zeros(3, 4, 2)
    assert reading.shares(R + 5) == {"mean_square": 25, "cell": 0, "puzzle": 0}
    of_cell = torch.tensor([1.0, -1, 1, -1])[:, None]
    assert reading.shares(R + of_cell) == {"mean_square": 1, "cell": 1, "puzzle": 0}
    R[0, 0, 0], R[1, 0, 0] = 1, -1  # with a mean of zero over puzzles
    assert reading.shares(R)["puzzle"] == 1


def test_a_solver_is_given_what_it_reads_or_a_mean(run):
    folder, table = run
    figures = reading.measure(str(folder), table, TEXTS)
    solver = solver_of(load_model(folder), "made").eval()
    (alone,) = evaluate(solver, table, figures["steps"], batch=len(table))
    assert (unpack(figures["exact"]["its own"], len(table)) == alone.exact).all()
    assert figures["backbone"] == "tiny-llama"
    assert 0 < figures["trained"]["puzzle"] < 1
    R = reading.read(solver, table)
    with reading.replaced(solver, R.mean((0, 1), keepdim=True).expand_as(R)):
        x = solver.task.problem(table.questions)
        said = solver.backbone.project(solver.backbone.read(x))
    assert torch.equal(said, said[:1, :1].expand_as(said))
    x = solver.task.problem(table.questions)
    assert solver.backbone.project(solver.backbone.read(x)).std(0).max() > 0  # reads again


def test_what_is_the_same_in_all_tokens_of_a_text(run):
    solver = solver_of(load_model(run[0]), "made").eval()
    usual = reading.common(solver, TEXTS)
    assert 0 < usual < 1
    embedding = solver.backbone.model.get_input_embeddings().weight
    with torch.no_grad():
        embedding.copy_(embedding[:1].expand_as(embedding))
    assert reading.common(solver, TEXTS) == pytest.approx(1)  # every token is the same word
    figures = reading.measure(str(run[0]), run[1], TEXTS)["texts"]
    assert figures["adapted"] == pytest.approx(usual)
    assert figures["adapted"] != figures["unadapted"]


def test_figures_are_stored_and_shown(run, tmp_path, monkeypatch, capsys):
    folder, table = run
    monkeypatch.setattr(reading, "RESULTS", tmp_path)
    monkeypatch.setattr(reading, "open_source", lambda place: tmp_path)
    monkeypatch.setattr(reading, "load_split", lambda source, task, name: table)
    items = [Item(str(n), {"problem": text}, "", text) for n, text in enumerate(TEXTS)]
    math = replace(reading.BENCHMARKS["math"], load=lambda data: items)
    monkeypatch.setitem(reading.BENCHMARKS, "math", math)
    shown = []
    for words in (("mine", str(folder)), ("--table",)):
        monkeypatch.setattr(sys, "argv", ["reading", *words])
        reading.main()
        shown.append(capsys.readouterr().out)
    assert "| `mine` | " in shown[0]
    assert shown[0].rstrip().endswith(" % |")  # of text
    assert shown[1] == shown[0]
    assert json.loads((tmp_path / "reading-mine.json").read_text())["n"] == len(table)


def test_generated_puzzles_are_refused(run, monkeypatch):
    monkeypatch.delenv(reading.DATA_VARIABLE, raising=False)
    with pytest.raises(UserError, match="set FOCUS_DATA to a folder with the data"):
        reading.measure(str(run[0]))


def test_a_folder_without_math_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.setenv(reading.DATA_VARIABLE, str(tmp_path))
    with pytest.raises(UserError, match=r"set FOCUS_DATA to a folder with MATH too: no math/") as e:
        reading.measure(str(run[0]), run[1])
    assert "--data" not in str(e.value)  # it has no such flag


@pytest.mark.parametrize("words", [(), ("mine",), ("mine", "sudoku-none"), ("mine", "nowhere")])
def test_what_cannot_be_read_is_one_line(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["reading", *words])
    with pytest.raises(SystemExit) as ended:
        reading.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
