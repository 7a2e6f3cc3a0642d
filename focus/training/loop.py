"""The loop: Algorithm 1 from the first update to the last, resumable after any kill.

Bit-for-bit resume rests on two things: data, augmentation and replay are functions of (seed,
update, example), and the generator behind dropout is seeded anew for every update.
"""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from focus.data.sources import open_source
from focus.data.splits import Splits, make_splits
from focus.errors import UserError
from focus.evaluation.source import evaluate
from focus.files import write_text
from focus.model.solver import Solver, trainable
from focus.random import example_keys, uniform
from focus.training.checkpoint import (
    check_folder,
    find_folder,
    load_weights,
    save_solver,
    trained_weights,
    write_folder,
)
from focus.training.config import RunConfig, from_json, to_json
from focus.training.schedule import learning_rate_share, replay_probability, stage
from focus.training.update import losses

_ROW, _COIN = 70, 71  # random streams
_AUGMENT = 1  # added to the seed, so that symmetries and rows are drawn independently


class NotFiniteError(Exception):
    """A loss or gradient was not finite; the last checkpoint is untouched."""


class Trainer:
    """A run in a folder: `config.json`, `metrics.jsonl`, `last/`, `best/`."""

    def __init__(self, config: RunConfig, folder: Path, device: str = "cpu"):
        self.config, self.folder, self.device = config, folder, device
        torch.manual_seed(config.seed)
        self.solver = Solver(config.task, config.solver).to(device)
        adapter = [p for n, p in self.solver.named_parameters() if p.requires_grad and "lora_" in n]
        own = [p for n, p in self.solver.named_parameters() if p.requires_grad and "lora_" not in n]
        optimizer = config.optimizer
        groups = [
            {"params": own, "peak": optimizer.learning_rate},
            {"params": adapter, "peak": optimizer.lora_learning_rate},
        ]
        self.optimizer = torch.optim.AdamW(
            [group for group in groups if group["params"]], lr=0.0,
            betas=(0.9, optimizer.beta2), weight_decay=optimizer.weight_decay,
        )  # fmt: skip
        self.average = {n: w.clone() for n, w in trained_weights(self.solver).items()}
        self.update = 0
        self.best = -1.0
        self.splits: Splits = make_splits(open_source(config.data or None), config.task)
        table = self.splits.train
        self.rows = config.task.pack(table.questions, table.answers, config.augment).to(device)

    # --------------------------------------------------------------- one update
    def step(self) -> dict[str, float]:
        """One update; returns what is logged of it."""
        config, n = self.config, self.update
        size = config.optimizer.batch // config.optimizer.accumulate
        torch.manual_seed(config.seed * 1_000_003 + n)
        self.solver.train()
        self.optimizer.zero_grad(set_to_none=True)
        K_p, h = stage(n, config.optimizer.updates, config.replay)
        probability = replay_probability(n, config.optimizer.updates, config.replay)
        total, log = 0.0, {"exact": 0.0, "replayed": 0.0, "stuck": 0.0, "t": 0.0, "defect": 0.0}
        for m in range(config.optimizer.accumulate):
            example = m * size + torch.arange(size, device=self.device)
            keys = example_keys(config.seed, n, example)
            x, y = self.batch(keys, example)
            replaying = bool(uniform(keys[:1], _COIN)[0] < probability)
            part = losses(self.solver, x, y, keys, config, replaying, K_p, h)
            loss = (part.base + config.replay.weight * part.auxiliary).sum()
            loss = loss / config.optimizer.batch
            loss.backward()
            total += loss.item()
            log["exact"] += part.exact.sum().item() / config.optimizer.batch
            if part.selection is not None:
                chosen = part.selection.eligible
                # Stuck: the energy did not move, so that D is close to -h ln rho.
                still = (part.selection.defect + h * math.log(config.curation.rho)).abs() < 0.01
                log["replayed"] += chosen.sum().item()
                log["stuck"] += (still & chosen).sum().item()
                log["t"] += (part.selection.step * chosen).sum().item()
                log["defect"] += (part.selection.defect * chosen).sum().item()
        norm = torch.nn.utils.clip_grad_norm_(trainable(self.solver), config.optimizer.clip)
        if not (math.isfinite(total) and math.isfinite(norm.item())):
            raise NotFiniteError(f"update {n}: loss {total}, gradient norm {norm.item()}")
        share = learning_rate_share(n, config.optimizer)
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * share
        self.optimizer.step()
        self.update += 1
        self._average()
        for name in ("stuck", "t", "defect"):
            log[name] /= max(1.0, log["replayed"])
        return {"loss": total, "gradient": norm.item(), "K_p": K_p, "h": h, **log}

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
        for name, weight in trained_weights(self.solver).items():
            self.average[name].lerp_(weight, 1 - decay)

    # ------------------------------------------------------------------ the run
    def run(self, report: Callable[[int, dict], None] = lambda update, line: None) -> dict:
        """Train to the end; returns the last validation."""
        config = self.config
        write_text(self.folder / "config.json", to_json(config))
        begun, result = time.monotonic(), {}
        with open(self.folder / "metrics.jsonl", "a", encoding="utf-8") as metrics:
            while self.update < config.optimizer.updates:
                line: dict = {"update": self.update, **self.step()}
                finished = self.update == config.optimizer.updates
                if self.update % config.eval_every == 0 or finished:
                    result = line["validation"] = self.validate()
                if line["update"] % config.log_every == 0 or "validation" in line:
                    line["seconds"] = round(time.monotonic() - begun, 2)
                    metrics.write(json.dumps(line) + "\n")
                    metrics.flush()
                report(self.update, line)
                if self.update % config.save_every == 0 or finished:
                    self.save()
        return result

    def validate(self) -> dict:
        """Exact rate on validation puzzles; the best so far is kept as `best/`."""
        table = self.splits.validation[: self.config.eval_rows]
        current = {n: w.clone() for n, w in trained_weights(self.solver).items()}
        load_weights(self.solver, self.average, self.folder)
        summary = evaluate(self.solver, table, [self.config.eval_steps])[0].summary()
        if summary["exact"] > self.best:
            self.best = summary["exact"]
            notes = {"update": self.update, "validation": summary}
            save_solver(self.solver, self.config, self.folder / "best", notes)
        load_weights(self.solver, current, self.folder)
        return summary

    # -------------------------------------------------------------- keep and resume
    def save(self) -> None:
        """The complete training state, as `last/`."""
        names = {id(p): name for name, p in self.solver.named_parameters()}
        moments = {}
        for parameter, state in self.optimizer.state.items():
            for key in ("exp_avg", "exp_avg_sq", "step"):
                moments[f"{names[id(parameter)]}/{key}"] = state[key]
        write_folder(
            self.folder / "last",
            {
                "solver.safetensors": trained_weights(self.solver),
                "average.safetensors": self.average,
                "optimizer.safetensors": moments,
            },
            {
                "config.json": to_json(self.config),
                "trainer.json": json.dumps({"update": self.update, "best": self.best}) + "\n",
            },
        )

    def resume(self) -> None:
        """Go on from `last/`; from the start when a kill came before the first checkpoint."""
        folder = find_folder(self.folder / "last")
        metrics = self.folder / "metrics.jsonl"
        if folder is None:
            if metrics.exists():
                write_text(metrics, "")
            return
        check_folder(folder)
        stored = from_json((folder / "config.json").read_text(encoding="utf-8"), folder)
        if stored != self.config:
            raise UserError(f"{folder} belongs to a run with another config; resume it as it was")
        load_weights(self.solver, load_file(folder / "solver.safetensors"), folder)
        self.average = load_file(folder / "average.safetensors", device=self.device)
        moments = load_file(folder / "optimizer.safetensors", device=self.device)
        parameters = dict(self.solver.named_parameters())
        for name, value in moments.items():
            parameter, key = name.rsplit("/", 1)
            state = self.optimizer.state.setdefault(parameters[parameter], {})
            state[key] = value.cpu() if key == "step" else value
        trainer = json.loads((folder / "trainer.json").read_text(encoding="utf-8"))
        self.update, self.best = trainer["update"], trainer["best"]
        if metrics.exists():
            lines = metrics.read_text(encoding="utf-8").splitlines()
            kept = [line for line in lines if _update_of(line) < self.update]
            write_text(metrics, "".join(line + "\n" for line in kept))


def _update_of(line: str) -> float:
    """The update of a line of metrics; infinite for one that a kill cut short."""
    try:
        return json.loads(line)["update"]
    except (ValueError, KeyError):
        return math.inf
