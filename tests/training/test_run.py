"""Runs: every method trains, resumes bit for bit, and stops on what is not finite."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from focus.errors import UserError
from focus.recipes import RECIPES
from focus.training.checkpoint import load_solver, trained_weights
from focus.training.config import from_json, to_json
from focus.training.loop import NotFiniteError, Trainer
from focus.training.schedule import learning_rate_share, replay_probability, stage
from tests.training.samples import tiny_run

METHODS = {
    "focus": {},
    "random": {"method": "random"},
    "energy-hard": {"method": "energy-hard"},
    "fixed-mix": {"method": "fixed-mix"},
    "no-replay": {"method": "none"},
}


@pytest.mark.parametrize("backbone", ["none", "tiny-llama", "tiny-qwen3"])
@pytest.mark.parametrize("task", ["sudoku", "maze"])
@pytest.mark.parametrize("method", METHODS)
def test_every_curation_method_trains(tmp_path, task, backbone, method):
    trainer = Trainer(tiny_run(task, backbone, updates=3, **METHODS[method]), tmp_path)
    before = {n: w.clone() for n, w in trained_weights(trainer.solver).items()}
    lines = [trainer.step() for _ in range(3)]
    assert all(line["loss"] > 0 for line in lines)
    moved = [n for n, w in trained_weights(trainer.solver).items() if not torch.equal(w, before[n])]
    assert any("updater" in name for name in moved)
    assert any("lora_" in name for name in moved) == (backbone != "none")


def metrics(folder: Path) -> list[dict]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


@pytest.mark.parametrize("task", ["sudoku", "maze"])
def test_a_resumed_run_equals_an_unbroken_one_bit_for_bit(tmp_path, task):
    config = tiny_run(task, updates=8)
    config = replace(config, optimizer=replace(config.optimizer, ema=0.9))
    whole = Trainer(config, tmp_path / "whole")
    whole.run()
    broken = Trainer(config, tmp_path / "broken")
    (tmp_path / "broken").mkdir()

    class KilledError(Exception):
        pass

    def kill(update, line):
        if update == 5:
            raise KilledError

    with pytest.raises(KilledError):
        broken.run(kill)
    again = Trainer(config, tmp_path / "broken")
    again.resume()
    assert again.update == 4
    again.run()
    assert metrics(tmp_path / "broken") == metrics(tmp_path / "whole")
    for name, weight in trained_weights(whole.solver).items():
        assert torch.equal(weight, trained_weights(again.solver)[name]), name
        assert torch.equal(whole.average[name], again.average[name]), name


@pytest.mark.long
def test_kill_9_at_random_moments_changes_nothing(tmp_path):
    command = [
        sys.executable, "-m", "focus.cli", "train", "mini-sudoku", "--optimizer.updates", "60",
        "--save-every", "5", "--log-every", "1", "--eval-every", "20", "--eval-rows", "20",
        "--optimizer.batch", "16", "--solver.updater.width", "32", "--out",
    ]  # fmt: skip
    subprocess.run([*command, str(tmp_path / "whole")], check=True)
    pauses = torch.rand(10, generator=torch.Generator().manual_seed(0)) * 4 + 4
    for pause in pauses.tolist():
        run = subprocess.Popen([*command, str(tmp_path / "killed"), "--resume"])
        time.sleep(pause)
        run.send_signal(signal.SIGKILL)
        run.wait()
    subprocess.run([*command, str(tmp_path / "killed"), "--resume"], check=True)
    assert metrics(tmp_path / "killed") == metrics(tmp_path / "whole")


def test_a_damaged_checkpoint_is_refused_by_name(tmp_path):
    config = tiny_run("sudoku", updates=2)
    Trainer(config, tmp_path).run()
    for folder, name in (("last", "optimizer.safetensors"), ("best", "solver.safetensors")):
        copy = tmp_path / f"copy-{folder}"
        shutil.copytree(tmp_path / folder, copy / folder)
        path = copy / folder / name
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2] ^= 1
        path.write_bytes(raw)
        use = Trainer(config, copy).resume if folder == "last" else lambda c=copy: load_solver(c)
        with pytest.raises(UserError, match=name):
            use()
        path.unlink()
        with pytest.raises(UserError, match=f"{name} is missing"):
            load_solver(copy / folder)


def test_a_run_cut_off_while_replacing_a_checkpoint_uses_the_old_one(tmp_path):
    config = tiny_run("sudoku", updates=2)
    Trainer(config, tmp_path).run()
    os.replace(tmp_path / "last", tmp_path / ".last.old")
    trainer = Trainer(config, tmp_path)
    trainer.resume()
    assert trainer.update == 2


def test_another_config_is_not_resumed(tmp_path):
    config = tiny_run("sudoku", updates=2)
    Trainer(config, tmp_path).run()
    with pytest.raises(UserError, match="another config"):
        Trainer(replace(config, seed=1), tmp_path).resume()


def test_what_is_not_finite_stops_the_run_and_keeps_the_checkpoint(tmp_path):
    config = tiny_run("sudoku", updates=6)
    trainer = Trainer(config, tmp_path)

    def poison(update, line):
        if update == 3:
            with torch.no_grad():
                trainer.solver.updater.head.bias.fill_(float("nan"))

    with pytest.raises(NotFiniteError, match="update 3"):
        trainer.run(poison)
    kept = Trainer(config, tmp_path)
    kept.resume()
    assert kept.update == 2
    assert all(w.isfinite().all() for w in trained_weights(kept.solver).values())


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_survive_json(name):
    config = RECIPES[name]()
    assert from_json(to_json(config), Path("config.json")) == config


@pytest.mark.parametrize(
    ("text", "message"),
    [("nonsense", "is no run config"), ('{"format": 9, "task": {"name": "sudoku"}}', "format 9")],
)
def test_foreign_configs_are_refused(text, message):
    with pytest.raises(UserError, match=message):
        from_json(text, Path("config.json"))


def test_the_paper_s_schedule_of_sudoku():
    config = RECIPES["sudoku"]()
    updates, replay = config.optimizer.updates, config.replay
    assert [stage(n, updates, replay) for n in (3_000, 10_000, 20_000, 30_000, 40_000)] == [
        (16, 4), (32, 4), (64, 8), (96, 8), (128, 8),
    ]  # fmt: skip
    assert replay_probability(2_999, updates, replay) == 0
    assert replay_probability(3_000, updates, replay) == pytest.approx(0.175, abs=1e-3)
    assert replay_probability(49_999, updates, replay) == pytest.approx(0.316, abs=1e-3)
    shares = [learning_rate_share(n, config.optimizer) for n in (0, 299, 25_000, 49_999)]
    assert shares == pytest.approx([1 / 300, 1.0, 0.51, 0.02], abs=0.02)


def test_the_paper_s_schedule_of_maze():
    config = RECIPES["maze"]()
    updates, replay = config.optimizer.updates, config.replay
    assert replay_probability(2_999, updates, replay) == 0
    assert replay_probability(7_500, updates, replay) == pytest.approx(0.30, abs=1e-3)
    # 0.45 of the updates without replay start from the initial state: at least 0.315 overall.
    assert pytest.approx(0.315) == 0.45 * (1 - 0.30)


def test_maze_replays_or_trains_from_the_base_never_both(tmp_path):
    config = tiny_run("maze", updates=1, probability=(1.0, 1.0))
    trainer = Trainer(config, tmp_path)
    keys = torch.arange(8)
    from focus.training.update import losses

    x, y = trainer.batch(keys, keys)
    part = losses(trainer.solver, x, y, keys, config, True, 8, 4)
    assert ((part.base > 0) != part.selection.eligible).all()
