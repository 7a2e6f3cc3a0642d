"""Message passing inside an update: each token hears its related tokens a few times in a row.

A hop reads, for every relation of the task (row, column and box of a Sudoku), the mean over the
related tokens, and moves the token's hop memory by a gate. All hops of all layers share weights;
what a layer knows enters each of its hops.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from focus.tasks.base import Task
from focus.tasks.records import Problem


class Hops(nn.Module):
    """The weights that all hops share."""

    def __init__(self, task: Task, width: int, hidden: int):
        super().__init__()
        self.task, relations = task, len(task.relation_names)
        self.hear = nn.Linear((1 + relations) * width, hidden, bias=False)
        self.move = nn.Linear(hidden, 2 * width)

    def forward(
        self, h: Float[Tensor, "batch tokens width"], told: Float[Tensor, "batch tokens hidden"],
        x: Problem, count: int,
    ) -> Float[Tensor, "batch tokens width"]:  # fmt: skip
        """`count` hops; `told` is what the layer knows."""
        for _ in range(count):
            heard = self.task.related_means(h, x)
            hidden = functional.silu(self.hear(torch.cat([h, heard], -1)) + told)
            gate, wish = self.move(hidden).chunk(2, -1)
            h = h + torch.sigmoid(gate) * (torch.tanh(wish) - h)
        return h
