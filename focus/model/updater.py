"""F_theta: one revision of the answer, with the same parameters at every step.

What is ours is in `docs/deviations.md`; sizes and switches are fields of `UpdaterConfig`:
- input per token: W features(z) + u + R + E(c_x)
- two pre-norm bidirectional transformer layers (RMSNorm without weights, SwiGLU)
- structure enters as an additive attention bias (`attention.py`), learned per head, one head per
  relation at first
- optional hops (`hops.py`): message passing between related tokens before each layer's attention
- memory u' = RMSNorm(block output)
- z' = clamp_x(clip(z + alpha * head(h), bounds)); the head starts at zero: the first step is
  the identity, and a resting state stays at rest
"""

import math
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from focus.errors import UserError
from focus.model.attention import Structure, related_attention, structure_of
from focus.model.dropout import draw_seeds, hashed_dropout
from focus.model.flat_parameters import FlatParameters
from focus.model.hops import HOP_WEIGHTS, Hops
from focus.model.layers import Embedding, Linear, RMSNorm
from focus.model.precision import mixed_precision, rms_norm, working_dtype
from focus.model.recurrence import Conditioning, Recurrence
from focus.model.state import State
from focus.settings import AtLeast, Role, Settings, Share
from focus.tasks.base import Task
from focus.tasks.records import Context, Problem, SomeRows

STORED_WIDTHS = 24  # activations of a layer that a backward pass needs, in widths (bf16)
_WAVELENGTHS = 12  # per axis, from 2 to 128 cells
# What a step uses of the weights; `condition` has used the others.
OF_A_STEP = ("answer_in", "blocks", "hops", "hop_head", "memory_norm", "head", "relation_bias")


@dataclass(frozen=True)
class UpdaterConfig(Settings, section="solver.updater"):
    """Sizes of the updater; the paper's where it gives them."""

    width: Annotated[int, AtLeast(1)] = 256  # hidden size
    layers: Annotated[int, AtLeast(1)] = 2  # transformer layers of a step
    heads: Annotated[int, AtLeast(1)] = 4  # attention heads
    dropout: Annotated[float, Share(below_one=True)] = 0.05  # of what each half of a layer adds
    answer_scale: float = 0.8  # alpha, multiplier on the predicted increment (0.8 / 0.5)
    # share of the answer's logits that is forgotten at each step (ours)
    answer_decay: Annotated[float, Share()] = 0.0
    structure: Literal["bias", "none"] = "bias"  # how relations between tokens enter (ours)
    # share of a gradient that passes from a step to the one before (ours)
    bptt_gradient_scale: Annotated[float, Share(above_zero=True), Role.METHOD] = 1.0
    bias_strength: float = 4.0  # initial bias of a head towards its relation (ours)
    # message passing between related tokens in every layer (ours); 0 = off
    hops: Annotated[int, AtLeast(0)] = 0
    hop_width: Annotated[int, AtLeast(1)] = 128  # hop memory per token
    hop_hidden: Annotated[int, AtLeast(1)] = 256  # hidden size of a hop

    def __post_init__(self):
        super().__post_init__()
        if self.width % self.heads:
            raise UserError(
                f"solver.updater.width ({self.width}) must be a multiple of solver.updater.heads "
                f"({self.heads})"
            )
        if self.hops and self.hop_width % HOP_WEIGHTS:
            raise UserError(f"solver.updater.hop-width must be a multiple of {HOP_WEIGHTS}")


@dataclass(frozen=True)
class UpdaterConditioning(Conditioning):
    """What stays the same over a rollout: R + E(c_x), and which tokens are related."""

    inputs: Float[Tensor, "batch tokens width"]
    structure: Structure
    weights: Float[Tensor, "*several weights"] | None = None  # of a compiled step

    def detach(self) -> "UpdaterConditioning":
        """Cut off from the encoder, for rollouts without gradients."""
        weights = None if self.weights is None else self.weights.detach()
        if weights is not None:  # once, where no step has to add to a float32 gradient
            weights = weights.to(working_dtype(weights.device))
        return UpdaterConditioning(self.inputs.detach(), self.structure.detach(), weights)

    def __getitem__(self, rows: SomeRows) -> "UpdaterConditioning":
        """The conditioning of some of the puzzles."""
        return UpdaterConditioning(
            self.inputs[rows], self.structure.of_rows(rows, len(self.inputs)), self.weights
        )


