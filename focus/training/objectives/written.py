"""Direct LoRA SFT: cross-entropy of the answer that the language model writes."""

from dataclasses import replace

from focus.curation.config import Stage
from focus.curation.records import Batch, Losses
from focus.model.writer import Writer
from focus.training.objectives.objective import Objective


class WrittenAnswers(Objective):
    """The writer's own loss."""

    def __init__(self, writer: Writer):
        self.writer = writer

    def losses(self, batch: Batch, replays: bool, stage: Stage) -> Losses:
        return replace(Losses.zero(batch), base=self.writer.loss(batch.x, batch.y))
