"""`focus data …`: show, prepare, generate and audit puzzles."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table as TextTable

from focus.commands.output import print_json, progress_lines
from focus.data import audit as audit_module
from focus.data.generation import GenerationSpec, generate_file, ks_distance
from focus.data.sources import DATA_VARIABLE, Folder, Generated, open_source
from focus.data.splits import Protocol, make_splits, write_splits
from focus.data.table import read_table, task_of_file
from focus.errors import UserError, counted
from focus.tasks import BUILT_IN, task_class
from focus.tasks.base import Task

_MOST_THREADS = 256
_MOST_GENERATED = 10_000  # row of generated puzzles to show: all before it are made
Many = Annotated[tuple[str, ...], tyro.conf.UseAppendAction]


def _threads(workers: int | None) -> int:
    if workers is not None and not 1 <= workers <= _MOST_THREADS:
        raise UserError(f"--workers takes a number from 1 to {_MOST_THREADS}, not {workers}")
    return workers or os.cpu_count() or 1


def _quantiles(values: np.ndarray) -> str:
    low, median, high = np.quantile(values, [0.1, 0.5, 0.9])
    return f"{low:.0f} / {median:.0f} / {high:.0f}"


def show(
    task: str = "sudoku", data: str | None = None, split: str = "test", row: int = 1,
    side: int | None = None, json: bool = False,
) -> None:  # fmt: skip
    """Print one puzzle and its answer.

    Args:
        task: sudoku, maze, or a task of an installed package.
        data: a folder, a CSV file, hub, hub:OWNER/NAME or generated; default $FOCUS_DATA.
        split: which split of the data.
        row: which row, counted from 1.
        side: cells of a side, for generated puzzles (9 or 4; any for mazes).
        json: print one JSON object instead.
    """
    chosen = task_class(task).of_side(side)
    if row < 1 or (data == "generated" and row > _MOST_GENERATED):
        most = f" to {_MOST_GENERATED:,} for generated puzzles" if data == "generated" else ""
        raise UserError(f"--row takes a number from 1{most}, not {row}")
    source = Generated(train=row, test=row) if data == "generated" else open_source(data)
    table = source.load(chosen, split)
    if row > len(table):
        size = counted(len(table), "row")
        raise UserError(f"row {row} does not exist; the {split} split has {size}")
    question, answer = table.questions[row - 1], table.answers[row - 1]
    rating = int(chosen.rate(question[None])[0])
    if json:
        print_json(
            {
                "question": chosen.question_text(question),
                "answer": chosen.answer_text(answer),
                "rating": rating,
            }
        )
        return
    print(f"{source.describe()}, {split} row {row}, rating {rating}\n")
    print(chosen.render(question), "\n")
    print(chosen.render(question, answer))


def prepare(
    task: str = "sudoku", data: str | None = None, protocol: Protocol = "standard",
    out: str = "data-out", side: int | None = None, json: bool = False,
) -> None:  # fmt: skip
    """Write train, validation and test puzzles as files, with the ids of the rows drawn.

    Args:
        task: sudoku, maze, or a task of an installed package.
        data: a folder, a CSV file, hub, hub:OWNER/NAME or generated; default $FOCUS_DATA.
        protocol: standard (this project's results) or paper (full Sudoku-Extreme corpus).
        out: folder for the files; they lie in a subfolder named after the data set.
        side: cells of a side, for generated puzzles (9 or 4; any for mazes).
        json: print one JSON object instead of a table.
    """
    chosen = task_class(task).of_side(side)
    splits = make_splits(open_source(data), chosen, protocol)
    record = write_splits(splits, chosen, Path(out))
    rows = {name: len(table) for name, table in splits.tables().items()}
    if json:
        print_json({"splits": rows, "record": str(record), "protocol": splits.protocol})
        return
    text = TextTable(title=f"{chosen.name}, {splits.source}, protocol: {splits.protocol}")
    for heading in ("split", "rows", "rating 10 / 50 / 90 %"):
        text.add_column(heading, justify="left" if heading == "split" else "right")
    for name, table in splits.tables().items():
        text.add_row(name, f"{len(table):,}", _quantiles(chosen.rate(table.questions)))
    console = Console()
    console.print(text)
    console.print(f"ids and hashes: {record}", soft_wrap=True, highlight=False)


def generate(
    task: str = "sudoku", count: int = 1000, seed: int = 0, mode: str | None = None,
    out: str = "generated.csv.gz", side: int | None = None, data: str | None = None,
    grow_from: Many = (), exclude: Many = (), workers: int | None = None, json: bool = False,
) -> None:  # fmt: skip
    """Generate puzzles into a CSV file. A killed run goes on where it was.

    Args:
        task: sudoku, maze, or a task of an installed package.
        count: how many puzzles.
        seed: the same seed gives the same file, for any number of workers.
        mode: sudoku: minimal, unbiased (clue numbers as in the set of all minimal puzzles) or
            neighbourhood (grown from the training puzzles of --data, as hard as they are).
            maze: distant or farthest (how the goal is chosen).
        out: the file to write, which must not be there yet; gzip if it ends in .gz.
        side: cells of a side (9 or 4 for sudoku, any for mazes).
        data: a folder whose train split seeds the neighbourhood mode and whose test split is
            kept out; default $FOCUS_DATA.
        grow_from: further splits of --data that seed the neighbourhood mode, such as extra; the
            ratings aimed at stay those of train.
        exclude: further CSV files with puzzles to keep out; may be given several times.
        workers: threads; default one per core.
        json: print one JSON object instead of a line of text.
    """
    chosen = task_class(task).of_side(side)
    mode = mode or chosen.generator_modes[0]
    named = data or os.environ.get(DATA_VARIABLE)
    source = open_source(named) if named else None
    # A folder that is only in the environment need not know this task or size.
    if not data and (
        chosen != type(chosen).of_side(None)
        or (isinstance(source, Folder) and not source.has(chosen, "test"))
    ):
        source = None
    seeds = like = None
    if mode == "neighbourhood":
        if source is None:
            raise UserError(
                "the neighbourhood mode grows puzzles from training puzzles; "
                f"name a folder with --data or ${DATA_VARIABLE}"
            )
        like = source.load(chosen, "train").questions
        further = [source.load(chosen, split).questions for split in grow_from]
        seeds = np.concatenate([like, *further])
    kept_out = [read_table(Path(name), chosen).questions for name in exclude]
    if source is not None:
        kept_out.append(source.load(chosen, "test").questions)
    spec = GenerationSpec(count, seed, mode, _threads(workers), seeds, like, tuple(kept_out))
    with progress_lines() as tell:
        table = generate_file(
            chosen, spec, Path(out), lambda done: tell(f"{chosen.name} {mode}", done, count)
        )
    ratings = table.columns["rating"].astype(int)
    report: dict = {"file": out, "rows": len(table), "mode": mode, "seed": seed}
    if like is not None:
        report["ks_distance_to_train"] = round(ks_distance(ratings, chosen.rate(like)), 4)
    if json:
        print_json(report)
        return
    distance = report.get("ks_distance_to_train")
    near = "" if distance is None else f", KS distance to the training puzzles' {distance}"
    print(f"{out}: {len(table):,} puzzles, rating 10/50/90 % {_quantiles(ratings)}{near}")


def audit(
    data: str | None = None, task: str | None = None, workers: int | None = None, json: bool = False
) -> None:
    """Check every row of a data folder or file, and find duplicates and leaks between splits.

    Leaks and invalid rows end in exit code 2, after the report.

    Args:
        data: a folder laid out as DATASET/SPLIT.csv.gz, or one CSV file; default $FOCUS_DATA.
        task: only this task; needed for a single file.
        workers: threads; default one per core.
        json: print one JSON object instead of a table.
    """
    data = data or os.environ.get(DATA_VARIABLE)
    if not data:
        raise UserError(f"name a folder or file with --data or ${DATA_VARIABLE}")
    classes = [task_class(task)] if task else list(BUILT_IN.values())
    file_tasks = audit_module.find_files(Path(data), [cls() for cls in classes])
    files: list[tuple[Path, Task]] = [(p, task_of_file(p, type(t))) for p, t in file_tasks]
    with progress_lines() as tell:
        reports = audit_module.audit(files, _threads(workers), tell)
    leaks = sum(report.leaks for report in reports)
    if json:
        print_json({"results": [asdict(report) for report in reports], "leaks": leaks})
    else:
        _print_audit(Path(data).name, reports)
    invalid = sum(report.rows - report.valid for report in reports)
    if leaks or invalid:
        raise UserError(f"puzzles in two files: {leaks:,}, invalid rows: {invalid:,}")


def _print_audit(name: str, reports: list[audit_module.FileReport]) -> None:
    text = TextTable(title=f"audit of {name}")
    headings = ("dataset", "rows", "valid", "unique", "canonical", "duplicates", "leaks")
    for heading in headings:
        text.add_column(heading, justify="left" if heading == "dataset" else "right")
    for report in reports:
        values = [getattr(report, heading) for heading in headings[1:]]
        text.add_row(report.dataset, *("-" if value is None else f"{value:,}" for value in values))
    console = Console()
    console.print(text)
    for report in reports:
        for problem in report.problems:
            console.print(f"{report.dataset}, {problem}", highlight=False)
        for other, count in report.leaked_from.items():
            console.print(f"{report.dataset}: {counted(count, 'puzzle')} also in {other}")
