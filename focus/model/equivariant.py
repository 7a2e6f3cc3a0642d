"""An updater that treats the classes of an answer alike, and tokens by their relations alone.

Rename the digits of a Sudoku, exchange rows of a band or whole bands: the answer changes in the
same way, whatever the weights are. So a puzzle teaches what these symmetries of it would, and none
of them can be memorised; rows and columns have weights of their own, so that turning the
grid over is a new puzzle. Every token has a vector for each class. A layer sees a vector, its means
over the related tokens (same class) and over the other classes (same token).

Layers of this kind are those of Hartford et al. 2018 (arXiv 1803.02879), with the tokens related in
several ways. Of z, u and R the rest is as in `updater.py`.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from focus.errors import UserError
from focus.model.layers import Linear, RMSNorm
from focus.model.precision import rms_norm, working_dtype
from focus.model.state import State
from focus.model.updater import RevisingUpdater, UpdaterConditioning, UpdaterConfig, dropped
from focus.tasks.assignment import Assignment
from focus.tasks.base import Task
from focus.tasks.records import Problem

_STORED_WIDTHS = 11  # activations of a layer for a backward pass, in widths (bf16)


class EquivariantLayer(nn.Module):
    """SwiGLU of a vector and what it hears."""

    def __init__(self, config: UpdaterConfig, heard: int):
        super().__init__()
        self.dropout, hidden = config.dropout, 2 * config.width
        self.up = Linear((1 + heard) * config.width, 2 * hidden, bias=False)
        self.down = Linear(hidden, config.width, bias=False)

    def forward(
        self, h: Float[Tensor, "batch tokens classes width"], task: Assignment, x: Problem,
        seed: Int[Tensor, ""] | None,
    ) -> Float[Tensor, "batch tokens classes width"]:  # fmt: skip
        """`seed` is that of compiled dropout."""
        own = rms_norm(h)
        classes = h.shape[2]
        means = task.group_means(own.flatten(2), x)
        related = [mean.unflatten(-1, (classes, -1)) for mean in means]
        others = (own.sum(2, keepdim=True) - own) / (classes - 1)
        gate, value = self.up(torch.cat([own, *related, others], -1)).chunk(2, -1)
        added = self.down(functional.silu(gate) * value)
        return h + dropped(added, self.dropout, self.training, seed)


class EquivariantUpdater(RevisingUpdater):
    """The updater of a task whose classes are interchangeable."""

    def __init__(self, task: Task, config: UpdaterConfig):
        super().__init__(task, config)
        further = config.hops or config.registers
        if not isinstance(task, Assignment) or task.conflicts() is not None or further:
            raise UserError(
                "solver.updater.equivariant is for tasks whose answer is a class for every cell "
                "and whose rules treat classes alike, without hops and registers"
            )
        width, self.classes = config.width, task.classes
        self.answer_in = Linear(task.feature_width // task.classes, width)
        self.context_in = Linear(2, width)  # a given or open class, a given cell
        self.memory_start = nn.Parameter(torch.zeros(width))
        heard = task.message_slots + 1
        self.blocks = nn.ModuleList(EquivariantLayer(config, heard) for _ in range(config.layers))
        self.memory_norm, self.head = RMSNorm(width), Linear(width, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def step_flops(self) -> float:
        matrices = sum(p.numel() for p in self.parameters() if p.ndim == 2)
        return 2 * matrices * self.task.tokens * self.classes

    def rollout_bytes(self, steps: int, replayed_steps: int, kept_states: int) -> int:
        layer = self.task.tokens * self.classes * self.config.width * _STORED_WIDTHS
        return 2 * (steps + replayed_steps) * self.config.layers * layer

    def condition(self, R: Float[Tensor, "batch tokens width"], x: Problem) -> UpdaterConditioning:
        context = self.task.context(x)
        given = context.category[..., -1:].float().expand_as(context.bits)
        inputs = R[:, :, None] + self.context_in(torch.stack([context.bits, given], -1))
        weights = None if self.flat is None else self.flat.flatten()
        dtype = working_dtype(inputs.device)
        return UpdaterConditioning(inputs.flatten(2).to(dtype), None, weights)

    def initial(self, x: Problem) -> State:
        z = self.task.initial(x)
        memory = self.memory_start.repeat(self.classes).expand(*x.cell.shape, -1)
        return State(z, {"memory": memory.to(working_dtype(z.device))})

    def propose(
        self, features: Float[Tensor, "batch tokens features"], memory: dict[str, Tensor],
        conditioning: UpdaterConditioning, x: Problem, seeds: Int[Tensor, " sites"] | None,
    ) -> tuple[Float[Tensor, "batch tokens channels"], dict[str, Tensor]]:  # fmt: skip
        of_class = features.unflatten(-1, (-1, self.classes)).transpose(-1, -2)
        stays = (memory["memory"] + conditioning.inputs).unflatten(-1, (self.classes, -1))
        h = self.answer_in(of_class) + stays
        for number, layer in enumerate(self.blocks):
            h = layer(h, self.task, x, None if seeds is None else seeds[2 * number])
        remembered = self.memory_norm(h).flatten(2)
        return self.head(rms_norm(h))[..., 0].float(), {"memory": remembered}
