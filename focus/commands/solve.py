"""`focus solve`: one puzzle, and its repair."""

import contextlib
import re
import sys
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console
from rich.live import Live
from rich.text import Text

from focus.commands.evaluate import load_checkpoint
from focus.commands.output import print_json
from focus.data.examples import check_example
from focus.data.examples import example as make_example
from focus.data.table import Table, read_text
from focus.errors import GivenUpError, UserError
from focus.evaluation.puzzles import Evaluation, check_early_stop
from focus.evaluation.symmetry_retries import check_symmetry_retries, retry_under_symmetries
from focus.files import write_text
from focus.model.base import Model, check_steps
from focus.model.checkpoint import released_for
from focus.model.solver import Solver, solver_of
from focus.tasks import task_class
from focus.tasks.base import Codes, Task
from focus.training.config import RunConfig
from focus.web.page import standalone
from focus.web.repair import name_solvers, show_repairs
from focus.web.svg import animated_svg

_FILE_NAME = r".*/.*|.*\.[a-z][a-z0-9]+"  # what cannot be a puzzle


def solve(
    puzzle: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PUZZLE")] = "-",
    task: str | None = None, checkpoint: str | None = None, steps: int | None = None,
    watch: bool = False, early_stop: bool = False, symmetry_retries: int = 0,
    example: str | None = None, seed: int = 0, json: bool = False, html: str | None = None,
    svg: str | None = None, against: str | None = None,
) -> None:  # fmt: skip
    """Solve one puzzle and watch its repair.

    Args:
        puzzle: the puzzle itself, a file that holds it, or - for standard input.
        task: sudoku, maze, or a task of an installed package; default guessed from the puzzle.
        checkpoint: a released name, a checkpoint folder, the folder of a run, or a hub id;
            default the released solver of the task.
        steps: how often the answer is revised (K); default that of validation.
        watch: draw every revision; changed cells stand out.
        early_stop: take no further step once the answer obeys the rules (sudoku).
        symmetry_retries: where the answer breaks the rules, solve the puzzle again under so many
            symmetries at most (sudoku).
        example: in place of a puzzle: easy, medium, hard or extreme generates one.
        seed: which example.
        json: print one JSON object instead: answer, valid, steps taken (and retries).
        html: also write the repair as one HTML file that plays it, without a server.
        svg: also write the repair as an animated SVG picture, for a README or a slide.
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
    if example:
        check_example(example, seed)
    if steps is not None:
        check_steps(steps)
    if task is not None:
        task_class(task)  # says which there are
    checkpoint = checkpoint or released_for(task or ("maze" if "#" in text else "sudoku"))
    lines = text.strip("\r\n").count("\n") + 1
    side = lines if lines > 1 else None
    model, config = load_checkpoint(checkpoint, task, side)
    solver = solver_of(model, checkpoint)
    steps = config.eval_steps if steps is None else steps
    check_symmetry_retries(solver, symmetry_retries)
    check_early_stop(solver, early_stop)
    question = make_example(config.task, example, seed) if example else config.task.parse(text)
    _check(config.task, question)
    if html or svg:
        solvers: list[tuple[str, Model, RunConfig]] = [(checkpoint, solver, config)]
        if against:
            solvers.append((against, *load_checkpoint(against, config.task.name, side)))
        shown = show_repairs(name_solvers(solvers), question, steps)
        if html:
            write_text(Path(html), standalone(shown))
        if svg:
            write_text(Path(svg), animated_svg(shown))
    answer, valid, taken = _revise(solver, question, steps, watch and not json, early_stop)
    tried = 0
    if symmetry_retries and not valid:
        answer, valid, tried = _retry(solver, question, answer, steps, symmetry_retries, early_stop)
    if json:
        result = {"answer": config.task.answer_text(answer), "valid": valid, "steps": taken}
        result |= {"symmetry_retries": tried} if symmetry_retries else {}
        print_json(result)
        return
    if not watch or tried:
        print(config.task.render(question, answer))
    within = f"{steps} steps" + (f" and {tried} symmetry retries" if tried else "")
    if valid:
        at = f" at symmetry retry {tried}" if tried else f" in {taken} steps" if early_stop else ""
        print(f"solved{at}")
    else:
        print(f"not solved in {within}: the answer breaks the rules")


def _check(task: Task, question: Codes) -> None:
    """Refuse a puzzle that has no answer, or several; a search that gave up knows nothing."""
    with contextlib.suppress(GivenUpError):
        task.solve(question)


def _retry(
    solver: Solver, question: Codes, answer: Codes, steps: int, retries: int, early_stop: bool
) -> tuple[Codes, bool, int]:
    """The first right answer of further tries, or the old one; whether it is right; the tries."""
    table = Table(question[None], question[None], np.zeros(1, int), "")  # its label is not known
    first = Evaluation(steps, np.zeros(1, bool), answer[None], {"valid": np.zeros(1)})
    last = retry_under_symmetries(solver, table, first, retries, early_stop=early_stop)
    tried = int(last.diagnostics["symmetry_retries"][0])
    return last.answers[0], bool(last.diagnostics["valid"][0]), tried


def _puzzle_text(puzzle: str) -> str:
    if puzzle == "-":
        return sys.stdin.read()
    if not puzzle.strip():
        return ""
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
    if is_folder:
        raise UserError(f"{puzzle} is a folder; give a puzzle, or a file that holds one")
    if re.fullmatch(_FILE_NAME, puzzle):
        raise UserError(f"no such file: {puzzle}; give a puzzle, or a file that holds one")
    return puzzle


def _revise(
    solver: Solver, question: Codes, steps: int, watch: bool, early_stop: bool
) -> tuple[Codes, bool, int]:
    """Roll out, drawing each step if asked to; the last answer, whether it is right, its step."""
    task = solver.task
    previous = answer = question
    valid, step = False, 0
    every = range(1, steps + 1) if watch or early_stop else [steps]
    with Live(console=Console(), auto_refresh=False) as live:
        x = task.problem(question[None]).to(solver.device)
        for prediction in solver.predict(x, question[None], every):
            step, answer = prediction.steps, prediction.answers[0]
            if watch:
                live.update(_drawing(task, question, answer, previous, step), refresh=True)
                time.sleep(0.05)
            previous = answer
            if early_stop or step == steps:
                valid = bool(task.judge(question[None], answer[None]).valid[0])
            if early_stop and valid:
                break
    return answer, valid, step


def _drawing(task: Task, question: Codes, answer: Codes, previous: Codes, step: int) -> Text:
    """The answer as text: changed cells bold, the puzzle's own cells dim."""
    text = Text(f"step {step}\n")
    for piece, cell in task.render_cells(question, answer):
        style = ""
        if cell is not None and answer[cell] != previous[cell]:
            style = "bold green"
        elif cell is not None and question[cell] == answer[cell]:
            style = "dim"
        text.append(piece, style)
    return text.append("\n")
