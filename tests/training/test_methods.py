"""Every method of the paper trains, and differs from FOCUS in what its name says."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from focus.cli import main
from focus.curation.config import Stage
from focus.data.corpus import CorpusConfig
from focus.data.table import Table, read_table, write_table
from focus.errors import UserError
from focus.model.checkpoint import load_model, releases, trained_weights
from focus.model.updater import UpdaterConfig
from focus.recipes import BACKBONES, METHODS, TASKS, recipe
from focus.serialization import to_json
from focus.tasks import Maze, Sudoku
from focus.training.config import RunConfig, TeacherConfig, read_config
from focus.training.loop import Trainer
from focus.training.objectives.curated import always_a_candidate
from focus.training.schedule import (
    learning_rate_share,
    replay_probability,
    stage,
    teacher_weight,
)
from tests.training.samples import tiny_run

WRITTEN = ("direct", "base")


@pytest.mark.parametrize("task", ["sudoku", "maze"])
@pytest.mark.parametrize(
    ("backbone", "method"),
    [
        *((backbone, m) for backbone in ("none", "tiny-llama") for m in METHODS if m != "base"),
        ("tiny-qwen3", "focus"),
        ("tiny-qwen3", "direct"),
    ],
)
def test_every_method_trains(tmp_path, task, backbone, method):
    config = tiny_run(task, backbone, updates=3, method=method)
    if backbone == "none" and method in WRITTEN:
        with pytest.raises(UserError, match="needs a language model with an adapter"):
            Trainer(config, tmp_path)
        return
    trainer = Trainer(config, tmp_path)
    before = {n: w.clone() for n, w in trained_weights(trainer.model).items()}
    result = trainer.run()
    assert 0 <= result["exact"] <= 1
    moved = [n for n, w in trained_weights(trainer.model).items() if not torch.equal(w, before[n])]
    assert any("updater" in name for name in moved) == (method not in WRITTEN)
    assert any("lora_" in name for name in moved) == (backbone != "none")
    frozen = [n for n, p in trainer.model.named_parameters() if "base_layer" in n]
    assert not set(frozen) & set(before)


@pytest.mark.parametrize("backbone", ["tiny-llama", "tiny-qwen3"])
def test_a_frozen_language_model_gives_features_and_has_no_adapter(tmp_path, backbone):
    config = tiny_run("sudoku", backbone, updates=3)
    frozen = replace(config.solver.backbone, frozen=True)
    trainer = Trainer(replace(config, solver=replace(config.solver, backbone=frozen)), tmp_path)
    before = {n: p.clone() for n, p in trainer.model.named_parameters()}
    trainer.run()
    moved = {n for n, p in trainer.model.named_parameters() if not torch.equal(p, before[n])}
    assert any("readout" in name for name in moved)
    assert not any("backbone.model" in name for name in moved)
    assert not (tmp_path / "best" / "adapter").exists()
    again = load_model(tmp_path)
    with pytest.raises(UserError, match="no adapter"):
        _ = again.adapted_model


@pytest.mark.parametrize("task", ["sudoku", "maze"])
def test_base_is_evaluated_and_never_trained(tmp_path, task):
    trainer = Trainer(tiny_run(task, "tiny-llama", method="base"), tmp_path)
    result = trainer.run()
    assert trainer.update == 0
    assert result["n"] == 20
    lora_b = [w for n, w in trained_weights(trainer.model).items() if "lora_B" in n]
    assert lora_b
    assert not any(w.any() for w in lora_b)


@pytest.mark.parametrize("task", ["sudoku", "maze"])
def test_methods_change_what_their_names_say(task):
    focus = recipe(task)

    def changed(method: str) -> dict:
        config = recipe(f"{task}/{method}")
        pairs = {
            "selector": (config.replay.method, focus.replay.method),
            "penalty": (config.curation.beta, focus.curation.beta),
            "memory": (config.curation.restore_memory, focus.curation.restore_memory),
            "mixture": (config.replay.base_mixture, focus.replay.base_mixture),
            "steps": (config.steps, focus.steps),
            "weights": (config.step_weights, focus.step_weights),
        }
        return {name: new for name, (new, old) in pairs.items() if new != old}

    assert changed("no-penalty") == {"penalty": 0.0}
    assert changed("random-penalty") == {"selector": "random"}
    assert changed("random") == {"selector": "random", "penalty": 0.0}
    assert changed("energy-hard") == {"selector": "energy-hard", "penalty": 0.0}
    assert changed("no-memory") == {"memory": False}
    selector = "fixed-mix" if task == "sudoku" else "none"
    assert changed("fixed-mix") == {"selector": selector, "penalty": 0.0}
    assert changed("one-step")["steps"] == 1
    assert changed("recurrent")["weights"] == "final"
    # Maze's base updates start anywhere, these baselines only at s_0.
    assert recipe(f"{task}/recurrent").replay.base_mixture == (1.0, 0.0, 0.0)
    assert recipe("maze/recurrent").task.decoder == "threshold"


@pytest.mark.parametrize("task", TASKS)
def test_all_recipes_survive_json(task, tmp_path):
    for backbone, method in itertools.product(BACKBONES, METHODS):
        config = recipe(f"{task}/{backbone}/{method}")
        assert config.solver.backbone.name == backbone
        (tmp_path / "config.json").write_text(to_json(config))
        assert read_config(tmp_path / "config.json") == config


def test_what_is_no_recipe_is_refused():
    for name, message in (
        ("chess", "unknown task 'chess'"),
        ("sudoku/gpt-2", "'gpt-2' is neither a backbone nor a method"),
        ("sudoku/none/qwen3-4b", "TASK"),
    ):
        with pytest.raises(UserError, match=message):
            recipe(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "is damaged"),
        ("{}", "is not a run config"),
        ('{"format": 9, "task": {"name": "sudoku"}}', "format 9"),
        ('{"format": 6, "task": {"name": "sudoku"}, "speed": 3}', "unknown field 'speed'"),
        (
            '{"format": 6, "task": {"name": "sudoku", "answer_features": "probabilities"}}',
            "answer_features is one of log-probabilities, logits, not",
        ),
    ],
)
def test_foreign_configs_are_refused(text, message, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_config(path)


def test_a_config_without_a_file_is_named():
    with pytest.raises(UserError, match="gone"):
        read_config(Path("gone/config.json"))


def test_the_paper_s_schedule_of_sudoku():
    config = recipe("sudoku")
    updates, replay = config.optimizer.updates, config.replay
    assert [stage(n, updates, replay) for n in (3_000, 10_000, 20_000, 30_000, 40_000)] == [
        (16, 4), (32, 4), (64, 8), (96, 8), (128, 8),
    ]  # fmt: skip
    assert replay_probability(2_999, updates, replay) == 0
    assert replay_probability(3_000, updates, replay) == pytest.approx(0.175, abs=1e-3)
    assert replay_probability(49_999, updates, replay) == pytest.approx(0.325, abs=1e-3)
    shares = [learning_rate_share(n, config.optimizer) for n in (0, 299, 20_000, 49_999)]
    assert shares == pytest.approx([1 / 300, 1.0, 0.65, 0.02], abs=1e-3)


def test_the_learning_rate_falls_from_knot_to_knot():
    config = replace(recipe("sudoku").optimizer, updates=1000, warmup=100)
    shares = [learning_rate_share(n, config) for n in range(1000)]
    assert shares[:100] == sorted(shares[:100])
    assert shares[100:] == sorted(shares[100:], reverse=True)
    for share, value in config.knots[:-1]:
        assert shares[round(1000 * share)] == pytest.approx(value, abs=1e-6)
    half_way = (config.knots[0][1] + config.knots[1][1]) / 2
    assert shares[300] == pytest.approx(half_way, abs=1e-6)


def test_the_paper_s_schedule_of_maze():
    config = recipe("maze")
    updates, replay = config.optimizer.updates, config.replay
    assert replay_probability(2_999, updates, replay) == 0
    assert replay_probability(7_500, updates, replay) == pytest.approx(0.30, abs=1e-3)
    # 0.45 of the updates without replay start from the initial state: at least 0.315 overall.
    share = replay.base_mixture[0] * (1 - replay.probability[1])
    assert share == pytest.approx(0.315)


def test_the_weight_of_a_teacher_warms_up_and_is_off_without_one():
    teacher = recipe("sudoku").teacher
    assert teacher.checkpoint in releases()
    weights = [teacher_weight(n, 50_000, teacher) for n in (799, 1_400, 2_000, 40_000)]
    assert weights == pytest.approx([0.0, 0.025, 0.05, 0.05])
    assert teacher_weight(40_000, 50_000, replace(teacher, checkpoint="")) == 0.0


def test_methods_of_curation_have_the_teacher_of_sudoku_and_no_other_recipe_has_one():
    taught = {name for name in METHODS if recipe(f"sudoku/{name}").teacher.checkpoint}
    assert set(METHODS) - taught == {"recurrent", "one-step", "direct", "base"}
    others = ("sudoku-quick", "mini-sudoku", "maze", "trm-sudoku", "trm-sudoku-quick/focus")
    assert not any(recipe(name).teacher.checkpoint for name in others)


def test_maze_replays_or_trains_from_the_base_never_both(tmp_path):
    config = tiny_run("maze", updates=1, probability=(1.0, 1.0))
    trainer = Trainer(config, tmp_path)
    runner = trainer.step_runner
    batch = runner.sampler.batch(torch.tensor(0), torch.tensor(0), torch.arange(8))
    part = runner.objective.losses(batch, True, Stage(8, 4))
    assert ((part.base > 0) != part.selection.from_candidates).all()


def test_where_every_maze_has_a_candidate_its_replay_needs_no_fallback(tmp_path, data_folder):
    """Real mazes are never solved at s_0, and the fallback of such a batch weighs nothing."""
    config = recipe("maze-quick")
    config = replace(
        config, data=str(data_folder), steps=2,
        solver=replace(config.solver, updater=UpdaterConfig(width=32, dropout=0.0)),
        optimizer=replace(config.optimizer, batch=2),
    )  # fmt: skip
    trainer = Trainer(config, tmp_path)
    algorithm = trainer.step_runner.objective.algorithm
    assert not algorithm.may_be_empty
    batch = trainer.step_runner.sampler.batch(torch.tensor(0), torch.tensor(0), torch.arange(2))
    found = {}
    for fallback in (True, False):
        part = replace(algorithm, may_be_empty=fallback)(trainer.model, batch, True, Stage(16, 4))
        assert not part.base.any()
        assert part.auxiliary.all()
        trainer.model.zero_grad()
        (part.base + part.auxiliary).sum().backward()
        found[fallback] = {
            name: weight.grad.clone()
            for name, weight in trained_weights(trainer.model).items()
            if weight.grad is not None
        }
    assert found[True].keys() == found[False].keys()
    for name, gradient in found[True].items():
        torch.testing.assert_close(found[False][name], gradient, msg=name)


def test_mazes_that_are_solved_at_the_start_keep_the_fallback():
    task = Maze(size=6, min_path=6, max_tokens=36)
    questions, answers = task.generate(3, 0, 200, task.generator_modes[0])
    rows = task.pack(questions, answers, augment=True)
    solved = torch.zeros(len(rows), dtype=torch.bool)
    for variant in task.variants(rows):
        x, y = task.unpack(variant)
        solved |= task.exact(task.initial(x), x, y)
    assert solved.any()
    assert not solved.all()
    assert not always_a_candidate(task, rows, (0, 2))
    assert always_a_candidate(task, rows[~solved], (0, 2))
    assert not always_a_candidate(task, rows[~solved], (2, 4))
    sudoku = Sudoku(box=2)
    rows = sudoku.pack(*sudoku.generate(3, 0, 4, sudoku.generator_modes[0]))
    assert not always_a_candidate(sudoku, rows, (0, 2))  # one that ends solved has none


@pytest.mark.parametrize(
    ("part", "wrong", "message"),
    [
        ("optimizer", {"batch": 10}, "multiple"),
        ("optimizer", {"accumulate": 0}, "optimizer.accumulate"),
        ("optimizer", {"knots": ((0.5, 0.1),)}, "knots"),
        ("optimizer", {"ema": 1.5}, "optimizer.ema"),
        ("replay", {"stages": ((1.0, 2, 4),)}, "K_p = 2"),
        ("replay", {"stages": ()}, "replay.stages"),
        ("replay", {"base_mixture": (0.5, 0.1, 0.1)}, "base-mixture"),
        ("", {"log_every": 0}, "log-every"),
        ("", {"eval_rows": 0}, "eval-rows"),
        ("", {"steps": 0}, "steps"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(part, wrong, message):
    config = RunConfig()
    with pytest.raises(UserError, match=message):
        replace(config, **({part: replace(getattr(config, part), **wrong)} if part else wrong))


def test_more_data_is_drawn_beside_the_training_split(tmp_path, data_folder):
    config = replace(
        recipe("sudoku"), data=str(data_folder), more_data=("extra",), train_share=0.25,
        solver=replace(recipe("sudoku").solver, updater=UpdaterConfig(width=32)),
        corpus=CorpusConfig(), teacher=TeacherConfig(),
    )  # fmt: skip
    sampler = Trainer(config, tmp_path).step_runner.sampler
    assert sampler.own_rows == 1000
    assert len(sampler.rows) == 100_044
    x = sampler.problems(torch.tensor(0), torch.arange(2000))
    own = {tuple(row) for row in sampler.rows.question[:1000].tolist()}
    share = sum(tuple(row) in own for row in x.grid.tolist()) / 2000
    assert share == pytest.approx(0.25, abs=0.04)
    with pytest.raises(UserError, match="names test"):
        Trainer(replace(config, more_data=("test",)), tmp_path)


def test_held_out_puzzles_are_refused_as_more_data_however_they_are_turned(tmp_path, data_folder):
    task = recipe("sudoku").task
    test = read_table(data_folder / "sudoku-extreme" / "test.csv.gz", task)[5000:5003]
    rows = task.augment(task.pack(test.questions, test.answers), torch.arange(3))
    turned = Table(rows.question.numpy(), rows.answer.numpy(), test.ids, "turned", {})
    write_table(tmp_path / "turned.csv", turned, task)
    small = replace(recipe("sudoku").solver, updater=UpdaterConfig(width=32))
    config = replace(
        recipe("sudoku"), data=str(data_folder), more_data=(str(tmp_path / "turned.csv"),),
        solver=small, corpus=CorpusConfig(), teacher=TeacherConfig(),
    )  # fmt: skip
    with pytest.raises(UserError, match=r"3 puzzles of .* are equivalent to validation or test"):
        Trainer(config, tmp_path)


@pytest.mark.parametrize("hops", [0, 2])
@pytest.mark.parametrize("task", ["sudoku", "maze"])
def test_every_part_of_the_updater_learns(tmp_path, task, hops):
    config = tiny_run(task, updates=4)
    updater = UpdaterConfig(width=32, hops=hops, hop_width=16, hop_hidden=32)
    config = replace(config, solver=replace(config.solver, updater=updater))
    trainer = Trainer(config, tmp_path)
    before = {n: w.clone() for n, w in trained_weights(trainer.model).items()}
    for _ in range(4):
        trainer.train_update()
    still = [n for n, w in trained_weights(trainer.model).items() if torch.equal(w, before[n])]
    assert still == []


def test_gradients_are_scaled_but_for_a_loss_that_has_to_come_from_far():
    def scale(name: str) -> float:
        return recipe(name).solver.updater.bptt_gradient_scale

    assert {scale(f"sudoku/{method}") for method in ("focus", "random", "no-replay")} == {0.8}
    assert scale("sudoku/recurrent") == scale("sudoku/smollm2-135m/recurrent") == 1.0
    assert scale("sudoku-quick/recurrent") == 0.8  # Muon
    assert scale("maze/focus") == 1.0


def test_the_scale_of_gradients_makes_no_other_method(tmp_path):
    words = ["train", "mini-sudoku", "--optimizer.updates", "1", "--eval-rows", "4", "--out"]
    assert main([*words, str(tmp_path), "--solver.updater.bptt-gradient-scale", "0.9"]) == 0
    assert read_config(tmp_path / "config.json").method == "focus"
