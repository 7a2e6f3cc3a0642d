"""Campaigns: what can share updates does."""

import json
from collections.abc import Callable

import pytest

from experiments import campaign
from experiments.campaign import groups, main
from experiments.studies import STUDIES, TEACHER, Study
from focus.data.sources import Generated
from focus.files import sha256


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


@pytest.mark.parametrize("study", [name for name in STUDIES if campaign.stored(name).exists()])
def test_every_stored_run_is_one_of_its_study(study):
    runs = json.loads(campaign.stored(study).read_text())["runs"]
    assert runs.keys() <= dict(STUDIES[study].runs("")).keys()


@pytest.fixture
def tiny(tmp_path, monkeypatch, capsys):
    """A function that makes a study of few puzzles, and gives one that calls a command on it."""
    monkeypatch.setitem(campaign.STEPS, "sudoku", (1, 2, 3))
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
    call("store", "tiny", "--out", out)
    runs = json.loads((tmp_path / "results" / "campaign-tiny.json").read_text())["runs"]
    # K of validation (16) is tested too, and the longest rollout (here 3) of FOCUS alone.
    assert set(runs["as-is-focus-1"]["test"]) == {"1", "2", "3", "16"}
    assert set(runs["as-is-random-1"]["test"]) == {"1", "2", "16"}
    assert set(runs["as-is-random-1"]["validation"]) == {"1", "2", "3", "16"}
    assert "as-is-no-replay-1" in call("table", "tiny")
    assert "tiny: mini-sudoku, 2 updates, 3 runs, 3 of them stored" in call("list")


def test_a_run_notes_the_weights_of_its_teacher(tmp_path, tiny):
    call = tiny(Study("trm-mini-sudoku", 2, ("trm",), (1,)))
    call("run", "tiny", "--data", "generated", "--out", str(tmp_path))
    teacher = tmp_path / "as-is-trm-1"
    call = tiny(Study("mini-sudoku", 2, ("focus",), (1,), teacher=str(teacher / "final")))
    call("run", "tiny", "--data", "generated", "--out", str(tmp_path))
    run = json.loads((tmp_path / "as-is-focus-1" / "run.json").read_text())
    assert run["teacher"] == sha256(teacher / "final" / "updater.safetensors")
    assert "teacher" not in json.loads((teacher / "run.json").read_text())


def finished(out, name: str, **about) -> None:
    """A run as `campaign run` leaves it."""
    (out / name).mkdir(parents=True)
    run = {"method": "focus", "seed": 1, "updates": 2, **about}
    (out / name / "run.json").write_text(json.dumps(run))
    (out / name / "metrics.jsonl").write_text('{"update": 2, "exact": 0.5, "seconds": 1.0}\n')


def test_runs_of_different_teachers_are_not_stored_together(tmp_path, tiny, capsys):
    call = tiny(Study("mini-sudoku", 2, ("focus",), (1, 2, 3, 4)))
    path = tmp_path / "results" / "campaign-tiny.json"
    finished(tmp_path / "first", "as-is-focus-1")  # from before teachers were noted
    call("store", "tiny", "--out", str(tmp_path / "first"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "what": "said by hand"}))
    finished(tmp_path / "second", "as-is-focus-2", teacher="one")
    call("store", "tiny", "--out", str(tmp_path / "second"))
    stored = json.loads(path.read_text())
    assert set(stored["runs"]) == {"as-is-focus-1", "as-is-focus-2"}
    assert stored["what"] == "said by hand"
    finished(tmp_path / "third", "as-is-focus-3", teacher="another")
    with pytest.raises(SystemExit, match="2"):
        call("store", "tiny", "--out", str(tmp_path / "third"))
    said = capsys.readouterr().err
    assert "a teacher of other weights" in said
    assert said.count("\n") == 1
    assert json.loads(path.read_text()) == stored


def test_a_run_of_another_length_is_not_stored(tmp_path, tiny, capsys):
    call = tiny(Study("mini-sudoku", 2, ("focus",), (1,)))
    finished(tmp_path / "tried", "as-is-focus-1", updates=1)
    with pytest.raises(SystemExit, match="2"):
        call("store", "tiny", "--out", str(tmp_path / "tried"))
    said = capsys.readouterr().err
    assert "has 1 updates, a run of tiny 2" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "results" / "campaign-tiny.json").exists()
