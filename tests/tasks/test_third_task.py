"""The worked example of docs/tutorials/add-a-task.md, installed as a package and used."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest
import torch

from focus.cli import main
from focus.data.sources import Generated
from focus.errors import UserError
from focus.random import example_keys
from focus.tasks import task_class

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "latin_squares.py"


@pytest.fixture
def latin(tmp_path, monkeypatch):
    """A site folder with the module and the metadata that an installer would write."""
    site = tmp_path / "site"
    info = site / "latin_squares-0.1.dist-info"
    info.mkdir(parents=True)
    shutil.copy(EXAMPLE, site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: latin-squares\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[focus.tasks]\nlatin = latin_squares:LatinSquares\n")
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    yield task_class("latin")()
    sys.modules.pop("latin_squares", None)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("foo = latin_squares:LatinSquares", "calls itself 'latin': its name must be that of its"),
        ("foo = latin_squares:nothing", "fails to load: .* has no attribute 'nothing'"),
        ("foo = latin_squares:Channel", "is no class derived from Task"),
        ("foo = focus.tasks.base:Task", "lacks .*cells"),
    ],
)
def test_a_task_that_would_fail_later_is_refused_when_it_is_named(latin, tmp_path, entry, why):
    entries = tmp_path / "site" / "latin_squares-0.1.dist-info" / "entry_points.txt"
    entries.write_text(f"[focus.tasks]\n{entry}\n")
    importlib.invalidate_caches()
    with pytest.raises(UserError, match=why):
        task_class("foo")


def test_the_example_keeps_the_protocol(latin):
    questions, answers = latin.generate(0, 0, 6, "minimal")
    assert latin.judge(questions, answers).canonical.all()
    x, y = latin.unpack(latin.augment(latin.pack(questions, answers), torch.zeros(6).long()))
    z = latin.solved_state(x, y, 20.0)
    assert latin.exact(z, x, y).all()
    assert (latin.energy(z, x, y) < 1e-6).all()
    assert torch.equal(latin.clamp(z, x), z)
    broken = latin.corrupt(x, y, example_keys(0, 0, torch.arange(6)))
    wrong = ~latin.exact(broken, x, y)
    assert wrong.any()
    assert (latin.energy(broken, x, y)[wrong] > 0.01).all()
    steps = torch.stack([latin.initial(x), broken, z])
    assert latin.loss(steps, x, y).shape == (6,)
    assert latin.eligible(wrong[None], wrong[None], wrong).shape == (1, 6)
    # Message passing needs nothing of its own: means over rows and columns.
    assert latin.messages(torch.randn(6, 25, 3), x)[0].shape == (6, 25, 2, 3)


def test_the_example_works_on_the_command_line(latin, tmp_path, capsys):
    out = str(tmp_path / "latin.csv")
    assert main(["data", "show", "--task", "latin", "--data", "generated"]) == 0
    assert main(["data", "generate", "--task", "latin", "--count", "30", "--out", out]) == 0
    capsys.readouterr()
    assert main(["data", "audit", "--task", "latin", "--data", out, "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["rows"] == result["canonical"] == 30


def test_the_example_is_trained_by_its_name(latin, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("FOCUS_DATA", raising=False)
    monkeypatch.setattr(Generated.__init__, "__defaults__", (0, 60, 20))  # of 2,400 it takes 20 s
    few = "--optimizer.updates 2 --optimizer.batch 4 --solver.updater.width 32 --eval-rows 4"
    for recipe in ("latin", "latin/tiny-llama/random"):
        run = str(tmp_path / recipe.replace("/", "-"))
        assert main(["train", recipe, *few.split(), "--out", run]) == 0
    capsys.readouterr()
    assert main(["eval", run, "--steps", "2", "--limit", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["results"][0]["n"] == 3
    assert (found["checkpoint"], found["split"]) == (run, "test")
    assert main(["train", "chess"]) == 2
    assert "mini-maze, latin" in capsys.readouterr().err
    assert main(["data", "show", "--task", "latin", "--side", "12"]) == 2
