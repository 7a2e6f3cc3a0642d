"""Solvers small enough for the tests of the page."""

from dataclasses import replace
from pathlib import Path

import torch

from focus.model.checkpoint import build_model, save_model
from focus.serialization import to_json
from focus.tasks import Task
from focus.web.repair import NamedSolver
from tests.training.samples import tiny_run


def untrained(task: str, seed: int = 0, own: Task | None = None, **solver) -> NamedSolver:
    """An untrained solver whose answer moves: its last layer, zero at the start, is random.

    `own` is a task that no recipe knows.
    """
    config = tiny_run("sudoku" if own else task)
    config = replace(config, task=own or config.task, solver=replace(config.solver, **solver))
    torch.manual_seed(seed)
    model = build_model(config.task, config.solver)
    with torch.no_grad():
        for weight in model.updater.parameters():
            if not weight.any():
                weight.normal_(0, 3)  # so large that the answer never rests
    return NamedSolver.of(f"tiny-{task}-{seed}", model.eval(), config)


def store(named: NamedSolver, folder: Path) -> Path:
    """The solver as a checkpoint under its name."""
    save_model(named.solver, folder / named.name, to_json(named.config))
    return folder / named.name
