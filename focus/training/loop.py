"""The loop: Algorithm 1 from the first update to the last, resumable after any kill.

Bit-for-bit resume rests on two things: data, augmentation and replay are functions of (seed,
update, example), and the generator behind dropout is seeded anew for every update.
"""

import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from focus.errors import UserError
from focus.evaluation.puzzles import evaluate, join
from focus.files import write_text
from focus.folders import check_replaceable, find_folder
from focus.model.checkpoint import build_model, load_weights, save_model, trained_weights
from focus.random import Stream, example_keys, uniform
from focus.serialization import to_json
from focus.training.config import RunConfig
from focus.training.distributed import Processes
from focus.training.memory import MemoryEstimate, fit_memory
from focus.training.metrics import MetricsFile
from focus.training.objectives import make_objective
from focus.training.puzzles import Progress, TrainingPuzzles, load_puzzles
from focus.training.sampler import Sampler
from focus.training.schedule import Scheduled, scheduled
from focus.training.state import load_state, optimizer_tensors, restore_optimizer, save_state
from focus.training.step_runner import StepRunner
from focus.training.text_kl import make_text_kl
from focus.training.time_limit import TimeLimit
from focus.training.trackers import check_tracker

_SAVED = ".saved"  # a file that tells that there was a state
_COIN_SEED = 42  # of every run: seeds and methods are compared at the same coins


def holds_a_run(folder: Path) -> bool:
    """Whether a run was begun in the folder."""
    return any((folder / name).exists() for name in ("metrics.jsonl", "last", "best"))


class NotFiniteError(Exception):
    """A loss or gradient was not finite; the last checkpoint is untouched."""


