"""One update on the device, run eagerly or replayed as CUDA graphs.

An update is a few mini-batches (`accumulate`), whose gradients add up, and an end (`finish`: clip,
move the weights, average). Everything that changes from update to update and does not choose a
branch is a tensor on the device (numbers of the update and of the mini-batch, learning rates), so
that a captured graph stays valid; there is a graph for each branch (replay or not, taught or not,
depth of a TRM) and each (K_p, h). Nothing inside waits for the device. Results equal the eager
step's to float tolerance. A language model reads outside the graphs (`reading.py`).
"""

import math
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor

from focus.model.backbone import LanguageModel
from focus.model.checkpoint import Model, trained_weights
from focus.model.precision import mixed_precision
from focus.model.solver import Solver
from focus.model.trm import TRM
from focus.random import example_keys, uniform, uniforms
from focus.tasks.records import Problem, Target
from focus.training.capture import Graphs
from focus.training.carry import Carry
from focus.training.comeback import Comeback
from focus.training.config import RunConfig
from focus.training.metrics import Tally
from focus.training.optimizer import Part, make_parts, set_learning_rates
from focus.training.reading import Reading
from focus.training.update import Taught, always_a_candidate, losses, selector_of

_ROW, _OTHER_ROW, _WHICH = 70, 72, 73  # random streams
_AUGMENT = 1  # added to the seed, so that symmetries and rows are drawn independently
_RANKS_APART = 1 << 40  # between the dropout seeds of processes


