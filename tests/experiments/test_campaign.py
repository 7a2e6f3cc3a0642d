"""Campaigns: what can share updates does."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from experiments import campaign
from experiments.campaign import groups, main
from experiments.stored import RESULTS
from experiments.studies import STUDIES, TEACHER, Study
from focus.data.sources import Generated
from focus.evaluation.puzzles import evaluate
from focus.files import only_one, sha256
from focus.serialization import to_json
from focus.training.config import RunConfig, read_config
from focus.training.stack import Stack


def test_every_run_of_a_study_is_in_one_group_with_its_like():
    for study in STUDIES.values():
        every = dict(study.runs(""))
        made = groups(every, 20)
        assert sorted(name for group in made for name in group) == sorted(every)
    primary = groups(dict(STUDIES["primary"].runs("")), 20)
    assert [len(group) for group in primary] == [20]
    secondary = groups(dict(STUDIES["secondary"].runs("")), 20)
    together = next(group for group in secondary if any("no-replay" in name for name in group))
    assert all("no-replay" in name for name in together)


def test_runs_of_one_seed_have_the_same_puzzles_and_coins():
    one, other = (dict(STUDIES["primary"].runs(""))[f"as-is-{m}-3"] for m in ("focus", "random"))
    assert (one.seed, one.corpus, one.replay.probability) == (
        other.seed, other.corpus, other.replay.probability
    )  # fmt: skip


def test_a_study_says_who_teaches_its_runs():
    for study in ("secondary-untaught", "choices"):
        assert {config.teacher.checkpoint for _, config in STUDIES[study].runs("")} == {""}
    for name, config in STUDIES["secondary"].runs(""):
        assert config.teacher.checkpoint == ("" if "recurrent" in name else TEACHER)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("campaign-*.json")), ids=lambda p: p.stem)
def test_every_stored_run_is_one_of_a_study(path):
    runs = json.loads(path.read_text())["runs"]
    study = STUDIES[path.stem.removeprefix("campaign-")]
    assert runs.keys() <= dict(study.runs("")).keys()


@pytest.fixture
def tiny(tmp_path, monkeypatch, capsys):
    """A function that makes a study of few puzzles, and gives one that calls a command on it."""
    for task in campaign.STEPS:
        monkeypatch.setitem(campaign.STEPS, task, (1, 2, 3))
    monkeypatch.setattr(campaign, "LONGEST", 3)
    monkeypatch.setattr(campaign, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(Generated.__init__, "__defaults__", (0, 50, 20))

    def call(*words: str) -> str:
        monkeypatch.setattr("sys.argv", ["campaign", *words])
        main()
        return capsys.readouterr().out

    def make(study: Study) -> Callable[..., str]:
        monkeypatch.setitem(STUDIES, "tiny", study)
        return call

    return make


def test_language_models_are_tested_with_their_controls(tmp_path, tiny):
    call = tiny(Study("mini-sudoku/tiny-llama", 2, ("focus", "direct"), (1,)))
    call("run", "tiny", "--data", "generated", "--out", str(tmp_path))
    focus, direct = (
        json.loads((tmp_path / f"as-is-{method}-1" / "run.json").read_text())
        for method in ("focus", "direct")
    )
    assert set(focus["controls"]) == {"zeroed", "shuffled", "adapter-off"}
    assert "controls" not in direct


def test_what_is_chosen_is_tested_on_validation_puzzles_alone(tmp_path, tiny):
    call = tiny(Study("mini-sudoku/tiny-llama", 2, ("focus",), (1,), splits=("validation",)))
    call("run", "tiny", "--data", "generated", "--out", str(tmp_path))
    run = json.loads((tmp_path / "as-is-focus-1" / "run.json").read_text())
    assert "validation" in run
    assert not {"test", "controls"} & set(run)
    call("store", "tiny", "--out", str(tmp_path))
    assert "as-is-focus-1" in call("table", "tiny")


def test_a_study_is_trained_tested_stored_and_shown(tmp_path, tiny):
    call = tiny(Study("mini-sudoku", 2, ("focus", "random", "no-replay"), (1,)))
    out = str(tmp_path / "runs")
    run = ("run", "tiny", "--data", "generated", "--out", out)
    said = call(*run)
    assert "together: as-is-focus-1, as-is-random-1\n" in said
    assert "together: as-is-no-replay-1\n" in said
    assert call(*run) == ""  # all of them are finished
    final = tmp_path / "runs" / "as-is-focus-1" / "final"
    assert read_config(final / "config.json").seed == 1  # so that its K is known too
    call("store", "tiny", "--out", out)
    runs = json.loads((tmp_path / "results" / "campaign-tiny.json").read_text())["runs"]
    # K of validation (16) is tested too, and the longest rollout (here 3) of FOCUS alone.
    assert set(runs["as-is-focus-1"]["test"]) == {"1", "2", "3", "16"}
    assert set(runs["as-is-random-1"]["test"]) == {"1", "2", "16"}
    assert set(runs["as-is-random-1"]["validation"]) == {"1", "2", "3", "16"}
    assert "as-is-no-replay-1" in call("table", "tiny")
    assert "tiny: mini-sudoku, 2 updates, 3 runs, 3 of them stored" in call("list")


def test_a_seed_is_not_one_that_begins_with_it(tmp_path, tiny):
    call = tiny(Study("mini-sudoku", 1, ("focus",), (1, 10)))
    said = call(
        "run", "tiny", "--data", "generated", "--out", str(tmp_path), "--only", "focus-1"
    )  # fmt: skip
    assert "together: as-is-focus-1\n" in said
    assert not (tmp_path / "as-is-focus-10").exists()


def test_what_a_call_that_trained_nothing_has_noted_does_not_stay(tmp_path, tiny):
    call = tiny(Study("mini-sudoku", 1, ("focus",), (1,)))
    folder = tmp_path / "as-is-focus-1"
    folder.mkdir()
    (folder / campaign.START).write_text('{"together": 3}')
    call("run", "tiny", "--data", "generated", "--out", str(tmp_path))
    assert json.loads((folder / "run.json").read_text())["together"] == 1


# A study of each kind.
KINDS = (
    "secondary", "secondary-long-rollout", "secondary-maze", "table1-others", "table1-controls",
    "table1-maze", "adapter-rates",
)  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_a_study_of_each_kind_comes_to_its_table(name, tmp_path, tiny):
    """Of the runs that could share a stack one is tried."""
    study, teacher = STUDIES[name], ""
    task, *backbone = study.recipe.split("/")
    task = f"mini-{task.removesuffix('-quick')}"
    if study.teacher:
        call = tiny(Study(f"trm-{task}", 1, ("trm",), (1,)))
        call("run", "tiny", "--data", "generated", "--out", str(tmp_path / "teacher"))
        teacher = str(tmp_path / "teacher" / "as-is-trm-1" / "final")
    small = "/".join([task, *(["tiny-llama"] if backbone else [])])
    call = tiny(replace(study, recipe=small, updates=2, seeds=study.seeds[:1], teacher=teacher))
    tried = [next(iter(group)) for group in groups(dict(STUDIES["tiny"].runs("")), 20)]
    out = str(tmp_path / "runs")
    call("run", "tiny", "--data", "generated", "--out", out, "--only", *tried)
    call("store", "tiny", "--out", out)
    shown = call("table", "tiny")
    assert all(f"  {run} " in shown for run in tried)


def test_base_trains_nothing():
    for study in ("table1-others", "table1-maze"):
        updates = {run.method: run.optimizer.updates for _, run in STUDIES[study].runs("")}
        assert updates.pop("base") == 0
        assert set(updates.values()) == {STUDIES[study].updates}


@pytest.mark.parametrize("ending", ["", "-unscaled", "-maze"])
def test_runs_of_focus_that_two_studies_share_are_the_same(ending):
    primary, secondary = (
        dict(STUDIES[f"{study}{ending}"].runs("")) for study in ("primary", "secondary")
    )
    for run in ("as-is-focus-1", "as-is-focus-2", "as-is-focus-3"):  # runs/campaign.sh
        assert primary[run] == secondary[run]


def state(folder: Path) -> tuple:
    """What a run has come to: its figures, its weights, its metrics without the clock."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    metrics = [{**json.loads(line), "seconds": 0} for line in lines]
    return (folder / "run.json").read_text(), sha256(folder / "final/updater.safetensors"), metrics


