"""`focus train`: run a recipe."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from focus.errors import UserError
from focus.recipes import RECIPES, recipe
from focus.training.config import RunConfig
from focus.training.loop import NotFiniteError, Trainer


def train_signature(words: Sequence[str]) -> tuple[Callable[..., None], list[str]]:
    """The command for a recipe: its flags are the config's fields, with the recipe's defaults."""
    if not words or words[0].startswith("-"):
        raise UserError(f"name a recipe: focus train RECIPE, one of {', '.join(RECIPES)}")
    name, base = words[0], recipe(words[0])

    def train(
        config: Annotated[RunConfig, tyro.conf.arg(name=""), tyro.conf.FlagConversionOff] = base,
        out: str = f"runs-out/{name}",
        resume: bool = False,
    ) -> None:
        """Train a solver by a recipe.

        Args:
            config: the run.
            out: folder of the run: config, metrics, checkpoints.
            resume: go on with the run in that folder.
        """
        run(config, Path(out), resume)

    return train, list(words[1:])


def train() -> None:
    """Train a solver by a recipe, in a folder that can be resumed.

    focus train RECIPE [flags] with one of the recipes sudoku, maze (the paper's settings),
    mini-sudoku, mini-maze (minutes on a CPU). focus train RECIPE --help lists every field of
    the run as a flag, with the recipe's value.
    """


def run(config: RunConfig, folder: Path, resume: bool) -> None:
    """Train, with a live line of progress."""
    started = (folder / "config.json").exists()
    if started and not resume:
        raise UserError(f"{folder} holds a run; add --resume to go on, or choose another --out")
    trainer = Trainer(config, folder, "cuda" if torch.cuda.is_available() else "cpu")
    if resume:
        trainer.resume()
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.completed:>6}/{task.total}"), BarColumn(), TimeRemainingColumn(),
        TextColumn("loss {task.fields[loss]:.4f}  exact {task.fields[exact]:.3f}"),
        TextColumn("{task.fields[note]}"),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        line = bar.add_task("", total=config.optimizer.updates, loss=0.0, exact=0.0, note="")

        def report(update: int, metrics: dict) -> None:
            shown = {"loss": metrics["loss"], "exact": metrics["exact"]}
            if "validation" in metrics:
                shown["note"] = f"validation {metrics['validation']['exact']:.3f}"
            bar.update(line, completed=update, **shown)

        try:
            result = trainer.run(report)
        except NotFiniteError as error:
            raise SystemExit(f"focus train: stopped, not finite: {error}; last/ is kept") from error
    if result:
        low, high = result["low"], result["high"]
        print(
            f"{folder}: validation exact {result['exact']:.3f} [{low:.3f}, {high:.3f}] at "
            f"K = {result['steps']} on {result['n']} puzzles; best {trainer.best:.3f}"
        )
    else:
        print(f"{folder}: nothing left to do")
