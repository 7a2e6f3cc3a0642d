"""One puzzle drawn into a matplotlib axis; what is right, wrong and given can be told apart.

The colours are Okabe and Ito's, which colour-blind people tell apart too; what is wrong also has a
shape of its own (an underline, a cross), for print in black and white.
"""

import math
from typing import Any

from matplotlib.patches import Rectangle

RIGHT, WRONG, MISSING, WALL, PALE = "#0072B2", "#D55E00", "#56B4E9", "#4d4d4d", "#fbe3d3"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def side_of(question: str) -> int:
    """Cells in a row."""
    return math.isqrt(len(question))


def draw(axis: Any, task: str, question: str, answer: str | None, target: str) -> None:
    """The answer to a puzzle, compared with the target; None draws the question alone."""
    if task == "sudoku":
        draw_sudoku(axis, question, question if answer is None else answer, target)
    elif answer is None:
        draw_maze(axis, question, question, question)
    else:
        draw_maze(axis, question, answer, target)


def draw_sudoku(axis: Any, question: str, answer: str, target: str) -> None:
    """Givens bold and black, right digits blue, wrong ones orange on a shade, underlined."""
    side = side_of(question)
    box = math.isqrt(side)
    _frame(axis, side)
    for line in range(side + 1):
        width = 1.2 if line % box == 0 else 0.35
        axis.plot([line, line], [0, side], color="black", lw=width)
        axis.plot([0, side], [line, line], color="black", lw=width)
    for cell, (given, digit, right) in enumerate(zip(question, answer, target, strict=True)):
        if digit in ".0":
            continue
        row, column = divmod(cell, side)
        wrong = digit != right
        if wrong:
            axis.add_patch(Rectangle((column, row), 1, 1, color=PALE, lw=0))
            axis.plot([column + 0.25, column + 0.75], [row + 0.88] * 2, color=WRONG, lw=0.8)
        colour = "black" if given not in ".0" else WRONG if wrong else RIGHT
        axis.text(
            column + 0.5, row + 0.52, digit, ha="center", va="center", color=colour,
            fontsize=54 / side, fontweight="bold" if given not in ".0" else "normal",
        )  # fmt: skip


def draw_maze(axis: Any, question: str, answer: str, target: str) -> None:
    """Walls dark, path cells blue where right, orange with a cross where not; missing ones pale."""
    side = side_of(question)
    _frame(axis, side)
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


def _frame(axis: Any, side: int) -> None:
    axis.set_xlim(-0.05, side + 0.05)
    axis.set_ylim(side + 0.05, -0.05)
    axis.set_aspect("equal")
    axis.set_xticks([])
    axis.set_yticks([])
    for edge in axis.spines.values():
        edge.set_linewidth(0.6)
