"""Puzzles that come back at their own frontier, against the selection on a rollout."""

from dataclasses import replace

import pytest
import torch

from focus.curation.algorithm import SelfTrajectory
from focus.curation.config import Stage
from focus.errors import UserError
from focus.random import example_keys
from focus.recipes import recipe
from focus.training.config import DeepSupervisionConfig
from focus.training.loop import Trainer
from focus.training.objectives.curated import selector_of
from tests.curation.samples import minibatch

STEPS, H, BATCH = 6, 2, 16


def an_updater():
    config = recipe("mini-sudoku")
    updater = replace(config.solver.updater, width=32, dropout=0.0)
    return replace(config, solver=replace(config.solver, updater=updater), steps=2)


def a_run(
    method: str = "focus", chance: float = 1.0, rate: float = 2e-3, updater: bool = False
):  # fmt: skip
    config = an_updater() if updater else recipe("trm-mini-sudoku")
    replay = replace(
        config.replay, method=method, start=0.0, stages=((1.0, STEPS, H),),
        probability=(chance, chance),
    )  # fmt: skip
    return replace(
        config, replay=replay, deep_supervision=DeepSupervisionConfig(steps=STEPS, explore=0.0),
        curation=replace(config.curation, candidates=(0, 1, 2, 4), beta=0.0),
        optimizer=replace(
            config.optimizer, updates=40, batch=BATCH, learning_rate=rate, warmup=0
        ),
        eval_every=40, eval_rows=10, save_every=20, log_every=1,
    )  # fmt: skip


@pytest.mark.parametrize("updater", [False, True])
@pytest.mark.parametrize("method", ["focus", "random", "energy-hard"])
def test_a_puzzle_comes_back_where_a_rollout_would_have_been_selected(tmp_path, method, updater):
    """With a learning rate of zero carried states are those of a rollout.

    An updater takes two steps an update here, so that t and h of a rollout are twice as large.
    """
    steps = 2 if updater else 1
    config = a_run(method, rate=0.0, updater=updater)
    trainer = Trainer(config, tmp_path)
    step, solver = trainer.step_runner.objective, trainer.model
    if updater:  # it begins with a head of zeros, which changes no answer
        torch.manual_seed(0)
        for weight in solver.updater.parameters():
            weight.data.add_(0.1 * torch.randn_like(weight))
    step.carried.age.zero_()
    for _ in range(STEPS):
        trainer.train_update()
    example = torch.arange(BATCH)
    drawn = trainer.step_runner.sampler.batch(torch.tensor(0), torch.tensor(0), example)
    x, y = drawn.x, drawn.y
    keys = example_keys(config.seed, torch.tensor(STEPS - 1), example)
    candidates = tuple(steps * t for t in config.curation.candidates)
    choose = SelfTrajectory(selector_of(config), replace(config.curation, candidates=candidates))
    stage = Stage(steps * STEPS, steps * H)
    wanted = choose(solver, minibatch(x, y, keys), solver.encode(x), stage)
    t = wanted.scores.step // steps
    assert wanted.from_candidates.any()
    back = step.replay.replay_until > 0
    assert torch.equal(back, wanted.from_candidates)
    assert torch.equal(step.carried.ended, ~back)
    assert torch.equal(step.carried.age[back], t[back])
    assert torch.equal(step.replay.replay_until[back], t[back] + H)
    for name, tensor in wanted.state.tensors().items():
        torch.testing.assert_close(step.carried.state.tensors()[name][back], tensor[back])
    several = len(t[back].unique()) > 1
    assert several or method == "energy-hard"


def test_it_stays_for_h_updates_and_comes_back_once(tmp_path):
    trainer = Trainer(a_run(rate=0.0), tmp_path)
    step = trainer.step_runner.objective
    step.carried.age.zero_()
    drawn = []
    for _ in range(STEPS + H + 1):
        trainer.train_update()
        drawn.append(step.carried.drawn.clone())
    back = torch.stack([(d == 0) for d in drawn[STEPS:]])  # after the first stay
    assert back[0].any()
    assert torch.equal(back[:H].all(0), back[0])
    assert not back[H].any()
    assert (drawn[-1][back[0]] == STEPS + H).all()


def believing(trainer, logit: float) -> None:
    """Make the model believe every answer, or none."""
    with torch.no_grad():
        trainer.model.updater.halt.bias.fill_(logit)
        trainer.model.updater.halt.weight.zero_()