def test_a_call_whose_time_is_over_leaves_the_rest_to_the_next(tmp_path, tiny):
    """No time at all is an update a call, and then a test a call."""
    call = tiny(Study("mini-sudoku", 3, ("focus", "random", "no-replay"), (1,)))
    run = ("run", "tiny", "--data", "generated", "--out")
    call(*run, str(tmp_path / "whole"))
    stands = []
    while said := call(*run, str(tmp_path / "parts"), "--minutes", "1e-9").splitlines():
        stands.append(said[-1].removeprefix("the time is over "))
    done = "at update 3 of 3, with tests left; the same command goes on"
    assert stands[:4] == [
        "at update 1 of 3; the same command goes on", "at update 2 of 3; the same command goes on",
        done, done,
    ]  # fmt: skip
    assert stands[5] == "before as-is-no-replay-1 begins; the same command goes on"
    assert stands[-1].startswith("as-is-no-replay-1")
    for folder in (tmp_path / "whole").glob("as-is-*"):
        assert state(folder) == state(tmp_path / "parts" / folder.name)
        assert not (tmp_path / "parts" / folder.name / campaign.TESTED).exists()


def test_a_run_with_portable_states_is_one_of_its_study(tmp_path, tiny):
    call = tiny(Study("mini-sudoku", 2, ("focus",), (1,), splits=("validation",)))
    run = ("run", "tiny", "--data", "generated", "--out", str(tmp_path), "--portable")
    assert "at update 1 of 2" in call(*run, "--minutes", "1e-9")
    home, away = tmp_path / "as-is-focus-1", tmp_path / "carried"
    away.mkdir()
    shutil.move(home / "last", away)
    shutil.move(home / "metrics.jsonl", away)
    shutil.move(home / campaign.START, tmp_path)
    shutil.rmtree(home)
    shutil.move(away, home)
    with pytest.raises(SystemExit, match="2"):
        call(*run)
    shutil.move(tmp_path / campaign.START, home)
    assert call(*run).splitlines()[0] == "together: as-is-focus-1"
    call("store", "tiny", "--out", str(tmp_path))
    (stored,) = json.loads((tmp_path / "results/campaign-tiny.json").read_text())["runs"].values()
    assert list(stored["training_exact"]) == ["1", "2"]


