"""What experiments share: stored results, solved puzzles as bits, the device, saved runs."""

import argparse
import base64
import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch

from focus.errors import UserError
from focus.evaluation.statistics import wilson_interval
from focus.files import sha256, write_text
from focus.folders import MANIFEST, atomic_folder, check_folder
from focus.model.checkpoint import checkpoint_folder, fetch
from focus.serialization import to_json
from focus.training.config import RunConfig
from focus.training.loop import Trainer
from focus.training.puzzles import TrainingPuzzles

RESULTS = Path(__file__).parents[1] / "docs" / "results"


def stored_results(name: str) -> dict:
    """What docs/results/NAME.json holds."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def this_device() -> tuple[str, str]:
    """The device to measure on, and its name for the stored figures."""
    if torch.cuda.is_available():
        return "cuda:0", torch.cuda.get_device_name()
    return "cpu", "CPU"


def weights_of(checkpoint: str) -> str:
    """The hash of a checkpoint's weights, which says which training it comes from."""
    return sha256(checkpoint_folder(fetch(checkpoint)) / "updater.safetensors")


def resumed(config: RunConfig, folder: Path, device: str, puzzles: TrainingPuzzles) -> Trainer:
    """A run as it was saved, to go on by this config; its folder stays as it is."""
    if not (folder / "last").is_dir():
        raise UserError(f"{folder} holds no saved state of a run (last/)")
    with tempfile.TemporaryDirectory() as place:
        check_folder(folder / "last")
        with atomic_folder(Path(place) / "last") as fresh:
            without = shutil.ignore_patterns(MANIFEST)
            shutil.copytree(folder / "last", fresh, ignore=without, dirs_exist_ok=True)
            write_text(fresh / "config.json", to_json(config))
        trainer = Trainer(config, Path(place), device, puzzles=puzzles)
        trainer.resume()
    return trainer


class _CommandLine(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; --help explains it\n")


def command_line(doc: str | None) -> argparse.ArgumentParser:
    """A command whose help is the docstring of its module, as it is written."""
    return _CommandLine(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def numbers(kind: type = int) -> Callable[[str], list]:
    """The type of an argument: numbers between commas."""

    def read(text: str) -> list:
        try:
            return [kind(number) for number in text.split(",")]
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"numbers with commas, not {text!r}") from error

    return read


@contextlib.contextmanager
def one_line(command: str) -> Iterator[None]:
    """What a user did wrong is one line and exit code 2, as with `focus`."""
    try:
        yield
    except UserError as error:
        print(f"{command}: {error}", file=sys.stderr)
        raise SystemExit(2) from error


@contextlib.contextmanager
def that_holds(folder: Path, what: str) -> Iterator[None]:
    """A folder whose files are of another kind is named as what it is not."""
    try:
        yield
    except KeyError as error:
        raise UserError(f"{folder} does not hold {what}: its files lack {error}") from error


def measure_or_show(
    doc: str, stored: Path, measure: Callable[[], dict], table: Callable[[dict], str]
) -> None:
    """Measure and store, unless `--table` asks for the stored figures alone; print their table."""
    parser = command_line(doc)
    parser.add_argument("--table", action="store_true", help="print the stored figures' table")
    if not parser.parse_args().table:
        with one_line(Path(sys.argv[0]).stem):
            write_text(stored, json.dumps(measure(), indent=1) + "\n")
    print(table(json.loads(stored.read_text(encoding="utf-8"))))


def pack(bits: np.ndarray) -> str:
    """Which items are right, as text."""
    return base64.b64encode(np.packbits(bits)).decode()


def unpack(text: str, count: int) -> np.ndarray:
    """The inverse of `pack`."""
    return np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8), count=count).astype(bool)


def markdown(rows: list[list[str]]) -> str:
    """A table whose first row is its head."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(shares: Sequence[float]) -> str:
    """Mean of several shares, and the lowest to the highest, in percent."""
    low, mean, high = (
        f"{100 * value:.1f}" for value in (min(shares), np.mean(shares), max(shares))
    )
    return f"{mean} ({low} to {high})"


def points(effect: float, low: float, high: float) -> str:
    """A difference with its interval, in points."""
    return f"{100 * effect:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def rate(result: dict) -> str:
    """An exact rate with its interval, in percent; with two digits near all."""
    digits = 2 if 0.9985 <= result["exact"] < 1 else 1
    exact, low, high = (f"{100 * result[key]:.{digits}f}" for key in ("exact", "low", "high"))
    return f"{exact} [{low}, {high}]"


def rate_of(solved: np.ndarray) -> str:
    """The same, of which puzzles are solved."""
    low, high = wilson_interval(int(solved.sum()), len(solved))
    return rate({"exact": float(solved.mean()), "low": low, "high": high})
