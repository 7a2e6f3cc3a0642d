"""Which puzzles train, validate and test a model; the drawn ids are part of the result.

`standard` is the protocol of this project's results. Sudoku: train on `train`, validate on the
first 1,000 rows of `test`, test on the others. Maze: a 900/100 split of `train` by seed 42, test
on all of `test`. `paper` is the paper's protocol for the full Sudoku-Extreme corpus: validate on
its first 1,000 puzzles, test on 1,000 drawn from the others with seed 20260831; its maze splits
are the same as here. A folder that has a validation file, such as `focus data prepare` writes, is
taken as it was divided.
"""

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from focus.data.sources import File, Folder, Source
from focus.data.table import Table, write_table
from focus.errors import UserError, counted
from focus.files import sha256, write_text
from focus.tasks.base import Task

Protocol = Literal["standard", "paper"]
VALIDATION_ROWS = 1_000
PAPER_TEST_ROWS = 1_000
PAPER_SEED = 20260831
HOLD_OUT_SEED = 42
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Splits:
    """The three tables of a protocol."""

    protocol: str
    source: str
    train: Table
    validation: Table
    test: Table

    def tables(self) -> dict[str, Table]:
        """The tables by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}


def make_splits(source: Source, task: Task, protocol: Protocol = "standard") -> Splits:
    """Load a source and divide it; a single file into eight, one and one tenth of its rows."""
    divided = _is_divided(source, task)
    if divided and protocol != "standard":
        raise UserError(f"{source.describe()} is divided already: it has a validation file")
    load = functools.cache(functools.partial(source.load, task))
    tables = [_split(name, source, task, load, protocol) for name in SPLITS]
    known_as = "one file" if isinstance(source, File) else "as divided" if divided else protocol
    return Splits(known_as, source.describe(), *tables)


def load_split(source: Source, task: Task, name: str) -> Table:
    """One table of the standard protocol; nothing is loaded that it does not need."""
    return _split(name, source, task, functools.partial(source.load, task), "standard")


def _is_divided(source: Source, task: Task) -> bool:
    return isinstance(source, Folder) and source.has(task, "validation")


def _split(
    name: str, source: Source, task: Task, load: Callable[[str], Table], protocol: Protocol
) -> Table:
    if isinstance(source, File):
        return _cut(source, load("train"))[name]
    if _is_divided(source, task):
        return load(name)
    if task.validation_from == "test":
        return load("train") if name == "train" else _of_test(load("test"), name, protocol)
    if name == "test":
        return load("test")
    train = load("train")
    order = np.random.default_rng(HOLD_OUT_SEED).permutation(len(train))
    train_rows = len(train) - len(train) // 10
    return train[np.sort(order[:train_rows] if name == "train" else order[train_rows:])]


def _of_test(test: Table, name: str, protocol: Protocol) -> Table:
    """Validation and test puzzles of a test file."""
    held = min(VALIDATION_ROWS, len(test) // 2)
    if name == "validation":
        return test[:held]
    if protocol == "standard":
        return test[held:]
    if len(test) < VALIDATION_ROWS + PAPER_TEST_ROWS:
        raise UserError(
            f"the paper's protocol draws {PAPER_TEST_ROWS} test puzzles after "
            f"{VALIDATION_ROWS} for validation; the corpus has only {len(test)} rows"
        )
    drawn = np.random.default_rng(PAPER_SEED).choice(
        len(test) - VALIDATION_ROWS, PAPER_TEST_ROWS, replace=False
    )
    return test[VALIDATION_ROWS + np.sort(drawn)]


def _cut(source: File, table: Table) -> dict[str, Table]:
    tenth = len(table) // 10
    if tenth == 0:
        raise UserError(
            f"{source.path} has {counted(len(table), 'puzzle')}; training needs 10 or more"
        )
    order = np.random.default_rng(HOLD_OUT_SEED).permutation(len(table))
    parts = np.split(order, [tenth, 2 * tenth])
    named_parts = zip(("test", "validation", "train"), parts, strict=True)
    return {name: table[np.sort(part)] for name, part in named_parts}


def write_splits(splits: Splits, task: Task, folder: Path) -> Path:
    """Write the three CSV files and `splits.json`, which lists the ids; returns the latter."""
    record: dict = {
        "task": task.name,
        "protocol": splits.protocol,
        "source": splits.source,
        "seeds": {"hold_out": HOLD_OUT_SEED, "paper_test": PAPER_SEED},
        "splits": {},
    }
    for name, table in splits.tables().items():
        path = folder / task.dataset / f"{name}.csv.gz"
        write_table(path, table, task)
        record["splits"][name] = {
            "file": path.name,
            "sha256": sha256(path),
            "rows": len(table),
            "drawn_from": table.origin,
            "ids": table.ids.tolist(),
        }
    path = folder / task.dataset / "splits.json"
    write_text(path, json.dumps(record) + "\n")
    return path
