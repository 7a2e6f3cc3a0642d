"""`focus diagnose`: what happens along a rollout."""

from dataclasses import asdict
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table as TextTable

from focus.commands.evaluate import CheckpointWord, check_split, load_checkpoint, load_puzzles
from focus.commands.output import print_json, progress_lines
from focus.evaluation.diagnose import Diagnosis, diagnose
from focus.files import check_writable, json_text, write_text
from focus.model.base import check_steps
from focus.model.solver import solver_of


def diagnose_(
    checkpoint: CheckpointWord, task: str | None = None,
    data: str | None = None, split: str = "validation", steps: int = 1024, limit: int = 200,
    out: str | None = None, json: bool = False,
) -> None:  # fmt: skip
    """Find what goes wrong along a rollout: drift, runaway logits, solved puzzles lost again.

    Args:
        checkpoint: a released name, a checkpoint folder, a run's folder (its best checkpoint),
            or a hub id.
        task: sudoku or maze; checked against the checkpoint.
        data: a folder, a CSV file, hub, hub:OWNER/NAME or generated; default as in training.
        split: train, validation or test, where the data has them.
        steps: steps K of the rollout.
        limit: only so many puzzles.
        out: folder for the table as JSON and for a figure.
        json: print one JSON object instead of a table.
    """
    check_steps(steps)
    check_split(split, limit)
    model, config = load_checkpoint(checkpoint, task)
    solver = solver_of(model, checkpoint)
    source, table, split = load_puzzles(config, data, split, limit)
    if out:
        check_writable(Path(out))
    with progress_lines() as tell:
        diagnosis = diagnose(solver, table, steps, progress=partial(tell, f"{len(table)} puzzles"))
    figures = {
        "checkpoint": checkpoint, "data": source.describe(), "split": split, "n": len(table),
        "verdict": diagnosis.verdict(),
        "results": [asdict(moment) for moment in diagnosis.moments],
    }  # fmt: skip
    if out:
        from focus.report.rollout import draw_rollout

        write_text(Path(out, "diagnosis.json"), json_text(figures) + "\n")
        draw_rollout(diagnosis, Path(out))
    if json:
        print_json(figures)
        return
    title = f"{Path(checkpoint).name}, {source.describe()}, {split}, {len(table)} puzzles"
    Console().print(_table(diagnosis, title))
    print(diagnosis.verdict())
    if out:
        print(f"figure: {Path(out, 'rollout.svg')}")


def _table(diagnosis: Diagnosis, title: str) -> TextTable:
    channels = list(diagnosis.moments[0].mean)
    text = TextTable(title=title, box=None, padding=(0, 1, 0, 0))
    headings = ["K", "exact", "gained", "lost", "energy", "sure", "bound", "moved", "u", "u moved"]
    for name in channels:
        headings += [f"mean {name}", f"spread {name}"]
    for heading in headings:
        text.add_column(heading, justify="right")
    for one in diagnosis.moments:
        cells = [
            str(one.step), f"{100 * one.exact:.1f}", str(one.gained), str(one.lost),
            f"{one.energy:.2f}", f"{one.confidence:.2f}", f"{one.at_bounds:.2f}",
            f"{one.moved:.2f}", f"{one.memory:.2f}", f"{one.memory_moved:.2f}",
        ]  # fmt: skip
        for name in channels:
            cells += [f"{one.mean[name]:.1f}", f"{one.spread[name]:.1f}"]
        text.add_row(*cells)
    return text
