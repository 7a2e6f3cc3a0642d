"""`focus solve`: one puzzle, and its repair."""

import contextlib
import json as json_module
import re
import sys
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.live import Live
from rich.text import Text

from focus.commands.evaluate import load_checkpoint
from focus.data.table import Table, read_text
from focus.errors import GivenUpError, UserError
from focus.evaluation.source import Evaluation
from focus.evaluation.stopping import check_stop
from focus.evaluation.turns import check_turns, try_turned
from focus.files import write_text
from focus.model.checkpoint import Model, released_for
from focus.model.solver import Solver, evaluating
from focus.report.examples import example as make_example
from focus.report.page import standalone
from focus.report.trajectory import name_solvers, show_repairs
from focus.tasks import task_class
from focus.tasks.base import Codes, Task
from focus.training.config import RunConfig

_FILE_NAME = r".*/.*|.*\.[a-z][a-z0-9]+"  # what cannot be a puzzle


def solve(
    puzzle: Annotated[str, tyro.conf.Positional] = "-", task: str | None = None,
    checkpoint: str | None = None, steps: int | None = None, watch: bool = False,
    stop: bool = False, turns: int = 0, example: str | None = None, seed: int = 0,
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
        stop: take no further step once the answer obeys the rules (sudoku).
        turns: where the answer breaks the rules, solve the puzzle again under so many symmetries
            at most (sudoku).
        example: in place of a puzzle: easy, medium, hard or extreme generates one.
        seed: which example.
        json: print one JSON object instead: answer, valid, steps taken (and turns).
        html: also write the repair as one HTML file that plays it, without a server.
        against: with --html, a second checkpoint to show beside it.
    """
    if against and not html:
        raise UserError("--against goes with --html FILE")
    if example and puzzle != "-":
        raise UserError("--example makes the puzzle; leave PUZZLE out")
    text = "" if example else _puzzle_text(puzzle)
    if not example and not text.strip():
        raise UserError(
            "there is no puzzle: give one, a file that holds one, - and one on standard input, or "
            "--example hard"
        )
    if task is not None:
        task_class(task)  # says which there are
    checkpoint = checkpoint or released_for(task or ("maze" if "#" in text else "sudoku"))
    lines = text.strip("\r\n").count("\n") + 1
    side = lines if lines > 1 else None
    solver, config = load_checkpoint(checkpoint, task, side)
    if not isinstance(solver, Solver):
        raise UserError(f"{checkpoint} writes its answer; it has no revisions to solve with")
    steps = config.eval_steps if steps is None else steps
    if steps < 1:
        raise UserError(f"--steps takes a number from 1, not {steps}")
    check_turns(solver, turns)
    check_stop(solver, stop)
    question = make_example(config.task, example, seed) if example else config.task.parse(text)
    _check(config.task, question)
    if html:
        shown: list[tuple[str, Model, RunConfig]] = [(checkpoint, solver, config)]
        if against:
            shown.append((against, *load_checkpoint(against, config.task.name, side)))
        write_text(Path(html), standalone(show_repairs(name_solvers(shown), question, steps)))
    answer, valid, taken = _revise(solver, question, steps, watch and not json, stop)
    tried = 0
    if turns and not valid:
        answer, valid, tried = _turn(solver, question, answer, steps, turns, stop)
    if json:
        told = {"answer": config.task.answer_text(answer), "valid": valid, "steps": taken}
        told |= {"turns": tried} if turns else {}
        sys.stdout.write(json_module.dumps(told) + "\n")
        return
    if not watch or tried:
        print(config.task.render(question, answer))
    within = f"{steps} steps" + (f" and {tried} turns" if tried else "")
    if valid:
        at = f" at turn {tried}" if tried else f" in {taken} steps" if stop else ""
        print(f"solved{at}")
    else:
        print(f"not solved in {within}: the answer breaks the rules")


def _check(task: Task, question: Codes) -> None:
    """Refuse a puzzle that has no answer, or several; a search that gave up knows nothing."""
    with contextlib.suppress(GivenUpError):
        task.solve(question)


def _turn(
    solver: Solver, question: Codes, answer: Codes, steps: int, turns: int, stop: bool
) -> tuple[Codes, bool, int]:
    """The first right answer of further tries, or the old one; whether it is right; the tries."""
    table = Table(question[None], question[None], np.zeros(1, int), "")  # its label is not known
    wrong = {"valid": np.zeros(1)}
    found = try_turned(
        solver, table, Evaluation(steps, np.zeros(1, bool), answer[None], wrong), turns, stop=stop
    )
    tried = int(found.diagnostics["turns"][0])
    return found.answers[0], bool(found.diagnostics["valid"][0]), tried


def _puzzle_text(puzzle: str) -> str:
    if puzzle == "-":
        return sys.stdin.read()
    path = Path(puzzle)
    try:
        is_file, is_folder = path.is_file(), path.is_dir()
    except (OSError, ValueError):  # too long for a file name: it is a puzzle
        return puzzle
    if is_file:
        text = read_text(path)
        if re.match(r"(\w+,)*question(,|\s)", text):
            raise UserError(f"{puzzle} is a CSV of puzzles; one is solved at a time: paste one")
        return text
    if is_folder or re.fullmatch(_FILE_NAME, puzzle):
        raise UserError(f"no such file: {puzzle}; give a puzzle, or a file that holds one")
    return puzzle


@torch.no_grad()
def _revise(
    solver: Solver, question: Codes, steps: int, watch: bool, stop: bool
) -> tuple[Codes, bool, int]:
    """Roll out, drawing each step if asked to; the last answer, whether it is right, its step."""
    task = solver.task
    device = next(solver.parameters()).device
    x, _ = task.unpack(task.pack(question[None], question[None]).to(device))
    with evaluating(solver), Live(console=Console(), auto_refresh=False) as live:
        conditioning, state = solver.encode(x), solver.updater.initial(x)
        previous = answer = question
        step, valid = 0, False
        while step < steps and not (stop and valid):
            step += 1
            state = solver.updater(state, conditioning, x)
            answer = task.answer_codes(task.decode(state.z, x), x)[0]
            if watch:
                live.update(_drawing(solver, question, answer, previous, step), refresh=True)
                time.sleep(0.05)
            previous = answer
            if stop or step == steps:
                valid = bool(task.judge(question[None], answer[None]).valid[0])
    return answer, valid, step


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
