"""The loop: Algorithm 1 from the first update to the last, resumable after any kill.

Bit-for-bit resume rests on two things: data, augmentation and replay are functions of (seed,
update, example), and the generator behind dropout is seeded anew for every update.
"""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from focus.config import to_json
from focus.data.sources import further_tables, open_source
from focus.data.splits import Splits, make_splits
from focus.errors import UserError
from focus.evaluation.source import evaluate, join
from focus.files import write_text
from focus.folders import find_folder
from focus.model.checkpoint import build_model, load_weights, save_model, trained_weights
from focus.model.solver import Solver
from focus.random import example_keys, uniform
from focus.recipes.methods import method_of
from focus.training.config import RunConfig
from focus.training.distil import opinions
from focus.training.distributed import Processes
from focus.training.memory import MemoryEstimate, estimate_memory
from focus.training.metrics import MetricsFile
from focus.training.schedule import (
    depth,
    learning_rate_share,
    replay_probability,
    stage,
    teacher_weight,
)
from focus.training.state import load_state, optimizer_tensors, restore_optimizer, save_state
from focus.training.step import Step

_COIN = 71  # random stream
_SAVED = ".saved"  # a file that tells that there was a state


def holds_a_run(folder: Path) -> bool:
    """Whether a run was begun in the folder."""
    return any((folder / name).exists() for name in ("metrics.jsonl", "last", "best"))


class NotFiniteError(Exception):
    """A loss or gradient was not finite; the last checkpoint is untouched."""


