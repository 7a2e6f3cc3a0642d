"""The Tiny Recursive Model (Jolicoeur-Martineau 2025), as an updater: the paper's teacher.

One call is one supervision step. It runs `outer` cycles, of which only the last one has gradients;
a cycle refines the latent z_L `inner` times, z_L <- net(z_L + z_H + x), and then the latent of the
answer once, z_H <- net(z_H + z_L). The same two layers do all of it. The answer is read off z_H
anew at every step, beside a logit that says whether it is right (`halt`).

Sudoku mixes its tokens with an MLP over them and needs no positions; mazes attend, with rotary
positions over row and column. Ours: no prefix of puzzle embeddings, of a Sudoku only the blanks are
learned, and the cells of a maze that are walls are no tokens, so that each cell is told instead
which of its neighbours are open. `neighbour_heads` and `targets` go beyond the published model.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from focus.errors import UserError
from focus.model.precision import EPSILON, mixed_precision, rms_norm, working_dtype
from focus.model.recurrence import Conditioning, Recurrence
from focus.model.state import State
from focus.model.updater import STORED_WIDTHS
from focus.settings import AtLeast, Settings
from focus.tasks.base import Task
from focus.tasks.records import Problem, SomeRows

_HIDDEN = -1e4  # attention bias of padding
_CUT = 0.8796  # standard deviation of a unit normal that is cut off at 2
_LONGEST = 64.0  # wavelength of the slowest rotation, in cells
_NEIGHBOUR_SCORE = (
    4.0  # score of the cell that a neighbour head looks at above that of the next ones
)
_MOVES = (1, 0), (0, -1), (0, 1), (-1, 0)  # (row, column): down, left, right, up


@dataclass(frozen=True)
class TRMConfig(Settings, section="solver.trm"):
    """Sizes of a TRM; the published ones."""

    width: Annotated[int, AtLeast(1)] = 512  # hidden size
    layers: Annotated[int, AtLeast(1)] = 2  # layers of the network that all cycles share
    heads: Annotated[int, AtLeast(1)] = 8  # attention heads, with mixer attention
    mixer: Literal["mlp", "attention"] = "mlp"  # mlp: Sudoku, attention: mazes
    outer: Annotated[int, AtLeast(1)] = 3  # H cycles
    inner: Annotated[int, AtLeast(1)] = 6  # L cycles (6 / 4)
    # attention: heads that look at one neighbouring cell each (ours; at most 4)
    neighbour_heads: Annotated[int, AtLeast(0)] = 0
    # What is learned: the answer alone, as published, or all that the task's loss has (ours; mazes:
    # the parent and distance of every cell, for use with task.decoder canonical)
    targets: Literal["answer", "all"] = "answer"

    def __post_init__(self):
        super().__post_init__()
        if self.width % (4 * self.heads):
            raise UserError(
                f"solver.trm.width ({self.width}) must be a multiple of four times "
                f"solver.trm.heads ({self.heads})"
            )
        if self.neighbour_heads > min(len(_MOVES), self.heads):
            raise UserError(
                f"solver.trm.neighbour-heads ({self.neighbour_heads}): a head looks at one of "
                f"{len(_MOVES)} neighbours, and there are {self.heads} heads"
            )
        if self.neighbour_heads and self.mixer != "attention":
            raise UserError("solver.trm.neighbour-heads is for solver.trm.mixer attention")


@dataclass(frozen=True)
class TRMConditioning(Conditioning):
    """What stays the same over the steps: the embedded puzzle, positions, padding."""

    inputs: Float[Tensor, "batch tokens width"]
    rotation: tuple[Tensor, Tensor] | None  # cosines and sines
    bias: Float[Tensor, "batch 1 1 tokens"] | None

    def detach(self) -> "TRMConditioning":
        """Cut off from the embedding."""
        return TRMConditioning(self.inputs.detach(), self.rotation, self.bias)

    def __getitem__(self, rows: SomeRows) -> "TRMConditioning":
        """The conditioning of some of the puzzles."""
        rotation = self.rotation and (self.rotation[0][rows], self.rotation[1][rows])
        bias = None if self.bias is None else self.bias[rows]
        return TRMConditioning(self.inputs[rows], rotation, bias)


class SwiGLU(nn.Module):
    """A gated hidden layer 8/3 as wide as its input, rounded up to 256s as published."""

    def __init__(self, width: int):
        super().__init__()
        hidden = math.ceil(width * 8 / 3 / 256) * 256
        self.up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, h: Float[Tensor, "*lead width"]) -> Float[Tensor, "*lead width"]:
        gate, value = self.up(h).chunk(2, -1)
        return self.down(functional.silu(gate) * value)

    def across(self, h: Float[Tensor, "batch width other"]) -> Float[Tensor, "batch width other"]:
        """The same over the axis before the last, without turning h around.

        Only the first matrix is laid out anew: its rows are as long as that axis, and rows of odd
        length get slow kernels on a GPU.
        """
        up, down = self.up.weight.to(h.dtype).T.contiguous().T, self.down.weight.to(h.dtype)
        gate, value = torch.bmm(up.expand(h.shape[0], -1, -1), h).chunk(2, 1)
        return torch.bmm(down.expand(h.shape[0], -1, -1), functional.silu(gate) * value)


class Layer(nn.Module):
    """Mix the tokens, then each token by itself; norms come after, without weights.

    After an MLP over the tokens the norm is over the tokens too, as published: over the width of
    each token instead, gradients grow eightfold with every pass through the layers.
    """

    neighbour_constants: Tensor

    def __init__(self, config: TRMConfig, tokens: int):
        super().__init__()
        self.heads, self.mixer = config.heads, config.mixer
        self.neighbour_heads = config.neighbour_heads
        if config.mixer == "mlp":
            self.mix = SwiGLU(tokens)
        else:
            self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
            self.out = nn.Linear(config.width, config.width, bias=False)
            self.register_buffer(
                "neighbour_constants", _neighbour_queries_and_keys(config), persistent=False
            )
        self.mlp = SwiGLU(config.width)

    def forward(
        self, h: Float[Tensor, "batch tokens width"], conditioning: TRMConditioning
    ) -> Float[Tensor, "batch tokens width"]:
        """One layer."""
        if self.mixer == "mlp":
            h = _norm_over_tokens(h + self.mix.across(h))
        else:
            h = rms_norm(h + self._attend(h, conditioning))
        return rms_norm(h + self.mlp(h))

    def _attend(self, h: Tensor, conditioning: TRMConditioning) -> Tensor:
        assert conditioning.rotation is not None
        q, k, v = self.qkv(h).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.neighbour_heads:
            q, k = (
                x + added.to(x.dtype)
                for x, added in zip((q, k), self.neighbour_constants, strict=True)
            )
        q, k = (rotate(x, *conditioning.rotation) for x in (q, k))
        bias = None if conditioning.bias is None else conditioning.bias.to(q.dtype)
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.out(mixed.transpose(1, 2).flatten(2))


def _frequencies(size: int, device: torch.device | str = "cpu") -> Float[Tensor, " frequencies"]:
    """Rotations a cell of a head of some size, the same for rows and columns."""
    number = torch.arange(size // 4, device=device) / max(1, size // 4 - 1)
    return 2 * math.pi / (2.0 * (_LONGEST / 2) ** number)


def _neighbour_queries_and_keys(config: TRMConfig) -> Float[Tensor, "2 heads 1 size"]:
    """What is added to queries and keys, so that a head looks at one neighbour; 0 for the others.

    Constants alone score highest where their rotations agree: with queries rotated beforehand by
    a move's rotation, at the cell that is this move away.
    """
    size = config.width // config.heads
    frequency = _frequencies(size)
    length = (_NEIGHBOUR_SCORE * math.sqrt(size) / (1 - frequency.cos()).sum()).sqrt()
    constants = torch.zeros(2, config.heads, 1, size)
    for head, move in enumerate(_MOVES[: config.neighbour_heads]):
        angle = (torch.tensor(move)[:, None] * frequency).flatten()
        constants[0, head] = length * torch.cat([angle.cos(), angle.sin()])
        constants[1, head] = length * torch.cat([torch.ones_like(angle), torch.zeros_like(angle)])
    return constants


def _norm_over_tokens(
    h: Float[Tensor, "batch tokens width"],
) -> Float[Tensor, "batch tokens width"]:
    return (h * (h.float().square().mean(1, keepdim=True) + EPSILON).rsqrt()).to(h.dtype)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary positions: pairs of numbers rotated by angles (batch, 1, tokens, size / 2)."""
    one, two = x.chunk(2, -1)
    rotated = torch.cat([one * cosine - two * sine, one * sine + two * cosine], -1)
    return rotated.to(x.dtype)


