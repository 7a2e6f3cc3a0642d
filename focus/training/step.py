"""One update on the device, run eagerly or replayed as CUDA graphs.

An update is a few mini-batches (`accumulate`), whose gradients add up, and an end (`finish`: clip,
AdamW, average). Everything that changes from update to update and does not choose a branch is a
tensor on the device (the update's number, the mini-batch's number, the learning rates), so that a
captured graph stays valid; there is a graph for each branch (replay or not) and each (K_p, h).
Nothing inside waits for the device. Results equal the eager step's to float tolerance.
"""

import math
from collections.abc import Callable, Hashable

import torch
from torch import Tensor

from focus.model.checkpoint import Model, trained_weights
from focus.model.precision import mixed_precision
from focus.model.solver import Solver
from focus.random import example_keys, uniform
from focus.training.config import OptimizerConfig, RunConfig
from focus.training.metrics import Tally
from focus.training.update import losses

_ROW, _OTHER_ROW, _WHICH = 70, 72, 73  # random streams
_AUGMENT = 1  # added to the seed, so that symmetries and rows are drawn independently
_RANKS_APART = 1 << 40  # between the dropout seeds of processes
_WARM_UPS = 2  # eager runs before a capture, which settle what libraries allocate


def make_optimizer(model: Model, config: OptimizerConfig, device: str) -> torch.optim.AdamW:
    """AdamW with the adapter in a group of its own; its learning rates are tensors on a GPU."""
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    groups = [
        {"params": [p for n, p in named if "lora_" not in n], "peak": config.learning_rate},
        {"params": [p for n, p in named if "lora_" in n], "peak": config.lora_learning_rate},
    ]
    on_gpu = device != "cpu"
    kept = [
        {**group, "lr": torch.zeros((), device=device) if on_gpu else 0.0}
        for group in groups
        if group["params"]
    ]
    return torch.optim.AdamW(
        kept, betas=(0.9, config.beta2), weight_decay=config.weight_decay,
        fused=on_gpu, capturable=on_gpu,
    )  # fmt: skip


