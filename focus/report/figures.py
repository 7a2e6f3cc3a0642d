"""Every figure, written so that equal predictions give equal files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from focus.files import atomic_path
from focus.report.pictures import across_methods, repair_strip
from focus.report.plots import (
    accuracy_over_steps,
    accuracy_over_time,
    curation_histograms,
    energy_along,
)
from focus.report.runs import Evaluated
from focus.report.tables import label

FORMATS = ("pdf", "png", "svg")
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "focus", "pdf.fonttype": 42, "font.size": 8, "axes.titlesize": 8,
    "figure.dpi": 150, "savefig.bbox": "tight", "legend.fontsize": 7,
}  # fmt: skip
_OF_ONE = {"repair": repair_strip, "histograms": curation_histograms, "energy": energy_along}
_OF_MANY = {
    "methods": across_methods, "steps": accuracy_over_steps, "time": accuracy_over_time,
}  # fmt: skip

_CAPTIONS = {
    "repair": "One puzzle over the steps of its repair. Black is given; blue is right, orange "
    "(underlined, crossed) wrong, pale blue a path cell that is missing; under each step the "
    "share of right cells",
    "histograms": "Step t* and defect D of the replayed states over training: each column is a "
    "window of updates, brighter is more",
    "energy": "Energy along the repair of puzzles that end solved and of those that do not: "
    "median and quartiles",
    "methods": "The same puzzle by every method, and the region where they err most; colours as "
    "in the repair",
    "steps": "Exact solve rate over the number of steps K, with 95 % intervals",
    "time": "Exact solve rate on validation puzzles over the seconds of training",
}


def save(figure: Figure, folder: Path, name: str, formats: Sequence[str] = FORMATS) -> None:
    """In three formats, without dates."""
    dates: dict[str, dict[str, Any]] = {
        "pdf": {"CreationDate": None, "ModDate": None}, "svg": {"Date": None}, "png": {},
    }  # fmt: skip
    for suffix in formats:
        with atomic_path(folder / f"{name}.{suffix}") as temporary:
            figure.savefig(temporary, format=suffix, metadata=dates[suffix])


def all_figures(runs: Sequence[Evaluated], folder: Path) -> tuple[dict[str, str], list[str]]:
    """Write the figures; captions of those that are there, and names of those that lack runs."""
    made: dict[str, str] = {}
    missing: list[str] = []
    for task in dict.fromkeys(("sudoku", "maze", *(run.task for run in runs))):
        first: dict[tuple[str, str], Evaluated] = {}  # one run of each method and backbone
        for run in runs:
            if run.task == task and run.control == "none":
                first.setdefault((run.where, run.method), run)
        shown = list(first.values())
        focus = next((run for run in shown if run.method == "focus"), None)
        with matplotlib.rc_context(STYLE):
            figures = {name: build(focus) if focus else None for name, build in _OF_ONE.items()}
            figures |= {name: build(shown) for name, build in _OF_MANY.items()}
            for name, figure in figures.items():
                if figure is None:
                    missing.append(f"{task}-{name}")
                else:
                    save(figure, folder, f"{task}-{name}")
                    of = label(focus) if focus and name in _OF_ONE else f"all methods on {task}"
                    made[f"{task}-{name}"] = f"{_CAPTIONS[name]} ({of})."
    return made, missing
