"""Where metrics also go, to be watched while a run goes on: TensorBoard, trackio, W&B.

`metrics.jsonl` is the record; these are views of it, and nothing leaves the machine unless the
user's own environment says so (`WANDB_MODE=online`, `TRACKIO_SPACE_ID`). A run that goes on is the
same run there, by the name in its folder's `tracker.txt`.
"""

import contextlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextvars import Context
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from uuid import uuid4

from focus.errors import UserError
from focus.files import read_text, write_text

PROJECT = "focus"
_EXTRAS = ("trackio", "wandb")  # extras of this package; TensorBoard comes with it

Histogram = tuple[Sequence[int], Sequence[float]]  # counts, and the edges of their bars


@runtime_checkable
class Tracker(Protocol):
    """Takes the metrics of a run."""

    def log(
        self, update: int, scalars: Mapping[str, float], histograms: Mapping[str, Histogram]
    ) -> None:
        """Show what is known after an update."""

    def close(self) -> None:
        """Write what is left."""


def check_tracker(name: str) -> None:
    """Refuse a tracker whose package is missing, before anything else of the run is made."""
    if name in _EXTRAS:
        try:
            _load(name)
        except ImportError as error:
            raise UserError(
                f"--report-to {name} needs a package ({error}): pip install 'focus-solver[{name}]'"
            ) from error


def make_tracker(name: str, folder: Path, config: dict[str, Any], update: int) -> Tracker:
    """The tracker of a run that begins, or goes on, with an update."""
    if name == "tensorboard":
        return _TensorBoard(folder / "tensorboard", update)
    package, own = _load(name), _own_name(folder)
    if name == "trackio":
        # In a context of its own: in ours it would end the run of another seed.
        with _on_stderr():
            run = Context().run(
                package.init, project=PROJECT, name=own, config=config, embed=False, resume="allow"
            )
    else:
        run = package.init(
            project=PROJECT, id=own, name=folder.name, config=config, dir=folder,
            reinit="create_new", resume="allow", mode=os.environ.get("WANDB_MODE", "offline"),
            settings=package.Settings(silent=True, console="off"),
        )  # fmt: skip
    return _Run(run, package.Histogram)


def _own_name(folder: Path) -> str:
    """The folder's name and a few letters of its own, since folders of one name are many."""
    path = folder / "tracker.txt"
    if not path.exists():
        plain = re.sub(r"[^\w.-]", "-", folder.name)  # W&B refuses "#", ":" and others
        write_text(path, f"{plain}-{uuid4().hex[:8]}\n")
    return read_text(path).strip()


def _load(name: str) -> Any:
    """The package, on first use: it takes seconds."""
    if name == "wandb" and "WANDB_MODE" not in os.environ:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # offline: no word to its makers
    return import_module(name)


def _on_stderr() -> contextlib.AbstractContextManager[Any]:
    """What a tracker prints is no result."""
    return contextlib.redirect_stdout(sys.stderr)


class _TensorBoard:
    """A file of events; what a killed run wrote after its last checkpoint is dropped."""

    def __init__(self, folder: Path, update: int):
        from torch.utils.tensorboard import SummaryWriter

        self.writer: Any = SummaryWriter(str(folder), purge_step=update)

    def log(
        self, update: int, scalars: Mapping[str, float], histograms: Mapping[str, Histogram]
    ) -> None:
        for name, value in scalars.items():
            self.writer.add_scalar(name, value, update)
        for name, (counts, edges) in histograms.items():
            values = list(zip(edges, counts, strict=False))  # left edges
            self.writer.add_histogram_raw(
                name, min=edges[0], max=edges[-1], num=sum(counts),
                sum=sum(x * n for x, n in values), sum_squares=sum(x * x * n for x, n in values),
                bucket_limits=list(edges[1:]), bucket_counts=list(counts), global_step=update,
            )  # fmt: skip
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


class _Run:
    """A run of trackio or W&B, whose interface is the same."""

    def __init__(self, run: Any, histogram: Any):
        self.run, self.histogram = run, histogram

    def log(
        self, update: int, scalars: Mapping[str, float], histograms: Mapping[str, Histogram]
    ) -> None:
        shown = {name: self.histogram(np_histogram=value) for name, value in histograms.items()}
        self.run.log({**scalars, **shown}, step=update)

    def close(self) -> None:
        with _on_stderr():
            self.run.finish()
