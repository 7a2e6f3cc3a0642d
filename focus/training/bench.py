"""How fast a recipe trains and solves, and where the time goes.

Times are medians of repeats after warm-ups, with the device drained before and after each.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from focus.curation.algorithm import SelfTrajectory
from focus.curation.config import Stage
from focus.data.corpus import CorpusConfig
from focus.errors import UserError
from focus.model.base import evaluating
from focus.model.precision import mixed_precision
from focus.model.pretrained import random_name
from focus.model.solver import Solver, solver_of
from focus.training.config import RunConfig, TeacherConfig
from focus.training.loop import Trainer
from focus.training.memory import estimate_memory
from focus.training.objectives.curated import selector_of
from focus.training.schedule import Scheduled, scheduled
from focus.training.stack import Stack, StackedRuns

_MATRIX = 8192  # side of the matrices whose product measures the device
_IN_A_ROW = 4  # updates that are timed together on a GPU


def seconds_of(work: Callable[[], Any], device: str, repeats: int, warm_ups: int = 2) -> float:
    """Median wall-clock seconds of some work on a device."""
    taken = []
    for number in range(warm_ups + repeats):
        _drain(device)
        start = time.perf_counter()
        work()
        _drain(device)
        if number >= warm_ups:
            taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def _seconds_in_training(work: Callable[[], Any], device: str, repeats: int) -> float:
    """Seconds of work that training repeats: on a GPU some overlaps with launching the next."""
    in_a_row = 1 if device == "cpu" else _IN_A_ROW

    def some() -> None:
        for _ in range(in_a_row):
            work()

    return seconds_of(some, device, repeats) / in_a_row


def _drain(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def matrix_rate(device: str) -> float:
    """TFLOP/s of a large matrix product in the working precision."""
    side = _MATRIX if device != "cpu" else 1024
    dtype = torch.bfloat16 if device != "cpu" else torch.float32
    one = torch.randn(side, side, device=device, dtype=dtype)
    return 2 * side**3 / seconds_of(lambda: one @ one, device, 5) / 1e12


def _as_measured(config: RunConfig) -> RunConfig:
    """The run without what takes long to make and does not change how long an update takes."""
    if not config.optimizer.updates:
        raise UserError("there is nothing to measure: optimizer.updates is 0")
    if config.solver.answer == "written":
        raise UserError("a model that writes has no steps to measure; name another method")
    return replace(config, corpus=CorpusConfig(), teacher=TeacherConfig())


def with_random_weights(config: RunConfig) -> RunConfig:
    """The run with a language model of the same shape that needs no file."""
    backbone = config.solver.backbone
    name = random_name(backbone.name)
    return replace(config, solver=replace(config.solver, backbone=replace(backbone, name=name)))


def bench_train(config: RunConfig, device: str, repeats: int, eager: bool = True) -> dict:
    """Updates/s without replay and with it at every stage, against the eager step on a GPU."""
    config = _as_measured(config)
    result: dict[str, Any] = {"batch": config.optimizer.batch, "steps": config.steps}
    if device == "cpu":
        rates = result["eager"] = _rates(config, device, repeats)
    else:
        torch.cuda.reset_peak_memory_stats()
        rates = result["captured"] = _rates(replace(config, capture=True), device, repeats)
        result["peak_gib"] = round(torch.cuda.max_memory_reserved() / 2**30, 2)
        if eager:
            slow = result["eager"] = _rates(replace(config, capture=False), device, repeats)
            ratio = rates["updates_per_second"]["base"] / slow["updates_per_second"]["base"]
            result["captured_over_eager"] = round(ratio, 2)
    rate = matrix_rate(device)
    result["matrix_tflops"] = round(rate, 1)
    result["share_of_matrix_rate"] = round(rates["tflops"] / rate, 3)
    return result


def _rates(config: RunConfig, device: str, repeats: int) -> dict[str, Any]:
    start = time.perf_counter()
    trainer = Trainer(config, Path("."), device)
    runner, interval = trainer.step_runner, config.encode_interval
    apart = ("updater",) if interval > 1 else ()  # it learns more often than the adapter
    backbone = trainer.model.ahead_encoder()

    def read(minibatch: int, rows: slice) -> None:
        assert backbone is not None
        example = runner.sampler.examples(minibatch, rows, device)
        hidden = backbone.read(runner.sampler.problems(torch.zeros_like(example), example))
        if hidden.requires_grad:
            hidden.backward(torch.ones_like(hidden))

    def encode() -> None:
        for minibatch, rows in trainer.local_minibatches:
            if runner.encoder_cache is None:  # inside the captured update
                runner.graphs.run(("read", minibatch), partial(read, minibatch, rows))
            else:
                runner.encode(0, minibatch, rows)
                runner.backward_encoder(1)

    def updates(replays: bool, stage: Stage) -> None:
        """All updates between two encodings: a TRM at its own depth, weights that stay."""
        now = Scheduled(0.0, stage, float(replays), scheduled(0, config).teacher_weight, None)
        for _ in range(interval):
            trainer.train_update(now)

    def timed(replays: bool, stage: Stage) -> float:
        work = partial(updates, replays, stage)
        return _seconds_in_training(work, device, repeats) / interval

    first_stage = scheduled(0, config).stage  # where base rollouts begin may depend on it
    updates(False, first_stage)
    _drain(device)
    first = time.perf_counter() - start  # puzzles read, weights loaded, code compiled
    base = timed(False, first_stage)
    rates, selection = {"base": round(1 / base, 2)}, {}
    if config.replay.method != "none" and not config.deep_supervision.steps:
        for name, stage in _stages(config):
            replayed = timed(True, stage)
            rates[name] = round(1 / replayed, 2)
            if config.replay.selects:
                choosing = _selection(trainer, stage)[1]
                choose = partial(runner.graphs.run, choosing, choosing)
                taken = _seconds_in_training(choose, device, repeats)
                selection[name] = round(len(trainer.local_minibatches) * taken / replayed, 3)
    finish = _seconds_in_training(lambda: runner.finish(1, *apart), device, repeats)
    encoding = _seconds_in_training(encode, device, repeats) / interval if backbone else 0.0
    flops = solver_of(trainer.model, config.recipe).update_flops(
        config.steps, config.updates_per_encode
    )
    return {
        "first_update_seconds": round(first, 1),
        "estimated_gib": round(estimate_memory(trainer.model, config).total, 2),
        "updates_per_second": rates,
        "puzzles_per_second": round(config.optimizer.batch / base),
        "tflops": round(flops * config.optimizer.batch / base / 1e12, 3),
        "share": {
            "language_model": round(encoding / base, 3),
            "optimizer": round(finish / base, 3),
            "updater": round(max(0.0, base - encoding - finish) / base, 3),
        },
        **({"share_of_selection": selection} if selection else {}),
    }


def bench_stack(config: RunConfig, together: int, device: str, repeats: int) -> dict:
    """Updates/s of runs that are trained together, without replay and with it at every stage."""
    config = _as_measured(config)
    runs = {Path(f"run-{n}"): replace(config, seed=config.seed + n) for n in range(together)}
    stack = StackedRuns(Stack(runs, device).trainers, device)
    for trainer in stack.trainers:  # weights that stay where they are
        trainer.step_runner.begin(0, replace(scheduled(0, config), learning_rate_share=0.0))
    stack.solver.train()
    kinds = [("base", False, scheduled(0, config).stage)]
    if config.replay.method != "none":
        kinds += [(name, True, stage) for name, stage in _stages(config)]
    rates = {}
    for name, replays, stage in kinds:
        move = partial(stack.move, replays, stage)
        rates[name] = round(1 / _seconds_in_training(move, device, repeats), 2)
    result = {"together": together, "batch": config.optimizer.batch, "updates_per_second": rates}
    if device != "cpu":
        result["peak_gib"] = round(torch.cuda.max_memory_reserved() / 2**30, 2)
    return result


def _stages(config: RunConfig) -> list[tuple[str, Stage]]:
    """The name of each stage of replay, and the stage."""
    stages = dict.fromkeys(Stage(K_p, h) for _, K_p, h in config.replay.stages)
    return [(f"K_p {stage.K_p}, h {stage.h}", stage) for stage in stages]


def _selection(trainer: Trainer, stage: Stage) -> tuple[Callable[[], None], ...]:
    """Rolling out for a selection, and all of it: rolling out, scoring and choosing."""
    config, runner = trainer.config, trainer.step_runner
    solver = solver_of(trainer.model, config.recipe)
    if not config.replay.selects:
        raise UserError(f"replay.method {config.replay.method} selects no visited states")
    choose = SelfTrajectory(selector_of(config), config.curation)
    example = torch.arange(
        config.optimizer.batch // config.optimizer.accumulate, device=trainer.device
    )
    batch = runner.sampler.batch(runner.update, torch.zeros_like(example), example)
    with torch.no_grad():
        conditioning = solver.encode(batch.x)

    @torch.no_grad()
    def roll() -> None:
        with mixed_precision(solver.device), evaluating(solver):
            solver.roll(solver.updater.initial(batch.x), conditioning, batch.x, stage.K_p)

    @torch.no_grad()
    def all_of_it() -> None:
        with mixed_precision(solver.device):
            choose(solver, batch, conditioning, stage)

    return roll, all_of_it


def bench_select(config: RunConfig, device: str, repeats: int) -> dict:
    """What selection costs over the steps that it rolls out, per stage."""
    config = _as_measured(config)
    trainer = Trainer(config, Path("."), device)
    stages = {}
    for name, stage in _stages(config):
        rolling, all_of_it = (
            seconds_of(partial(trainer.step_runner.graphs.run, work, work), device, repeats)
            for work in _selection(trainer, stage)
        )
        stages[name] = round(all_of_it / rolling, 3)
    return {"selection_over_its_steps": stages}


def bench_solve(solver: Solver, steps: int, batch: int, device: str, repeats: int) -> dict:
    """Seconds for one puzzle and puzzles/s in a batch, encoder included."""
    task = solver.task
    questions = task.generate(0, 0, batch, task.generator_modes[0])[0]
    one = seconds_of(lambda: solver.answer(questions[:1], steps), device, repeats)
    many = seconds_of(lambda: solver.answer(questions, steps, batch), device, max(1, repeats // 2))
    return {
        "steps": steps, "seconds_one": round(one, 3), "batch": len(questions),
        "puzzles_per_second": round(len(questions) / many, 1),
    }  # fmt: skip
