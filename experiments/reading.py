"""How much of R depends on the puzzle that a language model reads, and what that is worth.

And how much of what it makes of ordinary text is the same for every token.

python -m experiments.reading NAME CHECKPOINT    # docs/results/reading-NAME.json
python -m experiments.reading --table            # the table of the stored figures

R is that of 100 validation puzzles ($FOCUS_DATA), as trained and of an untrained solver of the same
kind. The solver is tested with its own R, with the mean of R over the puzzles, and with the mean
over their cells as well. Text is that of the first problems of MATH with their solutions, read with
the adapter and without; the data folder holds math/ too. Minutes on two cores.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor

from experiments.stored import (
    RESULTS,
    command_line,
    markdown,
    one_line,
    pack,
    rate_of,
    unpack,
    weights_of,
)
from focus.data.sources import DATA_VARIABLE, Generated, open_source
from focus.data.splits import load_split
from focus.data.table import Table
from focus.errors import UserError
from focus.evaluation.controls import adapter_norm, controlled
from focus.evaluation.puzzles import evaluate
from focus.evaluation.transfer import BENCHMARKS
from focus.files import write_text
from focus.model.backbone import LanguageModel
from focus.model.checkpoint import build_model
from focus.model.solver import Solver, solver_of

PUZZLES = 100
TEXTS = 20
_LONGEST, _BEGINNING = 300, 5  # tokens of a text; its first ones are unlike all others
_BATCH = 20  # puzzles that are read at a time
# What the solver is given, and the dimensions of R that it is the mean over.
_GIVEN = {"its own": (), "the mean over puzzles": (0,), "the mean over puzzles and cells": (0, 1)}


@torch.no_grad()
def read(solver: Solver, table: Table) -> Float[Tensor, "puzzles tokens width"]:
    """R of every puzzle."""
    backbone, parts = solver.backbone, []
    for begin in range(0, len(table), _BATCH):
        x = solver.task.problem(table.questions[begin : begin + _BATCH])
        parts.append(backbone.project(backbone.read(x)).float())
    return torch.cat(parts)


def shares(R: Float[Tensor, "puzzles tokens width"]) -> dict[str, float]:
    """R's mean square, and the shares of it that depend on the cell and on the puzzle."""
    of_cell, of_all = R.mean(0, keepdim=True), R.mean((0, 1), keepdim=True)
    size = R.square().mean().item()
    return {
        "mean_square": size,
        "cell": (of_cell - of_all).square().mean().item() / size,
        "puzzle": (R - of_cell).square().mean().item() / size,
    }


@torch.no_grad()
def common(solver: Solver, texts: Sequence[str]) -> float:
    """The share of the last hidden states' mean square that is the same for every token."""
    backbone, parts = solver.backbone, []
    assert isinstance(backbone, LanguageModel)
    for text in texts:
        ids = [*backbone.codec.begin, *backbone.codec.encode(text)][:_LONGEST]
        parts.append(backbone.hidden(torch.tensor([ids]))[0, _BEGINNING:].float())
    hidden = torch.cat(parts)
    return (hidden.mean(0).square().sum() / hidden.square().sum(1).mean()).item()


@contextmanager
def replaced(solver: Solver, R: Float[Tensor, "puzzles tokens width"]) -> Iterator[None]:
    """Inside the block the language model is not read: R is what is given."""
    backbone = solver.backbone
    changes = {"read": lambda x: R, "project": lambda read: read}
    for name, change in changes.items():
        object.__setattr__(backbone, name, change)
    try:
        yield
    finally:
        for name in changes:
            object.__delattr__(backbone, name)


def measure(
    checkpoint: str, table: Table | None = None, texts: Sequence[str] | None = None
) -> dict:
    """Shares of R before training and after it, which puzzles each R solves, and text."""
    solver = Solver.from_pretrained(checkpoint).eval()
    if solver.language_model is None:
        raise UserError(f"{checkpoint} has no language model")
    if table is None:
        source = open_source(None)
        if isinstance(source, Generated):
            raise UserError(
                f"set {DATA_VARIABLE} to a folder with the data: generated puzzles are easy"
            )
        table = load_split(source, solver.task, "validation")[:PUZZLES]
    if texts is None:
        try:
            items = BENCHMARKS["math"].items(None)[:TEXTS]
        except UserError as error:
            reason = str(error).partition(";")[0]  # what follows names a flag of another command
            raise UserError(f"set {DATA_VARIABLE} to a folder with MATH too: {reason}") from error
        texts = [f"{item.fields['problem']}\n{item.gold}" for item in items]
    with controlled(solver, "adapter-off" if solver.has_adapter else "none"):
        unadapted = common(solver, texts)
    torch.manual_seed(0)
    fresh = solver_of(build_model(solver.task, solver.config), checkpoint).eval()
    R, steps, exact = read(solver, table), solver.default_steps, {}
    for name, over in _GIVEN.items():
        given = R.mean(over, keepdim=True).expand_as(R) if over else R
        with replaced(solver, given):
            (result,) = evaluate(solver, table, steps, batch=len(table))
        exact[name] = pack(result.exact)
    return {
        "weights": weights_of(checkpoint), "backbone": solver.config.backbone.name,
        "adapter": adapter_norm(solver) if solver.has_adapter else 0.0,
        "n": len(table), "steps": steps,
        "untrained": shares(read(fresh, table)), "trained": shares(R), "exact": exact,
        "texts": {"unadapted": unadapted, "adapted": common(solver, texts)},
    }  # fmt: skip


def reading() -> str:
    """Mean square of the part of R that depends on the puzzle; exact solves with it and without."""
    rows = [[
        "solver", "untrained", "trained", "K", *(f"exact, R is {one}" for one in _GIVEN),
        "the same in all tokens of text, without the adapter", "with it",
    ]]  # fmt: skip
    for file in sorted(RESULTS.glob("reading-*.json")):
        stored = json.loads(file.read_text(encoding="utf-8"))
        parts = [
            f"{R['puzzle'] * R['mean_square']:.2g} ({100 * R['puzzle']:.2g} % of R)"
            for R in (stored["untrained"], stored["trained"])
        ]
        rates = [rate_of(unpack(stored["exact"][name], stored["n"])) for name in _GIVEN]
        name = file.stem.removeprefix("reading-")
        same = [f"{100 * share:.0f} %" for share in stored.get("texts", {}).values()]
        rows.append([f"`{name}`", *parts, str(stored["steps"]), *rates, *(same or ["–", "–"])])
    return markdown(rows)


def main() -> None:
    """The command line."""
    parser = command_line(__doc__)
    parser.add_argument("name", nargs="?")
    parser.add_argument("checkpoint", nargs="?")
    parser.add_argument("--table", action="store_true", help="print the stored figures' table")
    words = parser.parse_args()
    with one_line("reading"):
        if not words.table:
            if words.checkpoint is None:
                raise UserError("name the figures and a checkpoint; --help explains it")
            figures = measure(words.checkpoint)
            write_text(RESULTS / f"reading-{words.name}.json", json.dumps(figures, indent=1) + "\n")
        print(reading())


if __name__ == "__main__":
    main()
