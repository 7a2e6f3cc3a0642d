"""On a GPU: a captured update is the eager one."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from focus.curation.config import Stage
from focus.model.checkpoint import trained_weights
from focus.model.trm import TRMConfig
from focus.training.config import DeepSupervisionConfig
from focus.training.loop import Trainer
from focus.training.schedule import scheduled
from tests.training.samples import tiny_run

_NO_GPU = not torch.cuda.is_available()
FROM_START = (1.0, 0.0, 0.0)


def on_a_gpu(test):
    return pytest.mark.gpu(pytest.mark.skipif(_NO_GPU, reason="needs a CUDA device")(test))


def a_run(task: str, backbone: str, **changes):
    config = replace(tiny_run(task, backbone, updates=6), compile=False, **changes)
    return replace(config, optimizer=replace(config.optimizer, ema=0.9))


def with_ours(config):
    """What `sudoku-quick` adds to the paper."""
    updater = replace(config.solver.updater, bptt_gradient_scale=0.8)
    return replace(
        config, optimizer=replace(config.optimizer, kind="muon"),
        solver=replace(config.solver, updater=updater),
        curation=replace(config.curation, replay_solved=True),
    )  # fmt: skip


def encoded_ahead(config):
    optimizer = replace(config.optimizer, accumulate=1)
    return replace(
        config,
        optimizer=optimizer,
        encode_batches=3,
        updates_per_encode=2,
        save_every=6,
        eval_every=6,
    )


def carried(config):
    """An updater that goes on from where it was."""
    return replace(
        config, deep_supervision=DeepSupervisionConfig(steps=3),
        optimizer=replace(config.optimizer, accumulate=1),
        replay=replace(config.replay, method="none", base_mixture=FROM_START),
    )  # fmt: skip


def a_trm(config, **settings):
    trm = TRMConfig(width=64, heads=4, outer=2, inner=1, **settings)
    return replace(
        config, solver=replace(config.solver, trm=trm, answer="trm"),
        deep_supervision=DeepSupervisionConfig(steps=3),
        optimizer=replace(config.optimizer, accumulate=1), steps=1,
        replay=replace(config.replay, method="none", base_mixture=FROM_START),
    )  # fmt: skip


def a_maze_trm(config):
    return a_trm(config, mixer="attention", neighbour_heads=4, targets="all")


def a_trm_with_focus(config):
    """Puzzles come back at their own states, and the teacher grows deeper."""
    taught = a_trm(config)
    # It does so while the first stage lasts, whose graph must not serve both depths.
    taught = replace(
        taught, deep_supervision=replace(taught.deep_supervision, depths=((0.2, 1, 1),))
    )
    return with_carried_focus(taught)


def with_carried_focus(config):
    replay = replace(
        config.replay, method="focus", start=0.0, stages=((0.5, 3, 1), (1.0, 3, 2)),
        probability=(0.8, 0.8),
    )  # fmt: skip
    curation = replace(config.curation, candidates=(0, 1, 2), beta=0.0)
    return replace(config, replay=replay, curation=curation)


def carried_with_focus(config):
    """Whose hinted puzzles come back at states of its own."""
    return with_carried_focus(replace(carried(config), hints=3, steps=2))


def written(config):
    """Direct LoRA SFT."""
    return replace(config, solver=replace(config.solver, answer="written"))


RUNS = (
    ("sudoku", "none", None), ("maze", "none", None), ("sudoku", "tiny-llama", None),
    ("maze", "tiny-llama", None), ("sudoku", "none", with_ours),
    ("sudoku", "tiny-llama", encoded_ahead), ("sudoku", "none", a_trm),
    ("sudoku", "none", a_trm_with_focus), ("maze", "none", carried),
    ("maze", "none", a_maze_trm), ("sudoku", "none", carried_with_focus),
    ("sudoku", "tiny-llama", written), ("maze", "tiny-llama", written),
)  # fmt: skip


def two_stages(task, backbone, change, **changes):
    """So that a graph of the first stage must not serve the second."""
    config = a_run(task, backbone, **changes)
    config = replace(config, replay=replace(config.replay, stages=((0.5, 8, 4), (1.0, 12, 4))))
    return config if change is None else change(config)


@pytest.mark.parametrize(("task", "backbone", "change"), RUNS)
def test_an_eager_run_can_be_made(tmp_path, task, backbone, change):
    """Without a GPU, too: a config that is refused would be seen on a GPU alone."""
    Trainer(two_stages(task, backbone, change, capture=False), tmp_path).train_update()


@on_a_gpu
@pytest.mark.parametrize(("task", "backbone", "change"), RUNS)
def test_a_captured_run_equals_an_eager_one(tmp_path, task, backbone, change):
    found = {}
    for capture in (False, True):
        config = two_stages(task, backbone, change, capture=capture)
        trainer = Trainer(config, tmp_path / str(capture), "cuda:0")
        start = {n: w.clone() for n, w in trained_weights(trainer.model).items()}
        lines = []
        trainer.run(lambda update, line, lines=lines: lines.append(line))
        assert trainer.step_runner.graphs.captured == capture
        weights, average = trained_weights(trainer.model), trainer.step_runner.optimizer.average
        found[capture] = (
            lines,
            *({n: w - start[n] for n, w in t.items()} for t in (weights, average)),
        )
    for eager, captured in zip(*(lines for lines, _, _ in found.values()), strict=True):
        assert captured["loss"] == pytest.approx(eager["loss"], rel=2e-3)
        assert captured.get("t_histogram") == eager.get("t_histogram")
    # AdamW turns noise in a gradient near zero (a new adapter's) into whole steps, so that what
    # is compared is how far the tensors went; other dropout masks would miss by a tensor's length.
    for part in (1, 2):
        missed = torch.stack(
            [
                (found[True][part][name] - moved).norm() / moved.norm().clamp(min=1e-8)
                for name, moved in found[False][part].items()
            ]
        )
        assert (missed.max() if backbone == "none" else missed.median()) < 0.1


@on_a_gpu
def test_dropout_differs_from_update_to_update_under_capture(tmp_path):
    config = a_run("sudoku", "none", capture=True)
    trainer = Trainer(config, tmp_path, "cuda:0")
    for _ in range(3):
        trainer.train_update()  # at first the head is zero, and dropout changes nothing
    step, losses = trainer.step_runner, []
    step.metric_sums.reset()
    for update in (0, 1, 0):
        step.begin(update, replace(scheduled(update, config), learning_rate_share=0.0))
        step.update.fill_(0)  # the same puzzles, another seed for dropout
        step.accumulate(0, 0, slice(0, 4), False, Stage(8, 4))
        losses.append(step.metric_sums.read()["loss"])
        step.metric_sums.reset()
    assert losses[0] == losses[2]
    assert losses[0] != losses[1]


@on_a_gpu
def test_a_captured_run_resumes(tmp_path):
    config = a_run("sudoku", "none", capture=True)
    whole = Trainer(config, tmp_path, "cuda:0")
    for _ in range(4):
        whole.train_update()
    whole.save()
    again = Trainer(config, tmp_path, "cuda:0")
    again.resume()
    for trainer in (whole, again):
        trainer.train_update()
    for name, weight in trained_weights(whole.model).items():
        torch.testing.assert_close(trained_weights(again.model)[name], weight, rtol=0, atol=1e-5)


@on_a_gpu
def test_recomputed_activations_are_no_hindrance(tmp_path):
    config = a_run("sudoku", "tiny-llama", capture=True)
    backbone = replace(config.solver.backbone, gradient_checkpointing=True)
    config = replace(config, solver=replace(config.solver, backbone=backbone))
    trainer = Trainer(config, tmp_path, "cuda:0")
    trainer.run()
    assert trainer.step_runner.graphs.captured


@on_a_gpu
def test_a_compiled_captured_run_equals_a_compiled_eager_one():
    command = [sys.executable, "-m", "tests.training.compiled_run"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
