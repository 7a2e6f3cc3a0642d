"""Controls take the language model away, and put it back."""

import json

import pytest
import torch

from focus.cli import main
from focus.errors import UserError
from focus.evaluation.controls import adapter_norm, controlled
from focus.model.solver import Solver
from focus.training.loop import Trainer
from tests.tasks.samples import batch
from tests.training.samples import tiny_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    Trainer(tiny_run("sudoku", "tiny-llama", updates=3), folder).run()
    return folder


@torch.no_grad()
def test_each_control_changes_r_as_it_says_and_nothing_stays(run):
    solver = Solver.from_pretrained(run)
    x, _ = batch(solver.task)

    def read():
        return solver.backbone.project(solver.backbone.read(x))

    plain = read()
    with controlled(solver, "zeroed"):
        assert not read().any()
    with controlled(solver, "shuffled"):
        torch.testing.assert_close(read(), plain.roll(1, 0))
    one_by_one = [x[torch.arange(len(x.cell)) == row] for row in range(3)]
    with controlled(solver, "shuffled"):
        alone = [solver.backbone.project(solver.backbone.read(one)) for one in one_by_one]
    assert not alone[0].any()
    for row in (1, 2):
        torch.testing.assert_close(alone[row][0], plain[row - 1], rtol=1e-4, atol=1e-4)
    with controlled(solver, "adapter-off"):
        assert not torch.equal(read(), plain)
    torch.testing.assert_close(read(), plain, rtol=0, atol=0)
    with pytest.raises(UserError, match="zeroed"), controlled(solver, "other"):
        pass


def test_the_norm_is_that_of_the_products(run):
    solver = Solver.from_pretrained(run)
    layers = [m for m in solver.adapted_model.modules() if hasattr(m, "get_delta_weight")]
    moved = sum(
        (m.scaling["default"] * m.lora_B["default"].weight @ m.lora_A["default"].weight)
        .square()
        .sum()
        for m in layers
    )
    frozen = sum(m.base_layer.weight.square().sum() for m in layers)
    assert adapter_norm(solver) == pytest.approx((moved / frozen).sqrt().item(), rel=1e-5)
    assert adapter_norm(solver) > 0


def test_the_command_tells_control_and_norm(run, capsys):
    assert (
        main(["eval", str(run), "--steps", "2", "--limit", "4", "--control", "zeroed", "--json"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["control"] == "zeroed"
    assert found["adapter"] > 0
    assert main(["eval", str(run), "--control", "nothing"]) == 2


def test_a_solver_without_a_language_model_has_no_control(tmp_path, capsys):
    Trainer(tiny_run("sudoku", updates=2), tmp_path).run()
    assert main(["eval", str(tmp_path), "--control", "zeroed", "--limit", "4"]) == 2
    assert "needs a solver with a language model" in capsys.readouterr().err