class Block(nn.Module):
    """A pre-norm transformer layer without biases."""

    def __init__(self, config: UpdaterConfig):
        super().__init__()
        width = config.width
        hidden = max(64, int(width * 8 / 3 / 64) * 64)
        self.dropout = config.dropout
        self.qkv = Linear(width, 3 * width, bias=False)
        self.out = Linear(width, width, bias=False)
        self.up = Linear(width, 2 * hidden, bias=False)
        self.down = Linear(hidden, width, bias=False)
        if config.hops:
            self.hop_in = Linear(width, config.hop_hidden)
            self.hop_out = Linear(config.hop_width, width, bias=False)

    def forward(
        self, h: Float[Tensor, "batch keys width"], structure: Structure,
        strength: Float[Tensor, "*several heads relations"], seeds: Int[Tensor, " 2"] | None = None,
    ) -> Float[Tensor, "batch keys width"]:  # fmt: skip
        """Attention with the additive bias, then SwiGLU; `seeds` are those of compiled dropout."""
        one, two = (None, None) if seeds is None else seeds
        mixed = related_attention(self.qkv(rms_norm(h)), structure, strength)
        h = h + self._drop(self.out(mixed), one)
        gate, value = self.up(rms_norm(h)).chunk(2, -1)
        return h + self._drop(self.down(functional.silu(gate) * value), two)

    def hop_input(
        self, h: Float[Tensor, "batch tokens width"]
    ) -> Float[Tensor, "batch tokens hop_hidden"]:
        """What this layer adds to each of its hops."""
        return self.hop_in(rms_norm(h))

    def _drop(self, h: Tensor, seed: Tensor | None) -> Tensor:
        if seed is not None:
            return hashed_dropout(h, self.dropout, seed)
        return functional.dropout(h, self.dropout, self.training)


