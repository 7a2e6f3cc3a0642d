"""Which visited state to replay: the frontier, a random one, or the one with most error.

All choose among the same eligible candidates, given in order of t. Ties go to the smallest t.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from focus.random import Stream, uniform


@runtime_checkable
class Selector(Protocol):
    """Chooses a candidate for each example; meaningless where none is eligible."""

    def __call__(
        self,
        defect: Float[Tensor, "candidates batch"],
        energy: Float[Tensor, "candidates batch"],
        eligible: Bool[Tensor, "candidates batch"],
        keys: Int[Tensor, " batch"],
    ) -> Int[Tensor, " batch"]:
        """The index of the chosen candidate."""
        ...


def _first_best(
    score: Float[Tensor, "candidates batch"], eligible: Bool[Tensor, "candidates batch"]
) -> Int[Tensor, " batch"]:
    """The eligible candidate with the highest score, the first on ties."""
    return score.masked_fill(~eligible, -torch.inf).argmax(0)


@dataclass(frozen=True)
class Frontier:
    """FOCUS: t* = argmin |D_t - gamma|."""

    gamma: float = 0.0

    def __call__(self, defect, energy, eligible, keys):
        """The state nearest the repair frontier."""
        return _first_best(-(defect - self.gamma).abs(), eligible)


def any_eligible(defect, energy, eligible, keys):
    """Random: every eligible candidate is as likely, by a keyed draw."""
    return _first_best(uniform(keys, Stream.UNIFORM_SELECTOR, len(eligible)).T, eligible)


def highest_energy(defect, energy, eligible, keys):
    """Energy-Hard: the eligible state with the highest task energy."""
    return _first_best(energy, eligible)


@dataclass(frozen=True)
class Permuted:
    """Control: the steps t* of the frontier, dealt out anew among the puzzles of the batch.

    Early and late states are replayed as often as by `Frontier`, whatever each puzzle's defect.
    A puzzle keeps its own t* where the one that it is dealt is not eligible.
    """

    gamma: float = 0.0

    def __call__(self, defect, energy, eligible, keys):
        """The t* of another puzzle that has one."""
        own, none = Frontier(self.gamma)(defect, energy, eligible, keys), ~eligible.any(0)
        takes = none.byte().argsort(stable=True)
        gives = (uniform(keys, Stream.PERMUTED_SELECTOR) + none).argsort()
        dealt = own.scatter(0, takes, own[gives])
        return torch.where(eligible.gather(0, dealt[None])[0], dealt, own)


def easiest(defect, energy, eligible, keys):
    """Control: the eligible state with the lowest defect, which repairs fastest."""
    return _first_best(-defect, eligible)


def hardest(defect, energy, eligible, keys):
    """Control: the eligible state with the highest defect, which repairs slowest or worsens."""
    return _first_best(defect, eligible)


@dataclass(frozen=True)
class Several:
    """One selector for each equal part of a batch that serves several runs."""

    selectors: tuple[Selector, ...]

    def __call__(self, defect, energy, eligible, keys):
        """What each chooses for its own part."""
        parts = zip(
            self.selectors, *(t.chunk(len(self.selectors), -1) for t in (defect, energy, eligible)),
            keys.chunk(len(self.selectors)), strict=True,
        )  # fmt: skip
        return torch.cat([selector(*part) for selector, *part in parts])


# By the name of the replay method, made for a defect gamma of the frontier.
SELECTORS: dict[str, Callable[[float], Selector]] = {
    "focus": Frontier,
    "random": lambda gamma: any_eligible,
    "energy-hard": lambda gamma: highest_energy,
    "permuted": Permuted,
    "easiest": lambda gamma: easiest,
    "hardest": lambda gamma: hardest,
}
