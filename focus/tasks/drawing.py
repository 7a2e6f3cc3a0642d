"""One puzzle drawn into a matplotlib axis, with right, wrong and given cells distinguished.

The colours are Okabe and Ito's, which colour-blind people can distinguish too; what is wrong also
has a shape of its own (an underline, a cross), for print in black and white. matplotlib is
imported when something is drawn, so that importing a task stays light.
"""

import math
from typing import Any

RIGHT, WRONG, MISSING, WALL, PALE = "#0072B2", "#D55E00", "#56B4E9", "#4d4d4d", "#fbe3d3"


_BLANK = " .0"  # characters that say nothing


def draw_text(
    axis: Any, columns: int, question: str, answer: str | None, target: str, box: int = 0
) -> None:
    """Characters on a grid, with thick lines around boxes where there are any.

    Those of the question are bold and black, right ones blue, wrong ones orange on a shade,
    underlined.
    """
    rows = math.ceil(len(question) / columns)
    _frame(axis, rows, columns)
    _lines(axis, rows, columns, box)
    _characters(axis, columns, question, question if answer is None else answer, target)


def draw_maze(axis: Any, question: str, answer: str | None, target: str) -> None:
    """Walls dark, path cells blue where right, orange with a cross where not; missing ones pale."""
    from matplotlib.patches import Rectangle

    if answer is None:  # the question alone: nothing is missing
        answer = target = question
    side = math.isqrt(len(question))
    _frame(axis, side, side)
    for cell, (kind, marked, right) in enumerate(zip(question, answer, target, strict=True)):
        row, column = divmod(cell, side)
        colour = {"#": WALL}.get(kind)
        if marked == "o":
            colour = RIGHT if right == "o" else WRONG
        elif right == "o":
            colour = MISSING
        if colour:
            shade = 0.45 if colour == MISSING else 1.0
            axis.add_patch(Rectangle((column, row), 1, 1, color=colour, lw=0, alpha=shade))
        if colour == WRONG:
            for ends in ([0.2, 0.8], [0.8, 0.2]):
                axis.plot([column + 0.2, column + 0.8], [row + e for e in ends], color="w", lw=0.4)
        if kind in "SG":
            axis.text(
                column + 0.5, row + 0.55, kind, ha="center", va="center", fontweight="bold",
                fontsize=max(4.5, 60 / side), zorder=5,
                bbox={"facecolor": "white", "edgecolor": "black", "lw": 0.4, "pad": 0.6},
            )  # fmt: skip


def _characters(axis: Any, columns: int, question: str, answer: str, target: str) -> None:
    """A character for every cell that is not blank."""
    from matplotlib.patches import Rectangle

    for cell, (given, symbol, right) in enumerate(zip(question, answer, target, strict=True)):
        if symbol in _BLANK:
            continue
        row, column = divmod(cell, columns)
        wrong = symbol != right
        if wrong:
            axis.add_patch(Rectangle((column, row), 1, 1, color=PALE, lw=0))
            axis.plot([column + 0.25, column + 0.75], [row + 0.88] * 2, color=WRONG, lw=0.8)
        colour = "black" if given not in _BLANK else WRONG if wrong else RIGHT
        axis.text(
            column + 0.5, row + 0.52, symbol, ha="center", va="center", color=colour,
            fontsize=54 / columns, fontweight="bold" if given not in _BLANK else "normal",
        )  # fmt: skip


def _lines(axis: Any, rows: int, columns: int, box: int) -> None:
    """The lines of a grid, thick around boxes where there are any, else around the whole."""
    for line in range(max(rows, columns) + 1):
        thick = line % box == 0 if box else line in (0, max(rows, columns))
        width = 1.2 if thick else 0.35
        if line <= columns:
            axis.plot([line, line], [0, rows], color="black", lw=width)
        if line <= rows:
            axis.plot([0, columns], [line, line], color="black", lw=width)


def _frame(axis: Any, rows: int, columns: int) -> None:
    axis.set_xlim(-0.05, columns + 0.05)
    axis.set_ylim(rows + 0.05, -0.05)
    axis.set_aspect("equal")
    axis.set_xticks([])
    axis.set_yticks([])
    for edge in axis.spines.values():
        edge.set_linewidth(0.6)
