"""What travels together through Algorithm 1."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from focus.model.state import State
from focus.tasks.records import Problem, Target, TensorRecord


@dataclass(frozen=True)
class Batch:
    """A mini-batch B_m, and the keys of its random numbers."""

    x: Problem
    y: Target
    keys: Int[Tensor, " batch"]  # of the examples of this update
    puzzle_keys: Int[Tensor, " batch"]  # of the update that the puzzles were drawn for
    row: Int[Tensor, " batch"]  # which training puzzle each is,
    symmetry: Int[Tensor, " batch"]  # and the keys of the symmetry it is under
    stratified: Float[Tensor, " batch"]  # numbers in [0, 1), stratified over the update's examples
    hidden: Tensor | None = None  # what the backbone has read of x already


@dataclass(frozen=True)
class Scores(TensorRecord):
    """What the selection was made by."""

    step: Int[Tensor, " batch"]  # t*
    energy: Float[Tensor, " batch"]  # E_x at t*
    defect: Float[Tensor, " batch"]  # D at t*


@dataclass(frozen=True)
class Selection:
    """The state to replay for each example, and what is known of it."""

    state: State  # s_f = stopgrad(s_{t*})
    from_candidates: Bool[Tensor, " batch"]  # s_f is a state of C_x, to be repaired
    solved: Bool[Tensor, " batch"]  # s_f is the exact end of a rollout, to stay exact
    ends_exact: Bool[Tensor, " batch"]  # the rollout ends exact
    scores: Scores | None = None  # of states that were selected by them

    @property
    def replayed(self) -> Bool[Tensor, " batch"]:
        """Which examples are replayed at all; s_f of the others means nothing."""
        return self.from_candidates | self.solved

    def of_rows(self, rows: slice) -> "Selection":
        """The selection of some of the examples."""
        return Selection(
            self.state.map(lambda tensor: tensor[rows]), self.from_candidates[rows],
            self.solved[rows], self.ends_exact[rows],
            None if self.scores is None else self.scores[rows],
        )  # fmt: skip


@dataclass(frozen=True)
class BaseLoss:
    """l_base of a mini-batch, and where its rollouts ended."""

    loss: Float[Tensor, " batch"]
    exact: Float[Tensor, " batch"]
    last: State | None


@dataclass(frozen=True)
class Losses:
    """Per-example losses of a mini-batch, and what is logged of it."""

    base: Float[Tensor, " batch"]
    auxiliary: Float[Tensor, " batch"]
    exact: Float[Tensor, " batch"]  # of the end of the base rollout, or of the one selected from
    replayed: Float[Tensor, " batch"]  # 1 where a state of C_x was trained on
    selection: Selection | None = None
    last: State | None = None  # where the base rollout ended

    def of_rows(self, rows: slice) -> "Losses":
        """What is logged of some of the examples."""
        selection = None if self.selection is None else self.selection.of_rows(rows)
        return Losses(
            self.base[rows], self.auxiliary[rows], self.exact[rows], self.replayed[rows], selection
        )

    @staticmethod
    def zero(batch: Batch) -> "Losses":
        """Nothing learned yet."""
        zero = torch.zeros(len(batch.keys), device=batch.keys.device)
        return Losses(base=zero, auxiliary=zero, exact=zero, replayed=zero)
