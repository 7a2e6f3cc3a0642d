"""Campaigns: what can share updates does."""

import pytest

from experiments.campaign import STUDIES, groups, main


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


def test_bad_words_are_one_line(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["campaign", "table", "nothing"])
    with pytest.raises(SystemExit, match="no runs of nothing are stored"):
        main()
