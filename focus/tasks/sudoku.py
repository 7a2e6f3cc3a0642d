"""Sudoku: 81 cells (16 for boxes of 2), a logit per digit and cell, givens clamped.

What Sudoku shares with other puzzles of its family is in `focus.tasks.assignment`; here are its
sizes and frame, its symmetries, the compiled engines, and sums over rows, columns and boxes of a
reshaped grid, which are several times as fast on a GPU as products with membership tables.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from focus.engines import sudoku_equivalence, sudoku_generator, sudoku_solver
from focus.errors import UserError
from focus.random import Stream, order, uniforms
from focus.tasks import drawing
from focus.tasks.assignment import Assignment
from focus.tasks.base import Codes
from focus.tasks.records import Rows

_WALK = 10  # puzzles grown one from the other in the neighbourhood mode


@lru_cache(maxsize=2)
def _bands(box: int, seeds: bytes, like: bytes | None) -> sudoku_generator.SeedBands:
    """Seed puzzles by rating; cached, because every chunk of a generation run needs them."""

    def puzzles(codes: bytes) -> Codes:
        return np.frombuffer(codes, np.uint8).reshape(-1, box**4)

    wanted = None if like is None else puzzles(like)
    return sudoku_generator.SeedBands.of(puzzles(seeds), box, bands=9, like=wanted)


@dataclass(frozen=True)
class Sudoku(Assignment):
    """The Sudoku task."""

    name = "sudoku"
    dataset = "sudoku-extreme"
    hub_dataset = "sapientinc/sudoku-extreme"
    validation_from = "test"
    patience = 500_000  # under a second; the worst of Sudoku-Extreme takes 2,423

    box: int = 3  # side of a box: 3 for 9x9, 2 for 4x4

    def __post_init__(self):
        if self.box not in (2, 3):
            raise UserError(f"sudoku boxes have side 2 or 3, not {self.box}")
        super().__post_init__()

    # ------------------------------------------------------------ sizes and rules
    @classmethod
    def of_side(cls, side: int | None) -> "Sudoku":
        if side not in (None, 4, 9):
            raise UserError(f"a Sudoku has 9 or 4 cells in a row, not {side}")
        return cls(box=2 if side == 4 else 3)

    @property
    def paper_sized(self) -> bool:
        return self.box == 3

    @property
    def side(self) -> int:
        """Digits, and cells of a row."""
        return self.box**2

    @property
    def classes(self) -> int:
        return self.side

    @property
    def cells(self) -> int:
        return self.box**4

    def groups(self) -> dict[str, np.ndarray]:
        row, column = np.divmod(np.arange(self.cells), self.side)
        return {
            "row": row,
            "column": column,
            "box": row // self.box * self.box + column // self.box,
        }

    # ------------------------------------------------------- text and pictures
    def parse(self, text: str) -> Codes:
        """Digits and dots, on one line or drawn as a grid with | + and lines of dashes."""
        lines = [line for line in text.splitlines() if line.strip(" \t|+-")]
        return super().parse("".join(lines).replace("|", "").replace("+", ""))

    def render_cells(
        self, question: Codes, answer: Codes | None = None
    ) -> list[tuple[str, int | None]]:
        """Boxes framed by | + and dashes."""
        rule = "+".join(["-" * (2 * self.box + 1)] * self.box)[1:-1]
        pieces: list[tuple[str, int | None]] = []
        for cell, digit in enumerate(question if answer is None else answer):
            row, column = divmod(cell, self.side)
            if column:
                pieces.append((" " if column % self.box else " | ", None))
            elif row:
                pieces.append(("\n" if row % self.box else f"\n{rule}\n", None))
            pieces.append((str(digit) if digit else ".", cell))
        return pieces

    def draw(self, axis: Any, question: str, answer: str | None, target: str) -> None:
        drawing.draw_text(axis, self.side, question, answer, target, self.box)

    @property
    def page_view(self) -> dict[str, Any]:
        return {**super().page_view, "view": "cells", "box": self.box}

    # ------------------------------------------------- puzzles on the host
    def search(
        self, questions: Codes, patience: int | None = None
    ) -> tuple[Codes, np.ndarray, np.ndarray]:
        limit = sudoku_solver.NO_END if patience is None else patience
        return sudoku_solver.solve_many(questions, self.box, limit)

    def fingerprint(self, questions: Codes) -> np.ndarray:
        if self.box == 2:
            return super().fingerprint(questions)
        return sudoku_equivalence.invariant_hashes(questions, self.box)

    def equivalent(self, first: Codes, second: Codes) -> bool:
        """Up to symmetry; 4x4 puzzles, which have 288 grids in all, only when equal."""
        if self.box == 2:
            return super().equivalent(first, second)
        return sudoku_equivalence.equivalent(first, second, self.box)

    @property
    def generator_modes(self) -> tuple[str, ...]:
        return ("minimal", "unbiased", "neighbourhood")

    def generate(
        self, seed: int, first_unit: int, count: int, mode: str,
        seeds: Codes | None = None, like: Codes | None = None,
    ) -> tuple[Codes, Codes]:  # fmt: skip
        if mode == "neighbourhood":
            if seeds is None or not len(seeds):
                raise UserError("the neighbourhood mode needs puzzles to start from")
            bands = _bands(self.box, seeds.tobytes(), None if like is None else like.tobytes())
            questions, ratings = sudoku_generator.neighbourhood(
                self.box, seed, first_unit, count, bands, length=_WALK
            )
            questions = questions[ratings >= 0]
        else:
            questions = sudoku_generator.thinned(
                self.box, seed, first_unit, count, unbiased=mode == "unbiased"
            )
        return questions, sudoku_solver.solve_many(questions, self.box)[0]

    def transform(self, codes: Codes, keys: Int[Tensor, " rows"]) -> Codes:
        return _moved(torch.from_numpy(codes), *self._symmetry(keys)).numpy()

    def inverse_transform(self, codes: Codes, keys: Int[Tensor, " rows"]) -> Codes:
        from_cell, digits = self._symmetry(keys)
        return _moved(torch.from_numpy(codes), from_cell.argsort(1), digits.argsort(1)).numpy()

    # --------------------------------------------------- puzzles on the device
    def augment(self, rows: Rows, keys: Int[Tensor, " batch"]) -> Rows:
        from_cell, digits = self._symmetry(keys)
        return rows.map(lambda codes: _moved(codes, from_cell, digits))

    def _symmetry(
        self, keys: Int[Tensor, " batch"]
    ) -> tuple[Int[Tensor, "batch cells"], Int[Tensor, "batch codes"]]:
        """Where each cell comes from, and what each code becomes."""
        side, box, batch = self.side, self.box, len(keys)
        of_digits, bands, rows, stacks, columns, of_transpose = uniforms(
            keys,
            (
                (Stream.SYMMETRY, (side,)),
                (Stream.SYMMETRY_BANDS, (box,)), (Stream.SYMMETRY_ROWS, (box, box)),
                (Stream.SYMMETRY_STACKS, (box,)), (Stream.SYMMETRY_COLUMNS, (box, box)),
                (Stream.SYMMETRY_TRANSPOSE, ()),
            ),
        )  # fmt: skip
        digits = order(of_digits) + 1
        digits = torch.cat([torch.zeros_like(digits[:, :1]), digits], 1)
        large, small = order(torch.stack([bands, stacks])), order(torch.stack([rows, columns]))
        rows_from, columns_from = (large[..., None] * box + small).reshape(2, batch, side)
        from_cell = rows_from[:, :, None] * side + columns_from[:, None, :]
        transpose = (of_transpose < 0.5)[:, None, None]
        from_cell = torch.where(transpose, from_cell.transpose(1, 2), from_cell)
        return from_cell.reshape(batch, self.cells), digits

    def augment_soft_targets(
        self, soft_targets: UInt8[Tensor, "batch variants steps tokens classes"],
        keys: Int[Tensor, " batch"],
    ) -> UInt8[Tensor, "batch steps tokens classes"]:  # fmt: skip
        from_cell, digits = self._symmetry(keys)
        at = from_cell[:, None, :, None].expand(-1, soft_targets.shape[2], -1, self.side)
        moved = soft_targets[:, 0].gather(2, at)
        becomes = (digits[:, 1:] - 1)[:, None, None].expand_as(moved)
        return torch.zeros_like(moved).scatter(3, becomes, moved)

    def excluded(
        self, used: Float[Tensor, "*lead cells classes"]
    ) -> Float[Tensor, "*lead cells classes"]:
        """From the sums of each row, column and box, a cell's own share taken out of all three."""
        box = self.box
        grid = used.unflatten(-2, (box, box, box, box))  # band, row, stack, column
        rows, columns = grid.sum((-3, -2), keepdim=True), grid.sum((-5, -4), keepdim=True)
        boxes = grid.sum((-4, -2), keepdim=True)
        return (rows + columns + boxes - 3 * grid).reshape(used.shape)

    # ----------------------------------------------------------------- learning
    def group_violations(
        self, p: Float[Tensor, "*lead batch cells classes"]
    ) -> Float[Tensor, "*lead batch"]:
        grid = p.unflatten(-2, (self.box,) * 4)
        rows, columns, boxes = grid.sum((-3, -2)), grid.sum((-5, -4)), grid.sum((-4, -2))
        return sum(((s - 1) ** 2).sum((-3, -2, -1)) for s in (rows, columns, boxes))


def _moved(
    codes: UInt8[Tensor, "batch cells"], from_cell: Int[Tensor, "batch cells"],
    digits: Int[Tensor, "batch codes"],
) -> UInt8[Tensor, "batch cells"]:  # fmt: skip
    """Codes taken from where each cell comes from, as what each becomes."""
    return digits.gather(1, codes.long().gather(1, from_cell)).to(codes.dtype)
