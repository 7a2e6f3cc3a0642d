"""Where puzzles are read from: a folder or file, a public data set of the hub, or a generator.

`open_source` turns what the user names into one of them. All offer `load(task, split)`.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from focus.data.distinct import PuzzleIndex
from focus.data.table import Table, read_table
from focus.errors import UserError, first_line
from focus.hub import reachable_hub
from focus.tasks.base import Task

DATA_VARIABLE = "FOCUS_DATA"
# A generator has run dry after so many rounds in a row of which less than 1 % is new, or when it
# found nothing at all; but not before it has tried so many units.
_MOST_WITHOUT_NEW, _FEWEST_UNITS = 5, 200


class Source(Protocol):
    """A place that holds the splits of a task."""

    def load(self, task: Task, split: str) -> Table:
        """The puzzles of a split such as `train` or `test`."""
        ...

    def describe(self) -> str:
        """What to call it in a report."""
        ...


@dataclass(frozen=True)
class Folder:
    """A folder laid out as DATASET/SPLIT.csv.gz, or holding SPLIT.csv[.gz] itself."""

    path: Path

    def load(self, task: Task, split: str) -> Table:
        """Read the split's file."""
        places = self._places(task, split)
        file = next((place for place in places if place.is_file()), None)
        if file is None:
            tried = ", ".join(str(place.relative_to(self.path)) for place in places)
            raise UserError(f"no {split} data for {task.name} in {self.path}; looked for {tried}")
        return read_table(file, task)

    def has(self, task: Task, split: str) -> bool:
        """Whether there is a file of the split."""
        return any(place.is_file() for place in self._places(task, split))

    def _places(self, task: Task, split: str) -> list[Path]:
        folders = (self.path / task.dataset, self.path)
        return [f / f"{split}{ending}" for f in folders for ending in (".csv.gz", ".csv")]

    def describe(self) -> str:
        """The folder's name."""
        return f"folder {self.path.name}"


@dataclass(frozen=True)
class File:
    """One CSV file, whatever split is asked for."""

    path: Path

    def load(self, task: Task, split: str) -> Table:
        """Read the file."""
        return read_table(self.path, task)

    def describe(self) -> str:
        """The file's name."""
        return f"file {self.path.name}"


@dataclass(frozen=True)
class Hub:
    """A public data set of the Hugging Face hub; needs a connection the first time."""

    repository: str = ""  # "" = the task's own public data set

    def load(self, task: Task, split: str) -> Table:
        """Download (or find in the cache) and read SPLIT.csv."""
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import (
            EntryNotFoundError,
            HfHubHTTPError,
            LocalEntryNotFoundError,
        )

        repository = self.repository or task.hub_dataset
        if not repository:
            raise UserError(f"the task {task.name} has no public data set; name one as hub:NAME")
        try:
            with reachable_hub():
                path = hf_hub_download(repository, f"{split}.csv", repo_type="dataset")
        except LocalEntryNotFoundError as error:
            raise UserError(
                f"the hub does not answer, and {split}.csv of {repository} is not in its cache; "
                "check the connection, or give a folder with --data"
            ) from error
        except EntryNotFoundError as error:
            raise UserError(f"the hub data set {repository} has no {split}.csv") from error
        except (HfHubHTTPError, OSError, ValueError) as error:
            raise UserError(
                f"cannot get {split}.csv of {repository} from the hub ({first_line(error)}); "
                "check the name and the connection, or give a folder with --data"
            ) from error
        return read_table(Path(path), task)

    def describe(self) -> str:
        """The data set's name."""
        return f"hub {self.repository or 'data set of the task'}"


@dataclass(frozen=True)
class Generated:
    """The built-in generator: puzzles out of nothing but a seed. The embedded default."""

    seed: int = 0
    train: int = 2_000
    test: int = 400

    def load(self, task: Task, split: str) -> Table:
        """Generate the split; training puzzles are new to the test puzzles."""
        if split not in ("train", "test"):
            raise UserError(
                f"the generator has the splits train and test, not {split}; name a folder that has "
                "it with --data or $FOCUS_DATA, or leave it out (--more-data takes no names then)"
            )
        index = PuzzleIndex(task)
        test = self._collect(task, index, first_unit=0, count=self.test)
        if split == "test":
            return test
        return self._collect(task, index, first_unit=1_000_000, count=self.train)

    def _collect(self, task: Task, index: PuzzleIndex, first_unit: int, count: int) -> Table:
        questions = np.zeros((0, task.cells), np.uint8)
        answers = questions.copy()
        unit, rounds_without_new = first_unit, 0
        while len(questions) < count:
            new_questions, new_answers = task.generate(
                self.seed, unit, count, task.generator_modes[0]
            )
            unit += count
            fresh = index.add_unseen(new_questions)
            rounds_without_new = 0 if fresh.sum() * 100 >= count else rounds_without_new + 1
            enough = unit - first_unit >= _FEWEST_UNITS
            if enough and (
                rounds_without_new >= _MOST_WITHOUT_NEW or not (len(questions) or fresh.any())
            ):
                raise UserError(
                    f"the generator finds no more than {len(questions)} different {task.name} "
                    f"puzzles with these settings of the task, {count} were asked for"
                )
            questions = np.concatenate([questions, new_questions[fresh]])
            answers = np.concatenate([answers, new_answers[fresh]])
        ids = first_unit + np.arange(count)
        return Table(questions[:count], answers[:count], ids, self.describe())

    def describe(self) -> str:
        """The generator and its seed."""
        return f"generator, seed {self.seed}"


def open_source(data: str | None) -> Source:
    """A folder, a CSV file, `hub`, `hub:OWNER/NAME` or `generated`; None asks $FOCUS_DATA."""
    data = data or os.environ.get(DATA_VARIABLE) or "generated"
    if data == "generated":
        return Generated()
    if data == "hub" or data.startswith("hub:"):
        return Hub(data[4:])
    path = Path(data).expanduser()
    if path.is_dir():
        return Folder(path)
    if path.is_file():
        return File(path)
    raise UserError(
        f"no such file or folder: {data}; give a folder, a CSV file, hub, hub:OWNER/NAME or "
        "generated"
    )


def further_tables(
    source: Source, task: Task, names: Sequence[str], held_out: Sequence[Table]
) -> list[Table]:
    """More training puzzles: other splits of a source by name, or CSV files by path.

    One that is equivalent to a held-out puzzle, under all symmetries, is refused.
    """
    for name in names:
        if name in ("train", "validation", "test"):
            raise UserError(
                f"more-data names {name}, which is divided into training and held-out puzzles "
                "already; extra and CSV files are fine"
            )
    tables = [
        read_table(Path(name), task)
        if Path(name).suffix in (".csv", ".gz")
        else source.load(task, name)
        for name in names
    ]
    index = PuzzleIndex(task)
    keys = []
    for table in held_out if tables else ():
        index.add(table.questions)
        keys.append(task.fingerprint(table.questions))
    for table in tables:
        suspects = np.isin(task.fingerprint(table.questions), np.concatenate(keys))
        leaked = int((~index.add_unseen(table.questions[suspects])).sum())
        if leaked:
            raise UserError(
                f"{leaked} puzzles of {table.origin} are equivalent to validation or test puzzles; "
                "drop them (focus data audit finds, focus data generate --exclude avoids them)"
            )
    return tables
