"""What solvers of Sudoku reach for what they compute, for `experiments/results_page.py`."""

from collections.abc import Iterator
from dataclasses import dataclass

from matplotlib.axes import Axes

from experiments.stored import markdown, rate, stored_results
from focus.model.solver import Solver
from focus.report.plots import PALETTE

_SOLVERS = ("sudoku-none", "sudoku-trm")
_PUBLISHED_TRM = (16, 87.4)  # steps and exact, from 1,000 puzzles (arXiv 2510.04871)
# Exact rates of others, each on test puzzles of its own; they do not say the operations.
_PEERS = {
    "SiC, one rollout": 96.9,
    "InfiLoop, one rollout": 97.9,
    "Sotaku, one rollout": 99.1,
    "EqR, restarts": 99.8,
}


@dataclass(frozen=True)
class Reached:
    """An exact rate, and the steps that it takes on average."""

    how: str  # plain, early stop or retries
    what: str
    result: dict
    steps: float
    stops: bool = False  # at the first answer that obeys the rules


def _reached(name: str) -> Iterator[Reached]:
    stored = stored_results(name)
    for result in stored["test"]:
        yield Reached("plain", f"{result['steps']}", result, result["steps"])
    for result in stored.get("early_stop", ()):
        what = f"at most {result['steps']:,}, {result['taken']:.1f} on average"
        yield Reached("early stop", what, result, result["taken"], True)
    for retried in stored_results("symmetry-retries"):
        if retried["checkpoint"] == name:
            result = retried["results"][-1]
            stops = retried["early_stop"]
            mean = retried["taken"] if stops else retried["steps"] * result["rollouts"]
            retries = result["symmetry_retries"]
            what = f"{retries} retries of {retried['steps']}, {mean:.1f} on average"
            yield Reached("retries", what, result, mean, stops)


def _billions(name: str) -> float:
    """Operations of a step, in billions."""
    return Solver.from_pretrained(name).updater.step_flops() / 1e9


def operations() -> str:
    """What an updater and a TRM reach for what they compute."""
    rows = [["solver", "steps", "exact", "billion operations a puzzle"]]
    for name in _SOLVERS:
        each = _billions(name)
        for point in _reached(name):
            solver = f"`{name}`" + ", early stop" * point.stops
            rows.append([solver, point.what, rate(point.result), f"{point.steps * each:.0f}"])
    return markdown(rows)


def draw(axis: Axes) -> None:
    """Puzzles that are not solved, over operations, both on logarithmic scales."""
    marks = {"plain": "o", "early stop": "s", "retries": "^"}
    for name, colour in zip(_SOLVERS, PALETTE, strict=False):
        each, points = _billions(name), list(_reached(name))
        for how, mark in marks.items():
            own = [point for point in points if point.how == how]
            if own:
                axis.plot(
                    [point.steps * each for point in own],
                    [100 * (1 - point.result["exact"]) for point in own],
                    mark + "-" * (how == "plain"), ms=4, lw=1.2, color=colour,
                    label=name if how == "plain" else f"{name}, {how}",
                )  # fmt: skip
    steps, exact = _PUBLISHED_TRM
    axis.plot(
        steps * _billions("sudoku-trm"), 100 - exact, "x", color="black",
        label="TRM as published, from 1,000 puzzles",
    )  # fmt: skip
    for name, rate_of_peer in _PEERS.items():
        axis.axhline(100 - rate_of_peer, color="0.6", lw=0.7, ls=":")
        axis.annotate(
            name, (0.01, 100 - rate_of_peer), xycoords=("axes fraction", "data"), fontsize=5,
            va="bottom", color="0.35",
        )  # fmt: skip
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("billion operations a puzzle, on average")
    axis.set_ylabel("not solved, %")