class Trainer:
    """A run in a folder: `config.json`, `metrics.jsonl`, `tensorboard/`, `last/`, `best/`."""

    def __init__(
        self, config: RunConfig, folder: Path, device: str = "cpu",
        processes: Processes = Processes(),  # noqa: B008
        announce: Callable[[MemoryEstimate], None] = lambda estimate: None,
        asked: Callable[[int, int], None] = lambda done, total: None,
    ):  # fmt: skip
        """`announce` is told what memory the run will need before it is taken.

        `asked` is told how many puzzles a teacher has been asked about, of how many.
        """
        self.config, self.folder, self.device, self.processes = config, folder, device, processes
        self.share = processes.share(config.optimizer.batch, config.optimizer.accumulate)
        if config.carry.steps and processes.count > 1:
            raise UserError("carry.steps (teachers) runs in one process; its states are not shared")
        torch.manual_seed(config.seed)
        self.model = build_model(config.task, config.solver)
        announce(estimate_memory(self.model, config, processes.count))
        self.model.to(device)
        if config.compile and device != "cpu" and isinstance(self.model, Solver):
            self.model.compile_parts()
        source = open_source(config.data or None)
        self.splits: Splits = make_splits(source, config.task)
        held_out = self.splits.validation, self.splits.test
        more = further_tables(source, config.task, config.more_data, held_out)
        tables = [self.splits.train, *more]
        questions = np.concatenate([table.questions for table in tables])
        config.task.check_rows(questions)
        answers = np.concatenate([table.answers for table in tables])
        rows = config.task.pack(questions, answers, config.augment)
        self.on_device = Step(
            self.model, rows.to(device), len(tables[0]), config, device, self.share[0][1],
            processes.rank,
        )  # fmt: skip
        if config.teacher.checkpoint:
            self.on_device.opinions = opinions(config.task, rows, config.teacher, device, asked)
        self.metrics = MetricsFile(folder, config.curation.candidates)
        self.update, self.best, self.seconds = 0, -1.0, 0.0
        self.best_energy: float | None = None  # a writer's answers have none
        self.fruitless = 0  # validations since the best one
        self.claimed = False  # the folder is new, or its run goes on

    # --------------------------------------------------------------- one update
    def step(self) -> None:
        """One update; what is known of it goes into the tally."""
        config, n = self.config, self.update
        taught = teacher_weight(n, config.optimizer.updates, config.teacher)
        replayed = replay_probability(n, config.optimizer.updates, config.replay)
        self.on_device.begin(
            n, learning_rate_share(n, config.optimizer), taught, replayed,
            depth(n, config.optimizer.updates, config.carry),
        )  # fmt: skip
        if config.round == 1:
            for minibatch, mine in self.share:
                self.on_device.read(n, minibatch, mine)
                self._accumulate(n, minibatch, mine)
                self.on_device.teach(1)
            self._finish()
        else:
            self._step_in_round(n % config.round)
        self.update += 1

    def _step_in_round(self, number: int) -> None:
        """The language model reads before the first update of a round and learns after the last."""
        ((minibatch, mine),) = self.share
        first = self.update - number
        if number == 0:
            self.on_device.read(first, minibatch, mine)
        self._accumulate(first + number % self.config.read_ahead, minibatch, mine)
        self._finish("updater")
        if number == self.config.round - 1:
            self.on_device.teach(self.config.round)
            self._finish("adapter")

    def _accumulate(self, source: int, minibatch: int, mine: slice) -> None:
        K_p, h = stage(self.update, self.config.optimizer.updates, self.config.replay)
        self.on_device.accumulate(source, minibatch, mine, self.replays(minibatch), K_p, h)

    def _finish(self, *names: str) -> None:
        parts = [part for part in self.on_device.parts if not names or part.name in names]
        weights = [weight for part in parts for weight in part.weights]
        self.processes.add_up([weight.grad for weight in weights if weight.grad is not None])
        self.on_device.finish(self.processes.count, *names)

    def replays(self, minibatch: int) -> bool:
        """a ~ Bernoulli(p_{n,m}), drawn on the host: it chooses what the device runs.

        With carried states each puzzle has a coin of its own (`comeback.py`).
        """
        optimizer, n = self.config.optimizer, self.update
        probability = replay_probability(n, optimizer.updates, self.config.replay)
        first = torch.tensor([minibatch * (optimizer.batch // optimizer.accumulate)])
        coin = uniform(example_keys(self.config.seed, n, first), _COIN)
        return not self.config.carry.steps and coin.item() < probability

    # ------------------------------------------------------------------ the run
    def run(self, report: Callable[[int, dict], None] = lambda update, line: None) -> dict:
        """Train to the end, or until `patience` is; returns the last validation."""
        if not self.claimed and holds_a_run(self.folder):
            raise UserError(f"{self.folder} holds a run: resume() goes on with it")
        self.claimed = True
        config, result = self.config, {}
        begun = time.monotonic() - self.seconds
        updates = config.optimizer.updates
        if self.processes.first:
            write_text(self.folder / "config.json", to_json(config))
        if updates == 0:
            result = self.validate()
        while self.update < updates and not self.gave_up:
            self.step()
            validating = self.update % config.eval_every == 0 or self.update == updates
            line: dict = {}
            if self.update % config.log_every == 0 or validating:
                line = self._line()
                if validating:
                    result = line["validation"] = self.validate()
                self.seconds = time.monotonic() - begun
                line["seconds"] = round(self.seconds, 2)
                if self.processes.first:
                    self.metrics.write(line)
            report(self.update, line)
            if self.update % config.save_every == 0 or self.update == updates or self.gave_up:
                self.save()
        self.metrics.close()
        self.processes.meet()
        return result

    @property
    def gave_up(self) -> bool:
        """Whether validation has not got better for too long."""
        return 0 < self.config.patience <= self.fruitless

    def _line(self) -> dict:
        """A line of metrics over all processes, for the window that ends here."""
        tally = self.on_device.tally
        tally.set(self._whole_tally())
        line = tally.read()
        tally.reset()
        K_p, h = stage(self.update - 1, self.config.optimizer.updates, self.config.replay)
        return {"update": self.update, **line, "K_p": K_p, "h": h}

    def _whole_tally(self) -> list[Tensor]:
        """The sums over all processes; refuses what is not finite, on all of them."""
        tally = self.on_device.tally
        whole = [tensor.clone() for tensor in tally.tensors()]
        self.processes.add_up(whole)
        if tally.bad(whole[0]):
            raise NotFiniteError(f"a loss or gradient up to update {self.update} was not finite")
        return whole

    def validate(self) -> dict:
        """Exact rate on validation puzzles; the best so far is kept as `best/`.

        Of equal rates that of the lowest mean energy is the best: few puzzles are often all solved.
        """
        config, processes = self.config, self.processes
        table = self.splits.validation[: config.eval_rows]
        current = {n: w.clone() for n, w in trained_weights(self.model).items()}
        load_weights(self.model, self.on_device.average, self.folder)
        part = table[processes.rank :: processes.count]
        with torch.compiler.set_stance("force_eager"):  # other batch sizes than training's
            parts = processes.gather(evaluate(self.model, part, [config.eval_steps])[0])
        summary = join(parts).summary()
        self.fruitless += self.best > 0  # as long as nothing comes out, there is nothing to lose
        exact, energy = summary["exact"], summary.get("energy")
        lower = energy is not None and (self.best_energy is None or energy < self.best_energy)
        if exact > self.best:
            self.fruitless = 0
        if exact > self.best or (exact == self.best and lower):
            self.best, self.best_energy = exact, energy
            notes = {"update": self.update, "method": method_of(config), "validation": summary}
            if processes.first:
                save_model(self.model, self.folder / "best", to_json(config), notes)
        load_weights(self.model, current, self.folder)
        return summary

    # -------------------------------------------------------------- keep and resume
    def save(self) -> None:
        """The complete training state, as `last/`."""
        step, tally = self.on_device, self._whole_tally()
        if self.processes.first:
            save_state(
                self.folder / "last", self.config, trained_weights(self.model), step.average,
                optimizer_tensors(self.model, step.parts), tally,
                {
                    "update": self.update, "best": self.best, "best_energy": self.best_energy,
                    "fruitless": self.fruitless, "seconds": self.seconds,
                }, step.carried(),
            )  # fmt: skip
            write_text(self.folder / _SAVED, "")

    def resume(self) -> None:
        """Go on from `last/`; from the start when a kill came before the first checkpoint."""
        folder, step = find_folder(self.folder / "last"), self.on_device
        if folder is None:
            self._check_unsaved()
        else:
            weights, average, moments, tally, counters, carried = load_state(
                folder, self.config, self.device
            )
            for name, value in carried.items():
                step.carried()[name].copy_(value)
            load_weights(self.model, weights, folder)
            restore_optimizer(self.model, step.parts, moments)
            if self.processes.first:  # the sums are those of all processes
                step.tally.set(tally)
            for name, value in average.items():
                step.average[name].copy_(value)
            self.update, self.best = counters["update"], counters["best"]
            self.best_energy = counters.get("best_energy")
            self.seconds, self.fruitless = counters["seconds"], counters.get("fruitless", 0)
        if self.processes.first:
            self.metrics.rewind(self.update)
        self.claimed = True

    def _check_unsaved(self) -> None:
        """Refuse to begin again where a state was saved that is gone now, or not whole."""
        last = self.folder / "last"
        if last.exists() or (holds_a_run(self.folder) and (self.folder / _SAVED).exists()):
            raise UserError(
                f"the state of the run in {self.folder} was saved, and {last} is missing now or "
                "not whole: it cannot go on; choose another folder to begin again"
            )
