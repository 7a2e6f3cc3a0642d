"""Stored evaluations, as `focus eval --out` and `focus transfer --out` leave them.

An evaluation is a folder with config.json, results.json and predictions.jsonl; beside or above it
may lie the run's metrics.jsonl.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from focus.errors import UserError
from focus.files import check_fields, parse_object, read_object, read_text
from focus.report.table import Rate
from focus.training.config import RunConfig, read_config

_HELD_OUT = ("test", "all", None)  # all of a file; evaluations did not always say


@dataclass(frozen=True)
class Evaluated:
    """One evaluated run."""

    folder: Path
    config: RunConfig
    results: dict[int, dict]  # by K
    control: str = "none"
    adapter: float | None = None  # ||dW|| / ||W||, with a control
    symmetry_retries: int = 0  # further tries of puzzles that were not solved
    early_stop: bool = False  # whether puzzles that obeyed the rules took no further steps
    letter: str = ""  # of its setting, where a report holds several
    chosen: int | None = None  # K with the highest exact rate on validation puzzles

    @property
    def task(self) -> str:
        return self.config.task.name

    @property
    def backbone(self) -> str:
        return self.config.solver.backbone.name

    @property
    def where(self) -> str:
        """Backbone, setting and kind of puzzles: runs that agree in all may be compared."""
        letter = f" [{self.letter}]" if self.letter else ""
        return f"{self.backbone}{letter}{'' if self.full else ', small puzzles'}"

    @property
    def method(self) -> str:
        return self.config.method

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def full(self) -> bool:
        """Whether it is about the paper's puzzles and not about small ones."""
        return self.config.task.paper_sized

    @property
    def steps(self) -> int:
        """The K that is reported: that of validation; a model that writes has none."""
        wanted = 0 if self.config.solver.answer == "written" else self.config.eval_steps
        return wanted if wanted in self.results else max(self.results)

    def rate(self, steps: int | None = None) -> Rate | None:
        """The exact rate at K, if it was evaluated there."""
        row = self.results.get(self.steps if steps is None else steps)
        return Rate(row["exact"], row["low"], row["high"], row["n"]) if row else None

    @cached_property
    def exact(self) -> dict[int, dict[int, bool]]:
        """Which puzzles were solved exactly, by K and id."""
        return {
            k: {id_: row["exact"] for id_, row in rows.items()} for k, rows in self._rows.items()
        }

    @cached_property
    def answers(self) -> dict[int, dict[int, str]]:
        """The answers, by K and id."""
        return {
            k: {id_: row["answer"] for id_, row in rows.items()} for k, rows in self._rows.items()
        }

    @cached_property
    def energies(self) -> dict[int, dict[int, float]]:
        """E_x of the answers, by K and id, where it was stored."""
        return {
            k: {id_: row["energy"] for id_, row in rows.items()}
            for k, rows in self._rows.items()
            if all(isinstance(row.get("energy"), float) for row in rows.values())
        }  # fmt: skip

    @cached_property
    def _rows(self) -> dict[int, dict[int, dict]]:
        path = self.folder / "predictions.jsonl"
        rows: dict[int, dict[int, dict]] = {}
        for row in _lines(path, {"id": int, "steps": int, "exact": bool, "answer": str}):
            rows.setdefault(row["steps"], {})[row["id"]] = row
        for steps, result in self.results.items():
            if len(rows.get(steps, ())) != result["n"]:
                raise UserError(f"{path} is damaged: it lacks predictions at K = {steps}")
        return rows

    @cached_property
    def puzzles(self) -> dict[int, tuple[str, str]]:
        """Question and target by id."""
        rows = _lines(self.folder / "puzzles.jsonl", {"id": int, "question": str, "answer": str})
        return {row["id"]: (row["question"], row["answer"]) for row in rows}

    @cached_property
    def curve(self) -> list[dict]:
        """Lines of the run's metrics; empty where they are not stored."""
        for folder in (self.folder, self.folder.parent):
            path = folder / "metrics.jsonl"
            if path.is_file():
                return _lines(path, {"update": int, "seconds": int | float})
        return []


@dataclass(frozen=True)
class Transferred:
    """One comparison on the transfer benchmarks."""

    folder: Path
    backbone: str
    results: list[dict]
    compared: list[dict]
    average: dict[str, float | None]


def find_results(paths: Sequence[Path]) -> tuple[list[Evaluated], list[Transferred]]:
    """All evaluations and comparisons under some folders, in the order of their paths."""
    evaluated, validated, transferred = [], [], []
    seen: set[Path] = set()  # folders may lie in each other
    for path in paths:
        if not path.is_dir():
            raise UserError(f"no such folder: {path}; focus eval --out DIR makes one to report on")
        for file in sorted(path.rglob("results.json")):
            if file.resolve() in seen:
                continue
            seen.add(file.resolve())
            stored = _read(file)
            if "compared" in stored:
                transferred.append(
                    Transferred(
                        file.parent, stored.get("backbone", file.parent.name), stored["results"],
                        stored["compared"], stored["average"],
                    )
                )  # fmt: skip
            elif (file.parent / "config.json").is_file():
                if stored.get("split") in _HELD_OUT:
                    evaluated.append(_evaluated(file, stored))
                elif stored["split"] == "validation":
                    validated.append(_evaluated(file, stored))
    if not evaluated and not transferred:
        raise UserError(
            f"nothing to report on in {', '.join(map(str, paths))}: evaluate runs on their test "
            "puzzles with focus eval RUN --out RUN/eval"
        )
    return [_with_chosen(run, validated) for run in evaluated], transferred


def _with_chosen(run: Evaluated, validated: Sequence[Evaluated]) -> Evaluated:
    """The run with the K that its own evaluation on validation puzzles chooses, if there is one.

    Of several that may be its own, the one beside it is.
    """
    like = [one for one in validated if one.config == run.config and _setting(one) == _setting(run)]
    own = [one for one in like if one.folder.parent == run.folder.parent] or like
    if len(own) != 1:
        return run
    rates = own[0].results
    return replace(run, chosen=max(sorted(rates), key=lambda k: rates[k]["exact"]))  # ties: smaller


def _setting(run: Evaluated) -> tuple[str, int, bool]:
    return run.control, run.symmetry_retries, run.early_stop


def _lines(path: Path, wanted: dict[str, Any]) -> list[dict]:
    """The objects of a file, one on each line."""
    rows = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        row = parse_object(line, f"{path}, line {number}")
        check_fields(row, wanted, f"{path}, line {number}")
        rows.append(row)
    return rows


def _read(file: Path) -> dict:
    stored = read_object(file)
    if not isinstance(stored.get("results"), list):
        raise UserError(f"{file} does not hold results")
    return stored


def _evaluated(file: Path, stored: dict) -> Evaluated:
    wanted = {"steps": int, "n": int, **dict.fromkeys(("exact", "low", "high"), int | float)}
    for row in stored["results"]:
        if not isinstance(row, dict):
            raise UserError(f"{file} does not hold results of focus eval")
        check_fields(row, wanted, str(file))
    if not stored["results"]:
        raise UserError(f"{file} does not hold results of focus eval")
    results = {row["steps"]: row for row in stored["results"]}
    return Evaluated(
        file.parent, read_config(file.parent / "config.json"), results,
        stored.get("control", "none"), stored.get("adapter"), stored.get("symmetry_retries", 0),
        stored.get("early_stop", False),
    )  # fmt: skip
