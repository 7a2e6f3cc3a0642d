"""The worked examples of docs/tutorials/add-a-task.md, installed as a package and used."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from focus.cli import main
from focus.data.sources import Generated
from focus.errors import UserError
from focus.random import example_keys
from focus.tasks import task_class

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
MODULES = {"latin": "latin_squares:LatinSquares", "queens": "queens:Queens"}
every_example = pytest.mark.parametrize("name", MODULES)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A site folder with the modules and the metadata that an installer would write."""
    site = tmp_path / "site"
    info = site / "examples-0.1.dist-info"
    info.mkdir(parents=True)
    for file in EXAMPLES.glob("*.py"):
        shutil.copy(file, site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: examples\nVersion: 0.1\n")
    entries = "".join(f"{name} = {value}\n" for name, value in MODULES.items())
    (info / "entry_points.txt").write_text(f"[focus.tasks]\n{entries}")
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    yield info
    for value in MODULES.values():
        sys.modules.pop(value.partition(":")[0], None)


@every_example
def test_an_example_is_short(name):
    file = EXAMPLES / f"{MODULES[name].partition(':')[0]}.py"
    assert len(file.read_text().splitlines()) <= 80


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("foo = latin_squares:LatinSquares", "calls itself 'latin': its name must be that of its"),
        ("foo = latin_squares:nothing", "fails to load: .* has no attribute 'nothing'"),
        ("foo = latin_squares:UserError", "is not a class derived from Task"),
        ("foo = focus.tasks.base:Task", "lacks .*cells"),
        ("foo = focus.tasks.assignment:Assignment", "lacks classes, groups"),
    ],
)
def test_a_task_that_would_fail_later_is_refused_when_it_is_named(site, entry, why):
    (site / "entry_points.txt").write_text(f"[focus.tasks]\n{entry}\n")
    importlib.invalidate_caches()
    with pytest.raises(UserError, match=why):
        task_class("foo")


@every_example
def test_an_example_keeps_the_protocol(site, name):
    task = task_class(name)()
    questions, answers = task.generate(0, 0, 6, "minimal")
    assert task.judge(questions, answers).canonical.all()
    x, y = task.unpack(task.augment(task.pack(questions, answers), torch.zeros(6).long()))
    z = task.solved_state(x, y, 20.0)
    assert task.exact(z, x, y).all()
    assert task.obeys(task.decode(z, x), x).all()
    assert (task.energy(z, x, y) < 1e-6).all()
    assert torch.equal(task.clamp(z, x), z)
    broken = task.corrupt(x, y, example_keys(0, 0, torch.arange(6)))
    wrong = ~task.exact(broken, x, y)
    assert wrong.any()
    assert (task.energy(broken, x, y)[wrong] > 0.01).all()
    assert not task.obeys(task.decode(broken, x), x)[wrong].any()
    steps = torch.stack([task.initial(x), broken, z])
    assert task.loss(steps, x, y).shape == (6,)
    assert task.eligible(wrong[None], wrong[None], wrong).shape == (1, 6)
    # Message passing needs nothing of its own: means over the groups.
    heard, _ = task.messages(torch.randn(6, task.tokens, 3), x)
    assert heard.shape == (6, task.tokens, len(task.relation_names), 3)
    assert task.page_view == {
        "latin": {
            "view": "cells", "side": 5, "rows": 5, "box": 0, "blank": ".", "symbols": "12345",
        },
        "queens": {
            "view": "text", "side": 8, "rows": 1, "box": 0, "blank": ".", "symbols": "12345678",
        },
    }[name]  # fmt: skip
    assert task.of_side(6).cells == (36 if name == "latin" else 6)


@every_example
def test_an_example_is_drawn_as_text_with_what_is_wrong_marked(site, name):
    task = task_class(name)()
    questions, answers = task.generate(0, 0, 1, "minimal")
    question, target = task.question_text(questions[0]), task.answer_text(answers[0])
    place = question.index(".")
    wrong = target[:place] + ("2" if target[place] == "1" else "1") + target[place + 1 :]
    marks = []
    for answer in (None, target, wrong):
        axis = Figure().subplots()
        task.draw(axis, question, answer, target)
        marks.append((len(axis.texts), len(axis.patches)))
    givens = int((questions[0] > 0).sum())
    assert marks == [(givens, 0), (task.cells, 0), (task.cells, 1)]


