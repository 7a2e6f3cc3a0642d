"""Backtracking over puzzles that give every cell a class: solve, count, fill, thin.

Plain Python on bit masks, a bit for each class that a cell may still have. It follows what the
rules leave no choice in and guesses in the cell with the fewest classes left. Fast enough for
puzzles of some dozens of cells; Sudoku has a compiled search of its own.
"""

from dataclasses import dataclass

import numpy as np

from focus.errors import GivenUpError

Masks = list[int]  # the classes left for each cell, as bits
Exclusions = list[list[list[tuple[int, int]]]]  # by cell and class: other cells, classes left there


@dataclass
class Search:
    """The search for one set of rules; `guesses` counts the classes tried since it was made."""

    classes: int
    exclusions: Exclusions
    patience: int | None = None  # guesses after which the search is given up; None: never
    guesses: int = 0

    def solutions(
        self, question: np.ndarray, limit: int = 2, rng: np.random.Generator | None = None
    ) -> list[np.ndarray]:
        """Up to `limit` answers (codes from 1) to a question (cells,), in random order by `rng`."""
        masks = [(1 << self.classes) - 1] * len(question)
        for cell in np.flatnonzero(question).tolist():
            if not self._place(masks, cell, int(question[cell]) - 1):
                return []
        return [
            np.array([mask.bit_length() for mask in solution], np.uint8)
            for solution in self._extend(masks, limit, rng)
        ]

    def thin(self, answer: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A question with this answer alone, from which no given can be taken away."""
        question = answer.copy()
        for cell in rng.permutation(len(answer)):
            given, question[cell] = question[cell], 0
            if len(self.solutions(question)) > 1:
                question[cell] = given
        return question

    def _place(self, masks: Masks, cell: int, chosen: int) -> bool:
        """Give a cell its class, and what then has one class left too; False: a contradiction."""
        if not masks[cell] >> chosen & 1:
            return False
        masks[cell] = 1 << chosen
        pending = [(cell, chosen)]
        while pending:
            cell, chosen = pending.pop()
            for other, remaining in self.exclusions[cell][chosen]:
                mask = masks[other] & remaining
                if mask == masks[other]:
                    continue
                if mask == 0:
                    return False
                masks[other] = mask
                if mask & (mask - 1) == 0:
                    pending.append((other, mask.bit_length() - 1))
        return True

    def _extend(self, masks: Masks, limit: int, rng: np.random.Generator | None) -> list[Masks]:
        """Up to `limit` ways to finish."""
        open_cells = [cell for cell, mask in enumerate(masks) if mask & (mask - 1)]
        if not open_cells:
            return [masks]
        order = list(range(self.classes))
        if rng is not None:
            rng.shuffle(open_cells)
            rng.shuffle(order)
        cell = min(open_cells, key=lambda cell: masks[cell].bit_count())
        finished: list[Masks] = []
        for chosen in order:
            if not masks[cell] >> chosen & 1:
                continue
            self.guesses += 1
            if self.patience is not None and self.guesses > self.patience:
                raise GivenUpError(f"the search was given up after {self.patience:,} guesses")
            trial = masks.copy()
            if self._place(trial, cell, chosen):
                finished += self._extend(trial, limit - len(finished), rng)
            if len(finished) >= limit:
                break
        return finished


def exclusions(conflicts: np.ndarray) -> Exclusions:
    """For every cell and class, the other cells it restricts and the classes left there.

    `conflicts` says which pairs exclude each other, (cells, classes, cells, classes) bool.
    """
    cells, classes = conflicts.shape[:2]
    left = (~conflicts * (1 << np.arange(classes, dtype=np.int64))).sum(-1)
    restricted = np.asarray(conflicts.any(-1))
    return [
        [
            [(other, int(left[cell, chosen, other])) for other in np.flatnonzero(row).tolist()]
            for chosen, row in enumerate(restricted[cell])
        ]
        for cell in range(cells)
    ]
