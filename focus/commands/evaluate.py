"""`focus eval` and `focus solve`: use a checkpoint."""

import json as json_module
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.live import Live
from rich.progress import Progress
from rich.table import Table as TextTable
from rich.text import Text

from focus.config import to_json
from focus.data.sources import File, open_source
from focus.data.splits import make_splits
from focus.data.table import Table, side_of_file
from focus.errors import UserError
from focus.evaluation.controls import adapter_norm, controlled
from focus.evaluation.source import Evaluation, evaluate
from focus.files import write_text
from focus.model.checkpoint import (
    Model,
    checkpoint_folder,
    fetch,
    has_adapter,
    load_model,
    released_for,
)
from focus.model.solver import Solver, evaluating
from focus.report.examples import example as make_example
from focus.report.page import standalone
from focus.report.trajectory import name_solvers, show_repairs
from focus.tasks.base import Codes
from focus.training.config import RunConfig, read_config

Word = Annotated[str, tyro.conf.Positional]


def _training_source(config: RunConfig) -> str | None:
    """What the checkpoint was trained on, where that is to be had here."""
    return None if os.path.isabs(config.data) and not Path(config.data).exists() else config.data


def load_checkpoint(
    checkpoint: str, task: str | None, side: int | None = None
) -> tuple[Model, RunConfig]:
    """The model of a folder or hub id, on the GPU if there is one, and its config.

    `side` is the size of the puzzles to be solved, where it is known.
    """
    folder = checkpoint_folder(fetch(checkpoint))
    config = read_config(folder / "config.json")
    if task and task != config.task.name:
        raise UserError(f"the checkpoint {checkpoint} solves {config.task.name}, not {task}")
    model = load_model(folder, side)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu")
    return model, replace(config, task=model.task)


def eval_(
    checkpoint: Word, task: str | None = None, data: str | None = None, split: str = "test",
    steps: str = "",
    limit: int | None = None, control: str = "none", out: str | None = None, json: bool = False,
) -> None:  # fmt: skip
    """Exact rate of a checkpoint, with intervals, at one or more numbers of steps.

    Args:
        checkpoint: a released name, a checkpoint folder, a run's folder (its best checkpoint),
            or a hub id.
        task: sudoku or maze; checked against the checkpoint.
        data: a folder, a CSV file (its mazes may be of another size than those of training),
            hub, hub:OWNER/NAME or generated; default as in training.
        split: train, validation or test.
        steps: numbers of updates K, such as 16,64,128; default that of validation.
        limit: only so many puzzles.
        control: does the language model matter? R zeroed, R shuffled (between puzzles), or
            adapter-off; the size of the adapter is told too.
        out: folder for all answers and rates, for focus report.
        json: print one JSON object instead of a table.
    """
    file = Path(data or "")
    side = side_of_file(file) if file.is_file() else None
    solver, config = load_checkpoint(checkpoint, task, side)
    if split not in ("train", "validation", "test"):
        raise UserError(f"the splits are train, validation and test, not {split!r}")
    if limit is not None and limit < 1:
        raise UserError(f"--limit takes a number from 1, not {limit}")
    source = open_source(data or _training_source(config))
    # A single file is evaluated whole, whatever split it may have been cut from.
    whole = isinstance(source, File)
    table = (
        source.load(config.task, split)
        if whole
        else make_splits(source, config.task).tables()[split]
    )
    table = table if limit is None else table[:limit]
    with (
        Progress(console=Console(stderr=True), transient=True) as bar,
        controlled(solver, control),
    ):
        line = bar.add_task(f"{len(table)} puzzles", total=len(table))
        results = evaluate(
            solver, table, _numbers(steps) or [config.eval_steps],
            progress=lambda done: bar.update(line, completed=done),
        )  # fmt: skip
    summaries = [result.summary() for result in results]
    about: dict = {} if control == "none" else {"control": control}
    if about and has_adapter(solver):
        about["adapter"] = adapter_norm(solver)
    if out:
        known = {"split": split, "data": source.describe(), **about}
        _write_predictions(Path(out), results, table, config, known)
    if json:
        sys.stdout.write(json_module.dumps({"results": summaries, **about}) + "\n")
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
    print(f"{last.exact.sum():,} of {len(last.exact):,} puzzles came out exact{after}")
    if about:
        size = (
            f"; ||dW|| / ||W|| of the adapter {about['adapter']:.4f}" if "adapter" in about else ""
        )
        print(f"control: {control}{size}")


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise UserError(f"--steps takes numbers such as 16,64,128, not {text!r}") from error
    if any(number < 1 for number in numbers):
        raise UserError(f"--steps takes numbers from 1, not {text!r}")
    return numbers