class Step:
    """The device side of a run."""

    def __init__(
        self, model: Model, rows, own_rows: int, config: RunConfig, device: str, mine: slice,
        rank: int = 0,
    ):  # fmt: skip
        """`rows` are packed puzzles, the first `own_rows` of them the training split's.

        `mine` are the examples of a mini-batch that this process takes.
        """
        self.own_rows, self.rank = own_rows, rank
        self.model, self.rows, self.config, self.device = model, rows, config, device
        self.average = {n: w.clone() for n, w in trained_weights(model).items()}
        self.parts = make_parts(model, self.average, config.optimizer)
        self.weights = [weight for part in self.parts for weight in part.weights]
        self.tally = Tally(config.curation.candidates, device)
        # Numbers that a graph reads: of the update, of the one its puzzles were drawn for, of the
        # mini-batch, and of the batch among those that were read together.
        self.update, self.source, self.minibatch, self.slot = (
            torch.zeros((), dtype=torch.long, device=device) for _ in range(4)
        )
        self.finite = torch.ones((), dtype=torch.bool, device=device)
        self.opinions: Tensor | None = None  # of a teacher, for every row
        self.teaching = False
        self.depth: tuple[int, int] | None = None
        self.teacher_weight = torch.zeros((), device=device)
        for weight in self.weights:
            weight.grad = torch.zeros_like(weight)
        self.reading: Reading | None = None
        if isinstance(model, Solver) and isinstance(model.backbone, LanguageModel):
            self.reading = Reading(model.backbone, config.read_ahead)
        self.carry: Carry | None = None
        self.comeback: Comeback | None = None
        if config.carry.steps and isinstance(model, Solver):
            x, _ = self.batch(self.update, self._examples(0, mine))
            self.carry = Carry(config.carry, model.updater.initial(x))
            if config.replay.method != "none":
                self.comeback = Comeback(self.carry, model, config.curation, selector_of(config))
        selects = config.replay.method in ("focus", "random", "energy-hard")
        self.fallback = not (  # of replayed examples without a candidate
            selects
            and not config.replay.base_always
            and always_a_candidate(config.task, rows, config.curation.candidates)
        )
        # A model that writes reads its target on the host: no graph can hold that.
        self.captured = config.capture and device != "cpu" and isinstance(model, Solver)
        self._graphs = Graphs(device, self._changing) if self.captured else None

    # ------------------------------------------------------------------- the step
    def begin(
        self, update: int, learning_rate_share: float, teacher_weight: float = 0.0,
        replay_probability: float = 0.0, depth: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        """Set what the coming update differs in; `depth` is a TRM's, where it is not its own."""
        self.depth = depth
        if self.comeback is not None:
            self.comeback.chance.fill_(replay_probability)
        self.teaching = teacher_weight > 0 and self.opinions is not None
        self.teacher_weight.fill_(teacher_weight)
        torch.manual_seed(self.config.seed * 1_000_003 + update + self.rank * _RANKS_APART)
        self.model.train()
        self.update.fill_(update)
        set_learning_rates(self.parts, learning_rate_share)

    def read(self, first: int, minibatch: int, mine: slice) -> None:
        """Let the language model read the puzzles of the next `read_ahead` updates."""
        if self.reading is None:
            return
        example = self._examples(minibatch, mine)
        updates = first + torch.arange(self.config.read_ahead, device=self.device)
        x, _ = self.batch(
            updates.repeat_interleave(len(example)), example.repeat(self.config.read_ahead)
        )
        self.reading.read(x)

    def accumulate(
        self, source: int, minibatch: int, mine: slice, replaying: bool, K_p: int, h: int
    ) -> None:
        """Add the gradients of a mini-batch, or of this process's part of it.

        Its puzzles are those that were drawn for the update `source`.
        """
        self.source.fill_(source)
        self.minibatch.fill_(minibatch)
        self.slot.fill_(source % self.config.read_ahead)
        mixed = self.config.replay.base_mixture[0] < 1
        branch = replaying or mixed or self.comeback is not None
        stage = (K_p, h) if branch else ()
        key = (mine.start, mine.stop, self.teaching, self.depth, replaying, *stage)
        self.run(key, lambda: self._accumulate(mine, replaying, K_p, h))

    def teach(self, updates: int) -> None:
        """Pass what the last updates found back through the language model."""
        if self.reading is not None:
            self.reading.teach(updates)

    def finish(self, processes: int, *names: str) -> None:
        """Clip, move the weights of the named parts (all by default) and their average."""
        parts = [part for part in self.parts if not names or part.name in names]
        if parts:
            self.run(("finish", names), lambda: self._finish(parts, processes))

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        """Do a piece of work: eagerly, or as a graph."""
        if self._graphs is not None and self.captured:
            self._graphs.run(key, work)
        else:
            work()

    def _accumulate(self, mine: slice, replaying: bool, K_p: int, h: int) -> None:
        # One copy of the weights in bf16 for all steps.
        with mixed_precision(torch.device(self.device)), self._at_depth():
            self._add_gradients(mine, replaying, K_p, h)

    def _at_depth(self) -> AbstractContextManager[None]:
        updater = self.model.updater if isinstance(self.model, Solver) else None
        if self.depth is None or not isinstance(updater, TRM):
            return nullcontext()
        return updater.at_depth(*self.depth)

    def _add_gradients(self, mine: slice, replaying: bool, K_p: int, h: int) -> None:
        config = self.config
        example = self._examples(self.minibatch, mine)
        keys = example_keys(config.seed, self.update, example)
        source = self.source if self.carry is None else self.carry.draw(self.update)
        x, y = self.batch(source, example)
        read = None if self.reading is None else self.reading.take(self.slot)
        taught = self._taught(source, example) if self.teaching else None
        if self.comeback is not None and self.carry is not None:
            initial = self.comeback.solver.updater.initial(x)
            self.comeback.begin(self.carry.start(initial), x, y)
        part = losses(
            self.model, x, y, keys, config, replaying, K_p, h, read, self.carry, taught,
            self.fallback,
        )  # fmt: skip
        loss = (part.base + config.replay.weight * part.auxiliary).sum() / config.optimizer.batch
        loss.backward()
        if self.reading is not None and read is not None and read.grad is not None:
            self.reading.give(self.slot, read.grad)
        if self.carry is not None and part.last is not None:
            self.carry.keep(part.last, example_keys(config.seed, source, example))
        if self.comeback is not None:
            back = (self.comeback.until > 0).float()
            part = replace(part, replayed=back, selection=self.comeback.end(x, y, h, keys))
        self.finite.logical_and_(loss.isfinite())
        still = -h * math.log(config.curation.rho)
        self.tally.add_batch(loss, part.exact, part.replayed, part.selection, still)

    @torch.no_grad()
    def _finish(self, parts: list[Part], processes: int) -> None:
        weights = [weight for part in parts for weight in part.weights]
        norm = torch.nn.utils.clip_grad_norm_(weights, self.config.optimizer.clip)
        finite = self.finite & norm.isfinite()
        alone = [part.name for part in parts] == ["adapter"] and len(self.parts) > 1
        if alone:
            self.tally.add_check(finite)
        else:
            self.tally.add_update(norm, finite, processes)
        self.finite.fill_(True)
        # At first the average reaches back over a tenth of the run so far, lest it keep the start.
        done = self.update.float()
        decay = ((1 + done) / (10 + done)).clamp(max=self.config.optimizer.ema)
        share = 1 - (decay**self.config.round if alone else decay)
        for part in parts:
            for optimizer in part.optimizers:
                optimizer.step()
            change = torch._foreach_sub(part.weights, part.average)
            torch._foreach_mul_(change, share)
            torch._foreach_add_(part.average, change)
        torch._foreach_zero_([weight.grad for weight in weights if weight.grad is not None])

    def _changing(self) -> list[Tensor]:
        """Every tensor that an update changes."""
        optimizers = [optimizer for part in self.parts for optimizer in part.optimizers]
        moments = [v for o in optimizers for state in o.state.values() for v in state.values()]
        grads = [weight.grad for weight in self.weights if weight.grad is not None]
        kept = [*self.average.values(), *self.tally.tensors(), self.finite]
        read = [] if self.reading is None else self.reading.tensors()
        return [*self.weights, *grads, *moments, *kept, *read, *self.carried().values()]

    def carried(self) -> dict[str, Tensor]:
        """What goes on from update to update besides weights, by name."""
        found = {} if self.carry is None else self.carry.tensors()
        if self.comeback is not None:
            found |= {f"comeback.{name}": kept for name, kept in self.comeback.tensors().items()}
        return found

    # ------------------------------------------------------------------ the puzzles
    def _examples(self, minibatch: int | Tensor, mine: slice) -> Tensor:
        """The numbers of this process's examples in the whole batch."""
        size = self.config.optimizer.batch // self.config.optimizer.accumulate
        return minibatch * size + torch.arange(mine.start, mine.stop, device=self.device)

    def batch(self, update: Tensor, example: Tensor) -> tuple[Problem, Target]:
        """The puzzles of an update's examples (or of an update each), under random symmetries."""
        rows = self.rows[self._row(update, example)]
        if self.config.augment:
            rows = self.config.task.augment(rows, self._turns(update, example))
        return self.config.task.unpack(rows)

    def _taught(self, update: Tensor, example: Tensor) -> Taught:
        """The teacher's opinions of the same puzzles under the same symmetries."""
        assert self.opinions is not None
        opinions = self.opinions[self._row(update, example)]
        if self.config.augment:
            opinions = self.config.task.augment_opinions(opinions, self._turns(update, example))
        else:
            opinions = opinions[:, 0]
        return Taught(opinions, self.teacher_weight)

    def _row(self, update: Tensor, example: Tensor) -> Tensor:
        """Which stored puzzle each example is."""
        keys = example_keys(self.config.seed, update, example)
        own, all_rows = self.own_rows, len(self.rows)
        if all_rows == own:
            return (uniform(keys, _ROW) * own).long()
        first, second, which = uniforms(keys, ((_ROW, ()), (_OTHER_ROW, ()), (_WHICH, ())))
        other = own + (second * (all_rows - own)).long()
        return torch.where(which < self.config.train_share, (first * own).long(), other)

    def _turns(self, update: Tensor, example: Tensor) -> Tensor:
        """Keys of the symmetries."""
        return example_keys(self.config.seed + _AUGMENT, update, example)
