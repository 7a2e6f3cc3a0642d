"""Puzzles as they are repaired: one over its steps, one by all methods."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from focus.report.runs import Evaluated
from focus.report.tables import label
from focus.tasks import Task

_COLUMNS, _PANEL = 4, 1.7  # panels in a row and their inches: what a page of print has room for
SHOWN = ("base", "direct", "one-step", "recurrent", "random", "focus")  # side by side


def _accuracy(task: Task, question: str, answer: str, target: str) -> float:
    """Share of right cells among those that count."""
    cells = zip(answer, target, task.counted_cells(question), strict=True)
    right = [given == wanted for given, wanted, counts in cells if counts]
    return sum(right) / len(right)


def _example(run: Evaluated) -> int | None:
    """A puzzle that is solved at the end and was not at first: the median of them by when.

    Where there is none, one that is solved, or else the first.
    """
    steps = sorted(run.exact)
    solved = [i for i, right in run.exact[steps[-1]].items() if right]
    when = {i: next(k for k in steps if run.exact[k].get(i)) for i in solved}
    later = sorted((k, i) for i, k in when.items() if k > steps[0])
    return later[len(later) // 2][1] if later else next(iter(solved or run.exact[steps[-1]]), None)


def repair_strip(run: Evaluated) -> Figure | None:
    """One puzzle over the steps of its repair, with the cell accuracy under each."""
    id_ = _example(run)
    if id_ is None or id_ not in run.puzzles:
        return None
    task, (question, target) = run.config.task, run.puzzles[id_]
    steps = [k for k in sorted(run.answers) if id_ in run.answers[k]]
    if len(steps) > 5:  # the first, the last, and three between
        steps = [steps[round(i * (len(steps) - 1) / 4)] for i in range(5)]
    panels = [
        ("question", None),
        *((f"step {k}" if k else "written", run.answers[k][id_]) for k in steps),
        ("target", target),
    ]
    rows = math.ceil(len(panels) / _COLUMNS)
    figure = Figure(figsize=(_PANEL * min(_COLUMNS, len(panels)), (_PANEL + 0.45) * rows))
    axes = figure.subplots(rows, min(_COLUMNS, len(panels)), squeeze=False).flat
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    for axis, (title, answer) in zip(axes, panels, strict=False):
        task.draw(axis, question, answer, target)
        axis.set_title(title)
        if answer is not None and title != "target":
            share = _accuracy(task, question, answer, target)
            axis.set_xlabel(f"{100 * share:.0f} % of cells")
    return figure


def across_methods(runs: Sequence[Evaluated]) -> Figure | None:
    """The same puzzle by every method at its last step, with the region where they differ most."""
    focus = next((run for run in runs if run.method == "focus"), None)
    runs = [run for run in runs if focus and run.where == focus.where and run.method in SHOWN]
    if focus is None or len(runs) < 2:
        return None
    runs.sort(key=lambda run: SHOWN.index(run.method))
    last = {run.folder: run.exact[run.steps] for run in runs}
    shared = [i for i in last[focus.folder] if all(i in exact for exact in last.values())]
    shared = [i for i in shared if i in focus.puzzles]
    if not shared:
        return None
    # One that FOCUS solves, if there is one, and as few others as possible.
    solved = last[focus.folder]
    id_ = min(shared, key=lambda i: (not solved[i], sum(exact[i] for exact in last.values()), i))
    task, (question, target) = focus.config.task, focus.puzzles[id_]
    answers = {run.folder: run.answers[run.steps][id_] for run in runs}
    region = _region(task.columns, target, list(answers.values()))
    shown = [("question", None), *((label(run), answers[run.folder]) for run in runs)]
    # Whole puzzles in one row, the magnified region of each below it, then the next few.
    columns, bands = min(_COLUMNS, len(shown)), math.ceil(len(shown) / _COLUMNS)
    figure = Figure(figsize=(_PANEL * columns, (2 * _PANEL + 0.5) * bands))
    axes = figure.subplots(2 * bands, columns, squeeze=False)
    figure.subplots_adjust(hspace=0.4)  # room for three lines of title
    for place in range(columns * bands):
        whole, inset = (axes[2 * (place // columns) + row][place % columns] for row in (0, 1))
        if place >= len(shown):
            whole.set_axis_off()
            inset.set_axis_off()
            continue
        title, answer = shown[place]
        for axis in (whole, inset):
            task.draw(axis, question, answer, target)
        whole.set_title("\n".join(title.split(", ")), fontsize=7)
        _magnify(whole, inset, task.columns, *region)
    return figure


def _magnify(whole: Any, inset: Any, columns: int, left: int, top: int, size: int) -> None:
    """Frame a region of the whole and show nothing else in the inset."""
    whole.plot(
        [left, left + size, left + size, left, left],
        [top, top, top + size, top + size, top], color="#CC79A7", lw=1.4,
    )  # fmt: skip
    inset.set_xlim(left, left + size)
    inset.set_ylim(top + size, top)
    for text in inset.texts:
        text.set_fontsize(text.get_fontsize() * columns / size)
        text.set_clip_on(True)


def _region(columns: int, target: str, answers: Sequence[str]) -> tuple[int, int, int]:
    """Left, top and size of the square with the most wrong cells of all answers."""
    rows = len(target) // columns
    wrong = np.zeros((rows, columns))
    for answer in answers:
        cells = [a != t for a, t in zip(answer, target, strict=True)]
        wrong += np.array(cells, float).reshape(rows, columns)
    size = min(rows, max(2, columns // 3))
    best = max(
        ((wrong[r : r + size, c : c + size].sum(), -r, -c) for r in range(rows - size + 1)
         for c in range(columns - size + 1)),
    )  # fmt: skip
    return -int(best[2]), -int(best[1]), size
