"""Figures of runs with language models are there when these are stored."""

import json

import numpy as np
import pytest
from matplotlib.figure import Figure

from experiments import language_model_figures as ours
from experiments import stored
from experiments.results_page import draw
from experiments.studies import RATES, TEXT_KL


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A function that stores made-up figures."""
    monkeypatch.setattr(stored, "RESULTS", tmp_path)
    return lambda name, **figures: (tmp_path / f"{name}.json").write_text(json.dumps(figures))


def run(solved: float, seed: int = 1, **about) -> dict:
    bits = stored.pack(np.arange(100) < 100 * solved)
    about = {"seconds": 600.0, "together": 1, "device": "NVIDIA H200", **about}
    return {
        "method": "focus", "seed": seed, "updates": 20, "n_test": 100, "test": {"128": bits},
        "validation_exact": {"10": solved / 2, "20": solved}, **about,
    }  # fmt: skip


def drawn(contents):
    axis = Figure().subplots()
    contents(axis)
    return axis


def test_minutes_of_a_stack_are_shared(tmp_path, store):
    assert ours.figures() == {}
    store(
        "campaign-table1-none", runs={f"as-is-focus-{n}": run(0.5, n, together=6) for n in (1, 2)}
    )
    store("campaign-table1", runs={
        "as-is-focus-1": run(0.6), "as-is-random-1": {**run(0.6), "method": "random"},
    })  # fmt: skip
    ((name, contents),) = ours.figures().items()
    lines = drawn(contents).lines
    assert [list(line.get_xdata()) for line in lines] == 2 * [[5 / 6, 10 / 6]] + [[5, 10]]
    assert [list(line.get_ydata()) for line in lines] == 2 * [[25, 50]] + [[30, 60]]
    assert drawn(contents).get_xlabel() == "minutes of one NVIDIA H200, compilation included"
    store("campaign-table1-larger", runs={"as-is-focus-1": run(0.7, seconds=1200.0)})
    assert list(drawn(contents).lines[-1].get_xdata()) == [10, 20]
    without_curve = {key: figure for key, figure in run(0.4).items() if key != "validation_exact"}
    store("campaign-primary", runs={"as-is-focus-1": without_curve})
    assert len(drawn(contents).lines) == 4  # a run that was stored without it is left out
    draw(tmp_path / f"{name}.svg", contents)
    assert "Qwen2.5-Coder-1.5B" in (tmp_path / f"{name}.svg").read_text()


def test_what_text_costs_is_drawn_over_what_the_puzzle_gains(tmp_path, store):
    choices = [*RATES, *TEXT_KL]
    names = {f"{choice}-focus-1": run(n / 10) for n, choice in enumerate(choices, 1)}
    store("campaign-adapter-rates", runs=names)
    bits = [{"variant": v, "benchmark": "math", "bits_per_token": 1.5 + n / 10}
            for n, v in enumerate(["base", *choices])]  # fmt: skip
    store("transfer-bits-adapter-rates", results=bits)
    assert ours.figures() == {}
    text = [{"variant": v, "benchmark": "cruxeval-o", "accuracy": 0.2} for v in ["base", *choices]]
    store("transfer-adapter-rates", results=text)
    ((name, contents),) = ours.figures().items()
    by_rate = drawn(contents).lines[0]
    assert list(by_rate.get_xdata()) == pytest.approx([10, 20, 30, 40, 50])
    assert list(by_rate.get_ydata()) == pytest.approx([1.6, 1.7, 1.8, 1.9, 2.0])
    draw(tmp_path / f"{name}.svg", contents)
    assert "CruxEval-O" in (tmp_path / f"{name}.svg").read_text()
