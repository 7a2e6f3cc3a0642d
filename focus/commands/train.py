"""`focus train`: run a recipe."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

from focus.commands.output import progress, progress_lines
from focus.data.sources import DATA_VARIABLE
from focus.errors import UserError
from focus.files import only_one
from focus.recipes import BACKBONES, METHODS, TASKS, TRMS, recipe
from focus.settings import Role, flag, walk
from focus.training.config import RunConfig, read_config
from focus.training.distributed import Processes
from focus.training.loop import NotFiniteError, Trainer, holds_a_run
from focus.training.memory import MemoryEstimate, memory_of
from focus.training.stack import Stack
from focus.training.time_limit import TimeLimit, time_limit

_MINUTE = 60.0


def train_signature(words: Sequence[str]) -> tuple[Callable[..., None], list[str]]:
    """The command for a recipe: its flags are the config's fields, with the recipe's defaults."""
    if not words or words[0].startswith("-"):
        raise UserError(f"name a recipe: focus train TASK[/BACKBONE][/METHOD], {_choices()}")
    base, name = recipe(words[0]), words[0].replace("/", "-")
    if words[0].endswith(".json"):
        name = Path(words[0]).absolute().parent.name
    folder = f"runs-out/{name}"
    if "--resume" in words and (stored := _stored(words, folder)):
        _check_same(base, stored)
        base = stored

    def train(
        config: Annotated[RunConfig, tyro.conf.arg(name=""), tyro.conf.FlagConversionOff] = base,
        out: str = folder,
        seeds: tuple[int, ...] = (),
        resume: bool = False,
        minutes: float | None = None,
    ) -> None:
        """Train by a recipe.

        Args:
            config: the run.
            out: folder of the run: config, metrics, checkpoints.
            seeds: train one run for each seed, all of them together on one GPU, in folders
                OUT/seed-N; for updates so small that a single run leaves the GPU idle.
            resume: go on with the run in that folder, or with the runs of its seeds, by their own
                config.
            minutes: save and end when this call has taken so long; --resume goes on.
        """
        _check_method(config, base)
        if resume and not (seeds or holds_a_run(Path(out))):
            seeds = tuple(int(folder.name.removeprefix("seed-")) for folder in _of_seeds(out))
        if seeds:
            run_seeds(config, Path(out), seeds, resume, minutes)
        else:
            run(config, Path(out), resume, minutes)

    return train, list(words[1:])


def _stored(words: Sequence[str], default: str) -> RunConfig | None:
    """The config of the run that is to go on, so that its flags need not be given again."""
    given = [word.removeprefix("--out=") for word in words if word.startswith("--out=")]
    if "--out" in words[:-1]:
        given.append(words[words.index("--out") + 1])
    out = Path(given[-1] if given else default)
    configs = (config for folder in (out, *_of_seeds(out)) for config in _configs(folder))
    return next((read_config(path) for path in configs), None)


def _configs(run: Path) -> list[Path]:
    """Where a run has its config: beside its state, and in it, which may be here alone."""
    return [path for path in (run / "config.json", run / "last" / "config.json") if path.is_file()]


def _of_seeds(out: str | Path) -> list[Path]:
    """The folders of the runs that `--seeds` has begun there."""
    folders = sorted(Path(out).glob("seed-*"))
    return [one for one in folders if one.name[5:].isdecimal() and _configs(one)]


def _check_same(named: RunConfig, stored: RunConfig) -> None:
    """Refuse to go on with a run of another task, or with a TRM as an updater.

    Backbone and method may be other than the recipe's, by flags that need not be given again.
    """
    for ours, theirs in ((named.task.name, stored.task.name), (_kind(named), _kind(stored))):
        if ours != theirs:
            raise UserError(
                f"--resume: the folder holds a run of {theirs}, not of {ours}; choose another --out"
            )


def _kind(config: RunConfig) -> str:
    return "a TRM" if config.solver.answer == "trm" else "a solver"


def _check_method(config: RunConfig, base: RunConfig) -> None:
    """Refuse flags that make another method of a recipe, unless they give it another name."""

    def settings(one: RunConfig) -> dict[str, object]:
        lengths = ("steps", "eval_steps") if min(config.steps, base.steps) > 1 else ("eval_steps",)
        free = ("method", "solver.updater.bptt_gradient_scale", *lengths)  # of any method
        return {
            name: value for name, role, value in walk(one)
            if role is Role.METHOD and name not in free
        }  # fmt: skip

    ours, theirs = settings(config), settings(base)
    changed = [f"--{flag('', name)}" for name in ours if ours[name] != theirs.get(name)]
    if bool(changed) == (config.method != base.method) and config.method not in METHODS:
        return
    if changed:
        raise UserError(
            f"with {', '.join(changed)} it is no longer the method {base.method}: give it a name "
            "of its own, for instance --method mine"
        )
    if config.method != base.method:
        raise UserError(
            f"--method {config.method}: these are the settings of {base.method}; a recipe is "
            "TASK[/BACKBONE][/METHOD]"
        )


def _choices() -> str:
    return (
        f"with a task of {', '.join(TASKS)}; a backbone of {', '.join(BACKBONES)}; "
        f"a method of {', '.join(METHODS)}; or a TRM: {', '.join(TRMS)}"
    )


def train() -> None:
    """Train a solver by a recipe, in a folder that can be resumed.

    focus train TASK[/BACKBONE][/METHOD] [flags], with a task of sudoku, maze (the paper's
    settings), sudoku-quick and maze-quick (minutes on a GPU), mini-sudoku and mini-maze (minutes
    on a CPU); a task of another package goes by its own name.
    Without a backbone there is no language model, without a method it is FOCUS:
    mini-sudoku takes a minute on a CPU, sudoku/qwen3-1.7b is the paper's main run,
    maze/smollm2-135m/random one of its comparisons.
    focus train trm-TASK trains a TRM, the paper's teacher and a baseline of its own; with /focus,
    /random or /energy-hard behind the name, its own carried states are replayed.
    focus train RECIPE --help lists every field of the run as a flag, with the recipe's value.
    Several processes: torchrun --nproc-per-node N -m focus train RECIPE.
    """


def run(config: RunConfig, folder: Path, resume: bool, minutes: float | None) -> None:
    """Train, with a live line of progress."""
    is_over = time_limit(minutes)
    if holds_a_run(folder) and not resume:
        raise UserError(f"{folder} holds a run; add --resume to go on, or choose another --out")
    if folder.is_file():
        raise UserError(f"{folder} is a file; --out takes a folder")
    device, config = _device(), _at_home(config)
    processes = Processes.join(device)
    try:
        if minutes is not None and processes.count > 1:
            raise UserError("--minutes is for one process: the clocks of several differ")
        announce = _say_memory if processes.first and device != "cpu" else lambda estimate: None
        with progress_lines(processes.first, logged=True) as tell:
            trainer = Trainer(config, folder, device, processes, announce, tell)
        with only_one(folder) if processes.first else nullcontext():
            if resume:
                trainer.resume()
            if resume and processes.first:
                who = f"{config.task.name}, {config.solver.backbone.name}, {config.method}"
                resumed = f"going on after update {trainer.update:,} ({who})"
                Console(stderr=True).print(
                    resumed
                    if trainer.update
                    else f"nothing was saved in {folder} yet: from the start"
                )
            if processes.first:
                sampler = trainer.step_runner.sampler
                own, all_rows = sampler.own_rows, len(sampler.rows)
                more = f" and {all_rows - own:,} more" if all_rows > own else ""
                say = f"training on {own:,} puzzles{more}; source: {trainer.splits.source}"
                Console(stderr=True).print(say)
            with _one_line_ends(folder):
                result = _train(trainer, is_over)
    finally:
        processes.leave()
    if not processes.first:
        return
    if trainer.goes_on:
        _say_time_is_over(folder, trainer)
    if trainer.stopped_early:
        print(
            f"{folder}: ended at update {trainer.update}; validations in a row without a better "
            f"one: {trainer.evals_without_gain} (--patience {config.patience})"
        )
    if result:
        low, high = result["low"], result["high"]
        print(
            f"{folder}: validation exact {result['exact']:.3f} [{low:.3f}, {high:.3f}] at "
            f"K = {result['steps']} on {result['n']} puzzles; best {trainer.best:.3f}"
        )
    elif not trainer.goes_on:
        print(f"{folder}: nothing left to do")


@contextmanager
def _one_line_ends(folder: Path) -> Iterator[None]:
    """What ends a training is said in a line: numbers that are none, a GPU that is full."""
    try:
        yield
    except NotFiniteError as error:
        saved = any(folder.glob("**/last"))
        what = f"what {folder} saved last is kept" if saved else "nothing was saved yet"
        raise SystemExit(f"focus train: stopped: {error}; {what}") from error
    except torch.OutOfMemoryError as error:
        raise SystemExit(
            "focus train: the GPU's memory is full; raise --optimizer.accumulate (smaller "
            "mini-batches), set --solver.backbone.gradient-checkpointing True, or train fewer "
            "--seeds together"
        ) from error


def _say_time_is_over(folder: Path, trainer: Trainer) -> None:
    updates = trainer.config.optimizer.updates
    print(f"{folder}: saved at update {trainer.update:,} of {updates:,}; --resume goes on")


def run_seeds(
    config: RunConfig, folder: Path, seeds: Sequence[int], resume: bool, minutes: float | None
) -> None:
    """Train one run for each seed, all together, with one live line of progress."""
    is_over = time_limit(minutes)
    runs = {folder / f"seed-{seed}": replace(_at_home(config), seed=seed) for seed in seeds}
    if len(runs) < len(seeds):
        raise UserError("--seeds names a seed twice")
    if not config.optimizer.updates:
        raise UserError("--seeds trains several runs: optimizer.updates must be at least 1")
    if not resume and (used := next(filter(holds_a_run, runs), None)):
        raise UserError(f"{used} holds a run; add --resume to go on, or choose another --out")
    with only_one(folder), _one_line_ends(folder):
        with progress_lines(logged=True) as tell:
            stack = Stack(runs, _device(), tell)
        what, end = f"{len(runs)} runs", config.optimizer.updates
        with progress_lines() as tell:
            tell(what, min(trainer.update for trainer in stack.trainers), end)
            stack.run(lambda update, lines: tell(what, update, end), is_over)
    for trainer in stack.trainers:
        if trainer.goes_on:
            _say_time_is_over(trainer.folder, trainer)
        else:
            print(f"{trainer.folder}: best validation {trainer.best:.3f}")


def _device() -> str:
    if not torch.cuda.is_available():
        return "cpu"
    device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    torch.cuda.set_device(device)
    return device


def _at_home(config: RunConfig) -> RunConfig:
    """Source and backbone are part of the run: it must find the same ones from any folder."""
    data = os.path.expanduser(config.data or os.environ.get(DATA_VARIABLE) or "generated")
    config = replace(config, data=os.path.abspath(data) if os.path.exists(data) else data)
    backbone = config.solver.backbone
    if os.path.isdir(backbone.name):
        backbone = replace(backbone, name=os.path.abspath(backbone.name))
        config = replace(config, solver=replace(config.solver, backbone=backbone))
    return config


def _say_memory(needed: MemoryEstimate) -> None:
    """Say how much GPU memory the run will take, and what to do when there is less."""
    there = memory_of(f"cuda:{torch.cuda.current_device()}")
    console = Console(stderr=True)
    console.print(f"GPU memory: {needed}; this one has {there:.0f} GiB")
    if needed.total > there:
        console.print(
            "that may not fit: raise --optimizer.accumulate (smaller mini-batches)", style="bold"
        )


def _train(trainer: Trainer, is_over: TimeLimit) -> dict:
    columns = (
        TextColumn("{task.completed:>6}/{task.total}"), BarColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[rate]}"),
        TextColumn("loss {task.fields[loss]:.4f}  exact {task.fields[exact]:.3f}"),
        TextColumn("replay {task.fields[replayed]:.2f}"), TextColumn("{task.fields[note]}"),
    )  # fmt: skip
    hidden = not trainer.processes.first
    with progress(*columns, shown=not hidden) as bar:
        line = bar.add_task(
            "", total=trainer.config.optimizer.updates, completed=trainer.update,
            rate="", loss=0.0, exact=0.0, replayed=0.0, note="",
        )  # fmt: skip

        logged_at = time.monotonic()

        def tell(update: int, metrics: dict) -> None:
            """In a log a line at each validation, and at least one in a minute."""
            nonlocal logged_at
            if metrics and ("validation" in metrics or time.monotonic() - logged_at > _MINUTE):
                logged_at = time.monotonic()
                words = [f"{name} {metrics[name]:.3f}" for name in ("loss", "exact")]
                if "validation" in metrics:
                    words.append(f"validation {metrics['validation']['exact']:.3f}")
                words.append(f"{metrics['seconds']:.0f} s")
                print(f"update {update:,}: {', '.join(words)}", file=sys.stderr, flush=True)

        def report(update: int, metrics: dict) -> None:
            if not hidden and not bar.console.is_terminal:
                tell(update, metrics)
            shown = {name: metrics[name] for name in ("loss", "exact", "replayed") if metrics}
            if "validation" in metrics:
                shown["note"] = f"validation {metrics['validation']['exact']:.3f}"
            speed = bar.tasks[0].speed
            shown["rate"] = f"{speed:.1f}/s" if speed else ""
            bar.update(line, completed=update, **shown)

        return trainer.run(report, is_over)