def _write_predictions(
    folder: Path, results: list[Evaluation], table: Table, config: RunConfig, about: dict
) -> None:
    """What `focus report` reads: puzzles, every answer, the rates, and the run that made them."""
    text, lines = config.task.answer_text, []
    for result in results:
        parsed = result.diagnostics.get("parsed", np.ones(len(table), bool))
        for row, (answer, exact) in enumerate(zip(result.answers, result.exact, strict=True)):
            known = {"id": int(table.ids[row]), "steps": result.steps, "exact": bool(exact)}
            scores = {name: float(values[row]) for name, values in result.diagnostics.items()}
            # A completion that the parser refused leaves the question as it was.
            shown = text(answer) if parsed[row] else config.task.question_text(answer)
            lines.append(json_module.dumps({**known, "answer": shown, **scores}))
    write_text(folder / "predictions.jsonl", "\n".join(lines) + "\n")
    puzzles = [
        {"id": int(id_), "question": config.task.question_text(question), "answer": text(answer)}
        for id_, question, answer in zip(table.ids, table.questions, table.answers, strict=True)
    ]
    write_text(
        folder / "puzzles.jsonl", "".join(json_module.dumps(line) + "\n" for line in puzzles)
    )
    summaries = [result.summary() for result in results]
    write_text(folder / "results.json", json_module.dumps({"results": summaries, **about}) + "\n")
    write_text(folder / "config.json", to_json(config))


def solve(
    puzzle: Annotated[str, tyro.conf.Positional] = "-", task: str | None = None,
    checkpoint: str | None = None, steps: int | None = None, watch: bool = False,
    example: str | None = None, seed: int = 0,
    json: bool = False, html: str | None = None, against: str | None = None,
) -> None:  # fmt: skip
    """Solve one puzzle and watch its repair.

    Args:
        puzzle: the puzzle itself, a file that holds it, or - for standard input.
        task: sudoku or maze; checked against the checkpoint, else guessed from the puzzle.
        checkpoint: a released name, a checkpoint folder, the folder of a run, or a hub id;
            default the released solver of the task.
        steps: number of updates K; default that of validation.
        watch: draw every revision; changed cells stand out.
        example: in place of a puzzle: easy, medium, hard or extreme generates one.
        seed: which example.
        json: print one JSON object instead: answer, valid, steps.
        html: also write the repair as one HTML file that plays it, without a server.
        against: with --html, a second checkpoint to show beside it.
    """
    if against and not html:
        raise UserError("--against goes with --html FILE")
    if example and puzzle != "-":
        raise UserError("--example makes the puzzle; leave PUZZLE out")
    text = "" if example else _puzzle_text(puzzle)
    checkpoint = checkpoint or released_for(task or ("maze" if "#" in text else "sudoku"))
    lines = text.strip("\r\n").count("\n") + 1
    side = lines if lines > 1 else None
    solver, config = load_checkpoint(checkpoint, task, side)
    if not isinstance(solver, Solver):
        raise UserError(f"{checkpoint} writes its answer; it has no revisions to solve with")
    steps = config.eval_steps if steps is None else steps
    if steps < 1:
        raise UserError(f"--steps takes a number from 1, not {steps}")
    question = make_example(config.task, example, seed) if example else config.task.parse(text)
    if html:
        shown: list[tuple[str, Model, RunConfig]] = [(checkpoint, solver, config)]
        if against:
            shown.append((against, *load_checkpoint(against, config.task.name, side)))
        write_text(Path(html), standalone(show_repairs(name_solvers(shown), question, steps)))
    answer, valid = _revise(solver, question, steps, watch and not json)
    if json:
        text = config.task.answer_text(answer)
        sys.stdout.write(json_module.dumps({"answer": text, "valid": valid, "steps": steps}) + "\n")
        return
    if not watch:
        print(config.task.render(question, answer))
    print("solved" if valid else f"not solved in {steps} steps: the answer breaks the rules")


def _puzzle_text(puzzle: str) -> str:
    if puzzle == "-":
        return sys.stdin.read()
    try:
        path = Path(puzzle)
        return path.read_text(encoding="utf-8") if path.is_file() else puzzle
    except (OSError, ValueError):  # too long for a file name: it is a puzzle
        return puzzle


@torch.no_grad()
def _revise(solver: Solver, question: Codes, steps: int, watch: bool) -> tuple[Codes, bool]:
    """Roll out, drawing each step if asked to; the last answer, and whether it is right."""
    task = solver.task
    device = next(solver.parameters()).device
    x, _ = task.unpack(task.pack(question[None], question[None]).to(device))
    with evaluating(solver), Live(console=Console(), auto_refresh=False) as live:
        conditioning, state = solver.encode(x), solver.updater.initial(x)
        previous = question
        answer = question
        for step in range(1, steps + 1):
            state = solver.updater(state, conditioning, x)
            answer = task.answer_codes(task.decode(state.z, x), x)[0]
            if watch:
                live.update(_drawing(solver, question, answer, previous, step), refresh=True)
                time.sleep(0.05)
            previous = answer
    verdict = task.judge(question[None], answer[None])
    return answer, bool(verdict.valid[0])


def _drawing(solver: Solver, question: Codes, answer: Codes, previous: Codes, step: int) -> Text:
    """The answer as text: changed cells bold, the puzzle's own cells dim."""
    task, text = solver.task, Text(f"step {step}\n")
    rendered = task.render(question, answer)
    cells = iter(range(task.cells))
    drawn = set(task.answer_symbols) | set(task.question_symbols)
    for character in rendered:
        style = ""
        is_cell = character in drawn and not (task.name == "sudoku" and character == " ")
        if is_cell:
            cell = next(cells, 0)
            given = question[cell] == answer[cell]
            style = "bold green" if answer[cell] != previous[cell] else "dim" if given else ""
        text.append(character, style)
    return text.append("\n")