def test_queens_share_neither_column_nor_diagonal(site):
    task = task_class("queens")(side=6)
    blank = np.zeros((1, 6), np.uint8)
    x = task.problem(np.repeat(blank, 6**6, 0))
    every = torch.cartesian_prod(*[torch.arange(6)] * 6)
    solutions = every[task.obeys(every, x)]
    assert len(solutions) == 4  # what is known of six queens
    assert task.render(blank[0], task.answer_codes(solutions[:1], x)[0]).count("Q") == 6
    keys = example_keys(0, 0, torch.arange(30))
    questions, answers = task_class("queens")().generate(0, 0, 30, "minimal")
    mirrored = task_class("queens")().augment(task.pack(questions, answers), keys)
    mirrored_codes = mirrored.question.numpy(), mirrored.answer.numpy()
    assert task_class("queens")().judge(*mirrored_codes).canonical.all()
    assert (mirrored_codes[0] != questions).any(1).sum() > 10
    with pytest.raises(UserError, match="1 in cell 1 excludes 2 in cell 2"):
        task.parse("12....")
    with pytest.raises(UserError, match="1 stands twice in board 1"):
        task.parse("1....1")


@every_example
def test_an_example_works_on_the_command_line(site, name, tmp_path, capsys):
    out = str(tmp_path / "puzzles.csv")
    assert main(["data", "show", "--task", name, "--data", "generated"]) == 0
    assert main(["data", "generate", "--task", name, "--count", "30", "--out", out]) == 0
    capsys.readouterr()
    assert main(["data", "audit", "--task", name, "--data", out, "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["rows"] == result["canonical"] == 30


@every_example
def test_an_example_is_trained_by_its_name(site, name, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("FOCUS_DATA", raising=False)
    monkeypatch.setattr(Generated.__init__, "__defaults__", (0, 60, 20))
    few = "--optimizer.updates 2 --optimizer.batch 4 --solver.updater.width 32 --eval-rows 4"
    for recipe in (name, f"{name}/tiny-llama/random"):
        run = str(tmp_path / recipe.replace("/", "-"))
        assert main(["train", recipe, *few.split(), "--out", run]) == 0
    capsys.readouterr()
    assert main(["eval", run, "--steps", "2", "--limit", "3", "--json"]) == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert evaluated["results"][0]["n"] == 3
    assert (evaluated["checkpoint"], evaluated["split"]) == (run, "test")
    solve = ["solve", "--task", name, "--checkpoint", run, "--example", "hard", "--steps", "3"]
    assert main([*solve, "--json", "--html", str(tmp_path / "repair.html")]) == 0
    answer = json.loads(capsys.readouterr().out)["answer"]
    shown = json.loads(
        (tmp_path / "repair.html")
        .read_text()
        .split('getElementById("player"), ')[1]
        .split(");</script>")[0]
    )
    assert (shown["task"], shown["repairs"][0]["answer"]) == (name, answer)
    drawn = "".join(text for text, _ in shown["repairs"][0]["frames"][-1].get("pieces", []))
    assert drawn.count("Q") == (8 if name == "queens" else 0)
    assert main(["train", "chess"]) == 2
    assert "mini-maze, latin" in capsys.readouterr().err
    assert main(["data", "show", "--task", name, "--side", "30"]) == 2


@pytest.fixture
def trained(site, tmp_path, monkeypatch):
    """Trains a small updater in seconds: the last validation, and the losses on the way."""

    def train(name: str, side: int) -> tuple[dict, list[float]]:
        monkeypatch.delenv("FOCUS_DATA", raising=False)
        monkeypatch.setattr(Generated.__init__, "__defaults__", (0, 500, 40))
        words = (
            f"train {name}/recurrent --task.side {side} --step-weights linear --steps 4 "
            "--method every-step --optimizer.updates 100 --optimizer.warmup 5 --optimizer.batch 32 "
            "--optimizer.accumulate 1 --optimizer.learning-rate 4e-3 --solver.updater.width 64 "
            f"--log-every 10 --eval-every 100 --eval-rows 40 --eval-steps 16 --out {tmp_path}/run"
        )
        assert main(words.split()) == 0
        text = (tmp_path / "run" / "metrics.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        validations = [line["validation"] for line in lines if "validation" in line]
        return validations[-1], [line["loss"] for line in lines if "loss" in line]

    return train


def test_small_latin_squares_are_learned(trained):
    validation, losses = trained("latin", 4)
    assert losses[-1] < 0.5 * losses[0]
    assert validation["exact"] > 0.8


def test_queens_are_learned(trained):
    validation, losses = trained("queens", 8)
    assert losses[-1] < 0.5 * losses[0]
    assert validation["exact"] > 0.3
