"""Runs resume bit for bit after any kill, and stop on what is not finite."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from focus.cli import main
from focus.errors import UserError
from focus.evaluation.puzzles import evaluate
from focus.files import only_one, write_text
from focus.model.checkpoint import load_model, trained_weights
from focus.recipes import recipe
from focus.serialization import to_json
from focus.training.loop import NotFiniteError, Trainer
from tests.training.samples import tiny_run


def metrics(folder: Path) -> list[dict]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


@pytest.mark.parametrize("task", ["sudoku", "maze"])
def test_a_resumed_run_equals_an_unbroken_one_bit_for_bit(tmp_path, task):
    config = tiny_run(task, updates=8)
    config = replace(config, optimizer=replace(config.optimizer, ema=0.9))
    whole = Trainer(config, tmp_path / "whole")
    whole.run()
    broken = Trainer(config, tmp_path / "broken")
    (tmp_path / "broken").mkdir()

    class KilledError(Exception):
        pass

    def kill(update, line):
        if update == 5:
            raise KilledError

    with pytest.raises(KilledError):
        broken.run(kill)
    again = Trainer(config, tmp_path / "broken")
    again.resume()
    assert again.update == 4
    again.run()
    assert metrics(tmp_path / "broken") == metrics(tmp_path / "whole")
    for name, weight in trained_weights(whole.model).items():
        assert torch.equal(weight, trained_weights(again.model)[name]), name
        assert torch.equal(
            whole.step_runner.optimizer.average[name], again.step_runner.optimizer.average[name]
        ), name


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(("energy", "chosen"), [(4, 6), (5, 4)])
def test_a_run_ends_when_validation_has_not_got_better_for_long(
    tmp_path, monkeypatch, energy, chosen, killed
):
    """Nothing, nothing, a third of 20 puzzles, less, as much: better if the energy is lower, but no
    reason to go on. A kill on the way changes nothing."""
    exact = {1: 0, 2: 0, 3: 0, 4: 7, 5: 3, 6: 7, 7: 20, 8: 20}
    energies = {1: 9, 2: 8, 3: 9, 4: 5, 5: 1, 6: energy, 7: 0, 8: 0}
    config = replace(tiny_run("sudoku", updates=8), eval_every=1, save_every=1, patience=2)
    (tmp_path / "run").mkdir()

    def a_trainer() -> Trainer:
        trainer = Trainer(config, tmp_path / "run")

        def judged(model, table, steps):
            (found,) = evaluate(model, table, steps)
            right = torch.arange(len(table)).numpy() < exact[trainer.update]
            worth = found.diagnostics["energy"] * 0 + energies[trainer.update]
            return [replace(found, exact=right, diagnostics={"energy": worth})]

        monkeypatch.setattr("focus.training.loop.evaluate", judged)
        return trainer

    trainer = a_trainer()
    if killed:
        for _ in range(5):
            trainer.train_update()
            trainer.validate()
        trainer.save()
        trainer = a_trainer()
        trainer.resume()
    trainer.run()
    assert (trainer.update, trainer.best, trainer.stopped_early) == (6, 0.35, True)
    assert load_model(tmp_path / "run").record[1]["update"] == chosen
    again = a_trainer()
    again.resume()
    assert again.run() == {}
    assert again.update == 6


@pytest.mark.long
def test_kill_9_at_random_moments_changes_nothing(tmp_path):
    """Each kill comes a random moment after a random number of new lines of metrics."""
    command = [
        sys.executable, "-m", "focus", "train", "mini-sudoku", "--optimizer.updates", "100",
        "--save-every", "5", "--log-every", "1", "--eval-every", "20", "--eval-rows", "20",
        "--optimizer.batch", "16", "--solver.updater.width", "32", "--out",
    ]  # fmt: skip
    subprocess.run([*command, str(tmp_path / "whole")], check=True)
    lines = tmp_path / "killed" / "metrics.jsonl"
    draw = random.Random(0)
    reached = []

    def written() -> int:
        return lines.read_text().count("\n") if lines.exists() else 0

    for kill in range(10):
        run = subprocess.Popen([*command, str(tmp_path / "killed"), "--resume"])
        wanted = 5 + 9 * kill + draw.randrange(5)
        while run.poll() is None and written() < wanted:
            time.sleep(0.005)
        time.sleep(draw.random() * 0.05)
        assert run.poll() is None, "the run ended before it was killed"
        run.send_signal(signal.SIGKILL)
        run.wait()
        reached.append(written())
    assert reached == sorted(reached)
    subprocess.run([*command, str(tmp_path / "killed"), "--resume"], check=True)
    assert metrics(tmp_path / "killed") == metrics(tmp_path / "whole")


@pytest.mark.parametrize("save_every", [2, 3])
def test_windows_of_metrics_that_span_a_checkpoint_survive_it(tmp_path, save_every):
    config = replace(tiny_run("sudoku", updates=8), log_every=4, save_every=save_every)
    Trainer(config, tmp_path / "whole").run()

    class KilledError(Exception):
        pass

    def kill(update, line):
        if update == 7:
            raise KilledError

    with pytest.raises(KilledError):
        Trainer(config, tmp_path / "broken").run(kill)
    again = Trainer(config, tmp_path / "broken")
    again.resume()
    assert again.update == 6
    again.run()
    assert metrics(tmp_path / "broken") == metrics(tmp_path / "whole")


def test_a_run_that_ran_out_of_time_goes_on_bit_for_bit(tmp_path):
    """It ends where a state can be saved: between two readings of the language model."""
    config = tiny_run("sudoku", "tiny-llama", updates=4)
    config = replace(
        config, encode_batches=2, save_every=4,
        optimizer=replace(config.optimizer, accumulate=1),
    )  # fmt: skip
    whole = Trainer(config, tmp_path / "whole")
    whole.run()
    parts = [Trainer(config, tmp_path / "parts") for _ in range(2)]
    for part, update in zip(parts, (2, 4), strict=True):
        part.resume()
        part.run(is_over=lambda: True)
        assert part.update == update
    assert not parts[1].goes_on
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")
    for name, weight in trained_weights(whole.model).items():
        assert torch.equal(weight, trained_weights(parts[1].model)[name]), name


def test_a_portable_state_is_small_and_goes_on_closely(tmp_path):
    config = replace(tiny_run("sudoku", "tiny-llama", updates=8), portable=True)
    config = replace(config, optimizer=replace(config.optimizer, ema=0.9))
    whole = Trainer(config, tmp_path)
    for _ in range(4):
        whole.train_update()
    whole.save()
    exact = sum(w.numel() * 4 * 4 for w in whole.step_runner.optimizer.vector.named.values())
    stored = sum(path.stat().st_size for path in (tmp_path / "last").glob("state-*.safetensors"))
    assert stored < 0.65 * exact  # 7 of 16 bytes a weight, and headers that count in tiny models
    moved = Trainer(config, tmp_path)
    moved.resume()
    for name, weight in trained_weights(moved.model).items():
        near = trained_weights(whole.model)[name]
        torch.testing.assert_close(weight, near, rtol=2**-16, atol=0)
        torch.testing.assert_close(
            moved.step_runner.optimizer.average[name],
            whole.step_runner.optimizer.average[name],
            rtol=0.01,
            atol=1e-4,
        )
    before = {n: w.clone() for n, w in trained_weights(whole.model).items()}
    for trainer in (whole, moved):
        trainer.train_update()
    # The next step goes where the exact state would have gone.
    for name, old in before.items():
        exact_step = trained_weights(whole.model)[name] - old
        moved_step = trained_weights(moved.model)[name] - old
        assert (moved_step - exact_step).norm() <= 0.1 * exact_step.norm() + 1e-6, name


def test_a_state_that_was_carried_alone_ends_with_a_best_checkpoint(tmp_path):
    config = replace(tiny_run("sudoku", updates=4), eval_every=1)
    home, away = Trainer(config, tmp_path / "home"), Trainer(config, tmp_path / "away")
    home.train_update()
    home.best = 1.0  # which is not reached again
    home.save()
    shutil.move(tmp_path / "home" / "last", tmp_path / "away" / "last")
    away.resume()
    away.run()
    assert load_model(tmp_path / "away")


def test_metrics_hold_histograms_of_the_defect_and_of_t(tmp_path):
    config = tiny_run("sudoku", updates=6, probability=(1.0, 1.0))
    Trainer(config, tmp_path).run()
    replays = [line for line in metrics(tmp_path) if "t_histogram" in line]
    assert replays
    for line in replays:
        assert sum(line["t_histogram"]) == sum(line["D_histogram"]) == round(8 * line["replayed"])
        assert len(line["t_histogram"]) == len(config.curation.candidates)
        assert 0 <= line["stuck"] <= 1
    assert list((tmp_path / "tensorboard").glob("events*"))


def test_a_damaged_checkpoint_is_refused_by_name(tmp_path):
    config = tiny_run("sudoku", updates=2)
    Trainer(config, tmp_path).run()
    for folder, name in (("last", "state-1.safetensors"), ("best", "updater.safetensors")):
        copy = tmp_path / f"copy-{folder}"
        shutil.copytree(tmp_path / folder, copy / folder)
        path = copy / folder / name
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2] ^= 1
        path.write_bytes(raw)
        use = Trainer(config, copy).resume if folder == "last" else lambda c=copy: load_model(c)
        with pytest.raises(UserError, match=name):
            use()
        path.unlink()
        with pytest.raises(UserError, match=f"{name} is missing"):
            load_model(copy / folder)


def test_a_run_cut_off_while_replacing_a_checkpoint_uses_the_old_one(tmp_path):
    config = tiny_run("sudoku", updates=2)
    Trainer(config, tmp_path).run()
    os.replace(tmp_path / "last", tmp_path / ".last.focus-old")
    trainer = Trainer(config, tmp_path)
    trainer.resume()
    assert trainer.update == 2


@pytest.mark.parametrize("lost", ["last", "last/manifest.json"])
def test_a_run_whose_state_was_lost_is_not_begun_again(tmp_path, lost):
    config = tiny_run("sudoku", updates=2)
    Trainer(config, tmp_path).run()
    best = (tmp_path / "best" / "manifest.json").read_bytes()
    path = tmp_path / lost
    path.unlink() if path.is_file() else shutil.rmtree(path)
    with pytest.raises(UserError, match="is missing now or not whole"):
        Trainer(config, tmp_path).resume()
    assert (tmp_path / "best" / "manifest.json").read_bytes() == best
    for name in ("best", "last"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
    (tmp_path / "metrics.jsonl").unlink()
    Trainer(config, tmp_path).resume()  # there is nothing left to lose


def test_a_run_killed_while_its_first_state_was_written_begins_again(tmp_path):
    config = tiny_run("sudoku", updates=2)
    Trainer(config, tmp_path).run()
    before = metrics(tmp_path)
    os.replace(tmp_path / "last", tmp_path / ".last.focus-new")
    (tmp_path / ".saved").unlink()
    trainer = Trainer(config, tmp_path)
    trainer.resume()
    assert trainer.update == 0
    trainer.run()
    assert metrics(tmp_path) == before


def test_a_folder_with_a_run_is_not_trained_into(tmp_path):
    config = tiny_run("sudoku", updates=1)
    Trainer(config, tmp_path).run()
    with pytest.raises(UserError, match=r"holds a run: resume\(\) goes on with it"):
        Trainer(config, tmp_path).run()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("train mini-maze", "a run of sudoku, not of maze"),
        ("train trm-mini-sudoku/focus", "a run of a solver, not of a TRM"),
    ],
)
def test_a_run_does_not_go_on_as_another_one(tmp_path, capsys, words, why):
    write_text(tmp_path / "config.json", to_json(recipe("mini-sudoku")))
    assert main([*words.split(), "--out", str(tmp_path), "--resume"]) == 2
    assert why in capsys.readouterr().err


def test_another_config_is_not_resumed(tmp_path):
    config = tiny_run("sudoku", updates=2)
    Trainer(config, tmp_path).run()
    with pytest.raises(UserError, match="another config: --seed differs"):
        Trainer(replace(config, seed=1), tmp_path).resume()
    elsewhere = replace(config, data="generated", capture=False, log_every=3, portable=True)
    moved = Trainer(elsewhere, tmp_path)
    moved.resume()
    assert moved.update == 2


def test_a_run_goes_on_without_its_flags_and_is_repeated_from_its_config(tmp_path, capsys):
    flags = [
        "--optimizer.updates", "3", "--solver.updater.width", "16", "--optimizer.batch", "4",
        "--eval-rows", "4", "--eval-steps", "2", "--steps", "2", "--save-every", "1",
    ]  # fmt: skip
    run, again = str(tmp_path / "run"), str(tmp_path / "again")
    assert main(["train", "mini-sudoku", *flags, "--out", run]) == 0
    assert main(["train", "mini-sudoku", "--out", run]) == 2
    assert "--resume" in capsys.readouterr().err
    assert main(["train", "mini-sudoku", "--out", run, "--resume"]) == 0
    assert "nothing left to do" in capsys.readouterr().out
    assert main(["train", f"{run}/config.json", "--out", again]) == 0
    assert metrics(Path(again)) == metrics(Path(run))


@pytest.mark.parametrize("seeds", [[], ["--seeds", "1", "2"]])
def test_a_training_can_be_given_so_many_minutes(tmp_path, capsys, seeds):
    out = str(tmp_path / "run")
    flags = [
        "--optimizer.updates", "2", "--optimizer.batch", "4", "--eval-rows", "4",
        "--eval-steps", "2", "--data", "generated",
    ]  # fmt: skip
    words = ["train", "mini-sudoku", *seeds, "--out", out]
    assert main([*words, *flags, "--minutes", "1e-9"]) == 0
    first, *_ = said = capsys.readouterr().out.splitlines()
    assert len(said) == max(1, len(seeds) - 1)
    assert first.endswith("saved at update 1 of 2; --resume goes on")
    (tmp_path / "run" / "config.json").unlink(missing_ok=True)  # last/ has it too
    assert main([*words, "--resume", "--minutes", "60"]) == 0
    assert "validation" in capsys.readouterr().out.splitlines()[0]


def test_a_log_tells_where_a_run_goes_on_and_how_it_does(tmp_path, capsys):
    words = (
        "train mini-sudoku --optimizer.updates 4 --optimizer.batch 4 --eval-every 2 --save-every 2 "
        f"--eval-rows 4 --data generated --out {tmp_path / 'run'}"
    ).split()
    assert main([*words, "--resume"]) == 0
    told = capsys.readouterr().err
    assert "nothing was saved in" in told.replace("\n", " ")
    lines = [line for line in told.splitlines() if line.startswith("update")]
    assert [line.split(":")[0] for line in lines] == ["update 2", "update 4"]
    assert "validation 0." in lines[0]
    assert main([*words, "--resume"]) == 0
    assert "going on after update 4 (sudoku, none, focus)" in capsys.readouterr().err
    assert main(words) == 2


def test_what_is_not_finite_stops_the_run_and_keeps_the_checkpoint(tmp_path):
    config = tiny_run("sudoku", updates=6)
    trainer = Trainer(config, tmp_path)

    def poison(update, line):
        if update == 3:
            with torch.no_grad():
                trainer.model.updater.head.bias.fill_(float("nan"))

    with pytest.raises(NotFiniteError, match="update 4"):
        trainer.run(poison)
    kept = Trainer(config, tmp_path)
    kept.resume()
    assert kept.update == 2
    assert all(w.isfinite().all() for w in trained_weights(kept.model).values())


def test_two_processes_never_train_into_one_folder(tmp_path, capsys):
    words = ["train", "mini-sudoku", "--optimizer.updates", "1", "--out", str(tmp_path / "run")]
    with only_one(tmp_path / "run"):
        assert main(words) == 2
    assert "another process is writing into" in capsys.readouterr().err
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