class Step:
    """The device side of a run."""

    def __init__(
        self, model: Model, rows, own_rows: int, config: RunConfig, device: str, rank: int = 0
    ):
        """`rows` are packed puzzles, the first `own_rows` of them the training split's."""
        self.own_rows, self.rank = own_rows, rank
        self.model, self.rows, self.config, self.device = model, rows, config, device
        self.optimizer = make_optimizer(model, config.optimizer, device)
        self.weights = [p for p in model.parameters() if p.requires_grad]
        self.average = {n: w.clone() for n, w in trained_weights(model).items()}
        self.tally = Tally(config.curation.candidates, device)
        self.update = torch.zeros((), dtype=torch.long, device=device)
        self.minibatch = torch.zeros((), dtype=torch.long, device=device)
        self.finite = torch.ones((), dtype=torch.bool, device=device)
        for weight in self.weights:
            weight.grad = torch.zeros_like(weight)
        # A model that writes reads its target on the host, and recomputed activations reset the
        # random state: neither can be captured.
        recomputed = config.solver.backbone.gradient_checkpointing
        capturable = isinstance(model, Solver) and not recomputed
        self.captured = config.capture and device != "cpu" and capturable
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        # All graphs share their memory: what a replay leaves is in tensors of our own.
        self._pool = torch.cuda.graph_pool_handle() if self.captured else None

    # ------------------------------------------------------------------- the step
    def begin(self, update: int, learning_rate_share: float) -> None:
        """Set what the coming update differs in."""
        torch.manual_seed(self.config.seed * 1_000_003 + update + self.rank * _RANKS_APART)
        self.model.train()
        self.update.fill_(update)
        for group in self.optimizer.param_groups:
            rate = group["peak"] * learning_rate_share
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def accumulate(self, minibatch: int, mine: slice, replaying: bool, K_p: int, h: int) -> None:
        """Add the gradients of a mini-batch, or of this process's part of it."""
        self.minibatch.fill_(minibatch)
        branch = replaying or self.config.replay.base_mixture[0] < 1
        key = (mine.start, mine.stop, replaying, *((K_p, h) if branch else ()))
        self.run(key, lambda: self._accumulate(mine, replaying, K_p, h))

    def finish(self, processes: int) -> None:
        """Clip, update the weights and their average, and clear the gradients."""
        self.run("finish", lambda: self._finish(processes))

    def _accumulate(self, mine: slice, replaying: bool, K_p: int, h: int) -> None:
        with mixed_precision(torch.device(self.device)):  # one copy of the weights in bf16 for all
            self._add_gradients(mine, replaying, K_p, h)

    def _add_gradients(self, mine: slice, replaying: bool, K_p: int, h: int) -> None:
        config = self.config
        size = config.optimizer.batch // config.optimizer.accumulate
        example = self.minibatch * size + torch.arange(mine.start, mine.stop, device=self.device)
        keys = example_keys(config.seed, self.update, example)
        x, y = self.batch(keys, example)
        part = losses(self.model, x, y, keys, config, replaying, K_p, h)
        loss = (part.base + config.replay.weight * part.auxiliary).sum() / config.optimizer.batch
        loss.backward()
        self.finite.logical_and_(loss.isfinite())
        still = -h * math.log(config.curation.rho)
        self.tally.add_batch(loss, part.exact, part.replayed, part.selection, still)

    def batch(self, keys: Tensor, example: Tensor):
        """The puzzles of the given keys, each under a random symmetry."""
        own, all_rows = self.own_rows, len(self.rows)
        row = (uniform(keys, _ROW) * own).long()
        if all_rows > own:
            other = own + (uniform(keys, _OTHER_ROW) * (all_rows - own)).long()
            row = torch.where(uniform(keys, _WHICH) < self.config.train_share, row, other)
        rows = self.rows[row]
        if self.config.augment:
            turns = example_keys(self.config.seed + _AUGMENT, self.update, example)
            rows = self.config.task.augment(rows, turns)
        return self.config.task.unpack(rows)

    @torch.no_grad()
    def _finish(self, processes: int) -> None:
        norm = torch.nn.utils.clip_grad_norm_(self.weights, self.config.optimizer.clip)
        self.tally.add_update(norm, self.finite & norm.isfinite(), processes)
        self.finite.fill_(True)
        self.optimizer.step()
        decay = self.config.optimizer.ema
        for average, weight in zip(self.average.values(), self.weights, strict=True):
            average.lerp_(weight, 1 - decay)
        for weight in self.weights:
            assert weight.grad is not None
            weight.grad.zero_()

    # -------------------------------------------------------------------- capture
    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        """Do a piece of work: eagerly, or by replaying its graph, captured at its first use."""
        if not self.captured:
            work()
            return
        if key not in self._graphs:
            self._graphs[key] = self._capture(work)
        self._graphs[key].replay()

    def _capture(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """Record a piece of work; what the warm-ups changed is put back."""
        self._make_moments()
        random_state = torch.cuda.get_rng_state(self.device)
        before = [tensor.detach().clone() for tensor in self._changing()]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                work()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            work()
        with torch.no_grad():
            for tensor, value in zip(self._changing(), before, strict=True):
                tensor.copy_(value)
        torch.cuda.set_rng_state(random_state, self.device)
        return graph

    def _changing(self) -> list[Tensor]:
        """Every tensor that an update changes."""
        moments = [value for state in self.optimizer.state.values() for value in state.values()]
        grads = [weight.grad for weight in self.weights if weight.grad is not None]
        kept = [*self.average.values(), *self.tally.tensors(), self.finite]
        return [*self.weights, *grads, *moments, *kept]

    def _make_moments(self) -> None:
        """Let AdamW allocate its moments, as zeros."""
        if self.optimizer.state:
            return
        for weight in self.weights:
            self.optimizer.state[weight] = {
                "step": torch.zeros((), device=self.device),
                "exp_avg": torch.zeros_like(weight),
                "exp_avg_sq": torch.zeros_like(weight),
            }
