"""Which puzzles are the same puzzle: a hash pre-filters, an isomorphism check decides."""

import numpy as np

from focus.tasks.base import Codes, Task


class PuzzleIndex:
    """Puzzles seen so far; tells which of further ones are equivalent to one of them."""

    def __init__(self, task: Task):
        self._task = task
        self._groups: dict[int, list[tuple[Codes, str]]] = {}

    def add(self, questions: Codes, label: str = "seen") -> list[str | None]:
        """Add puzzles; for each the label of an equivalent one seen before, None if it is new.

        A puzzle that has an equivalent is not added: each class keeps its first member.
        """
        labels: list[str | None] = []
        for key, question in zip(
            self._task.fingerprint(questions).tolist(), questions, strict=True
        ):
            group = self._groups.setdefault(key, [])
            same = next(
                (seen for other, seen in group if self._task.equivalent(other, question)), None
            )
            if same is None:
                group.append((question, label))
            labels.append(same)
        return labels

    def add_unseen(self, questions: Codes) -> np.ndarray:
        """Add puzzles; whether each of them was new."""
        return np.array([label is None for label in self.add(questions)], bool)
