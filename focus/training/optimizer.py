"""What moves the weights: AdamW, or Muon for the matrices inside the updater's layers.

The trained weights fall into two parts, the updater (with G_psi) and the adapter, because the
adapter may learn once for several updates of the updater. They lie in one vector
(`focus/model/weight_vector.py`), part after part.

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
from focus.model.weight_vector import WeightVector
from focus.training.config import OptimizerConfig

_ITERATIONS = 5  # of Newton-Schulz
_QUINTIC = (3.4445, -4.7750, 2.0315)  # its coefficients, by Keller Jordan (2024)
_LIKE_ADAMW = 0.2  # root mean square of AdamW's updates, after Liu et al., arXiv 2502.16982
_STACKED = {"qkv": 3, "up": 2}  # matrices that one parameter holds on top of each other


@dataclass(frozen=True)
class Part:
    """Weights that are updated together."""

    name: str  # updater or adapter
    place: slice  # of the vector
    optimizers: Sequence[torch.optim.Optimizer]


class Optimizer:
    """What ends an update: clip, move the weights, move their average."""

    def __init__(self, model: Model, config: OptimizerConfig):
        self.config = config
        named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        order = sorted(named, key=lambda n: (_part(n), _is_for_muon(n, named[n], config)))
        self.vector = WeightVector({name: named[name] for name in order})
        self.averaged = self.vector.values.clone() if config.ema else None
        self.parts = make_parts(self.vector, config)

    @property
    def average(self) -> dict[str, Tensor]:
        """The averaged weights by name; the weights themselves where there is no average."""
        return self.vector.split(self.vector.values if self.averaged is None else self.averaged)

    def named(self, *names: str) -> list[Part]:
        """The parts of these names; all without any."""
        return [part for part in self.parts if not names or part.name in names]

    def gradients(self, *names: str) -> list[Tensor]:
        """The gradients of these parts, each as one vector."""
        return [self.vector.gradients[part.place] for part in self.named(*names)]

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
        gradients = self.gradients(*names)
        norm = torch.nn.utils.get_total_norm(gradients)
        torch._foreach_mul_(gradients, (self.config.clip / (norm + 1e-6)).clamp(max=1))
        for optimizer in (o for part in self.named(*names) for o in part.optimizers):
            optimizer.step()
        torch._foreach_zero_(gradients)
        if self.averaged is not None:
            # At first it reaches back over a tenth of the run so far, so that it forgets the start.
            done = update.float()
            decay = ((1 + done) / (10 + done)).clamp(max=self.config.ema)
            share = 1 - (decay**interval if interval > 1 else decay)
            for place in (part.place for part in self.named(*names)):
                average = self.averaged[place]
                average.add_((self.vector.values[place] - average).mul_(share))
        return norm

    def tensors(self) -> list[Tensor]:
        """Every tensor that a step changes."""
        optimizers = [optimizer for part in self.parts for optimizer in part.optimizers]
        moments = [v for o in optimizers for state in o.state.values() for v in state.values()]
        averaged = [] if self.averaged is None else [self.averaged]
        return [self.vector.values, self.vector.gradients, *moments, *averaged]


def make_parts(vector: WeightVector, config: OptimizerConfig) -> list[Part]:
    """The parts of what is trained; in each AdamW's weights lie before Muon's."""
    parts = []
    peaks = {"updater": config.learning_rate, "adapter": config.lora_learning_rate}
    for part, peak in peaks.items():
        named = [(name, weight) for name, weight in vector.named.items() if _part(name) == part]
        if not named:
            continue
        plain = [name for name, weight in named if not _is_for_muon(name, weight, config)]
        flat = vector.parameter(vector.stretch(plain))
        optimizers: list[torch.optim.Optimizer] = [_adamw(flat, peak, config)]
        if matrices := named[len(plain) :]:
            optimizers.append(Muon(matrices, peak, config))
        place = vector.stretch([name for name, _ in named])
        parts.append(Part(part, place, optimizers))
    return parts


def _part(name: str) -> str:
    return "adapter" if "lora_" in name else "updater"


def _is_for_muon(name: str, weight: Tensor, config: OptimizerConfig) -> bool:
    layers = (".blocks.", ".net.layers.")  # of an updater, of a TRM
    inside = _part(name) == "updater" and any(word in name for word in layers)
    return config.kind == "muon" and inside and weight.ndim == 2


def _rate(weight: Tensor) -> Any:
    return torch.zeros((), device=weight.device) if weight.is_cuda else 0.0


def _adamw(weights: Tensor, peak: float, config: OptimizerConfig) -> torch.optim.AdamW:
    """AdamW with its moments in place, so that a capture finds them."""
    on_gpu = weights.is_cuda
    optimizer = torch.optim.AdamW(
        [{"params": [weights], "peak": peak, "lr": _rate(weights)}],
        betas=(0.9, config.beta2), weight_decay=config.weight_decay,
        fused=on_gpu, capturable=on_gpu,
    )  # fmt: skip
    optimizer.state[weights] = {
        "step": torch.zeros((), device=weights.device if on_gpu else "cpu"),
        "exp_avg": torch.zeros_like(weights),
        "exp_avg_sq": torch.zeros_like(weights),
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
