"""The figure of `focus diagnose`: a rollout at a glance."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from focus.evaluation.diagnose import Diagnosis
from focus.report.figures import STYLE, save
from focus.report.plots import PALETTE, over_steps


def draw_rollout(diagnosis: Diagnosis, folder: Path) -> None:
    """`rollout.svg` and `rollout.png`: solved puzzles, error, answer and movement over steps."""
    with matplotlib.rc_context(STYLE):
        save(rollout_figure(diagnosis), folder, "rollout", ("svg", "png"))


def rollout_figure(diagnosis: Diagnosis) -> Figure:
    """Six panels over the number of steps, on a logarithmic axis."""
    moments = diagnosis.moments
    figure = Figure(figsize=(7.0, 6.4), layout="constrained")
    solved, turnover, error, answer, change, memory = figure.subplots(3, 2, sharex=True).flat
    ever = diagnosis.solved.cumsum(0).astype(bool).mean(1)
    _lines(solved, diagnosis, {
        "solved": [100 * one.exact for one in moments],
        "solved so far, or before": [100 * share for share in ever],
    })  # fmt: skip
    solved.set_ylabel("puzzles, %")
    _lines(turnover, diagnosis, {
        "gained between two points": [one.gained for one in moments],
        "lost again": [one.lost for one in moments],
    })  # fmt: skip
    turnover.set_ylabel("puzzles")
    _lines(error, diagnosis, {
        "energy": [one.energy for one in moments],
        "confidence": [one.confidence for one in moments],
        "share at the bounds": [one.at_bounds for one in moments],
    })  # fmt: skip
    named = {}
    for name in moments[0].mean:
        named[f"mean {name}"] = [one.mean[name] for one in moments]
        named[f"spread {name}"] = [one.spread[name] for one in moments]
    _lines(answer, diagnosis, named)
    answer.set_ylabel("answer z, open numbers")
    _lines(change, diagnosis, {
        "step of the answer": [one.moved for one in moments],
        "step of the memory": [one.memory_moved for one in moments],
    })  # fmt: skip
    change.set_yscale("symlog", linthresh=1e-3)
    _lines(memory, diagnosis, {"size of the memory u": [one.memory for one in moments]})
    memory.set_ylim(bottom=0.0)
    for axis in (change, memory):
        axis.set_xlabel("steps K")
    figure.suptitle(diagnosis.verdict())
    return figure


def _lines(axis: Axes, diagnosis: Diagnosis, named: Mapping[str, Sequence[float]]) -> None:
    steps = [max(one.step, 0.5) for one in diagnosis.moments]  # a logarithmic axis has no 0
    for number, (name, values) in enumerate(named.items()):
        axis.plot(steps, values, label=name, lw=1.2, marker=".", ms=3, color=PALETTE[number])
    over_steps(axis)
    axis.grid(alpha=0.25, lw=0.5)
    axis.legend(frameon=False)
