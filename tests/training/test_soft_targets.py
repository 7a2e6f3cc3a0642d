"""Distillation from a teacher: its loss, its cache, and where it has no say."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from focus.curation.config import Stage
from focus.data.sources import Generated
from focus.engines.maze_search import WALL
from focus.errors import UserError
from focus.model.solver import Solver
from focus.random import example_keys
from focus.recipes import recipe
from focus.tasks import Maze, Sudoku
from focus.training import puzzles
from focus.training import soft_targets as distil
from focus.training.config import TeacherConfig
from focus.training.loop import Trainer
from focus.training.objectives import make_objective
from focus.training.objectives.distillation import kl_loss
from focus.training.stack import Stack
from tests.tasks.samples import batch
from tests.training.samples import tiny_run

TASKS = {"sudoku": Sudoku(box=2), "maze": Maze(size=6, min_path=6, max_tokens=36)}
by_task = pytest.mark.parametrize("name", TASKS)


@pytest.fixture(scope="module")
def teachers(tmp_path_factory):
    """Folders of two tiny TRMs, hardly trained."""
    found = {}
    for name, task in TASKS.items():
        config = recipe(f"trm-mini-{name}")
        config = replace(
            config, task=task,
            optimizer=replace(config.optimizer, updates=2, batch=8),
            solver=replace(config.solver, trm=replace(config.solver.trm, width=32)),
            eval_rows=4, eval_every=2, save_every=2,
        )  # fmt: skip
        folder = tmp_path_factory.mktemp(name)
        Trainer(config, folder).run()
        found[name] = str(folder)
    return found


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _cache(shared_cache, monkeypatch):
    monkeypatch.setenv("FOCUS_CACHE", str(shared_cache))
    monkeypatch.setattr(Generated.__init__, "__defaults__", (0, 200, 40))  # all of them are taught


def a_plain_run(name: str):
    return replace(tiny_run(name, updates=4), augment=name == "sudoku")


def a_run(name: str, folder: str, **changes):
    config = a_plain_run(name)
    taught = TeacherConfig(**{"checkpoint": folder, "start": 0.0, "warmup": 0.0, **changes})
    return replace(config, teacher=taught)


def curve(config, folder) -> list[float]:
    Trainer(config, folder).run()
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


@by_task
def test_the_loss_is_the_divergence_written_out(name):
    task = TASKS[name]
    x, _ = batch(task)
    torch.manual_seed(0)
    z = torch.randn(3, 4, task.tokens, task.width)
    classes = task.class_logits(z, x).shape[-1]
    taught = torch.randint(1, 255, (4, 2, task.tokens, classes), dtype=torch.uint8)
    found = kl_loss(task, z, x, taught, 2.0)
    for b in range(4):
        steps = []
        for j in range(2):  # the teacher speaks of two steps, the student took three
            values = []
            for token in torch.nonzero(task.open_tokens(x)[b])[:, 0]:
                p = taught[b, j, token].double()
                p = p / p.sum()
                q = (task.class_logits(z[j], x)[b, token].double() / 2.0).softmax(-1)
                values.append((p * (p / q).log()).sum())
            steps.append(torch.stack(values).mean())
        assert found[b].item() == pytest.approx(4.0 * torch.stack(steps).mean().item(), rel=1e-4)


@by_task
def test_soft_targets_are_transformed_with_their_puzzles(name):
    """A soft target that is the answer becomes the transformed puzzle's answer."""
    task = TASKS[name]
    questions, answers = task.generate(3, 0, 6, task.generator_modes[0])
    rows = task.pack(questions, answers, augment=True)
    solved = []
    for variant in task.variants(rows):
        x, y = task.unpack(variant)
        logits = task.class_logits(task.solved_state(x, y), x)
        solved.append((logits.softmax(-1) * 255).round().to(torch.uint8)[:, None])
    keys = example_keys(0, 0, torch.arange(len(rows)))
    turned = task.augment_soft_targets(torch.stack(solved, 1), keys)
    x, y = task.unpack(task.augment(rows, keys))
    wanted = task.open_tokens(x)
    assert torch.equal(turned[:, 0].argmax(-1)[wanted], task.reference(y)[wanted])


@by_task
def test_a_teacher_of_no_weight_changes_no_bit(teachers, tmp_path, name):
    plain = curve(a_plain_run(name), tmp_path / "plain")
    assert curve(a_run(name, teachers[name], weight=0.0), tmp_path / "zero") == plain
    assert curve(a_run(name, teachers[name], start=0.5), tmp_path / "late")[:2] == plain[:2]
    assert curve(a_run(name, teachers[name], weight=1.0), tmp_path / "whole") != plain


@by_task
def test_a_teacher_speaks_of_initial_states_only(teachers, tmp_path, name):
    """Not in replay, not from corrupted or visited states; selection never sees it."""
    config = a_run(name, teachers[name])
    trainer = Trainer(config, tmp_path)
    runner, zero = trainer.step_runner, torch.tensor(0)
    batch = runner.sampler.batch(zero, zero, torch.arange(4))
    distillation = runner.objective.distillation
    distillation.set_weight(1.0)

    def both(shares, replays):
        """The losses without the teacher and with it."""
        mixed = replace(config, replay=replace(config.replay, base_mixture=shares))
        for term in (None, distillation):
            objective = make_objective(trainer.model.eval(), mixed, runner.sampler.rows, 4, term)
            yield objective.losses(batch, replays, Stage(8, 4))

    for shares, differs in (((1.0, 0.0, 0.0), True), ((0.0, 0.5, 0.5), False)):
        one, two = both(shares, False)
        assert torch.equal(one.base, two.base) != differs
    one, two = both(config.replay.base_mixture, True)
    assert torch.equal(one.auxiliary, two.auxiliary)
    assert torch.equal(one.selection.scores.step, two.selection.scores.step)


