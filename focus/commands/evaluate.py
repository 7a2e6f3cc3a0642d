"""`focus eval`: rates of a checkpoint."""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table as TextTable

from focus.commands.output import print_json, progress_lines
from focus.commands.threads import use_idle_cores
from focus.data.sources import File, Source, open_source
from focus.data.splits import SPLITS, load_split
from focus.data.table import Table, side_of_file
from focus.errors import UserError, counted
from focus.evaluation.controls import adapter_norm, check_control, controlled
from focus.evaluation.puzzles import Evaluation, check_early_stop, evaluate
from focus.evaluation.symmetry_retries import check_symmetry_retries, retry_under_symmetries
from focus.files import check_writable, json_text, write_text
from focus.folders import MANIFEST
from focus.model.base import Model, check_steps
from focus.model.checkpoint import checkpoint_folder, fetch, load_model
from focus.serialization import to_json
from focus.training.config import RunConfig, first_difference, read_config
from focus.training.loop import holds_a_run

CheckpointWord = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT")]


def _training_source(config: RunConfig) -> str | None:
    """What the checkpoint was trained on, where that is to be had here."""
    return None if os.path.isabs(config.data) and not Path(config.data).exists() else config.data


def _is_one_of(path: Path, names: Sequence[str]) -> bool:
    return path.resolve() in [Path(name).expanduser().resolve() for name in names]


def load_checkpoint(
    checkpoint: str, task: str | None, side: int | None = None
) -> tuple[Model, RunConfig]:
    """The model of a folder or hub id, on the GPU if there is one, and its config.

    `side` is the size of the puzzles to be solved, where it is known.
    """
    use_idle_cores()
    folder = checkpoint_folder(fetch(checkpoint))
    config = read_config(folder / "config.json")
    if task and task != config.task.name:
        raise UserError(f"the checkpoint {checkpoint} solves {config.task.name}, not {task}")
    model = load_model(folder, side)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu")
    return model, replace(config, task=model.task)


def check_split(split: str, limit: int | None) -> None:
    """Refuse what no data set has."""
    if split not in SPLITS:
        raise UserError(f"the splits are train, validation and test, not {split!r}")
    if limit is not None and limit < 1:
        raise UserError(f"--limit takes a number from 1, not {limit}")


def load_puzzles(
    config: RunConfig, data: str | None, split: str, limit: int | None
) -> tuple[Source, Table, str]:
    """The puzzles that a user names, where they come from, and what split they are.

    A file is taken whole, unless the checkpoint was trained on a part of it.
    """
    if data == "":
        raise UserError("--data names no puzzles; leave it out for those of training")
    source = open_source(data or _training_source(config))
    if isinstance(source, File) and not _is_one_of(source.path, [config.data]):
        seen = _is_one_of(source.path, config.more_data)
        table, split = source.load(config.task, split), "train" if seen else "all"
    else:
        table = load_split(source, config.task, split)
    return source, table if limit is None else table[:limit], split