class Updater(Recurrence):
    """The recurrent updater of a task."""

    low: Tensor  # bounds of the answer's channels
    high: Tensor

    def __init__(self, task: Task, config: UpdaterConfig):
        super().__init__()
        self.task, self.config = task, config
        width, relations = config.width, len(task.relation_names)
        self.answer_in = Linear(task.feature_width, width)
        self.categories = nn.ModuleList(_embedding(n, width) for n in task.category_sizes)
        self.bits_in = Linear(task.context_bits, width, bias=False)
        self.position_in = Linear(4 * _WAVELENGTHS, width, bias=False)
        self.memory_start = nn.Parameter(torch.zeros(width))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        if config.hops:
            self.hops = Hops(task, config.hop_width, config.hop_hidden)
            self.hop_head = Linear(config.hop_width, task.width, bias=False)
            nn.init.zeros_(self.hop_head.weight)
        self.memory_norm = RMSNorm(width)
        self.head = Linear(width, task.width)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        # One head favours each relation, further heads are free.
        strength = config.bias_strength if config.structure == "bias" else 0.0
        self.relation_bias = nn.Parameter(strength * torch.eye(config.heads, relations))
        self.relation_bias.requires_grad_(config.structure == "bias")
        low, high = task.bounds(torch.device("cpu"))
        self.register_buffer("low", low, persistent=False)
        self.register_buffer("high", high, persistent=False)
        self.flat: FlatParameters | None = None

    def compile_step(self) -> None:
        self.flat = FlatParameters(self, "step", OF_A_STEP)

    def step_flops(self) -> float:
        matrices = sum(p.numel() for p in self.parameters() if p.ndim == 2)
        return 2 * matrices * self.task.tokens

    def rollout_bytes(self, steps: int, replayed_steps: int, kept_states: int) -> int:
        layer = self.task.tokens * self.config.width * STORED_WIDTHS
        return 2 * (steps + replayed_steps) * self.config.layers * layer

    def condition(self, R: Float[Tensor, "batch tokens width"], x: Problem) -> UpdaterConditioning:
        inputs = R + self.embed(self.task.context(x))
        return UpdaterConditioning(
            inputs.to(working_dtype(inputs.device)), self.structure(x, self.relation_bias),
            None if self.flat is None else self.flat.flatten(),
        )  # fmt: skip

    def embed(self, context: Context) -> Float[Tensor, "batch tokens width"]:
        """E(c_x)."""
        inputs = self.position_in(_waves(context.position)) + self.bits_in(context.bits)
        for number, table in enumerate(self.categories):
            inputs = inputs + table(context.category[..., number])
        return inputs

    def structure(
        self, x: Problem, strength: Float[Tensor, "*several heads relations"]
    ) -> Structure:
        """How the tokens of puzzles are related, with the strengths of one solver or several."""
        config, mask = self.config, x.mask if self.task.padded else None
        return structure_of(self.task.relations(x), mask, strength, config.width // config.heads)

    def initial(self, x: Problem) -> State:
        z = self.task.initial(x)
        dtype = working_dtype(z.device)
        u = {"memory": self.memory_start.expand(*x.cell.shape, -1).to(dtype)}
        if self.config.hops:
            u["hops"] = z.new_zeros(*x.cell.shape, self.config.hop_width, dtype=dtype)
        return State(z, u)

    def forward(self, state: State, conditioning: UpdaterConditioning, x: Problem) -> State:
        if self.flat is None or conditioning.weights is None:
            return self.step(state, conditioning, x)
        return self.flat_step(self.flat, self.training, state, conditioning, x)

    def flat_step(
        self, step: Callable[..., State], training: bool, state: State,
        conditioning: UpdaterConditioning, x: Problem,
    ) -> State:  # fmt: skip
        """A step as a function of the weights in the conditioning, with seeds of dropout."""
        seeds = None
        if training and self.config.dropout:
            seeds = draw_seeds(2 * self.config.layers, state.z.device)
        if torch.is_grad_enabled():
            state = state.map(_tracked)
        return step(conditioning.weights, state, conditioning, x, seeds)

    def step(
        self, state: State, conditioning: UpdaterConditioning, x: Problem,
        seeds: Int[Tensor, " sites"] | None = None,
    ) -> State:  # fmt: skip
        """One revision; `seeds` are those of compiled dropout."""
        with mixed_precision(state.z.device):
            return self._one_step(state, conditioning, x, seeds)

    def _one_step(
        self, state: State, conditioning: UpdaterConditioning, x: Problem, seeds: Tensor | None
    ) -> State:
        if self.config.bptt_gradient_scale < 1:
            state = state.map(self._scale_gradient)
        features = self.task.features(state.z, x)
        increment, u = self.propose(features, state.u, conditioning, x, seeds)
        return State(self.revise(state.z, increment, x), u)

    def propose(
        self, features: Float[Tensor, "batch tokens features"], memory: dict[str, Tensor],
        conditioning: UpdaterConditioning, x: Problem, seeds: Int[Tensor, " sites"] | None,
    ) -> tuple[Float[Tensor, "batch tokens channels"], dict[str, Tensor]]:  # fmt: skip
        """The increment of the answer that the layers predict, and the new memory."""
        u = dict(memory)
        h = self.answer_in(features) + u["memory"] + conditioning.inputs
        for number, block in enumerate(typing.cast(list[Block], self.blocks)):
            if self.config.hops:
                u["hops"] = self.hops(u["hops"], block.hop_input(h), x, self.config.hops)
                h = h + block.hop_out(u["hops"])
            own = None if seeds is None else seeds[2 * number : 2 * number + 2]
            h = block(h, conditioning.structure, self.relation_bias, own)
        increment = self.head(rms_norm(h)).float()
        if self.config.hops:
            increment = increment + self.hop_head(u["hops"]).float()
        u["memory"] = self.memory_norm(h)
        return increment, u

    def revise(
        self, z: Float[Tensor, "batch tokens channels"],
        increment: Float[Tensor, "batch tokens channels"], x: Problem,
    ) -> Float[Tensor, "batch tokens channels"]:  # fmt: skip
        """z' = clamp_x(clip((1 - decay) z + alpha * increment))."""
        decay = self.config.answer_decay
        z = (1 - decay) * z if decay else z
        z = (z + self.config.answer_scale * increment).clamp(self.low, self.high)
        return self.task.clamp(z, x)

    def _scale_gradient(self, tensor: Tensor) -> Tensor:
        """The same values; a share of the gradient goes on to the step before."""
        value = tensor.detach()
        return value + self.config.bptt_gradient_scale * (tensor - value)


def _tracked(tensor: Tensor) -> Tensor:
    """With a gradient in any case, so that one compiled step serves first and later ones."""
    return tensor if tensor.requires_grad else tensor.detach().requires_grad_()


def _embedding(classes: int, width: int) -> Embedding:
    table = Embedding(classes, width)
    nn.init.normal_(table.weight, std=0.3)
    return table


def _waves(position: Tensor) -> Tensor:
    """Sines and cosines of row and column, so that larger grids need no new parameters."""
    number = torch.arange(_WAVELENGTHS, device=position.device) / (_WAVELENGTHS - 1)
    frequency = 2 * math.pi / (2.0 * 64.0**number)
    angle = (position[..., None].float() * frequency).flatten(-2)
    return torch.cat([angle.sin(), angle.cos()], -1)
