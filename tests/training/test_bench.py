"""What `focus bench` counts."""

import json
from dataclasses import replace

import pytest

from focus.cli import main
from focus.model import pretrained
from focus.training import bench
from tests.training.samples import tiny_run


def test_random_weights_of_a_shape_stand_in_for_a_language_model(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(pretrained._SHAPES, "random-smollm2-135m", pretrained._SHAPES["tiny-llama"])
    words = ["bench", "train", "mini-maze/smollm2-135m", "--random-weights", "--repeats", "1"]
    assert main([*words, "--optimizer.batch", "2", "--replay.method", "none", "--json"]) == 0
    rates = json.loads(capsys.readouterr().out)["eager"]
    assert rates["share"]["language_model"] > 0
    assert rates["estimated_gib"] > 0
    assert main(["bench", "train", "mini-sudoku", "--random-weights"]) == 2
    assert "the shape of the backbone 'none' is not known" in capsys.readouterr().err


@pytest.mark.parametrize("accumulate", [1, 2])
def test_selection_is_counted_for_every_mini_batch(monkeypatch, tmp_path, accumulate):
    """Were all pieces of work to take a second, an update would have as many selections."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "seconds_of", lambda work, *_: (work(), 1.0)[1])
    config = tiny_run("sudoku")
    config = replace(config, optimizer=replace(config.optimizer, accumulate=accumulate))
    rates = bench.bench_train(config, "cpu", 1)["eager"]
    stages = {f"K_p {K_p}, h {h}" for _, K_p, h in config.replay.stages}
    assert rates["share_of_selection"] == dict.fromkeys(stages, accumulate)
    assert set(rates["updates_per_second"]) == {"base", *stages}


def test_selection_over_its_steps_is_told_for_every_stage(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    config = tiny_run("sudoku")
    stages = {f"K_p {K_p}, h {h}" for _, K_p, h in config.replay.stages}
    found = bench.bench_select(config, "cpu", 1)["selection_over_its_steps"]
    assert set(found) == stages
    assert all(value > 0 for value in found.values())
