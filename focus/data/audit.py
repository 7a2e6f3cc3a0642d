"""Check every row of a data folder, and look for puzzles that appear twice.

For each file: rules, givens, uniqueness, and whether the answer is the reference answer. For
each task: duplicates within a file, and leaks, that is puzzles of one file that are equivalent,
under the full symmetry group, to a puzzle of another file.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from focus.data.distinct import PuzzleIndex
from focus.data.table import Table, read_table
from focus.errors import UserError
from focus.tasks.base import Task, Verdict

_CHUNK = 500  # rows judged at a time
_SHOWN = 5  # examples of bad rows kept per file


@dataclass
class FileReport:
    """What the audit found in one file. Counts of rows."""

    dataset: str  # folder/split
    rows: int
    valid: int  # rules obeyed, answer solves the question
    unique: int | None  # one solution; None where a puzzle may have several (mazes)
    canonical: int  # the answer is the reference answer
    duplicates: int = 0  # equivalent to an earlier row of the same file
    leaks: int = 0  # equivalent to a row of another file
    problems: list[str] = field(default_factory=list)  # the first few bad rows
    leaked_from: dict[str, int] = field(default_factory=dict)


def audit(
    files: list[tuple[Path, Task]],
    workers: int = 2,
    progress: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> list[FileReport]:
    """Audit files; those of one task are compared with each other."""
    reports = []
    indexes: dict[str, PuzzleIndex] = {}
    for path, task in files:
        table = read_table(path, task)
        name = f"{path.parent.name}/{path.name.split('.')[0]}"
        verdict = _judge(table, task, workers, partial(progress, name))
        report = FileReport(
            name, len(table), int(verdict.valid.sum()),
            int(verdict.unique.sum()) if task.valid_is_correct else None,
            int(verdict.canonical.sum()),
            problems=[f"row {row + 1}: {text}" for row, text in verdict.problems.items()][:_SHOWN],
        )  # fmt: skip
        index = indexes.setdefault(task.name, PuzzleIndex(task))
        for seen in index.add(table.questions, label=name):
            if seen == name:
                report.duplicates += 1
            elif seen is not None:
                report.leaks += 1
                report.leaked_from[seen] = report.leaked_from.get(seen, 0) + 1
        reports.append(report)
    return reports


def _judge(table: Table, task: Task, workers: int, progress: Callable[[int, int], None]) -> Verdict:
    """Judge a table in chunks, by a few threads: the searches release the interpreter lock."""
    starts = range(0, len(table), _CHUNK)
    chunks = [table[start : start + _CHUNK] for start in starts]
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(workers) as pool:
        for verdict in pool.map(lambda part: task.judge(part.questions, part.answers), chunks):
            verdicts.append(verdict)
            progress(min(len(verdicts) * _CHUNK, len(table)), len(table))
    return Verdict(
        np.concatenate([verdict.valid for verdict in verdicts]),
        np.concatenate([verdict.unique for verdict in verdicts]),
        np.concatenate([verdict.canonical for verdict in verdicts]),
        {
            start + row: text
            for start, verdict in zip(starts, verdicts, strict=True)
            for row, text in verdict.problems.items()
        },
    )


def find_files(path: Path, tasks: list[Task]) -> list[tuple[Path, Task]]:
    """The puzzle files of a data folder, or the one file; training files come first."""
    if path.is_file():
        if len(tasks) != 1:
            raise UserError(f"say with --task what puzzles {path.name} holds")
        return [(path, tasks[0])]
    if not path.is_dir():
        raise UserError(f"no such file or folder: {path}")
    files = []
    for task in tasks:
        folder = path / task.dataset
        if not folder.is_dir() and len(tasks) == 1:
            folder = path
        if folder.is_dir():
            names = sorted(folder.glob("*.csv")) + sorted(folder.glob("*.csv.gz"))
            names.sort(key=lambda p: (not p.name.startswith("train"), p.name))
            files += [(name, task) for name in names]
    if not files:
        looked = ", ".join(task.dataset for task in tasks)
        raise UserError(f"{path} holds no puzzle files; looked for CSV files in {looked}")
    return files
