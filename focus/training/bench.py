"""How fast a recipe trains and solves, and where the time goes.

Times are medians of repeats after warm-ups, with the device drained before and after each.
"""

import statistics
import time
import typing
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from focus.curation.replay import select
from focus.errors import UserError
from focus.model.solver import Solver, evaluating
from focus.random import example_keys
from focus.training.config import RunConfig
from focus.training.loop import Trainer
from focus.training.update import selector_of

_MATRIX = 8192  # side of the matrices whose product measures the device


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


def _drain(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def matrix_rate(device: str) -> float:
    """TFLOP/s of a large matrix product in the working precision."""
    side = _MATRIX if device != "cpu" else 1024
    dtype = torch.bfloat16 if device != "cpu" else torch.float32
    one = torch.randn(side, side, device=device, dtype=dtype)
    return 2 * side**3 / seconds_of(lambda: one @ one, device, 5) / 1e12


def bench_train(config: RunConfig, device: str, repeats: int) -> dict:
    """Updates/s without replay and with it at every stage, against the eager step on a GPU."""
    result: dict[str, Any] = {"batch": config.optimizer.batch, "steps": config.steps}
    if device == "cpu":
        result["eager"] = _rates(config, device, repeats)
    else:
        torch.cuda.reset_peak_memory_stats()
        result["captured"] = _rates(replace(config, capture=True), device, repeats)
        result["peak_gib"] = round(torch.cuda.max_memory_reserved() / 2**30, 2)
        result["eager"] = _rates(replace(config, capture=False), device, repeats)
        captured, eager = (
            result[name]["updates_per_second"]["base"] for name in ("captured", "eager")
        )
        result["captured_over_eager"] = round(captured / eager, 2)
    result["matrix_tflops"] = round(matrix_rate(device), 1)
    return result


def _rates(config: RunConfig, device: str, repeats: int) -> dict[str, Any]:
    trainer = Trainer(config, Path("."), device)
    step = trainer.on_device

    def timed(replaying: bool, K_p: int, h: int) -> float:
        def update() -> None:
            step.begin(0, 0.0)
            for minibatch, mine in trainer.share:
                step.accumulate(minibatch, mine, replaying, K_p, h)
            step.finish(1)

        return seconds_of(update, device, repeats)

    base = timed(False, 0, 1)
    rates = {"base": round(1 / base, 2)}
    if config.replay.method != "none":
        for K_p, h in dict.fromkeys((K_p, h) for _, K_p, h in config.replay.stages):
            rates[f"K_p {K_p}, h {h}"] = round(1 / timed(True, K_p, h), 2)
    result: dict[str, Any] = {
        "updates_per_second": rates,
        "puzzles_per_second": round(config.optimizer.batch / base),
        "optimizer_share": round(seconds_of(lambda: step.finish(1), device, repeats) / base, 3),
    }
    if isinstance(trainer.model, Solver):
        encode = seconds_of(lambda: step.run("encode", lambda: _encode(trainer)), device, repeats)
        result["encoder_share"] = round(encode / base, 3)
    return result


def _batch(trainer: Trainer, size: int):
    example = torch.arange(size, device=trainer.device)
    keys = example_keys(trainer.config.seed, 0, example)
    return (*trainer.on_device.batch(keys, example), keys)


def _encode(trainer: Trainer) -> None:
    """The encoder, forward and backward."""
    x, _, _ = _batch(trainer, trainer.config.optimizer.batch // trainer.config.optimizer.accumulate)
    model = typing.cast(Solver, trainer.model)
    for _ in range(trainer.config.optimizer.accumulate):
        model.backbone(x).sum().backward()
    for weight in trainer.on_device.weights:
        assert weight.grad is not None
        weight.grad.zero_()


def bench_select(config: RunConfig, device: str, repeats: int) -> dict:
    """What selection costs over the steps that it rolls out, per stage."""
    trainer = Trainer(replace(config, capture=False, compile=False), Path("."), device)
    solver = trainer.model
    if not isinstance(solver, Solver):
        raise UserError("a model that writes its answer selects no states")
    x, y, keys = _batch(trainer, config.optimizer.batch // config.optimizer.accumulate)
    stages = {}
    with torch.no_grad():
        conditioning = solver.encode(x)
        for K_p, h in dict.fromkeys((K_p, h) for _, K_p, h in config.replay.stages):

            def roll(K_p=K_p) -> None:
                with evaluating(solver):
                    solver.roll(solver.updater.initial(x), conditioning, x, K_p)

            def choose(K_p=K_p, h=h) -> None:
                select(
                    solver, x, y, conditioning, K_p, h, selector_of(config), config.curation, keys
                )

            times = [seconds_of(work, device, repeats) for work in (roll, choose)]
            stages[f"K_p {K_p}, h {h}"] = round(times[1] / times[0], 3)
    return {"selection_over_its_steps": stages}


def bench_solve(solver: Solver, steps: int, batch: int, device: str, repeats: int) -> dict:
    """Seconds for one puzzle and puzzles/s in a batch, encoder included."""
    task = solver.task
    questions = task.generate(0, 0, batch, task.generator_modes[0])[0]
    one = seconds_of(lambda: solver.solve(questions[:1], steps), device, repeats)
    many = seconds_of(lambda: solver.solve(questions, steps, batch), device, max(1, repeats // 2))
    return {
        "steps": steps, "seconds_one": round(one, 3), "batch": len(questions),
        "puzzles_per_second": round(len(questions) / many, 1),
    }  # fmt: skip
