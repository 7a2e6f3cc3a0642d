"""Message passing inside an update: each token hears its related tokens a few times in a row.

A hop reads, for every relation of the task (row, column and box of a Sudoku), the mean over the
related tokens, and moves the token's hop memory by a gate. All hops of all layers share weights;
what a layer knows enters each of its hops.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from focus.errors import UserError
from focus.tasks.base import Task
from focus.tasks.records import Problem


def related_means(task: Task, x: Problem) -> Float[Tensor, "relations tokens tokens"]:
    """Matrices that take the mean over the tokens of each relation; shared by all puzzles."""
    if task.padded:
        raise UserError(f"updater.hops: {task.name} has no relations that all its puzzles share")
    related = task.relations(x)[0].float()
    related = related - torch.eye(related.shape[-1], device=related.device)  # not itself
    return related / related.sum(-1, keepdim=True)


class Hops(nn.Module):
    """The weights that all hops share."""

    def __init__(self, relations: int, width: int, hidden: int):
        super().__init__()
        self.hear = nn.Linear((1 + relations) * width, hidden, bias=False)
        self.move = nn.Linear(hidden, 2 * width)

    def forward(
        self, h: Float[Tensor, "batch tokens width"], told: Float[Tensor, "batch tokens hidden"],
        means: Float[Tensor, "relations tokens tokens"], count: int,
    ) -> Float[Tensor, "batch tokens width"]:  # fmt: skip
        """`count` hops; `told` is what the layer knows."""
        for _ in range(count):
            heard = torch.einsum("rij,bjc->birc", means.to(h.dtype), h).flatten(-2)
            hidden = functional.silu(self.hear(torch.cat([h, heard], -1)) + told)
            gate, wish = self.move(hidden).chunk(2, -1)
            h = h + torch.sigmoid(gate) * (torch.tanh(wish) - h)
        return h
