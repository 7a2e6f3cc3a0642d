"""Gradients of a saved run, with what comes from far scaled down."""

import json

import pytest
import torch

from experiments import gradient_noise
from focus.training.loop import Trainer
from tests.training.samples import tiny_run


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    Trainer(tiny_run("sudoku", updates=4), folder).run()
    return folder


def test_a_gradient_that_is_not_scaled_is_that_of_the_loss(run):
    gradients = gradient_noise.Gradients(run, "cpu")
    weights = list(gradients.trainer.step_runner.optimizer.vector.named.values())
    whole, scaled = gradients.of(3, 1.0), gradients.of(3, 0.5)
    assert not torch.allclose(whole, gradients.of(4, 1.0))
    parts = whole.split([weight.numel() for weight in weights])
    losses = []
    with torch.no_grad():
        for step in (-2e-4, 4e-4):  # along it, one way and then as far the other
            for weight, part in zip(weights, parts, strict=True):
                weight += step * part.view_as(weight) / whole.norm()
            losses.append(float(gradients.loss(3, 0.5)))  # values do not know of scales
    assert (losses[1] - losses[0]) / 4e-4 == pytest.approx(float(whole.norm()), rel=0.02)
    assert abs(float(scaled.norm() / whole.norm()) - 1) > 0.05


def test_the_table_compares_the_same_batches(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gradient_noise, "RESULTS", tmp_path)
    monkeypatch.setattr("sys.argv", ["gradient_noise", str(run), "--batches", "2"])
    gradient_noise.main()
    figures = json.loads((tmp_path / "gradient-noise.json").read_text())
    scales = figures["runs"]["run"]["scales"]
    assert all(len(found["cosine"]) == 2 for found in scales.values())
    rows = capsys.readouterr().out.splitlines()[2:]
    assert len(rows) == len(gradient_noise.SCALES)
    ahead = scales["0.8"]["cosine"][0] - scales["1.0"]["cosine"][0]
    ahead += scales["0.8"]["cosine"][1] - scales["1.0"]["cosine"][1]
    assert f"{ahead / 2:+.3f}" in rows[2]
