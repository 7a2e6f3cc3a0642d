"""TRM against slow code written from its definition, and deep supervision on constructed cases."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from focus.cli import main
from focus.engines.maze_search import GOAL, START
from focus.errors import UserError
from focus.model.base import SolverConfig
from focus.model.checkpoint import load_model, trained_weights
from focus.model.solver import Solver
from focus.model.state import State
from focus.model.trm import TRMConfig, rotate
from focus.recipes import recipe
from focus.tasks import Maze, Sudoku
from focus.training.config import DeepSupervisionConfig
from focus.training.loop import Trainer
from focus.training.objectives.carried_states import CarriedStates
from tests.tasks.samples import batch

TASKS = {"mlp": Sudoku(box=2), "attention": Maze(size=6, min_path=6, max_tokens=36)}


def a_solver(mixer: str, **settings) -> Solver:
    torch.manual_seed(0)
    neighbour_heads = 1 if mixer == "attention" else 0
    config = TRMConfig(
        32, heads=2, mixer=mixer, outer=3, inner=2, neighbour_heads=neighbour_heads, **settings
    )
    return Solver(TASKS[mixer], SolverConfig(trm=config, answer="trm"))


def slow_norm(h):
    return h / (h.square().mean(-1, keepdim=True) + 1e-6).sqrt()


def slow_swiglu(part, h):
    both = h @ part.up.weight.T
    gate, value = both[..., : both.shape[-1] // 2], both[..., both.shape[-1] // 2 :]
    return (gate * torch.sigmoid(gate) * value) @ part.down.weight.T


def slow_attention(layer, h, x):
    """One puzzle and one head at a time; the first head is aimed at the cell below."""
    out = torch.zeros_like(h)
    size = h.shape[-1] // layer.heads
    speeds = [2 * torch.pi / (2.0 * 32.0 ** (n / max(1, size // 4 - 1))) for n in range(size // 4)]
    length = (4 * size**0.5 / sum(1 - math.cos(speed) for speed in speeds)) ** 0.5
    for b in range(len(h)):
        live = [i for i in range(h.shape[1]) if x.mask[b, i]]
        q, k, v = (h[b] @ layer.qkv.weight.T).chunk(3, -1)
        for head in range(layer.heads):
            part = slice(head * size, (head + 1) * size)
            turned = []
            for t, below in ((q[:, part], 1), (k[:, part], 0)):
                rows = []
                for i in range(h.shape[1]):
                    row, column = divmod(int(x.cell[b, i]), 6)
                    angle, aim = (
                        torch.tensor([place * speed for place in places for speed in speeds])
                        for places in ((row, column), (row + below, column))
                    )
                    one, two = t[i, : size // 2], t[i, size // 2 :]
                    both = torch.cat(
                        [
                            one * angle.cos() - two * angle.sin(),
                            one * angle.sin() + two * angle.cos(),
                        ]
                    )
                    constant = length * torch.cat([aim.cos(), aim.sin()])
                    rows.append(both + constant if head == 0 else both)
                turned.append(torch.stack(rows))
            scores = turned[0] @ turned[1][live].T / size**0.5
            out[b, :, part] = scores.softmax(-1) @ v[live][:, part]
    return out @ layer.out.weight.T


def slow_net(solver, h, x):
    for layer in solver.updater.net.layers:
        if layer.mixer == "mlp":
            across = h.transpose(1, 2)
            h = slow_norm(across + slow_swiglu(layer.mix, across)).transpose(1, 2)
        else:
            h = slow_norm(h + slow_attention(layer, h, x))
        h = slow_norm(h + slow_swiglu(layer.mlp, h))
    return h


@pytest.mark.parametrize("mixer", ["mlp", "attention"])
def test_a_supervision_step_is_the_definition_with_its_gradient(mixer):
    solver = a_solver(mixer)
    x, y = batch(solver.task)
    state = solver.updater.initial(x)
    embedded = solver.backbone.project(solver.backbone.read(x))
    if mixer == "attention":  # cells know which of their neighbours are open
        embedded = embedded + x.traversable.float() @ solver.updater.around.weight.T
    embedded = slow_norm(embedded)
    high, low = state.u["high"], state.u["low"]
    for cycle in range(3):
        inputs = embedded if cycle == 2 else embedded.detach()
        for _ in range(2):
            low = slow_net(solver, low + high + inputs, x)
        high = slow_net(solver, high + low, x)
        if cycle < 2:
            high, low = high.detach(), low.detach()
    logits = high @ solver.updater.head.weight.T
    mean = (high * x.mask[..., None]).sum(1) / x.mask.sum(1, keepdim=True)
    halt = mean @ solver.updater.halt.weight.T + solver.updater.halt.bias
    found = solver.roll(state, solver.encode(x), x, 1).last
    low_bound, high_bound = solver.task.bounds(logits.device)
    expected = solver.task.clamp(logits.clamp(low_bound, high_bound), x)
    for one, two in ((found.z, expected), (found.u["high"], high), (found.u["halt"], halt)):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)
    weights = list(trained_weights(solver))
    named = dict(solver.named_parameters())
    grads = [
        torch.autograd.grad(
            solver.loss(z[None], x, y).sum(), [named[n] for n in weights], allow_unused=True
        )
        for z in (found.z, expected)
    ]
    for name, one, two in zip(weights, *grads, strict=True):
        assert (one is None) == (two is None), name
        if one is not None:
            assert (one - two).norm() < 1e-3 * two.norm(), name


@pytest.mark.parametrize("name", ["sudoku", "maze"])
def test_gradients_of_an_untrained_teacher_do_not_explode(name):
    """A norm over the wrong axis makes a step of the published depth chaotic: millions."""
    config = recipe(f"trm-{name}")
    torch.manual_seed(0)
    solver = Solver(config.task, replace(config.solver, trm=replace(config.solver.trm, outer=1)))
    x, y = batch(solver.task, 1)
    state, conditioning = solver.updater.initial(x), solver.encode(x)
    with torch.no_grad():
        state = solver.updater(state, conditioning, x)
    answers = solver.roll(state, conditioning, x, 1).answers
    solver.loss(answers, x, y).mean().backward()
    grads = [p.grad.norm() for p in solver.parameters() if p.grad is not None]
    assert torch.stack(grads).norm() < 100


def test_operations_of_a_step_are_counted():
    config = recipe("trm-mini-sudoku")
    sizes = replace(config.solver.trm, width=128, outer=2, inner=2)
    config = replace(
        config, solver=replace(config.solver, trm=sizes),
        optimizer=replace(config.optimizer, batch=4),
    )  # fmt: skip
    solver = Solver(config.task, config.solver)
    x, y = batch(solver.task, 4)
    with FlopCounterMode(display=False) as counter:
        answers = solver.roll(solver.updater.initial(x), solver.encode(x), x, 1).answers
        solver.loss(answers, x, y).sum().backward()
    # The heads, which are not counted, are small.
    with FlopCounterMode(display=False) as forward, torch.no_grad():
        solver.updater(solver.updater.initial(x), solver.encode(x), x)
    assert 4 * solver.updater.step_flops() == pytest.approx(forward.get_total_flops(), rel=0.02)
    each = solver.update_flops(config.steps) * config.optimizer.batch
    assert each == pytest.approx(counter.get_total_flops(), rel=0.02)


def test_rotations_depend_on_the_difference_of_positions_alone():
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, 8).unbind()
    angle = torch.rand(4)
    products = []
    for first in (0.0, 3.0):
        turned = [
            rotate(t, (place * angle).cos(), (place * angle).sin())
            for t, place in ((q, first), (k, first + 2.0))
        ]
        products.append((turned[0] * turned[1]).sum())
    torch.testing.assert_close(*products)


def test_a_neighbour_head_looks_at_its_neighbour():
    """By its constants alone, in the middle of a grid: down, left, right, up; others anywhere."""
    config = TRMConfig(mixer="attention", neighbour_heads=4)
    torch.manual_seed(0)
    solver = Solver(Maze(size=7), SolverConfig(trm=config, answer="trm"))
    grid = np.ones((1, 49), np.uint8)  # all open but for start and goal
    grid[0, 0], grid[0, 48] = START, GOAL
    x, _ = solver.task.unpack(solver.task.pack(grid, solver.task.solve(grid[0])[None]))
    rotation = solver.encode(x).rotation
    q, k = (
        rotate(aim.expand(-1, 49, -1), *rotation)[0]
        for aim in solver.updater.net.layers[0].neighbour_constants
    )
    shares = (q @ k.transpose(1, 2) / 8).softmax(-1)[:, 24]
    assert shares[:4].argmax(-1).tolist() == [31, 23, 25, 17]
    assert (shares[:4].max(-1).values > 0.85).all()
    torch.testing.assert_close(shares[4:], torch.full((4, 49), 1 / 49))


def test_parents_are_learnt_when_all_targets_are():
    for targets, learnt in (("answer", [True, *[False] * 5]), ("all", [True] * 6)):
        solver = a_solver("attention", targets=targets)
        x, y = batch(solver.task)
        answers = solver.roll(solver.updater.initial(x), solver.encode(x), x, 1).answers
        solver.loss(answers, x, y).sum().backward()
        assert (solver.updater.head.weight.grad.norm(dim=1) > 0).tolist() == learnt


HALTING = a_solver("mlp").updater


def a_state(halt: list[float]) -> State:
    count = len(halt)
    return State(torch.zeros(count, 2, 1), {"halt": torch.tensor(halt)[:, None]})


def test_puzzles_stay_until_they_are_believed_or_too_old():
    carry = CarriedStates(DeepSupervisionConfig(steps=3, explore=0.0), a_state([0.0] * 3))
    carry.age.zero_()
    keys = torch.arange(3)
    drawn = []
    for update, halt in enumerate(
        [[-1.0, 1.0, -1.0], [-1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [1.0] * 3]
    ):
        drawn.append(carry.draw(torch.tensor(update)).tolist())
        started = carry.start(a_state([9.0] * 3))
        assert (started.u["halt"][:, 0] == 9.0).tolist() == [d == update for d in drawn[-1]]
        carry.keep(a_state(halt), HALTING, keys)
    # The second is replaced once it is believed, all after three updates.
    assert drawn == [[0, 0, 0], [0, 1, 0], [0, 1, 0], [3, 3, 3]]


def test_the_first_puzzles_are_not_replaced_all_at_once():
    carry = CarriedStates(DeepSupervisionConfig(steps=4, explore=0.0), a_state([0.0] * 8))
    replaced = []
    for update in range(6):
        drawn = carry.draw(torch.tensor(update))
        replaced.append(int((drawn == update).sum()))
        carry.keep(a_state([-1.0] * 8), HALTING, torch.arange(8))
    assert replaced == [8, 2, 2, 2, 2, 2]


def test_exploring_puzzles_stay_though_they_are_believed():
    carry = CarriedStates(DeepSupervisionConfig(steps=16, explore=1.0), a_state([0.0] * 64))
    carry.age.zero_()
    keys = torch.arange(64) * 7919
    carry.draw(torch.tensor(0))
    carry.keep(a_state([1.0] * 64), HALTING, keys)
    assert not carry.ended.any()
    for _ in range(15):
        carry.keep(a_state([1.0] * 64), HALTING, keys)
    assert carry.ended.all()


@pytest.mark.parametrize("name", ["mini-sudoku", "mini-maze"])
def test_a_teacher_trains_resumes_and_is_a_checkpoint(tmp_path, name):
    config = recipe(f"trm-{name}")
    config = replace(
        config, optimizer=replace(config.optimizer, updates=6, batch=8, warmup=2),
        solver=replace(config.solver, trm=replace(config.solver.trm, width=32)),
        eval_every=6, eval_rows=10, save_every=3, log_every=1,
    )  # fmt: skip
    whole = Trainer(config, tmp_path)
    for _ in range(3):
        whole.train_update()
    whole.save()
    again = Trainer(config, tmp_path)
    again.resume()
    assert torch.equal(
        again.step_runner.objective.carried.drawn, whole.step_runner.objective.carried.drawn
    )
    for trainer in (whole, again):
        for _ in range(3):
            trainer.train_update()
    assert torch.equal(
        whole.step_runner.optimizer.vector.values, again.step_runner.optimizer.vector.values
    )
    whole.validate()
    assert isinstance(load_model(tmp_path), Solver)


def test_deep_supervision_goes_on_from_the_carried_state(tmp_path):
    """Two updates with a learning rate of zero are two steps of one rollout."""
    config = recipe("trm-mini-sudoku")
    config = replace(
        config, optimizer=replace(config.optimizer, batch=4, learning_rate=0.0, warmup=0),
        deep_supervision=DeepSupervisionConfig(steps=4),
    )  # fmt: skip
    trainer = Trainer(config, tmp_path)
    carried = trainer.step_runner.objective.carried
    carried.age.zero_()
    x = trainer.step_runner.sampler.problems(torch.tensor(0), torch.arange(4))
    trainer.train_update()
    trainer.train_update()
    solver = trainer.model
    with torch.no_grad():
        rollout = solver.roll(solver.updater.initial(x), solver.encode(x), x, 2)
    torch.testing.assert_close(carried.state.u["high"], rollout.last.u["high"])
    assert functional.mse_loss(carried.state.z, rollout.answers[0]) > 0


@pytest.mark.parametrize("mixer", ["mlp", "attention"])
def test_a_shallow_step_is_that_of_a_shallow_model(mixer):
    deep = a_solver(mixer)
    trm = replace(deep.config.trm, outer=2, inner=1)
    shallow = Solver(deep.task, replace(deep.config, trm=trm))
    shallow.load_state_dict(deep.state_dict())
    x, _ = batch(deep.task)
    state = deep.updater.initial(x)
    whole, expected = (s.roll(state, s.encode(x), x, 1).last for s in (deep, shallow))
    with deep.updater.at_depth(2, 1):
        found = deep.roll(state, deep.encode(x), x, 1).last
    assert torch.equal(found.u["high"], expected.u["high"])
    assert not torch.equal(found.u["high"], whole.u["high"])
    assert torch.equal(deep.roll(state, deep.encode(x), x, 1).last.z, whole.z)


def test_a_teacher_grows_deeper_and_is_judged_at_its_full_depth(tmp_path):
    config = recipe("trm-mini-sudoku")
    trm = replace(config.solver.trm, width=32, heads=2, outer=3, inner=2)
    config = replace(
        config, optimizer=replace(config.optimizer, updates=4, batch=4, warmup=0),
        deep_supervision=DeepSupervisionConfig(steps=4, depths=((0.25, 1, 1), (0.75, 2, 1))),
        solver=replace(config.solver, trm=trm), eval_rows=2, eval_steps=1,
    )  # fmt: skip
    trainer = Trainer(config, tmp_path)
    passes: list[int] = []
    trainer.model.updater.net.register_forward_hook(lambda *_: passes.append(1))
    counts = []
    for _ in range(4):
        trainer.train_update()
        counts.append(len(passes))
        passes.clear()
    assert counts == [2, 4, 4, 9]
    trainer.validate()
    assert len(passes) == 9


def test_what_cannot_be_is_refused(capsys):
    falling, equal = ((0.5, 1, 1), (0.25, 2, 1)), ((0.5, 1, 1), (0.5, 2, 1))
    percent, all_of_it, none = ((30.0, 1, 1),), ((1.0, 1, 1),), ((0.5, 0, 1),)
    for depths in (falling, equal, percent, all_of_it, none):
        with pytest.raises(UserError, match="rise between 0 and 1, with cycles"):
            DeepSupervisionConfig(steps=4, depths=depths)
    config = recipe("trm-mini-sudoku")
    with pytest.raises(UserError, match=r"own depth: solver.trm.outer 1, "):
        replace(config, deep_supervision=replace(config.deep_supervision, depths=((0.5, 1, 2),)))
    with pytest.raises(UserError, match="for a TRM"):
        replace(config, deep_supervision=DeepSupervisionConfig(depths=((0.5, 1, 1),)))
    with pytest.raises(UserError, match="use attention"):
        Solver(TASKS["attention"], SolverConfig(answer="trm"))
    mazes = recipe("trm-maze")
    with pytest.raises(
        UserError, match=r"a path: set task.decoder threshold, or solver.trm.targets"
    ):
        replace(mazes, task=replace(mazes.task, decoder="canonical"))
    with pytest.raises(
        UserError, match=r"neighbour-heads \(5\): a head looks at one of 4 neighbours"
    ):
        TRMConfig(mixer="attention", neighbour_heads=5)
    with pytest.raises(UserError, match=r"neighbour-heads is for solver.trm.mixer attention"):
        TRMConfig(neighbour_heads=1)
    with pytest.raises(UserError, match="multiple of four"):
        TRMConfig(width=100)
    assert main(["train", "trm-chess"]) == 2
    assert "TRMs: trm-sudoku" in capsys.readouterr().err
