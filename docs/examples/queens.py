"""A task with a rule of its own: complete a placement of queens that do not attack each other.

Every row of the board is a cell, and its class is the column of its queen. That no two queens
share a column is the family's all-different rule, with one group for the whole board; that none
share a diagonal is a further rule, given as pairs of (row, column) that exclude each other.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from focus.errors import UserError
from focus.random import Stream, uniform
from focus.tasks.assignment import Assignment
from focus.tasks.base import Codes
from focus.tasks.records import Rows


@dataclass(frozen=True)
class Queens(Assignment):
    """N queens on a board of N rows and columns, some of them given."""

    name = "queens"
    dataset = "queens"

    side: int = 8  # rows, columns and queens

    def __post_init__(self):
        if not 4 <= self.side <= 20:
            raise UserError(f"a board for queens has 4 to 20 rows, not {self.side}")
        super().__post_init__()

    @property
    def classes(self) -> int:
        return self.side

    @property
    def columns(self) -> int:  # a puzzle is written on one line, a symbol for every queen
        return self.side

    def groups(self) -> dict[str, np.ndarray]:
        return {"board": np.zeros(self.side, int)}

    def conflicts(self) -> np.ndarray:
        number = np.arange(self.side)
        apart = abs(number[:, None] - number)
        return apart[:, None, :, None] == apart[None, :, None, :]  # as far down as across

    @property
    def generator_modes(self) -> tuple[str, ...]:
        return ("eased", "minimal")  # of minimal ones there are few on a small board

    def render_cells(
        self, question: Codes, answer: Codes | None = None
    ) -> list[tuple[str, int | None]]:
        """The board, Q where a queen stands."""
        pieces: list[tuple[str, int | None]] = []
        for row, code in enumerate(question if answer is None else answer):
            line = ["Q" if column == code else "." for column in range(1, self.side + 1)]
            pieces += [(" ".join(line), row), ("\n", None)]
        return pieces[:-1]

    def augment(self, rows: Rows, keys: Int[Tensor, " batch"]) -> Rows:
        """Mirror the board left to right, top to bottom, both ways or not at all."""
        across = uniform(keys, Stream.SYMMETRY_COLUMNS, 1) < 0.5
        down = uniform(keys, Stream.SYMMETRY_ROWS, 1) < 0.5

        def mirrored(codes: Tensor) -> Tensor:
            codes = torch.where(across & (codes > 0), self.side + 1 - codes, codes)
            return torch.where(down, codes.flip(1), codes)

        return rows.map(mirrored)
