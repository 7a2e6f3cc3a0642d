"""Which puzzles a mini-batch holds, under which symmetries, and the keys of its random numbers.

Every draw is a function of (seed, update, example): nothing depends on processes or call order.
"""

from typing import cast

import torch
from jaxtyping import Int
from torch import Tensor

from focus.curation.records import Batch
from focus.random import Stream, example_keys, stratified, uniform, uniforms
from focus.tasks.assignment import Assignment
from focus.tasks.records import Problem, Rows, Target, TensorRecord
from focus.training.config import RunConfig

_AUGMENT = 1  # added to the seed, so that symmetries and rows are drawn independently


class Sampler:
    """The training puzzles on the device."""

    def __init__(
        self, rows: TensorRecord, own_rows: int, config: RunConfig,
        seed: int | Int[Tensor, " batch"] | None = None,
    ):  # fmt: skip
        """`rows` are packed puzzles, the first `own_rows` of them the training split's.

        `seed` is the config's, or one for each example of a batch that serves several runs.
        """
        self.rows, self.own_rows, self.config = rows, own_rows, config
        self.seed = config.seed if seed is None else seed

    def examples(
        self, minibatch: int | Int[Tensor, ""], rows: slice, device: str
    ) -> Int[Tensor, " batch"]:
        """The numbers in the whole batch of the examples that this process has of a mini-batch."""
        size = self.config.optimizer.batch // self.config.optimizer.accumulate
        return minibatch * size + torch.arange(rows.start, rows.stop, device=device)

    def batch(
        self, update: Tensor, drawn_at: Tensor, example: Int[Tensor, " batch"],
        hidden: Tensor | None = None,
    ) -> Batch:  # fmt: skip
        """The mini-batch of an update, of puzzles that were drawn for `drawn_at` (one or each)."""
        row, symmetry = self._draw(drawn_at, example)
        x, y = self._puzzles(row, symmetry)
        keys = example_keys(self.seed, update, example)
        puzzle_keys = example_keys(self.seed, drawn_at, example)
        draws = stratified(update, example, self.config.optimizer.batch)
        return Batch(x, y, keys, puzzle_keys, row, symmetry, draws, hidden)

    def problems(self, drawn_at: Tensor, example: Int[Tensor, " batch"]) -> Problem:
        """x alone."""
        return self._puzzles(*self._draw(drawn_at, example))[0]

    def _puzzles(self, row: Tensor, symmetry: Tensor) -> tuple[Problem, Target]:
        rows, task = self.rows[row], self.config.task
        if self.config.augment:
            rows = task.augment(rows, symmetry)
        if self.config.hints:
            rows = cast(Assignment, task).with_hints(cast(Rows, rows), symmetry, self.config.hints)
        return task.unpack(rows)

    def _draw(self, drawn_at: Tensor, example: Tensor) -> tuple[Tensor, Tensor]:
        """Which stored puzzle each example is, and the key of its symmetry."""
        keys = example_keys(self.seed, drawn_at, example)
        symmetry = example_keys(self.seed + _AUGMENT, drawn_at, example)
        own, count = self.own_rows, len(self.rows)
        if count == own:
            return (uniform(keys, Stream.ROW) * own).long(), symmetry
        first, second, which = uniforms(
            keys, ((Stream.ROW, ()), (Stream.FURTHER_ROW, ()), (Stream.FROM_TRAINING_SPLIT, ()))
        )
        further = own + (second * (count - own)).long()
        from_split = which < self.config.train_share
        return torch.where(from_split, (first * own).long(), further), symmetry
