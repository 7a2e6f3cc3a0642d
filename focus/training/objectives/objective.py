"""What an update learns from a mini-batch: the interface that the update knows."""

from abc import ABC, abstractmethod
from collections.abc import Hashable

from jaxtyping import Int
from torch import Tensor

from focus.curation.config import Stage
from focus.curation.records import Batch, Losses
from focus.training.schedule import Scheduled


class Objective(ABC):
    """Losses of a mini-batch, and what is kept from update to update for them."""

    def begin(self, scheduled: Scheduled) -> None:  # noqa: B027, most depend on no schedule
        """Set what the coming update differs in."""

    def draw_puzzles(
        self, update: Int[Tensor, ""], usual: Int[Tensor, ""]
    ) -> Int[Tensor, "*batch"]:
        """The update that each puzzle was drawn for; an objective may keep puzzles for longer."""
        return usual

    def branch(self, replays: bool, stage: Stage) -> Hashable:
        """What the coming work depends on besides tensors: a captured graph is good for one."""
        return (replays, *(stage if replays else ()))

    @abstractmethod
    def losses(self, batch: Batch, replays: bool, stage: Stage) -> Losses:
        """The losses of every example."""

    def after_backward(self, batch: Batch, losses: Losses, stage: Stage) -> Losses:
        """Keep what later updates need; the losses with what is to be logged of them."""
        return losses

    def tensors(self) -> dict[str, Tensor]:
        """What is kept from update to update, by name."""
        return {}
