"""The loop: Algorithm 1 from the first update to the last, resumable after any kill.

Bit-for-bit resume rests on two things: data, augmentation and replay are functions of (seed,
update, example), and the generator behind dropout is seeded anew for every update.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from focus.config import to_json
from focus.data.sources import open_source
from focus.data.splits import Splits, make_splits
from focus.evaluation.source import evaluate, join
from focus.files import write_text
from focus.folders import find_folder
from focus.model.checkpoint import build_model, load_weights, save_model, trained_weights
from focus.random import example_keys, uniform
from focus.training.config import RunConfig
from focus.training.distributed import Processes
from focus.training.metrics import MetricsFile, Tally
from focus.training.schedule import learning_rate_share, replay_probability, stage
from focus.training.state import load_state, optimizer_tensors, restore_optimizer, save_state
from focus.training.update import losses

_ROW, _COIN = 70, 71  # random streams
_AUGMENT = 1  # added to the seed, so that symmetries and rows are drawn independently


class NotFiniteError(Exception):
    """A loss or gradient was not finite; the last checkpoint is untouched."""


class Trainer:
    """A run in a folder: `config.json`, `metrics.jsonl`, `tensorboard/`, `last/`, `best/`."""

    def __init__(
        self, config: RunConfig, folder: Path, device: str = "cpu",
        processes: Processes = Processes(),  # noqa: B008
    ):  # fmt: skip
        self.config, self.folder, self.device, self.processes = config, folder, device, processes
        self.share = processes.share(config.optimizer.batch, config.optimizer.accumulate)
        torch.manual_seed(config.seed)
        self.model = build_model(config.task, config.solver).to(device)
        self.weights = [p for p in self.model.parameters() if p.requires_grad]
        named = [(n, p) for n, p in self.model.named_parameters() if p.requires_grad]
        optimizer = config.optimizer
        groups = [
            {"params": [p for n, p in named if "lora_" not in n], "peak": optimizer.learning_rate},
            {"params": [p for n, p in named if "lora_" in n], "peak": optimizer.lora_learning_rate},
        ]
        self.optimizer = torch.optim.AdamW(
            [group for group in groups if group["params"]], lr=0.0,
            betas=(0.9, optimizer.beta2), weight_decay=optimizer.weight_decay,
        )  # fmt: skip
        self.average = {n: w.clone() for n, w in trained_weights(self.model).items()}
        self.update, self.best = 0, -1.0
        self.tally = Tally(config.curation.candidates, device)
        self.metrics = MetricsFile(folder, config.curation.candidates)
        self.splits: Splits = make_splits(open_source(config.data or None), config.task)
        table = self.splits.train
        self.rows = config.task.pack(table.questions, table.answers, config.augment).to(device)

    # --------------------------------------------------------------- one update
    def step(self) -> None:
        """One update; what is known of it goes into the tally."""
        config, n = self.config, self.update
        size = config.optimizer.batch // config.optimizer.accumulate
        torch.manual_seed(config.seed * 1_000_003 + n)
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        K_p, h = stage(n, config.optimizer.updates, config.replay)
        probability = replay_probability(n, config.optimizer.updates, config.replay)
        finite = torch.ones((), dtype=torch.bool, device=self.device)
        for m, mine in self.share:
            example = m * size + torch.arange(size, device=self.device)
            keys = example_keys(config.seed, n, example)
            replaying = probability > 0 and bool(uniform(keys[:1], _COIN)[0] < probability)
            x, y = self.batch(keys[mine], example[mine])
            part = losses(self.model, x, y, keys[mine], config, replaying, K_p, h)
            loss = (part.base + config.replay.weight * part.auxiliary).sum()
            loss = loss / config.optimizer.batch
            loss.backward()
            finite &= loss.isfinite()
            still = -h * math.log(config.curation.rho)
            self.tally.add_batch(loss, part.exact, part.selection, still)
        for weight in self.weights:
            if weight.grad is None:  # no path to it in this update, on this process
                weight.grad = torch.zeros_like(weight)
        self.processes.add_up([p.grad for p in self.weights if p.grad is not None])
        norm = torch.nn.utils.clip_grad_norm_(self.weights, config.optimizer.clip)
        self.tally.add_update(norm, finite & norm.isfinite(), self.processes.count)
        share = learning_rate_share(n, config.optimizer)
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * share
        self.optimizer.step()
        self.update += 1
        self._average()

    def batch(self, keys: Tensor, example: Tensor):
        """The puzzles of the given keys, each under a random symmetry."""
        row = (uniform(keys, _ROW) * len(self.rows)).long()
        rows = self.rows[row]
        if self.config.augment:
            turns = example_keys(self.config.seed + _AUGMENT, self.update, example)
            rows = self.config.task.augment(rows, turns)
        return self.config.task.unpack(rows)

    @torch.no_grad()
    def _average(self) -> None:
        decay = self.config.optimizer.ema
        for name, weight in trained_weights(self.model).items():
            self.average[name].lerp_(weight, 1 - decay)

    # ------------------------------------------------------------------ the run
    def run(self, report: Callable[[int, dict], None] = lambda update, line: None) -> dict:
        """Train to the end; returns the last validation."""
        config, begun, result = self.config, time.monotonic(), {}
        updates = config.optimizer.updates
        if self.processes.first:
            write_text(self.folder / "config.json", to_json(config))
        if updates == 0:
            result = self.validate()
        while self.update < updates:
            self.step()
            finished = self.update == updates
            validating = self.update % config.eval_every == 0 or finished
            line: dict = {}
            if self.update % config.log_every == 0 or validating:
                line = self._line()
                if validating:
                    result = line["validation"] = self.validate()
                line["seconds"] = round(time.monotonic() - begun, 2)
                if self.processes.first:
                    self.metrics.write(line)
            report(self.update, line)
            if self.update % config.save_every == 0 or finished:
                self.save()
        self.metrics.close()
        return result

    def _line(self) -> dict:
        """A line of metrics over all processes, for the window that ends here."""
        self.processes.add_up(self.tally.tensors())
        self._refuse_what_is_not_finite()
        line = self.tally.read()
        self.tally.reset()
        K_p, h = stage(self.update - 1, self.config.optimizer.updates, self.config.replay)
        return {"update": self.update, **line, "K_p": K_p, "h": h}

    def _refuse_what_is_not_finite(self) -> None:
        if self.tally.bad:
            raise NotFiniteError(f"a loss or gradient up to update {self.update} was not finite")

    def validate(self) -> dict:
        """Exact rate on validation puzzles; the best so far is kept as `best/`."""
        config, processes = self.config, self.processes
        table = self.splits.validation[: config.eval_rows]
        current = {n: w.clone() for n, w in trained_weights(self.model).items()}
        load_weights(self.model, self.average, self.folder)
        part = table[processes.rank :: processes.count]
        parts = processes.gather(evaluate(self.model, part, [config.eval_steps])[0])
        summary = join(parts).summary()
        if summary["exact"] > self.best:
            self.best = summary["exact"]
            notes = {"update": self.update, "validation": summary}
            if processes.first:
                save_model(self.model, self.folder / "best", to_json(config), notes)
        load_weights(self.model, current, self.folder)
        return summary

    # -------------------------------------------------------------- keep and resume
    def save(self) -> None:
        """The complete training state, as `last/`."""
        self._refuse_what_is_not_finite()
        if self.processes.first:
            save_state(
                self.folder / "last", self.config, trained_weights(self.model), self.average,
                optimizer_tensors(self.model, self.optimizer), self.tally.tensors(),
                {"update": self.update, "best": self.best},
            )  # fmt: skip

    def resume(self) -> None:
        """Go on from `last/`; from the start when a kill came before the first checkpoint."""
        folder = find_folder(self.folder / "last")
        if folder is not None:
            weights, self.average, moments, tally, counters = load_state(
                folder, self.config, self.device
            )
            load_weights(self.model, weights, folder)
            restore_optimizer(self.model, self.optimizer, moments)
            for own, stored in zip(self.tally.tensors(), tally, strict=True):
                own.copy_(stored)
            self.update, self.best = counters["update"], counters["best"]
        if self.processes.first:
            self.metrics.rewind(self.update)