def test_a_short_stay_has_no_state_of_the_puzzle_before(tmp_path):
    """Stays of one step after full ones: no candidate has h steps behind it."""
    trainer = Trainer(a_run(chance=1.0, rate=0.0), tmp_path)
    step = trainer.step_runner.objective
    step.carried.age.zero_()
    for _ in range(STEPS + H):  # all have come back, and ended
        trainer.train_update()
    assert step.replay.visited[:STEPS].all()
    believing(trainer, 5.0)
    for _ in range(3):
        trainer.train_update()
        assert step.carried.ended.all()


def test_belief_does_not_end_what_has_come_back(tmp_path):
    trainer = Trainer(a_run(rate=0.0), tmp_path)
    step = trainer.step_runner.objective
    step.carried.age.zero_()
    for _ in range(STEPS):
        trainer.train_update()
    back = step.replay.replay_until > 0
    believing(trainer, 5.0)
    trainer.train_update()
    assert torch.equal(~step.carried.ended, back)
    trainer.train_update()
    assert step.carried.ended.all()


def test_the_first_puzzles_that_begin_in_the_middle_do_not_come_back(tmp_path):
    trainer = Trainer(a_run(rate=0.0), tmp_path)
    step = trainer.step_runner.objective
    late = step.carried.age > 0
    for _ in range(STEPS - 1):
        trainer.train_update()
        assert not (step.replay.replay_until[late & (step.carried.drawn == 0)] > 0).any()
    assert late.any()


def test_without_a_chance_nothing_changes(tmp_path):
    one, other = (
        Trainer(config, tmp_path / config.replay.method)
        for config in (a_run("focus", chance=0.0), a_run("none"))
    )
    for trainer in (one, other):
        for _ in range(2 * STEPS):
            trainer.train_update()
    assert torch.equal(
        one.step_runner.optimizer.vector.values, other.step_runner.optimizer.vector.values
    )


def test_a_run_resumes_and_says_what_came_back(tmp_path):
    config = a_run(chance=0.7)
    whole = Trainer(config, tmp_path)
    for _ in range(STEPS + 2):
        whole.train_update()
    whole.save()
    again = Trainer(config, tmp_path)
    again.resume()
    for trainer in (whole, again):
        for _ in range(STEPS):
            trainer.train_update()
    assert torch.equal(
        whole.step_runner.optimizer.vector.values, again.step_runner.optimizer.vector.values
    )
    line = whole.step_runner.metric_sums.read()
    assert line["replayed"] > 0
    assert sum(line["t_histogram"]) > 0
    assert recipe("trm-mini-sudoku/focus").method == "trm-focus"


def test_states_of_another_version_are_refused(tmp_path, monkeypatch):
    trainer = Trainer(a_run(), tmp_path)
    trainer.train_update()
    trainer.save()
    again = Trainer(a_run(), tmp_path)
    objective = again.step_runner.objective
    renamed = {f"former.{name}": tensor for name, tensor in objective.tensors().items()}
    monkeypatch.setattr(objective, "tensors", lambda: renamed)
    with pytest.raises(UserError, match="states of another version"):
        again.resume()


def test_what_cannot_be_is_refused():
    config = a_run()
    for change, reason in (
        ({"replay": replace(config.replay, method="fixed-mix")}, "a replay.method that selects"),
        ({"curation": replace(config.curation, beta=0.08)}, "without a penalty"),
        ({"replay": replace(config.replay, base_mixture=(0.5, 0.5, 0.0))}, "base-mixture"),
    ):
        with pytest.raises(UserError, match=reason):
            replace(config, **change)
    too_long = replace(config.replay, stages=((1.0, 128, STEPS + 1),))
    with pytest.raises(UserError, match=r"no curation\.candidates"):
        replace(config, replay=too_long)
    with pytest.raises(UserError, match="'trm-sudoku/fixed-mix' is not a recipe"):
        recipe("trm-sudoku/fixed-mix")


@pytest.mark.parametrize("name", ["sudoku", "maze", "mini-sudoku"])
def test_recipes_have_candidates_over_the_whole_stay(name):
    config = recipe(f"trm-{name}/focus")
    ((_, K_p, h),) = config.replay.stages
    assert K_p == config.deep_supervision.steps
    assert config.curation.candidates[0] == 0
    assert config.curation.candidates[-1] + h == K_p
