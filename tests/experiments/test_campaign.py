"""Campaigns: what can share updates does, and verdicts follow from the stored bits."""

import numpy as np
import pytest

from experiments.campaign import CLAIMS, STUDIES, Claim, groups, judged, main
from experiments.stored import pack
from focus.evaluation.statistics import crossed_bootstrap, holm


def runs(rates: dict[str, float], seeds: int = 5, puzzles: int = 2000) -> dict:
    """Stored runs with these rates; the same puzzles are hard for all."""
    rng = np.random.default_rng(1)
    hardness = rng.random(puzzles)
    stored = {}
    for seed in range(seeds):
        luck = rng.normal(0, 0.005)
        for method, rate in rates.items():
            noise = rng.normal(0, 0.05, puzzles)
            bits = hardness + noise < rate + luck
            stored[f"{method}-{seed}"] = {
                "method": method, "seed": seed, "n_test": puzzles, "test": {"128": pack(bits)}
            }  # fmt: skip
    return stored


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


def test_a_clear_effect_is_confirmed_and_its_absence_contradicts():
    claims = (Claim("up", "good", "bad", 6.6), Claim("same", "good", "twin", 6.6))
    lines = judged(runs({"good": 0.55, "bad": 0.45, "twin": 0.55}), claims, "128")
    assert lines[0].endswith("confirmed")
    assert "5 seeds" in lines[0]
    assert lines[1].endswith("contradicted")
    assert judged({}, claims, "128") == ["up: no pair of runs yet", "same: no pair of runs yet"]


def test_a_small_effect_with_few_seeds_is_undecided():
    claims = (Claim("some", "good", "bad", 3.0),)
    noisy = runs({"good": 0.51, "bad": 0.50}, seeds=2, puzzles=100)
    assert judged(noisy, claims, "128")[0].endswith("undecided")


def test_the_interval_grows_with_the_spread_of_the_seeds():
    rng = np.random.default_rng(0)
    base = rng.random((4, 500)) < 0.5
    alike = base | (rng.random((4, 500)) < 0.1)
    apart = base.copy()
    apart[0] |= rng.random(500) < 0.4
    _, low, high, _ = crossed_bootstrap(alike, base, 2000)
    _, wide_low, wide_high, _ = crossed_bootstrap(apart, base, 2000)
    assert low > 0
    assert wide_high - wide_low > 2 * (high - low)


def test_holm_multiplies_the_smallest_by_the_number_of_claims():
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "c": 0.06, "b": 0.06}
    )


def test_every_claim_names_methods_of_its_study():
    for study, claims in CLAIMS.items():
        for claim in claims:
            assert {claim.better, claim.worse} <= set(STUDIES[study].methods)


def test_bad_words_are_one_line(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["campaign", "verdicts", "nothing"])
    with pytest.raises(SystemExit, match="no claims"):
        main()
