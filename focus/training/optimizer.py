"""What moves the weights: AdamW, or Muon for the matrices inside the updater's layers.

The trained weights fall into two parts, the updater (with G_psi) and the adapter, because the
adapter may learn once for several updates of the updater.

An optimizer of another kind is chosen in `make_parts`. Its groups have the key `peak`; on a GPU
their learning rate is a tensor, so that a captured update stays valid while it changes, and the
state of every weight is there from the start. What its state holds is saved under its own names;
`memory.py` counts two tensors a weight.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from focus.model.base import Model
from focus.model.checkpoint import trained_weights
from focus.training.config import OptimizerConfig

_ITERATIONS = 5  # of Newton-Schulz
_QUINTIC = (3.4445, -4.7750, 2.0315)  # its coefficients, by Keller Jordan (2024)
_LIKE_ADAMW = 0.2  # root mean square of AdamW's updates, after Liu et al., arXiv 2502.16982
_STACKED = {"qkv": 3, "up": 2}  # matrices that one parameter holds on top of each other


@dataclass(frozen=True)
class Part:
    """Weights that are updated together."""

    name: str  # updater or adapter
    weights: list[Tensor]
    average: list[Tensor]
    optimizers: Sequence[torch.optim.Optimizer]


class Optimizer:
    """What ends an update: clip, move the weights, move their average."""

    def __init__(self, model: Model, config: OptimizerConfig):
        self.config = config
        self.average = {name: weight.clone() for name, weight in trained_weights(model).items()}
        self.parts = make_parts(model, self.average, config)
        for weight in self.weights():
            weight.grad = torch.zeros_like(weight)

    def named(self, *names: str) -> list[Part]:
        """The parts of these names; all without any."""
        return [part for part in self.parts if not names or part.name in names]

    def weights(self, *names: str) -> list[Tensor]:
        """The trained weights of these parts."""
        return [weight for part in self.named(*names) for weight in part.weights]

    def gradients(self, *names: str) -> list[Tensor]:
        """The gradients of these parts."""
        return [weight.grad for weight in self.weights(*names) if weight.grad is not None]

    def set_learning_rates(self, share: float) -> None:
        """A share of each group's peak."""
        groups = (g for part in self.parts for o in part.optimizers for g in o.param_groups)
        for group in groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(group["peak"] * share)
            else:
                group["lr"] = group["peak"] * share

    @torch.no_grad()
    def step(self, update: Tensor, interval: int, names: Sequence[str] = ()) -> Tensor:
        """Move these parts; returns the norm of their gradient before it was clipped.

        `interval` is the number of updates since the parts were moved last.
        """
        weights = self.weights(*names)
        norm = torch.nn.utils.clip_grad_norm_(weights, self.config.clip)
        # At first the average reaches back over a tenth of the run so far, lest it keep the start.
        done = update.float()
        decay = ((1 + done) / (10 + done)).clamp(max=self.config.ema)
        share = 1 - (decay**interval if interval > 1 else decay)
        for part in self.named(*names):
            for optimizer in part.optimizers:
                optimizer.step()
            change = torch._foreach_sub(part.weights, part.average)
            torch._foreach_mul_(change, share)
            torch._foreach_add_(part.average, change)
        torch._foreach_zero_(self.gradients(*names))
        return norm

    def tensors(self) -> list[Tensor]:
        """Every tensor that a step changes."""
        optimizers = [optimizer for part in self.parts for optimizer in part.optimizers]
        moments = [v for o in optimizers for state in o.state.values() for v in state.values()]
        return [*self.weights(), *self.gradients(), *moments, *self.average.values()]


