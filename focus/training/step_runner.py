"""One update on the device, run eagerly or replayed as CUDA graphs.

An update is a few mini-batches (`accumulate`), whose gradients add up, and an end (`finish`: clip,
move the weights, average). Everything that changes from update to update and does not choose a
branch is a tensor on the device (numbers of the update and of the mini-batch, learning rates), so
that a captured graph stays valid; there is a graph for each branch of the objective. Nothing inside
waits for the device. Results equal the eager step's to float tolerance.
"""

import torch
from torch import Tensor

from focus.cuda_graphs import Graphs
from focus.curation.config import Stage
from focus.curation.defect import defect_at_rest
from focus.model.base import Model
from focus.model.precision import mixed_precision
from focus.training.config import RunConfig
from focus.training.encoder_cache import EncoderCache
from focus.training.metrics import MetricSums
from focus.training.objectives import Objective
from focus.training.optimizer import Optimizer
from focus.training.sampler import Sampler
from focus.training.schedule import Scheduled
from focus.training.text_kl import TextKL

_RANKS_APART = 1 << 40  # between the dropout seeds of processes


class StepRunner:
    """The device side of a run: sampler, objective, optimizer, and the graphs around them."""

    def __init__(
        self, model: Model, sampler: Sampler, objective: Objective, config: RunConfig,
        device: str, rank: int = 0, text_kl: TextKL | None = None,
    ):  # fmt: skip
        self.model, self.sampler, self.objective = model, sampler, objective
        self.text_kl = text_kl if rank == 0 else None  # gradients of all processes are added
        self.config, self.device, self.rank = config, device, rank
        self.optimizer = Optimizer(model, config.optimizer)
        self.metric_sums = MetricSums(config.curation.candidates, device)
        # Numbers that a graph reads: of the update, of the one its puzzles were drawn for, of the
        # mini-batch, and of the batch among those that were encoded together.
        self.update, self.drawn_at, self.minibatch, self.slot = (
            torch.zeros((), dtype=torch.long, device=device) for _ in range(4)
        )
        self.finite = torch.ones((), dtype=torch.bool, device=device)
        captured = config.capture and device != "cpu" and model.prepare_capture()
        backbone = model.ahead_encoder()
        self.encoder_cache = None
        if backbone is not None and (
            config.encode_interval > 1 or (captured and not backbone.prepare_capture())
        ):
            self.encoder_cache = EncoderCache(backbone, config.encode_batches)
        self.graphs = Graphs(device, self.changing, captured)

    def begin(self, update: int, scheduled: Scheduled) -> None:
        """Set what the coming update differs in."""
        self.objective.begin(scheduled)
        torch.manual_seed(self.config.seed * 1_000_003 + update + self.rank * _RANKS_APART)
        self.model.train()
        self.update.fill_(update)
        self.optimizer.set_learning_rates(scheduled.learning_rate_share)

    def encode(self, first: int, minibatch: int, rows: slice) -> None:
        """Let the language model read the puzzles of the next `encode_batches` updates."""
        if self.encoder_cache is None:
            return
        count = self.config.encode_batches
        example = self.sampler.examples(minibatch, rows, self.device)
        updates = first + torch.arange(count, device=self.device)
        x = self.sampler.problems(updates.repeat_interleave(len(example)), example.repeat(count))
        self.encoder_cache.encode(x)

    def accumulate(
        self, drawn_at: int, minibatch: int, rows: slice, replays: bool, stage: Stage
    ) -> None:
        """Add the gradients of a mini-batch, or of this process's part of it.

        Its puzzles are those that were drawn for the update `drawn_at`.
        """
        self.drawn_at.fill_(drawn_at)
        self.minibatch.fill_(minibatch)
        self.slot.fill_(drawn_at % self.config.encode_batches)
        key = (rows.start, rows.stop, self.objective.branch(replays, stage))
        self.graphs.run(key, lambda: self._accumulate(rows, replays, stage))

    def backward_encoder(self, updates: int) -> None:
        """Pass what the last updates found back through the language model."""
        if self.encoder_cache is not None:
            self.encoder_cache.backward(updates)

    def hold_text(self) -> None:
        """Add the gradient of the text term, where there is one: once an update."""
        if self.text_kl is None:
            return
        if self.encoder_cache is None:
            self.graphs.run("text", self._hold_text)
        else:  # no graph can hold this language model
            self._hold_text()

    def finish(self, processes: int, *names: str) -> None:
        """Clip, move the weights of the named parts (all by default) and their average."""
        if self.optimizer.named(*names):
            self.graphs.run(("finish", names), lambda: self.move_weights(processes, names))

    def _accumulate(self, rows: slice, replays: bool, stage: Stage) -> None:
        with mixed_precision(torch.device(self.device)):  # one copy of the weights in bf16
            self._add_gradients(rows, replays, stage)

    def _add_gradients(self, rows: slice, replays: bool, stage: Stage) -> None:
        config, cache = self.config, self.encoder_cache
        example = self.sampler.examples(self.minibatch, rows, self.device)
        drawn_at = self.objective.draw_puzzles(self.update, self.drawn_at)
        hidden = None if cache is None else cache.get(self.slot)
        batch = self.sampler.batch(self.update, drawn_at, example, hidden)
        losses = self.objective.losses(batch, replays, stage)
        # [22] and [25] of Algorithm 1: the sum over all mini-batches, over their examples.
        loss = (losses.base + config.replay.weight * losses.auxiliary).sum()
        loss = loss / config.optimizer.batch
        loss.backward()
        if cache is not None and hidden is not None and hidden.grad is not None:
            cache.accumulate_grad(self.slot, hidden.grad)
        losses = self.objective.after_backward(batch, losses, stage)
        self.finite.logical_and_(loss.isfinite())
        at_rest = defect_at_rest(stage.h * config.steps_per_t, config.curation.rho)
        self.metric_sums.add_batch(loss, losses, at_rest)

    def _hold_text(self) -> None:
        assert self.text_kl is not None
        with mixed_precision(torch.device(self.device)):
            loss = self.text_kl.loss(self.update)
            loss.backward()
        self.finite.logical_and_(loss.isfinite())

    def move_weights(self, processes: int = 1, names: tuple[str, ...] = ()) -> None:
        """What ends an update, once its gradients are there."""
        alone = names == ("adapter",)  # learns once for several updates
        interval = self.config.encode_interval if alone else 1
        norm = self.optimizer.step(self.update, interval, names)
        finite = self.finite & norm.isfinite()
        if alone:
            self.metric_sums.add_check(finite)
        else:
            self.metric_sums.add_update(norm, finite, processes)
        self.finite.fill_(True)

    def changing(self) -> list[Tensor]:
        """Every tensor that an update changes."""
        cached = [] if self.encoder_cache is None else self.encoder_cache.tensors()
        own = [*self.metric_sums.tensors(), self.finite]
        objective_tensors = self.objective.tensors().values()
        return [*self.optimizer.tensors(), *own, *cached, *objective_tensors]
