"""`focus bench`: how fast training, solving and selection are on this machine."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import torch
import tyro

from focus.commands.evaluate import CheckpointWord, load_checkpoint
from focus.commands.output import print_json
from focus.errors import UserError
from focus.model.solver import solver_of
from focus.recipes import recipe
from focus.training.bench import (
    bench_select,
    bench_solve,
    bench_stack,
    bench_train,
    with_random_weights,
)
from focus.training.config import RunConfig

_MOST = 100_000  # steps, puzzles at a time, repeats


def _device() -> str:
    return "cuda:0" if torch.cuda.is_available() else "cpu"


def _check(**numbers: int) -> None:
    for name, value in numbers.items():
        if not 1 <= value <= _MOST:
            raise UserError(f"--{name} takes a number from 1 to {_MOST:,}, not {value}")


def _show(result: dict, json: bool) -> None:
    """One JSON object, or a line per figure."""
    if json:
        print_json(result)
        return

    def lines(values: dict, indent: str) -> None:
        for name, value in values.items():
            if isinstance(value, dict):
                print(f"{indent}{name.replace('_', ' ')}")
                lines(value, indent + "  ")
            else:
                print(f"{indent}{name.replace('_', ' '):<24} {value:,}")

    lines(result, "")


def _recipe_of(words: Sequence[str], name: str) -> RunConfig:
    if not words or words[0].startswith("-"):
        raise UserError(f"name a recipe: focus bench {name} TASK[/BACKBONE][/METHOD]")
    return recipe(words[0])


def train_signature(words: Sequence[str]) -> tuple[Callable[..., None], list[str]]:
    """`focus bench train`, whose flags are the fields of a recipe's config."""
    base = _recipe_of(words, "train")

    def bench(
        config: Annotated[RunConfig, tyro.conf.arg(name=""), tyro.conf.FlagConversionOff] = base,
        together: int = 1,
        random_weights: bool = False,
        captured_only: bool = False,
        repeats: int = 5,
        json: bool = False,
    ) -> None:
        """Measure how fast a recipe trains on this machine.

        Args:
            config: the run.
            together: runs that are trained together, as `focus train --seeds` does.
            random_weights: a language model of the recipe's shape with random weights: as fast, and
                nothing to install. Its tokenizer is by characters, its prompt a little longer.
            captured_only: on a GPU, leave out the step without CUDA graphs (half of the time).
            repeats: measurements of each kind; the median counts.
            json: print one JSON object instead.
        """
        _check(repeats=repeats, together=together)
        if random_weights:
            config = with_random_weights(config)
        if together > 1:
            _show(bench_stack(config, together, _device(), repeats), json)
        else:
            _show(bench_train(config, _device(), repeats, not captured_only), json)

    return bench, list(words[1:])


def select_signature(words: Sequence[str]) -> tuple[Callable[..., None], list[str]]:
    """`focus bench select`, whose flags are the fields of a recipe's config."""
    base = _recipe_of(words, "select")

    def bench(
        config: Annotated[RunConfig, tyro.conf.arg(name=""), tyro.conf.FlagConversionOff] = base,
        repeats: int = 5,
        json: bool = False,
    ) -> None:
        """Measure what a recipe's selection costs on this machine.

        Args:
            config: the run.
            repeats: measurements of each kind; the median counts.
            json: print one JSON object instead.
        """
        _check(repeats=repeats)
        _show(bench_select(config, _device(), repeats), json)

    return bench, list(words[1:])


def train(json: bool = False) -> None:
    """Measure updates/s of a recipe: focus bench train TASK[/BACKBONE][/METHOD] [flags].

    A TRM is trm-TASK. Without replay and with it at every stage, captured and eager on a GPU,
    with the shares of the language model, the updater and the optimizer, that of selection in an
    update with replay, TFLOP/s beside those of a large matrix product, the peak memory, and how
    long the first update takes, compilation included. The help of a recipe lists every flag, such
    as --together and --random-weights: focus bench train sudoku --help.
    """


def select(json: bool = False) -> None:
    """Measure what state selection costs: focus bench select TASK[/BACKBONE] [flags].

    The time of rolling out, scoring and choosing over the time of rolling out alone, per stage.
    The help of a recipe lists every flag: focus bench select sudoku --help.
    """


def solve(
    checkpoint: CheckpointWord, steps: int | None = None, batch: int = 64,
    repeats: int = 5, json: bool = False,
) -> None:  # fmt: skip
    """Measure how fast a checkpoint solves puzzles.

    Args:
        checkpoint: a checkpoint folder, the folder of a run, or a hub id.
        steps: number of steps K; that of validation by default.
        batch: puzzles solved together.
        repeats: measurements; the median counts.
        json: print one JSON object instead.
    """
    _check(steps=1 if steps is None else steps, batch=batch, repeats=repeats)
    model, config = load_checkpoint(str(Path(checkpoint)), None)
    K = config.eval_steps if steps is None else steps
    _show(bench_solve(solver_of(model, checkpoint), K, batch, _device(), repeats), json)