def make_parts(model: Model, averages: dict[str, Tensor], config: OptimizerConfig) -> list[Part]:
    """The parts of a model that are trained; `averages` are the averaged weights by name."""
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    adapter = [name for name in named if "lora_" in name]
    updater = [name for name in named if "lora_" not in name]
    layers = (".blocks.", ".net.layers.")  # of an updater, of a TRM
    by_muon = {n for n in updater if any(word in n for word in layers) and named[n].ndim == 2}
    if config.kind != "muon":
        by_muon = set()
    parts = []
    for part, names, peak in (
        ("updater", updater, config.learning_rate),
        ("adapter", adapter, config.lora_learning_rate),
    ):
        if not names:
            continue
        plain = [named[name] for name in names if name not in by_muon]
        optimizers: list[torch.optim.Optimizer] = [_adamw(plain, peak, config)]
        if matrices := [(name, named[name]) for name in names if name in by_muon]:
            optimizers.append(Muon(matrices, peak, config))
        weights: list[Tensor] = [named[name] for name in names]
        parts.append(Part(part, weights, [averages[name] for name in names], optimizers))
    return parts


def _rate(weight: Tensor) -> Any:
    return torch.zeros((), device=weight.device) if weight.is_cuda else 0.0


def _adamw(weights: Sequence[Tensor], peak: float, config: OptimizerConfig) -> torch.optim.AdamW:
    """AdamW with its moments in place, so that a capture finds them."""
    on_gpu = weights[0].is_cuda
    optimizer = torch.optim.AdamW(
        [{"params": weights, "peak": peak, "lr": _rate(weights[0])}],
        betas=(0.9, config.beta2), weight_decay=config.weight_decay,
        fused=on_gpu, capturable=on_gpu,
    )  # fmt: skip
    for weight in weights:
        optimizer.state[weight] = {
            "step": torch.zeros((), device=weight.device if on_gpu else "cpu"),
            "exp_avg": torch.zeros_like(weight),
            "exp_avg_sq": torch.zeros_like(weight),
        }
    return optimizer


class Muon(torch.optim.Optimizer):
    """Momentum whose matrices are made orthogonal before they are applied (Jordan 2024).

    The step is scaled to the size of AdamW's, so that one learning rate serves both. Matrices of
    one shape are treated together.
    """

    def __init__(self, named: Sequence[tuple[str, Tensor]], peak: float, config: OptimizerConfig):
        weights = [weight for _, weight in named]
        super().__init__([{"params": weights, "peak": peak, "lr": _rate(weights[0])}], {})
        self.momentum, self.weight_decay = config.momentum, config.weight_decay
        self.stacked = [_STACKED.get(name.split(".")[-2], 1) for name, _ in named]
        for weight in weights:
            self.state[weight] = {"exp_avg": torch.zeros_like(weight)}

    @torch.no_grad()
    def step(self, closure=None):
        """One update."""
        group = self.param_groups[0]
        weights = group["params"]
        moments = [self.state[weight]["exp_avg"] for weight in weights]
        gradients = [weight.grad for weight in weights]
        torch._foreach_mul_(moments, self.momentum)
        torch._foreach_add_(moments, gradients)
        directions = torch._foreach_add(gradients, moments, alpha=self.momentum)
        pieces: dict[tuple[int, ...], list[Tensor]] = {}
        places = []
        for direction, count in zip(directions, self.stacked, strict=True):
            for piece in direction.chunk(count):
                wide = piece if len(piece) <= piece.shape[1] else piece.T
                same = pieces.setdefault(tuple(wide.shape), [])
                places.append((tuple(wide.shape), len(same), wide is not piece))
                same.append(wide)
        scale = {shape: _LIKE_ADAMW * max(shape) ** 0.5 for shape in pieces}
        solved = {n: orthogonal(torch.stack(same)) * scale[n] for n, same in pieces.items()}
        at = iter(places)
        changes = []
        for count in self.stacked:
            parts = [
                solved[shape][place].T if transposed else solved[shape][place]
                for shape, place, transposed in (next(at) for _ in range(count))
            ]
            changes.append(torch.cat(parts))
        torch._foreach_mul_(changes, group["lr"])
        torch._foreach_mul_(weights, 1 - group["lr"] * self.weight_decay)
        torch._foreach_sub_(weights, changes)


def orthogonal(matrices: Tensor) -> Tensor:
    """Matrices (count, rows, columns), rows <= columns, with their singular values near 1."""
    work = torch.bfloat16 if matrices.is_cuda else torch.float32
    x = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=1e-12)
    x = x.to(work)
    a, b, c = _QUINTIC
    for _ in range(_ITERATIONS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.to(matrices.dtype)