def test_a_run_that_is_not_finite_is_named_and_the_others_go_on(
    tmp_path, tiny, capsys, monkeypatch
):
    call = tiny(Study("mini-sudoku", 4, ("focus",), (1, 2), splits=("validation",)))
    run = ("run", "tiny", "--data", "generated", "--out", str(tmp_path))

    def poison(trainer):
        with torch.no_grad():
            trainer.model.updater.head.bias.fill_(float("nan"))

    class Poisoned(Stack):
        def __init__(self, *words):
            super().__init__(*words)
            poison(self.trainers[-1])

    with monkeypatch.context() as patched:
        patched.setattr(campaign, "Stack", Poisoned)
        with pytest.raises(SystemExit, match="2"):
            call(*run)
    assert "as-is-focus-2 up to update" in capsys.readouterr().err
    call(*run, "--only", "focus-1")
    assert (tmp_path / "as-is-focus-1" / "run.json").exists()


def test_two_calls_do_not_write_one_folder(tmp_path, tiny, capsys):
    call = tiny(Study("mini-sudoku", 2, ("focus",), (1,)))
    with only_one(tmp_path), pytest.raises(SystemExit, match="2"):
        call("run", "tiny", "--data", "generated", "--out", str(tmp_path))
    assert "another process is writing" in capsys.readouterr().err


