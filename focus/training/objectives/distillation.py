"""Distillation: KL to a frozen teacher's soft targets, on initial-state updates."""

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from focus.curation.records import Batch
from focus.tasks.base import Task
from focus.tasks.records import Problem


class Distillation:
    """The soft targets of every training puzzle, and how much they count by now."""

    def __init__(
        self, task: Task, temperature: float, augmented: bool,
        soft_targets: UInt8[Tensor, "rows variants steps tokens classes"],
    ):  # fmt: skip
        self.task, self.temperature, self.augmented = task, temperature, augmented
        self.soft_targets = soft_targets
        self.weight = torch.zeros((), device=soft_targets.device)
        self.active = False

    def set_weight(self, weight: float) -> None:
        """The weight of the coming update; 0 leaves the term out."""
        self.active = weight > 0
        self.weight.fill_(weight)

    def __call__(
        self, answers: Float[Tensor, "steps batch tokens channels"], batch: Batch
    ) -> Float[Tensor, " batch"]:
        """The weighted KL of a batch."""
        if not self.active:
            return torch.zeros(len(batch.keys), device=answers.device)
        targets = self.soft_targets[batch.row]
        if self.augmented:
            targets = self.task.augment_soft_targets(targets, batch.symmetry)
        else:
            targets = targets[:, 0]
        return self.weight * kl_loss(self.task, answers, batch.x, targets, self.temperature)


def kl_loss(
    task: Task, answers: Float[Tensor, "steps batch tokens channels"], x: Problem,
    soft_targets: UInt8[Tensor, "batch aligned tokens classes"], temperature: float,
) -> Float[Tensor, " batch"]:  # fmt: skip
    """KL(teacher || student) T^2 over the open tokens, mean over the aligned steps."""
    p = soft_targets.transpose(0, 1).float()
    p = p / p.sum(-1, keepdim=True).clamp(min=1)
    count = min(len(p), len(answers))
    log_q = (task.class_logits(answers[:count], x).float() / temperature).log_softmax(-1)
    p = p[:count]
    per_token = (torch.xlogy(p, p) - p * log_q).sum(-1)
    wanted = task.open_tokens(x)
    per_step = (per_token * wanted).sum(-1) / wanted.sum(-1).clamp(min=1)
    return per_step.mean(0) * temperature**2
