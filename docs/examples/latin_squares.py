"""A task of your own in one file: complete a Latin square.

Every row and every column holds each of the digits 1 to 5 once. The family of assignment tasks
writes the rest; an entry point makes the task known (docs/tutorials/add-a-task.md).
"""

from dataclasses import dataclass

import numpy as np

from focus.errors import UserError
from focus.tasks.assignment import Assignment


@dataclass(frozen=True)
class LatinSquares(Assignment):
    """Latin squares of a given side."""

    name = "latin"
    dataset = "latin-squares"

    side: int = 5  # cells of a row, and digits

    def __post_init__(self):
        if not 2 <= self.side <= 9:
            raise UserError(f"a Latin square has 2 to 9 cells in a row, not {self.side}")
        super().__post_init__()

    @property
    def classes(self) -> int:
        return self.side

    def groups(self) -> dict[str, np.ndarray]:
        row, column = np.divmod(np.arange(self.side**2), self.side)
        return {"row": row, "column": column}