@pytest.mark.parametrize("other", [False, True])
def test_a_killed_test_goes_on_unless_the_weights_are_others(tmp_path, tiny, monkeypatch, other):
    call = tiny(Study("mini-sudoku/tiny-llama", 2, ("focus",), (1,)))
    run = ("run", "tiny", "--data", "generated", "--out")
    call(*run, str(tmp_path / "whole"))

    class KilledError(Exception):
        pass

    def killed(model, table, steps):
        if (tmp_path / "killed/as-is-focus-1" / campaign.TESTED).exists() and isinstance(
            steps, int
        ):
            raise KilledError
        return evaluate(model, table, steps)

    monkeypatch.setattr(campaign, "evaluate", killed)
    with pytest.raises(KilledError):  # at the first control
        call(*run, str(tmp_path / "killed"))
    folder = tmp_path / "killed" / "as-is-focus-1"
    tested = json.loads((folder / campaign.TESTED).read_text())
    assert tested["figures"].keys() == {"test", "n_test", "validation", "n_validation"}
    if other:
        (folder / campaign.TESTED).write_text(json.dumps({**tested, "weights": "others"}))
    evaluated = []
    monkeypatch.setattr(
        campaign, "evaluate", lambda *words: evaluated.append(words[2]) or evaluate(*words)
    )
    call(*run, str(tmp_path / "killed"))
    splits = [[1, 2, 3, 16]] * 2 if other else []
    assert evaluated == [*splits, 16, 16, 16]
    assert state(folder) == state(tmp_path / "whole" / "as-is-focus-1")


# A study in a process of its own, which is killed between two saves.
KILLED = """
import os, signal, sys
from experiments import campaign
from experiments.studies import STUDIES, Study
from focus.data.sources import Generated
from focus.training.loop import Trainer

campaign.STEPS["sudoku"], campaign.LONGEST = (1, 2, 3), 3
Generated.__init__.__defaults__ = (0, 50, 20)
STUDIES["tiny"] = Study("mini-sudoku", 20, ("focus", "random"), (1,))
whole = Trainer.after_update

def after_update(trainer):
    whole(trainer)
    if trainer.update == 13:
        os.kill(os.getpid(), signal.SIGKILL)

Trainer.after_update = after_update
campaign.main()
"""


def test_kill_9_in_the_middle_of_a_training_changes_no_stored_bit(tmp_path, tiny):
    call = tiny(Study("mini-sudoku", 20, ("focus", "random"), (1,)))
    run = ("run", "tiny", "--data", "generated", "--out")
    killed = subprocess.run([sys.executable, "-c", KILLED, *run, str(tmp_path / "killed")])
    assert killed.returncode == -signal.SIGKILL
    folder = tmp_path / "killed" / "as-is-focus-1"
    assert json.loads((folder / "last" / "trainer.json").read_text())["update"] == 12
    assert not (folder / "run.json").exists()
    call(*run, str(tmp_path / "killed"))
    call(*run, str(tmp_path / "whole"))
    for folder in (tmp_path / "whole").glob("as-is-*"):
        assert state(folder) == state(tmp_path / "killed" / folder.name)


@pytest.fixture
def teachers(tmp_path, tiny) -> list[Path]:
    """Two trainings of a teacher."""
    call = tiny(Study("trm-mini-sudoku", 2, ("trm",), (1, 2)))
    call("run", "tiny", "--data", "generated", "--out", str(tmp_path))
    return [tmp_path / f"as-is-trm-{seed}" / "final" for seed in (1, 2)]


