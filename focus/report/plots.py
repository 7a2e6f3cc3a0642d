"""Rates, energies and selected states as curves."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from focus.report.runs import Evaluated
from focus.report.tables import label
from focus.training.metrics import D_EDGES

# Okabe and Ito's colours, which colour-blind people can distinguish too.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_BANDS = 4  # lines that may have a band around them


def _style(number: int) -> dict[str, Any]:
    """A line that differs from its neighbours in colour, marker and, after seven, in dashes."""
    return {
        "marker": "osD^v"[number % 5], "ms": 3, "lw": 1.2, "color": PALETTE[number % len(PALETTE)],
        "ls": ("-", "--", ":")[number // len(PALETTE) % 3],
    }  # fmt: skip


def accuracy_over_steps(runs: Sequence[Evaluated]) -> Figure | None:
    """Exact rate by K, with intervals."""
    shown = [run for run in runs if len(run.results) > 1]
    if not shown:
        return None
    figure = Figure(figsize=(4.2, 2.8))
    axis = figure.subplots()
    for number, run in enumerate(shown):
        steps = sorted(run.results)
        rates = [run.results[k] for k in steps]
        style = _style(number)
        axis.plot(steps, [100 * r["exact"] for r in rates], label=label(run), **style)
        if len(shown) <= _BANDS:  # more bands are a grey block
            axis.fill_between(
                steps, [100 * r["low"] for r in rates], [100 * r["high"] for r in rates],
                alpha=0.15, color=style["color"], lw=0,
            )  # fmt: skip
    over_steps(axis)
    axis.set_xticks(sorted({k for run in shown for k in run.results}))
    axis.set_xlabel("steps K")
    return _finish(figure, axis, "exact, %")


def accuracy_over_time(runs: Sequence[Evaluated]) -> Figure | None:
    """Validation over the seconds of training."""
    figure = Figure(figsize=(4.2, 2.8))
    axis = figure.subplots()
    for number, run in enumerate(runs):
        points = [
            (line["seconds"], line["validation"]["exact"])
            for line in run.curve
            if "validation" in line
        ]
        if points:
            axis.plot(
                [seconds for seconds, _ in points], [100 * rate for _, rate in points],
                label=label(run), **_style(number),
            )  # fmt: skip
    if not axis.lines:
        return None
    axis.set_xlabel("seconds of training")
    return _finish(figure, axis, "validation exact, %")


def over_steps(axis: Any) -> None:
    """Numbers of steps from left to right, on a logarithmic scale."""
    axis.set_xscale("log", base=2)
    axis.get_xaxis().set_major_formatter(lambda k, _: f"{k:,.0f}" if k >= 1 else "0")


def _finish(figure: Figure, axis: Any, label: str) -> Figure:
    axis.set_ylabel(label)
    axis.grid(alpha=0.25, lw=0.5)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.02, 1.0))
    return figure


def curation_histograms(run: Evaluated) -> Figure | None:
    """t* and D of the replayed states over training, each column a window of updates."""
    lines = [line for line in run.curve if "t_histogram" in line]
    if not lines:
        return None
    figure = Figure(figsize=(6.4, 2.6))
    # A line tells of the updates since the one before it.
    updates = [line["update"] for line in lines]
    edges = [
        max(0, updates[0] - (updates[1] - updates[0] if updates[1:] else updates[0])),
        *updates,
    ]
    shown = (
        ("t_histogram", "t*", [str(t) for t in run.config.curation.candidates]),
        ("D_histogram", "D", [f"< {edge:g}" for edge in D_EDGES] + [f"≥ {D_EDGES[-1]:g}"]),
    )
    for axis, (name, symbol, ticks) in zip(figure.subplots(1, 2), shown, strict=True):
        counts = np.array([line[name] for line in lines], float).T
        mesh = axis.pcolormesh(
            edges, np.arange(len(ticks) + 1) - 0.5, counts / np.maximum(1.0, counts.sum(0)),
            cmap="cividis", vmin=0.0, rasterized=True,
        )  # fmt: skip
        figure.colorbar(mesh, ax=axis, label="share of the window")
        axis.set_yticks(range(len(ticks)), ticks, fontsize=6)
        axis.set_xlabel("update")
        axis.set_ylabel(symbol)
    figure.tight_layout()
    return figure


def energy_along(run: Evaluated) -> Figure | None:
    """Energy by K of puzzles that end solved and of those that do not: median and quartiles."""
    steps = sorted(run.energies)
    if len(steps) < 2:
        return None
    figure = Figure(figsize=(3.6, 2.6))
    axis = figure.subplots()
    last = run.exact[steps[-1]]
    for solved, colour, style in ((True, PALETTE[0], "-"), (False, PALETTE[1], "--")):
        ids = [i for i, right in last.items() if right == solved]
        if not ids:
            continue
        values = np.array([[run.energies[k][i] for i in ids] for k in steps])
        low, middle, high = np.percentile(values, (25, 50, 75), axis=1)
        name = "solved" if solved else "unsolved"
        axis.plot(steps, middle, color=colour, ls=style, lw=1.3, label=f"{name} ({len(ids):,})")
        axis.fill_between(steps, low, high, color=colour, alpha=0.18, lw=0)
    over_steps(axis)
    axis.set_xticks(steps)
    axis.set_xlabel("steps K")
    return _finish(figure, axis, "energy")
