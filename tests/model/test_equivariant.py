"""An updater that treats classes alike: its answers follow the symmetries of a puzzle."""

from dataclasses import replace

import pytest
import torch

from focus.errors import UserError
from focus.model.base import SolverConfig
from focus.model.checkpoint import load_model, save_model
from focus.model.solver import Solver
from focus.model.updater import UpdaterConfig
from focus.tasks import Maze, Sudoku
from focus.training.loop import Trainer
from tests.tasks.test_assignment import Pairs
from tests.training.samples import tiny_run

SIZES = UpdaterConfig(width=32, equivariant=True)


def a_solver(config: UpdaterConfig) -> Solver:
    """One whose untrained updater changes its answer."""
    torch.manual_seed(0)
    solver = Solver(Sudoku(), SolverConfig(updater=config)).eval()
    torch.nn.init.normal_(solver.updater.head.weight)
    return solver


@pytest.mark.parametrize("equivariant", [True, False])
def test_answers_follow_renamed_digits_and_exchanged_lines(equivariant):
    solver = a_solver(replace(SIZES, equivariant=equivariant))
    task = solver.task
    questions, _ = task.generate(3, 0, 8, task.generator_modes[0])
    keys = torch.arange(8) + 7
    from_cell, digits = task._symmetry(keys)
    x, moved = (task.problem(q) for q in (questions, task.transform(questions, keys)))
    with torch.no_grad():
        z, of_moved = (
            solver.roll(solver.updater.initial(one), solver.encode(one), one, 3).answers[-1]
            for one in (x, moved)
        )
    expected = z.gather(1, from_cell[..., None].expand_as(z))
    renamed = of_moved.gather(2, (digits[:, None, 1:] - 1).expand_as(z))
    turned = from_cell[:, 0] // 9 != from_cell[:, 1] // 9  # rows for columns
    missed = (renamed - expected).abs().amax((1, 2))
    assert 0 < turned.sum() < 8
    assert missed[~turned].max() < 1e-3 if equivariant else missed.min() > 0.1
    assert missed[turned].min() > 0.1


def test_other_tasks_and_parts_are_refused():
    for task, config in (
        (Maze(size=6), SIZES), (Pairs(), SIZES), (Sudoku(), replace(SIZES, hops=1)),
        (Sudoku(), replace(SIZES, registers=1)),
    ):  # fmt: skip
        with pytest.raises(UserError, match=r"equivariant is for tasks whose answer is a class"):
            Solver(task, SolverConfig(updater=config))


@pytest.mark.parametrize("backbone", ["none", "tiny-llama"])
def test_it_is_trained_saved_and_loaded(tmp_path, backbone):
    config = tiny_run("sudoku", backbone, 6)
    updater = replace(config.solver.updater, equivariant=True)
    config = replace(config, solver=replace(config.solver, updater=updater))
    trainer, losses = Trainer(config, tmp_path / "run"), []
    trainer.run(lambda update, line: losses.append(line["loss"]))
    assert losses[-1] < losses[0]
    save_model(trainer.model, tmp_path / "saved")
    again = load_model(tmp_path / "saved")
    questions = trainer.splits.test.questions[:4]
    with torch.no_grad():
        first, second = (model.eval().answer(questions, 4) for model in (trainer.model, again))
    assert (first == second).all()
