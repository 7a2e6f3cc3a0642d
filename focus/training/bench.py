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

from focus.curation.replay import select
from focus.errors import UserError
from focus.model.backbone import LanguageModel
from focus.model.checkpoint import Model
from focus.model.precision import mixed_precision
from focus.model.solver import Solver, evaluating
from focus.model.trm import TRM
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


def bench_train(config: RunConfig, device: str, repeats: int, eager: bool = True) -> dict:
    """Updates/s without replay and with it at every stage, against the eager step on a GPU."""
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
    step = trainer.on_device
    in_round = config.round > 1

    def read() -> None:
        for minibatch, mine in trainer.share:
            step.read(0, minibatch, mine)
            step.teach(1)

    def updates(replaying: bool, K_p: int, h: int) -> None:
        """A round."""
        step.begin(0, 0.0)
        for source in range(config.round):
            for minibatch, mine in trainer.share:
                if source == 0:
                    step.read(0, minibatch, mine)
                slot = source % config.read_ahead
                step.accumulate(slot, minibatch, mine, replaying, K_p, h)
                if source == config.round - 1:
                    step.teach(config.round)
            if in_round:
                step.finish(1, "updater")
        step.finish(1, *(("adapter",) if in_round else ()))

    def timed(replaying: bool, K_p: int, h: int) -> float:
        return seconds_of(lambda: updates(replaying, K_p, h), device, repeats) / config.round

    updates(False, 0, 1)
    _drain(device)
    first = time.perf_counter() - start  # puzzles read, weights loaded, code compiled
    base = timed(False, 0, 1)
    rates, selection = {"base": round(1 / base, 2)}, {}
    if config.replay.method != "none" and not config.carry.steps:
        for name, K_p, h in _stages(config):
            replayed = timed(True, K_p, h)
            rates[name] = round(1 / replayed, 2)
            if config.replay.method != "fixed-mix":
                choosing = _selection(trainer, K_p, h)[1]
                taken = seconds_of(partial(step.run, choosing, choosing), device, repeats)
                selection[name] = round(len(trainer.share) * taken / replayed, 3)
    finish = seconds_of(
        lambda: step.finish(1, *(("updater",) if in_round else ())), device, repeats
    )
    reading = seconds_of(read, device, repeats) / config.round if step.reading else 0.0
    return {
        "first_update_seconds": round(first, 1),
        "updates_per_second": rates,
        "puzzles_per_second": round(config.optimizer.batch / base),
        "tflops": round(update_flops(trainer.model, config) / base / 1e12, 3),
        "share": {
            "language_model": round(reading / base, 3),
            "optimizer": round(finish / base, 3),
            "updater": round(max(0.0, base - reading - finish) / base, 3),
        },
        **({"share_of_selection": selection} if selection else {}),
    }


def step_flops(solver: Solver) -> float:
    """Operations of one step of one puzzle: products with weights, attention scores not counted.

    An MLP over the tokens is applied to each number of a token.
    """
    updater, tokens = solver.updater, solver.task.tokens
    if not isinstance(updater, TRM):
        return 2 * sum(p.numel() for p in updater.parameters() if p.ndim == 2) * tokens
    each = sum(
        2 * weight.numel() * (updater.config.width if ".mix." in name else tokens)
        for name, weight in updater.net.named_parameters()
    )
    return each * (updater.config.inner + 1) * updater.config.outer


def update_flops(model: Model, config: RunConfig) -> float:
    """Operations of a base update.

    Updater: forward and two products back. TRM: every cycle forward, the last one back. Language
    model: its weights are frozen, so 4 for each weight and token of the prompt (2 when it is frozen
    as a whole), once for `passes` updates; the adapter's own products are not counted.
    """
    if not isinstance(model, Solver):
        raise UserError("a model that writes its answer is not measured here")
    trm = model.updater if isinstance(model.updater, TRM) else None
    back = 2 / trm.config.outer if trm is not None else 2
    each = (1 + back) * step_flops(model) * config.steps
    if isinstance(model.backbone, LanguageModel):
        layers = model.backbone.decoder().layers
        weights = sum(p.numel() for p in layers.parameters() if p.ndim == 2 and not p.requires_grad)
        per_token = (2 if model.backbone.frozen else 4) * weights
        each += per_token * len(model.backbone.prompt.template) / config.passes
    return each * config.optimizer.batch


def _batch(trainer: Trainer, size: int):
    example = torch.arange(size, device=trainer.device)
    x, y = trainer.on_device.batch(torch.zeros_like(example), example)
    return x, y, example_keys(trainer.config.seed, 0, example)


def _stages(config: RunConfig) -> list[tuple[str, int, int]]:
    """The name, K_p and h of each stage of replay."""
    stages = dict.fromkeys((K_p, h) for _, K_p, h in config.replay.stages)
    return [(f"K_p {K_p}, h {h}", K_p, h) for K_p, h in stages]


def _selection(trainer: Trainer, K_p: int, h: int) -> tuple[Callable[[], None], ...]:
    """Rolling out for a selection, and all of it: rolling out, scoring and choosing."""
    config, solver = trainer.config, trainer.model
    if not isinstance(solver, Solver):
        raise UserError("a model that writes its answer selects no states")
    x, y, keys = _batch(trainer, config.optimizer.batch // config.optimizer.accumulate)
    with torch.no_grad():
        conditioning = solver.encode(x)

    @torch.no_grad()
    def roll() -> None:
        with mixed_precision(x.grid.device), evaluating(solver):
            solver.roll(solver.updater.initial(x), conditioning, x, K_p)

    @torch.no_grad()
    def choose() -> None:
        with mixed_precision(x.grid.device):
            select(solver, x, y, conditioning, K_p, h, selector_of(config), config.curation, keys)

    return roll, choose


def bench_select(config: RunConfig, device: str, repeats: int) -> dict:
    """What selection costs over the steps that it rolls out, per stage."""
    trainer = Trainer(config, Path("."), device)
    stages = {}
    for name, K_p, h in _stages(config):
        rolling, all_of_it = (
            seconds_of(partial(trainer.on_device.run, work, work), device, repeats)
            for work in _selection(trainer, K_p, h)
        )
        stages[name] = round(all_of_it / rolling, 3)
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
