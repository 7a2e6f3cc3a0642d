"""Several processes train as one does."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from focus.cli import main
from focus.errors import UserError
from focus.model.install import installed
from focus.training.distributed import Processes
from focus.training.loop import Trainer
from tests.training.samples import tiny_run
from tests.training.test_resume import metrics

ARGUMENTS = [
    "--optimizer.updates", "6", "--optimizer.batch", "8", "--solver.updater.width", "32",
    "--solver.updater.dropout", "0", "--solver.backbone.lora-dropout", "0", "--steps", "3",
    "--eval-steps", "4", "--eval-rows", "20", "--replay.start", "0", "--log-every", "1",
    "--replay.probability", "0.6", "0.6", "--save-every", "6",
]  # fmt: skip


@pytest.fixture(scope="module")
def two_layers_of_qwen(tmp_path_factory) -> str:
    """The first layers of Qwen2.5-Coder-0.5B with its tokenizer; skipped where it is missing."""
    whole = installed("qwen2.5-coder-0.5b")
    if whole is None:
        pytest.skip("needs focus backbone install qwen2.5-coder-0.5b")
    folder = tmp_path_factory.mktemp("qwen")
    AutoTokenizer.from_pretrained(whole).save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(whole)
    model.model.layers = model.model.layers[:2]
    model.config.num_hidden_layers, model.config.layer_types = 2, model.config.layer_types[:2]
    model.save_pretrained(folder)
    return str(folder)


def test_more_processes_than_validation_puzzles_are_refused(tmp_path):
    trainer = Trainer(replace(tiny_run("sudoku"), eval_rows=1), tmp_path)
    trainer.processes = Processes(0, 2)
    with pytest.raises(UserError, match="2 processes cannot share 1 validation"):
        trainer.begin()


def test_two_processes_equal_one_with_a_real_language_model(tmp_path, two_layers_of_qwen):
    check_two_equal_one(
        tmp_path, "mini-sudoku", "1", ["--solver.backbone.name", two_layers_of_qwen]
    )


@pytest.mark.parametrize(
    ("recipe", "accumulate"), [("mini-sudoku/tiny-llama", "2"), ("mini-maze", "1")]
)
def test_two_processes_equal_one(tmp_path, recipe, accumulate):
    """Mini-batches are shared out where they can be, else the examples of each."""
    held = ["--text-kl.weight", "1"] if "tiny-llama" in recipe else []
    check_two_equal_one(tmp_path, recipe, accumulate, held)


def check_two_equal_one(tmp_path, recipe: str, accumulate: str, more: list[str]) -> None:
    more = ["--optimizer.accumulate", accumulate, *more]
    words = ["train", recipe, *ARGUMENTS, *more, "--out"]
    assert main([*words, str(tmp_path / "one")]) == 0
    several = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "focus"]
    done = subprocess.run(
        [sys.executable, "-m", *several, *words, str(tmp_path / "two")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for one, two in zip(metrics(tmp_path / "one"), metrics(tmp_path / "two"), strict=True):
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-4)
        assert two["gradient"] == pytest.approx(one["gradient"], rel=1e-3)
        assert two.get("t_histogram") == one.get("t_histogram")
        assert two.get("validation", {}).get("n") == one.get("validation", {}).get("n")
    weights = [
        load_file(tmp_path / name / "last" / "state-1.safetensors") for name in ("one", "two")
    ]
    for name, value in weights[0].items():
        if name.startswith("weights/"):
            torch.testing.assert_close(weights[1][name], value, rtol=0, atol=2e-4)
    assert json.loads((tmp_path / "two" / "last" / "trainer.json").read_text())["update"] == 6


@pytest.mark.parametrize("asked", ["two", "", "0", "-1"])
def test_a_number_of_processes_that_is_none_is_refused(monkeypatch, asked):
    monkeypatch.setenv("WORLD_SIZE", asked)
    with pytest.raises(UserError, match="WORLD_SIZE is"):
        Processes.join("cpu")


def test_every_example_has_one_process():
    for batch, accumulate, count in ((16, 8, 4), (16, 1, 4), (24, 2, 3), (16, 16, 1)):
        size = batch // accumulate
        taken = [
            m * size + i
            for rank in range(count)
            for m, mine in Processes(rank, count).share(batch, accumulate)
            for i in range(size)[mine]
        ]
        assert sorted(taken) == list(range(batch))
    with pytest.raises(UserError, match="3 processes cannot share"):
        Processes(0, 3).share(16, 8)