def test_a_run_notes_the_weights_of_its_teacher_when_it_begins(tmp_path, tiny, teachers, capsys):
    teacher = tmp_path / "teacher"
    shutil.copytree(teachers[0], teacher)
    call = tiny(Study("mini-sudoku", 2, ("focus",), (1,), teacher=str(teacher)))
    call("run", "tiny", "--data", "generated", "--out", str(tmp_path))
    run = json.loads((tmp_path / "as-is-focus-1" / "run.json").read_text())
    assert run["teacher"] == sha256(teacher / "updater.safetensors")
    assert run["together"] == 1
    assert "teacher" not in json.loads((teachers[0].parent / "run.json").read_text())
    # Cut off before it is finished, and then its teacher is trained anew.
    (tmp_path / "as-is-focus-1" / "run.json").unlink()
    shutil.rmtree(teacher)
    shutil.copytree(teachers[1], teacher)
    with pytest.raises(SystemExit, match="2"):
        call("run", "tiny", "--data", "generated", "--out", str(tmp_path))
    said = capsys.readouterr().err
    assert "was begun with a teacher of other weights" in said
    assert said.count("\n") == 1


def finished(folder: Path, config: RunConfig, **about) -> None:
    """A run as `campaign run` leaves it."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(to_json(config))
    run = {"method": config.method, "seed": config.seed, **about}
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "metrics.jsonl").write_text('{"update": 2, "exact": 0.5, "seconds": 1.0}\n')


def test_runs_of_different_teachers_are_not_stored_together(tmp_path, tiny, capsys):
    study = Study("mini-sudoku", 2, ("focus", "recurrent"), (1, 2, 3), teacher="a-teacher")
    call, runs = tiny(study), dict(study.runs(""))
    path = tmp_path / "results" / "campaign-tiny.json"

    def store(name: str, **about) -> None:
        finished(tmp_path / name / name, runs[name], **about)
        call("store", "tiny", "--out", str(tmp_path / name))

    store("as-is-focus-1", teacher="one")
    store("as-is-recurrent-1")  # has none
    path.write_text(json.dumps({**json.loads(path.read_text()), "what": "said by hand"}))
    store("as-is-focus-2", teacher="one")
    stored = json.loads(path.read_text())
    assert set(stored["runs"]) == {"as-is-focus-1", "as-is-recurrent-1", "as-is-focus-2"}
    assert stored["what"] == "said by hand"
    for noted in ({"teacher": "another"}, {}):  # and from before teachers were noted
        shutil.rmtree(tmp_path / "as-is-focus-3", ignore_errors=True)
        with pytest.raises(SystemExit, match="2"):
            store("as-is-focus-3", **noted)
        said = capsys.readouterr().err
        assert "teachers of different weights" in said
        assert said.count("\n") == 1
        assert json.loads(path.read_text()) == stored
    call("store", "tiny", "--anew", "--out", str(tmp_path / "as-is-focus-3"))
    assert set(json.loads(path.read_text())["runs"]) == {"as-is-focus-3"}


@pytest.mark.parametrize(
    ("name", "updates", "message"),
    [
        ("as-is-focus-1", 1, "it differs in --optimizer.updates"),
        ("as-is-focus-9", 2, "it has none of this name"),
    ],
)
def test_a_run_of_another_study_is_not_stored(tmp_path, tiny, capsys, name, updates, message):
    study = Study("mini-sudoku", 2, ("focus",), (1,))
    (config,) = dict(replace(study, updates=updates).runs("generated")).values()
    finished(tmp_path / "tried" / name, config)
    with pytest.raises(SystemExit, match="2"):
        tiny(study)("store", "tiny", "--out", str(tmp_path / "tried"))
    said = capsys.readouterr().err
    assert f"{name} is no run of tiny: {message}" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "results" / "campaign-tiny.json").exists()
