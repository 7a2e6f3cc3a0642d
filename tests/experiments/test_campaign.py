"""Campaigns: what can share updates does."""

import json
from collections.abc import Callable

import pytest

from experiments import by_source, campaign, memorised, release
from experiments.campaign import groups, main
from experiments.studies import STUDIES, Study
from focus.data.sources import Generated


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


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("campaign table nothing", "no runs of nothing are stored"),
        ("campaign run primary --data nowhere --out out --together 0", "takes a number from 1"),
        ("campaign run primary --data nowhere --out out --updates -5", "optimizer.updates"),
        ("campaign run primary --data nowhere --out out --only nothing", "--only nothing"),
        ("campaign run mini-sudoku --data nowhere --out out", "invalid choice"),
        ("campaign store primary --out nowhere", "no finished run"),
        ("release nowhere made --trained today", "nowhere"),
        ("release nowhere made --trained today --steps 1,x", "numbers with commas"),
        ("memorised sudoku-none --data nowhere --rows 0", "takes a number from 1"),
        ("memorised nowhere --data nowhere", "nowhere"),
        ("by_source", "no such file or folder: nowhere"),
    ],
)
def test_bad_words_are_one_line(monkeypatch, capsys, tmp_path, words, problem):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOCUS_DATA", "nowhere")
    monkeypatch.setattr("sys.argv", words.split())
    commands = {
        "campaign": main, "memorised": memorised.main, "release": release.main,
        "by_source": by_source.main,
    }  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        commands[words.split()[0]]()
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert problem in said
    assert said.count("\n") == 1


@pytest.fixture
def tiny(tmp_path, monkeypatch, capsys):
    """A function that makes a study of few puzzles, and gives one that calls a command on it."""
    monkeypatch.setitem(campaign.STEPS, "sudoku", (1, 2, 3))
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
    # K of validation (16) is tested too
    assert set(runs["as-is-focus-1"]["test"]) == {"1", "2", "3", "16"}
    assert set(runs["as-is-random-1"]["test"]) == {"1", "2", "3"}
    assert "as-is-no-replay-1" in call("table", "tiny")
