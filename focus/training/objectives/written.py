"""Direct LoRA SFT: cross-entropy of the answer that the language model writes."""

import torch

from focus.curation.config import Stage
from focus.curation.records import Batch, Losses
from focus.model.writer import Writer
from focus.training.objectives.base import Objective


class WrittenAnswers(Objective):
    """The writer's own loss."""

    def __init__(self, writer: Writer):
        self.writer = writer

    def losses(self, batch: Batch, replays: bool, stage: Stage) -> Losses:
        zero = torch.zeros(len(batch.keys), device=batch.keys.device)
        return Losses(self.writer.loss(batch.x, batch.y), zero, zero, zero)
