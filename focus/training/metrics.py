"""What a run writes about itself: `metrics.jsonl`, and the same for a tracker to show.

Sums are kept on the device between two lines of metrics and read once per line, so that logging
never stops the device.
"""

import json
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from focus.curation.records import Losses
from focus.files import read_text, write_text
from focus.serialization import to_json
from focus.training.config import RunConfig
from focus.training.trackers import Histogram, Tracker, make_tracker

# Edges of the histogram of D; a state at rest has +0.06 (h = 4) or +0.12 (h = 8).
D_EDGES = (-2.0, -1.0, -0.5, -0.25, -0.1, -0.05, 0.0, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
_SUMS = (
    "updates", "bad", "loss", "gradient", "examples", "exact", "replayed", "replayed_solved",
    "stuck", "D",
)  # fmt: skip
_AT_REST = 0.01  # |D + h ln rho| of a state whose energy did not move


class MetricSums:
    """Sums since the last line of metrics."""

    def __init__(self, candidates: tuple[int, ...], device: str):
        self.candidates = torch.tensor(candidates, device=device)
        self.edges = torch.tensor(D_EDGES, device=device)
        self.sums = torch.zeros(len(_SUMS), device=device)
        self.steps = torch.zeros(len(candidates), device=device)
        self.defects = torch.zeros(len(D_EDGES) + 1, device=device)

    def tensors(self) -> list[Tensor]:
        """Everything that is summed."""
        return [self.sums, self.steps, self.defects]

    def set(self, values: Sequence[Tensor]) -> None:
        """Take over stored sums."""
        for own, value in zip(self.tensors(), values, strict=True):
            own.copy_(value)

    def _add(self, **values: Tensor | float) -> None:
        for name, value in values.items():
            self.sums[_SUMS.index(name)].add_(value)  # in place: `+=` would copy as well

    def add_batch(self, loss: Tensor, losses: Losses, at_rest: float) -> None:
        """A mini-batch; `at_rest` is the defect of a state whose energy does not change."""
        exact, selection = losses.exact, losses.selection
        self._add(loss=loss.detach(), examples=len(exact), exact=exact.sum())
        self._add(replayed=losses.replayed.sum())
        if selection is None or selection.scores is None:
            return
        scores, chosen = selection.scores, selection.from_candidates.float()
        self._add(replayed_solved=selection.solved.sum())
        stuck = ((scores.defect - at_rest).abs() < _AT_REST) * chosen
        self._add(stuck=stuck.sum(), D=(scores.defect * chosen).sum())
        self.steps += ((scores.step[:, None] == self.candidates) * chosen[:, None]).sum(0)
        place = torch.bucketize(scores.defect, self.edges)
        self.defects.index_add_(0, place, chosen)

    def add_update(self, gradient: Tensor, finite: Tensor, processes: int) -> None:
        """The end of an update, which each of the processes reports."""
        self._add(
            updates=1 / processes, gradient=gradient.nan_to_num() / processes,
            bad=1 - finite.float(),
        )  # fmt: skip

    def add_check(self, finite: Tensor) -> None:
        """A gradient that belongs to no single update."""
        self._add(bad=1 - finite.float())

    def read(self) -> dict[str, Any]:
        """Means over the window, and the histograms where there was a replay."""
        sums = dict(zip(_SUMS, self.sums.tolist(), strict=True))
        examples, updates = max(1.0, sums["examples"]), max(1.0, sums["updates"])
        selected = max(1.0, float(self.steps.sum()))
        line: dict[str, Any] = {
            "loss": sums["loss"] / updates,
            "gradient": sums["gradient"] / updates,
            "exact": sums["exact"] / examples,
            "replayed": sums["replayed"] / examples,
            "replayed_solved": sums["replayed_solved"] / examples,
            "stuck": sums["stuck"] / selected,
            "D": sums["D"] / selected,
        }
        if self.steps.any():
            line["t_histogram"] = [int(n) for n in self.steps.tolist()]
            line["D_histogram"] = [int(n) for n in self.defects.tolist()]
        return line

    @staticmethod
    def bad(sums: Tensor) -> bool:
        """Whether a loss or gradient was not finite, by the first of the summed tensors."""
        by_name = dict(zip(_SUMS, sums.tolist(), strict=True))
        return not math.isfinite(by_name["loss"]) or by_name["bad"] > 0

    def reset(self) -> None:
        """Begin a new window."""
        for tensor in self.tensors():
            tensor.zero_()


class MetricsFile:
    """Appends lines; a resumed run first drops those that are made again."""

    def __init__(self, folder: Path, config: RunConfig):
        self.folder, self.config = folder, config
        self.path = folder / "metrics.jsonl"
        self.reports = config.report_to != "none"
        self.tracker: Tracker | None = None

    def rewind(self, update: int) -> None:
        """Keep the lines before an update; one that a kill cut short goes."""
        if self.path.exists():
            lines = read_text(self.path).splitlines()
            remaining = [line for line in lines if _update_of(line) <= update]
            write_text(self.path, "".join(line + "\n" for line in remaining))

    def write(self, line: dict[str, Any]) -> None:
        """One line, on the disk when this returns."""
        with open(self.path, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
        if self.reports:
            with self._left_alone_if_it_fails():
                self._report(line)

    def _report(self, line: dict[str, Any]) -> None:
        """The same for the tracker, which begins with the first line."""
        config, update = self.config, line["update"]
        if self.tracker is None:
            settings = json.loads(to_json(config))
            self.tracker = make_tracker(config.report_to, self.folder, settings, update)
        scalars = {
            f"train/{name}": value for name, value in line.items()
            if isinstance(value, int | float) and name != "update"
        }  # fmt: skip
        scalars |= {f"validation/{n}": value for n, value in line.get("validation", {}).items()}
        histograms: dict[str, Histogram] = {}
        if "t_histogram" in line:
            steps = [float(t) for t in config.curation.candidates]
            histograms["replay/t*"] = line["t_histogram"], [*steps, steps[-1] + 1]
            edges = [D_EDGES[0] - 1, *D_EDGES, D_EDGES[-1] + 1]
            histograms["replay/D"] = line["D_histogram"], edges
        self.tracker.log(update, scalars, histograms)

    def close(self) -> None:
        """Close the tracker."""
        if self.tracker is not None:
            with self._left_alone_if_it_fails():
                self.tracker.close()

    @contextmanager
    def _left_alone_if_it_fails(self) -> Iterator[None]:
        """Go on without the tracker whatever it raises: a training is worth more."""
        try:
            yield
        except Exception as error:
            self.reports, self.tracker = False, None
            warnings.warn(
                f"{self.folder}: nothing more goes to {self.config.report_to} "
                f"({type(error).__name__}: {error}); {self.path.name} goes on",
                stacklevel=4,
            )


def _update_of(line: str) -> float:
    """The update of a line of metrics; infinite for one that a kill cut short."""
    try:
        return float(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return math.inf