class Trainer:
    """A run in a folder: `config.json`, `metrics.jsonl`, `tensorboard/`, `last/`, `best/`."""

    def __init__(
        self, config: RunConfig, folder: Path | str, device: str = "cpu",
        processes: Processes = Processes(),  # noqa: B008
        announce: Callable[[MemoryEstimate], None] = lambda estimate: None,
        progress: Progress = lambda what, done, total: None,
        puzzles: TrainingPuzzles | None = None,
    ):  # fmt: skip
        """`announce` is told what memory the run will need before it is taken.

        `progress` is told what is made before the first update (synthetic puzzles, soft targets of
        a teacher), how much of it is done, of how much. `puzzles` are those of a run with the same
        data, where they are there already.
        """
        check_tracker(config.report_to)
        self.config, self.folder = config, Path(folder)
        self.device, self.processes = device, processes
        self.local_minibatches = processes.share(
            config.optimizer.batch, config.optimizer.accumulate
        )
        if config.deep_supervision.steps and processes.count > 1:
            raise UserError(
                "deep-supervision.steps runs in one process: carried states are not shared"
            )
        torch.manual_seed(config.seed)
        self.model = build_model(config.task, config.solver)
        announce(fit_memory(self.model, config, device, processes.count))
        self.model.to(device)
        self.text_kl = make_text_kl(self.model, config, device)
        if config.compile and device != "cpu":
            self.model.compile_parts()
        self.puzzles = puzzles or load_puzzles(config, device, progress)
        self.splits = self.puzzles.splits
        rows, local = self.puzzles.rows, self.local_minibatches[0][1]
        objective = make_objective(
            self.model, config, rows, local.stop - local.start, self.puzzles.distillation
        )
        sampler = Sampler(rows, self.puzzles.own_rows, config)
        self.step_runner = StepRunner(
            self.model, sampler, objective, config, device, processes.rank, self.text_kl
        )
        self.metrics = MetricsFile(self.folder, config)
        self.update, self.best, self.seconds = 0, -1.0, 0.0
        self.best_energy: float | None = None  # a writer's answers have none
        self.evals_without_gain = 0
        self.claimed = False  # the folder is new, or its run goes on
        self._begun = 0.0  # when the clock was started

    # --------------------------------------------------------------- one update
    def train_update(self, now: Scheduled | None = None) -> None:
        """One update (lines 2 to 25 of Algorithm 1); what is known of it goes into the sums.

        `now` stands in for what the schedules say of it.
        """
        config, n, runner = self.config, self.update, self.step_runner
        now = now or scheduled(n, config)
        runner.begin(n, now)
        if config.encode_interval == 1:
            for minibatch, rows in self.local_minibatches:
                runner.encode(n, minibatch, rows)
                self._accumulate(n, minibatch, rows, now)
                runner.backward_encoder(1)
            runner.hold_text()
            self._finish()
        else:
            self._update_between_encodings(n % config.encode_interval, now)
        self.update += 1

    def _update_between_encodings(self, number: int, now: Scheduled) -> None:
        """The language model encodes at the first update of an interval and learns at the last."""
        ((minibatch, rows),) = self.local_minibatches
        interval, first = self.config.encode_interval, self.update - number
        if number == 0:
            self.step_runner.encode(first, minibatch, rows)
        self._accumulate(first + number % self.config.encode_batches, minibatch, rows, now)
        self._finish("updater")
        if number == interval - 1:
            self.step_runner.backward_encoder(interval)
            self._finish("adapter")

    def _accumulate(self, drawn_at: int, minibatch: int, rows: slice, now: Scheduled) -> None:
        replays = self.replays(minibatch, now.replay_probability)
        self.step_runner.accumulate(drawn_at, minibatch, rows, replays, now.stage)

    def _finish(self, *names: str) -> None:
        self.processes.add_up(self.step_runner.optimizer.gradients(*names))
        self.step_runner.finish(self.processes.count, *names)

    def replays(self, minibatch: int, probability: float) -> bool:
        """a ~ Bernoulli(p_{n,m}), drawn on the host: it chooses what the device runs.

        With deep supervision each puzzle has a coin of its own (`objectives/carried_replay.py`).
        """
        optimizer = self.config.optimizer
        first = torch.tensor([minibatch * (optimizer.batch // optimizer.accumulate)])
        keys = example_keys(_COIN_SEED, self.update, first)
        coin = uniform(keys, Stream.REPLAY_COIN).item()
        return not self.config.deep_supervision.steps and coin < probability

    # ------------------------------------------------------------------ the run
    def run(
        self, report: Callable[[int, dict], None] = lambda update, line: None,
        is_over: TimeLimit = lambda: False,
    ) -> dict:  # fmt: skip
        """Train to the end, or until `patience` is, or the time; returns the last validation.

        When `is_over` says so the state is saved, for `resume` to go on with.
        """
        self.begin()
        result = self.validate() if self.config.optimizer.updates == 0 else {}
        while self.goes_on:
            self.train_update()
            line = self.after_update()
            result = line.get("validation", result)
            report(self.update, line)
            # What the language model has read for the next updates is not stored.
            if self.goes_on and self.update % self.config.encode_interval == 0 and is_over():
                self.pause()
                break
        self.metrics.close()
        self.processes.meet()
        return result

    def begin(self) -> None:
        """Claim the folder and start the clock."""
        if not self.claimed and holds_a_run(self.folder):
            raise UserError(f"{self.folder} holds a run: resume() goes on with it")
        self.claimed = True
        rows = min(len(self.splits.validation), self.config.eval_rows)
        if rows < self.processes.count:
            raise UserError(
                f"{self.processes.count} processes cannot share {rows} validation puzzles: raise "
                "--eval-rows, or start fewer"
            )
        for part in ("last", "best"):  # found out now, not at the first save
            check_replaceable(self.folder / part)
        self._begun = time.monotonic() - self.seconds
        if self.processes.first:
            write_text(self.folder / "config.json", to_json(self.config))

    @property
    def goes_on(self) -> bool:
        """Whether there are updates left."""
        return self.update < self.config.optimizer.updates and not self.stopped_early

    def after_update(self) -> dict:
        """What an update ends with when it is due: a line of metrics, a validation, a save."""
        config, last = self.config, self.update == self.config.optimizer.updates
        validating = self.update % config.eval_every == 0 or last
        line: dict = {}
        if self.update % config.log_every == 0 or validating:
            line = self._line()
            if validating:
                line["validation"] = self.validate()
            self.seconds = time.monotonic() - self._begun
            line["seconds"] = round(self.seconds, 2)
            if self.processes.first:
                self.metrics.write(line)
        if self.update % config.save_every == 0 or last or self.stopped_early:
            self.seconds = time.monotonic() - self._begun
            self.save()
        return line

    @property
    def stopped_early(self) -> bool:
        """Whether validation has not got better for too long."""
        return 0 < self.config.patience <= self.evals_without_gain

    def _line(self) -> dict:
        """A line of metrics over all processes, for the window that ends here."""
        sums = self.step_runner.metric_sums
        sums.set(self._global_metric_sums())
        line = sums.read()
        sums.reset()
        K_p, h = scheduled(self.update - 1, self.config).stage
        return {"update": self.update, **line, "K_p": K_p, "h": h}

    def _global_metric_sums(self) -> list[Tensor]:
        """The sums over all processes; refuses what is not finite, on all of them."""
        sums = self.step_runner.metric_sums
        whole = [tensor.clone() for tensor in sums.tensors()]
        self.processes.add_up(whole)
        if sums.bad(whole[0]):
            raise NotFiniteError(
                f"a loss or gradient of {self.folder} up to update {self.update} was not finite"
            )
        return whole

    def validate(self) -> dict:
        """Exact rate on validation puzzles; the best so far is kept as `best/`.

        Of equal rates that of the lowest mean energy is the best: few puzzles are often all solved.
        """
        config, processes = self.config, self.processes
        table = self.splits.validation[: config.eval_rows]
        current = {n: w.clone() for n, w in trained_weights(self.model).items()}
        load_weights(self.model, self.step_runner.optimizer.average, self.folder)
        part = table[processes.rank :: processes.count]
        with torch.compiler.set_stance("force_eager"):  # other batch sizes than training's
            parts = processes.gather(evaluate(self.model, part, [config.eval_steps])[0])
        summary = join(parts).summary()
        if self.text_kl is not None:
            summary["text_kl"] = self.text_kl.measure()
        self.evals_without_gain += self.best > 0  # while nothing is solved, nothing can be lost
        exact, energy = summary["exact"], summary.get("energy")
        lower = energy is not None and (self.best_energy is None or energy < self.best_energy)
        if exact > self.best:
            self.evals_without_gain = 0
        if exact > self.best or (exact == self.best and lower):
            self.best, self.best_energy = exact, energy
            notes = {"update": self.update, "method": config.method, "validation": summary}
            if processes.first:
                save_model(self.model, self.folder / "best", to_json(config), notes)
        load_weights(self.model, current, self.folder)
        return summary

    # -------------------------------------------------------------- keep and resume
    def save(self) -> None:
        """The complete training state, as `last/`."""
        runner, sums = self.step_runner, self._global_metric_sums()
        if self.processes.first:
            counters = {
                "update": self.update, "best": self.best, "best_energy": self.best_energy,
                "evals_without_gain": self.evals_without_gain, "seconds": self.seconds,
            }  # fmt: skip
            save_state(
                self.folder / "last", self.config, trained_weights(self.model),
                runner.optimizer.average, optimizer_tensors(runner.optimizer),
                sums, counters, runner.objective.tensors(),
            )  # fmt: skip
            write_text(self.folder / _SAVED, "")

    def pause(self) -> None:
        """Save between two saves; the clock stops until the run is resumed."""
        self.seconds = time.monotonic() - self._begun
        self.save()

    def resume(self) -> None:
        """Go on from `last/`; from the start when a kill came before the first checkpoint."""
        folder, runner = find_folder(self.folder / "last"), self.step_runner
        if folder is None:
            self._check_unsaved()
        else:
            weights, average, moments, sums, counters, carried = load_state(
                folder, self.config, self.device
            )
            own_states = runner.objective.tensors()
            if carried and (strange := sorted(set(carried) ^ set(own_states))):
                raise UserError(
                    f"{folder} holds the states of another version ({strange[0]}): the run cannot "
                    "go on; choose another folder to begin again"
                )
            for name, value in carried.items():
                own_states[name].copy_(value)
            load_weights(self.model, weights, folder)
            restore_optimizer(runner.optimizer, moments)
            if self.processes.first:  # the sums are those of all processes
                runner.metric_sums.set(sums)
            for name, own in runner.optimizer.average.items():
                own.copy_(average[name])
            self.update, self.best = counters["update"], counters["best"]
            self.best_energy = counters["best_energy"]
            self.seconds = counters["seconds"]
            self.evals_without_gain = counters["evals_without_gain"]
            if find_folder(self.folder / "best") is None:  # a state that was carried here alone
                self.best, self.best_energy = -1.0, None
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