def eval_(
    checkpoint: CheckpointWord, task: str | None = None, data: str | None = None,
    split: str = "test", steps: str | None = None, early_stop: bool = False,
    symmetry_retries: int = 0, limit: int | None = None, control: str = "none",
    out: str | None = None, json: bool = False,
) -> None:  # fmt: skip
    """Exact rate of a checkpoint, with intervals, at one or more numbers of steps.

    Args:
        checkpoint: a released name, a checkpoint folder, a run's folder (its best checkpoint),
            or a hub id.
        task: sudoku or maze; checked against the checkpoint.
        data: a folder, a CSV file (all of it, unless it is what was trained on; its mazes may be
            of another size than those of training), hub, hub:OWNER/NAME or generated; default
            as in training.
        split: train, validation or test, where the data has them.
        steps: numbers of steps K, such as 16,64,128; default that of validation.
        early_stop: a puzzle whose answer obeys the rules takes no further steps (sudoku): as right
            as all steps, and several times faster.
        symmetry_retries: where an answer breaks the rules, solve the puzzle again under so many
            symmetries at most, and take the first answer that does not (sudoku).
        limit: only the first so many puzzles.
        control: whether the language model matters: zeroed (its encoding R set to 0), shuffled (R
            of another puzzle), or adapter-off; prints the size of the adapter too.
        out: folder for all answers and rates, for focus report.
        json: print one JSON object instead of a table.
    """
    numbers = None if steps is None else _numbers(steps)
    check_split(split, limit)
    check_control(control)
    file = Path(data or "").expanduser()
    side = side_of_file(file) if file.is_file() else None
    solver, config = load_checkpoint(checkpoint, task, side)
    check_symmetry_retries(solver, symmetry_retries)
    check_early_stop(solver, early_stop)
    source, table, split = load_puzzles(config, data, split, limit)
    solver.task.check_rows(table.questions)
    numbers = numbers or [config.eval_steps]
    if out:
        _claim(Path(out), config)
    asked = ", ".join(f"{k:,}" for k in numbers)
    what = f"{source.describe()}, {split}: {counted(len(table), 'puzzle')}, K = {asked}"
    with controlled(solver, control), progress_lines() as tell:
        print(f"focus eval: {what}", file=sys.stderr, flush=True)
        results = evaluate(
            solver, table, numbers, early_stop=early_stop,
            progress=lambda done: tell(f"{len(table)} puzzles", done, len(table)),
        )  # fmt: skip
        for number, one in enumerate(results if symmetry_retries else ()):
            tell("symmetry retries", number, len(results))
            results[number] = retry_under_symmetries(
                solver, table, one, symmetry_retries, early_stop=early_stop
            )
    summaries = [result.summary() for result in results]
    about: dict = {} if control == "none" else {"control": control}
    if about and solver.has_adapter:
        about["adapter"] = adapter_norm(solver)
    if symmetry_retries:
        about["symmetry_retries"] = symmetry_retries
    if early_stop:
        about["early_stop"] = True
    if out:
        context = {"split": split, "data": source.describe(), **about}
        _write_predictions(Path(out), results, table, config, context)
    if json:
        about = {"checkpoint": checkpoint, "data": source.describe(), "split": split, **about}
        print_json({"results": summaries, **about})
        return
    text = TextTable(title=f"{Path(checkpoint).name}, {source.describe()}, {split}")
    for heading in ("K", "exact", "95 % interval", "n", *results[0].diagnostics):
        text.add_column(heading, justify="right")
    for summary, result in zip(summaries, results, strict=True):
        text.add_row(
            str(summary["steps"]), f"{summary['exact']:.4f}",
            f"{summary['low']:.4f} - {summary['high']:.4f}", f"{summary['n']:,}",
            *(f"{summary[name]:.4f}" for name in result.diagnostics),
        )  # fmt: skip
    Console().print(text)
    last = results[-1]
    after = f" after {last.steps} steps" if last.steps else ""
    after += f" and at most {symmetry_retries} symmetry retries" if symmetry_retries else ""
    print(f"{last.exact.sum():,} of {len(last.exact):,} puzzles solved exactly{after}")
    if control != "none":
        size = (
            f"; ||dW|| / ||W|| of the adapter {about['adapter']:.4f}" if "adapter" in about else ""
        )
        print(f"control: {control}{size}")


def _claim(folder: Path, config: RunConfig) -> None:
    """Refuse a folder that cannot be written to, or that holds something else, before the work."""
    if holds_a_run(folder) or (folder / MANIFEST).exists():
        raise UserError(f"{folder} holds a run or a checkpoint; choose another --out")
    stored = folder / "config.json"
    if stored.exists() and first_difference(read_config(stored), config):
        raise UserError(f"{folder} holds the evaluation of another run; choose another --out")
    check_writable(folder)


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
        check_steps(*numbers)
    except ValueError as error:
        raise UserError(f"--steps takes numbers such as 16,64,128, not {text!r}") from error
    except UserError as error:
        raise UserError(f"--steps: {error}") from error
    return numbers


def _write_predictions(
    folder: Path, results: list[Evaluation], table: Table, config: RunConfig, about: dict
) -> None:
    """What `focus report` reads: puzzles, every answer, the rates, and the run that made them."""
    text, lines = config.task.answer_text, []
    for result in results:
        parsed = result.diagnostics.get("parsed", np.ones(len(table), bool))
        for row, (answer, exact) in enumerate(zip(result.answers, result.exact, strict=True)):
            head = {"id": int(table.ids[row]), "steps": result.steps, "exact": bool(exact)}
            scores = {name: float(values[row]) for name, values in result.diagnostics.items()}
            # A completion that the parser refused leaves the question as it was.
            shown = text(answer) if parsed[row] else config.task.question_text(answer)
            lines.append(json_text({**head, "answer": shown, **scores}))
    write_text(folder / "predictions.jsonl", "\n".join(lines) + "\n")
    puzzles = [
        {"id": int(id_), "question": config.task.question_text(question), "answer": text(answer)}
        for id_, question, answer in zip(table.ids, table.questions, table.answers, strict=True)
    ]
    write_text(folder / "puzzles.jsonl", "".join(json_text(line) + "\n" for line in puzzles))
    summaries = [result.summary() for result in results]
    write_text(folder / "results.json", json_text({"results": summaries, **about}) + "\n")
    write_text(folder / "config.json", to_json(config))