class Net(nn.Module):
    """The layers that both latents share."""

    def __init__(self, config: TRMConfig, tokens: int):
        super().__init__()
        self.layers = nn.ModuleList(Layer(config, tokens) for _ in range(config.layers))

    def forward(
        self, conditioning: TRMConditioning, *parts: Float[Tensor, "batch tokens width"]
    ) -> Float[Tensor, "batch tokens width"]:
        """All layers, on the sum of some parts: added here, it costs a compiled net nothing."""
        h, *others = parts
        for part in others:
            h = h + part
        for layer in self.layers:
            h = layer(h, conditioning)
        return h


class TRM(Recurrence):
    """The recurrent part of a TRM for a task."""

    relative_step_time = 10
    high_start: Tensor
    low_start: Tensor

    def __init__(self, task: Task, config: TRMConfig):
        super().__init__()
        self.learns_answer_only = config.targets == "answer"
        if config.mixer == "mlp" and task.padded:
            raise UserError(f"solver.trm.mixer: {task.name} differs in its tokens; use attention")
        self.task, self.config = task, config
        self._depth = config.outer, config.inner
        self.net = Net(config, task.tokens)
        self.around = None
        if task.padded and task.context_bits:  # cells are left out of the tokens
            self.around = nn.Linear(task.context_bits, config.width, bias=False)
        self.head = nn.Linear(config.width, task.width, bias=False)
        self.halt = nn.Linear(config.width, 1)
        for module in self.modules():
            if isinstance(module, nn.Linear):  # as published; torch's own are half as large
                deviation = module.in_features**-0.5 / _CUT
                nn.init.trunc_normal_(module.weight, 0.0, deviation, -2 * deviation, 2 * deviation)
        nn.init.zeros_(self.halt.weight)
        nn.init.constant_(self.halt.bias, -5.0)  # at first nothing is believed to be right
        # Where both latents begin: random, the same in every model.
        generator = torch.Generator().manual_seed(0)
        for name in ("high_start", "low_start"):
            start = torch.randn(config.width, generator=generator).clamp(-2, 2)
            self.register_buffer(name, start, persistent=False)

    def compile_step(self) -> None:
        self.net.compile(dynamic=False)

    def step_flops(self) -> float:
        # An MLP over the tokens is applied to each number of a token.
        pass_ = sum(
            2 * weight.numel() * (self.config.width if ".mix." in name else self.task.tokens)
            for name, weight in self.net.named_parameters()
        )
        return pass_ * (self.config.inner + 1) * self.config.outer

    def backward_over_forward(self) -> float:
        return 2 / self.config.outer  # only the last cycle has gradients

    def rollout_bytes(self, steps: int, replayed_steps: int, kept_states: int) -> int:
        layers = (self.config.inner + 1) * self.config.layers * steps
        per_token = layers * STORED_WIDTHS + 2 * kept_states  # both latents of a state
        return 2 * self.task.tokens * self.config.width * per_token

    def halting_loss(self, state: State, exact: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """Cross-entropy of the halting logit: is the answer right?"""
        halt = state.u["halt"][:, 0]
        return functional.binary_cross_entropy_with_logits(halt, exact, reduction="none")

    def believes_solved(self, state: State) -> Bool[Tensor, " batch"]:
        return state.u["halt"][:, 0] > 0

    @contextmanager
    def at_depth(self, outer: int, inner: int) -> Iterator[None]:
        """Inside the block a step has fewer cycles and refinements, with the same weights."""
        whole, self._depth = self._depth, (outer, inner)
        try:
            yield
        finally:
            self._depth = whole

    def condition(self, R: Float[Tensor, "batch tokens width"], x: Problem) -> TRMConditioning:
        """The embedded puzzle, scaled to unit size, and the positions."""
        if self.around is not None:
            R = R + self.around(self.task.context(x).bits).to(R.dtype)
        inputs = rms_norm(R).to(working_dtype(R.device))
        if self.config.mixer == "mlp":
            return TRMConditioning(inputs, None, None)
        size = self.config.width // self.config.heads
        frequency = _frequencies(size, R.device)
        position = self.task.context(x).position.float()
        angle = (position[..., None] * frequency).flatten(-2)[:, None]
        rotation = angle.cos().to(inputs.dtype), angle.sin().to(inputs.dtype)
        bias = torch.where(x.mask, 0.0, _HIDDEN)[:, None, None, :] if self.task.padded else None
        return TRMConditioning(inputs, rotation, bias)

    def initial(self, x: Problem) -> State:
        """s_0."""
        z = self.task.initial(x)
        dtype, shape = working_dtype(z.device), (*x.cell.shape, -1)
        return State(
            z,
            {
                "high": self.high_start.expand(shape).to(dtype),
                "low": self.low_start.expand(shape).to(dtype),
                "halt": z.new_full((z.shape[0], 1), -5.0),
            },
        )

    def forward(self, state: State, conditioning: TRMConditioning, x: Problem) -> State:
        """One supervision step."""
        with mixed_precision(state.z.device):
            high, low = state.u["high"], state.u["low"]
            with torch.no_grad():
                for _ in range(self._depth[0] - 1):
                    high, low = self._cycle(high, low, conditioning)
            high, low = self._cycle(high.detach(), low.detach(), conditioning)
            logits, halt = self.head(high).float(), self.halt(_mean(high, x)).float()
        low_bound, high_bound = self.task.bounds(logits.device)
        z = self.task.clamp(logits.clamp(low_bound, high_bound), x)
        return State(z, {"high": high, "low": low, "halt": halt})

    def _cycle(
        self, high: Tensor, low: Tensor, conditioning: TRMConditioning
    ) -> tuple[Tensor, Tensor]:
        for _ in range(self._depth[1]):
            low = self.net(conditioning, low, high, conditioning.inputs)
        return self.net(conditioning, high, low), low


def _mean(h: Float[Tensor, "batch tokens width"], x: Problem) -> Float[Tensor, "batch width"]:
    """The mean over the tokens that are not padding."""
    mask = x.mask[..., None].to(h.dtype)
    return (h * mask).sum(1) / mask.sum(1)