def test_a_stack_is_taught_as_the_runs_alone(teachers, tmp_path):
    config = a_run("sudoku", teachers["sudoku"], weight=1.0, start=0.5)
    updater = replace(config.solver.updater, dropout=0.0)
    config = replace(
        config, solver=replace(config.solver, updater=updater),
        optimizer=replace(config.optimizer, accumulate=1),
    )  # fmt: skip
    runs = {tmp_path / str(seed): replace(config, seed=seed) for seed in (1, 2)}
    Stack(runs).run()
    for folder, own in runs.items():
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        together = [json.loads(line)["loss"] for line in lines]
        assert together == pytest.approx(curve(own, tmp_path / f"alone{own.seed}"), rel=2e-3)


def test_the_cache_is_used_checked_and_named_by_what_it_holds(teachers, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("FOCUS_CACHE", str(cache))
    config = a_run("sudoku", teachers["sudoku"])
    asked = []

    def soft_targets():
        asked.clear()
        trainer = Trainer(config, tmp_path, progress=lambda what, *done: asked.append(done))
        return trainer.step_runner.objective.distillation.soft_targets

    first = soft_targets()
    puzzles = first.shape[0] * first.shape[1]
    assert asked == [(done, puzzles) for done in range(0, puzzles, 16)]
    (stored,) = (cache / "soft_targets").rglob("*.safetensors")
    assert torch.equal(soft_targets(), first)
    assert not asked
    stored.write_bytes(stored.read_bytes()[:100])  # a full disk cut it short
    assert torch.equal(soft_targets(), first)
    assert asked
    Trainer(a_run("sudoku", teachers["sudoku"], temperature=4.0), tmp_path)
    assert len(list((cache / "soft_targets").rglob("*.safetensors"))) == 2


def test_a_kill_while_soft_targets_are_made_costs_one_block(teachers, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("FOCUS_CACHE", str(cache))
    monkeypatch.setattr(distil, "_BLOCK", 2)
    monkeypatch.setattr(distil, "_BATCH_ON_A_CPU", 1)
    task = TASKS["maze"]
    rows = task.pack(*task.generate(3, 0, 4, task.generator_modes[0]), augment=True)
    config = TeacherConfig(checkpoint=teachers["maze"])
    seen = []

    class KilledError(Exception):
        pass

    def kill(done, total):
        seen.append(done)
        if len(seen) == 4:
            raise KilledError

    with pytest.raises(KilledError):
        distil.soft_targets(task, rows, config, "cpu", kill)
    assert seen == [0, 1, 2, 3]
    found = distil.soft_targets(task, rows, config, "cpu", lambda done, total: seen.append(done))
    assert seen == [0, 1, 2, 3, *range(2, 32)]
    monkeypatch.undo()
    monkeypatch.setenv("FOCUS_CACHE", str(tmp_path / "fresh"))
    assert torch.equal(found, distil.soft_targets(task, rows, config, "cpu"))


def test_the_steps_are_aligned():
    assert distil.teacher_steps(TeacherConfig()) == [4, 8, 12, 16]
    assert distil.teacher_steps(TeacherConfig(align="index")) == [1, 2, 3, 4]


def test_a_teacher_of_another_task_is_refused_before_puzzles_are_made(
    teachers, tmp_path, monkeypatch
):
    monkeypatch.setattr(puzzles, "build_corpus", lambda *words: pytest.fail("made"))
    with pytest.raises(UserError, match="solves maze"):
        Trainer(a_run("sudoku", teachers["maze"]), tmp_path)
    with pytest.raises(UserError, match="no such checkpoint"):
        Trainer(a_run("sudoku", str(tmp_path / "nowhere")), tmp_path)


def test_a_teacher_of_other_mazes_is_refused(teachers):
    """Of as many tokens in a larger grid, whose neighbours lie elsewhere."""
    task = Maze(size=7, min_path=6, max_tokens=36)
    questions, answers = Maze(size=7, min_path=6).generate(3, 0, 50, task.generator_modes[0])
    few = (questions != WALL).sum(1) <= 36
    assert few.any()
    config = TeacherConfig(checkpoint=teachers["maze"])
    with pytest.raises(UserError, match="maze with 36 cells in 36 tokens, this run maze with 49"):
        distil.soft_targets(task, task.pack(questions[few], answers[few]), config, "cpu")


def test_inference_needs_no_teacher(teachers, tmp_path):
    """A checkpoint that was taught answers without its teacher's folder."""
    teacher_folder = tmp_path / "teacher"
    shutil.copytree(teachers["sudoku"], teacher_folder)
    config = a_run("sudoku", str(teacher_folder), weight=1.0)
    Trainer(config, tmp_path / "run").run()
    shutil.rmtree(teacher_folder)
    solver = Solver.from_pretrained(tmp_path / "run")
    questions = solver.task.generate(5, 0, 4, "minimal")[0]
    assert solver.answer(questions, 2).shape == (4, 16)
