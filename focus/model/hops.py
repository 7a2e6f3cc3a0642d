"""Message passing inside an update: each token hears its related tokens a few times in a row.

A hop reads the task's messages (the four neighbours of a maze cell; means over row, column and box
of a Sudoku), weighs them, and moves the token's hop memory by a gate. All hops of all layers share
weights; what a layer knows enters each of its hops.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from focus.tasks.base import Task
from focus.tasks.records import Problem

HOP_WEIGHTS = 8  # parts of the memory whose messages are weighed apart
_ABSENT = -1e4


class Hops(nn.Module):
    """The weights that all hops share."""

    def __init__(self, task: Task, width: int, hidden: int):
        super().__init__()
        self.task, self.width, self.slots = task, width, task.message_slots
        self.hear = nn.Linear((1 + self.slots) * width, hidden, bias=False)
        self.move = nn.Linear(hidden, 2 * width + self.slots * HOP_WEIGHTS)
        self.mix = nn.Linear(width, width, bias=False)

    def forward(
        self, h: Float[Tensor, "batch tokens width"],
        layer_input: Float[Tensor, "batch tokens hidden"], x: Problem, count: int,
    ) -> Float[Tensor, "batch tokens width"]:  # fmt: skip
        """`count` hops; `layer_input` is what the layer adds to each."""
        for _ in range(count):
            messages, present = self.task.messages(h, x)
            hidden = self.hear(torch.cat([h, messages.flatten(-2)], -1)) + layer_input
            moved = self.move(functional.silu(hidden))
            gate, candidate, scores = moved.split(
                [self.width, self.width, self.slots * HOP_WEIGHTS], -1
            )
            mixed = self._weigh(messages, scores.unflatten(-1, (self.slots, HOP_WEIGHTS)), present)
            h = h + torch.sigmoid(gate) * (torch.tanh(candidate + self.mix(mixed)) - h)
        return h

    @staticmethod
    def _weigh(
        messages: Float[Tensor, "batch tokens slots width"],
        scores: Float[Tensor, "batch tokens slots weights"],
        present: Bool[Tensor, "shared tokens slots"],
    ) -> Float[Tensor, "batch tokens width"]:
        """The messages weighed by a softmax over those that are there."""
        scores = scores.masked_fill(~present[..., None], _ABSENT)
        weights = scores.softmax(-2).to(messages.dtype)[..., None]
        return (weights * messages.unflatten(-1, (HOP_WEIGHTS, -1))).sum(-3).flatten(-2)
