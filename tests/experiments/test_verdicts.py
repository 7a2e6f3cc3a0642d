"""Verdicts on the paper's claims follow from the stored bits."""

import json

import numpy as np
import pytest

from experiments import verdicts
from experiments.stored import pack
from experiments.studies import STUDIES
from experiments.verdicts import CLAIMS, PAPERS, SHORT, THIRD, UNSCALED, Claim, Verdict
from focus.evaluation.statistics import (
    crossed_bootstrap,
    effect_over_seeds,
    holm,
    student_p,
    student_quantile,
)
from focus.recipes import METHODS, recipe


@pytest.fixture
def results(tmp_path, monkeypatch):
    """An empty folder of stored studies."""
    monkeypatch.setattr(verdicts, "RESULTS", tmp_path)
    for function in (verdicts.stored_bits, verdicts.verdicts):
        function.cache_clear()
    yield tmp_path
    for function in (verdicts.stored_bits, verdicts.verdicts):
        function.cache_clear()


def store(
    file, rates: dict[str, float], seeds: int = 5, puzzles: int = 2000, steps: int = 128
) -> None:
    """Store runs with these rates; the same puzzles are hard for all."""
    rng = np.random.default_rng(1)
    hardness = rng.random(puzzles)
    runs = {}
    for seed in range(seeds):
        luck = rng.normal(0, 0.005)
        for method, rate in rates.items():
            bits = hardness + rng.normal(0, 0.05, puzzles) < rate + luck
            runs[f"{method}-{seed}"] = {
                "method": method, "seed": seed, "n_test": puzzles, "test": {str(steps): pack(bits)},
            }  # fmt: skip
    file.write_text(json.dumps({"runs": runs}))


RANDOM = Claim("FOCUS above Random", "sudoku", "focus", "random")
PENALTY = Claim("the penalty helps", "sudoku", "focus", "no-penalty")


def test_a_clear_effect_is_confirmed_and_its_absence_contradicts(results):
    rates = {"focus": 0.55, "random": 0.45, "no-penalty": 0.55}
    store(results / "campaign-primary.json", rates)
    found = verdicts.verdicts((RANDOM, PENALTY))
    assert [verdict.word for verdict in found] == ["confirmed", "contradicted"]
    assert {verdict.regime for verdict in found} == {PAPERS}
    assert found[0].seeds == 5


def test_a_small_effect_with_few_seeds_is_undecided(results):
    store(results / "campaign-primary.json", {"focus": 0.51, "random": 0.50}, 2, puzzles=100)
    assert verdicts.verdicts((RANDOM,))[0].word == "undecided"


def test_a_study_whose_seeds_have_not_all_run_is_interim(results):
    store(results / "campaign-primary.json", {"focus": 0.55, "random": 0.45}, 3)
    assert verdicts.verdicts((RANDOM,))[0].word == "confirmed (interim)"


def test_a_real_effect_far_below_the_papers_is_confirmed_but_smaller(results):
    claim = Claim("FOCUS above Recurrent", "sudoku", "focus", "recurrent")  # +57.2 in the paper
    store(results / "campaign-secondary.json", {"focus": 0.55, "recurrent": 0.45})
    assert verdicts.verdicts((claim,))[0].word == "confirmed, but smaller"


def test_runs_with_unscaled_gradients_stand_in_for_those_of_the_recipe(results):
    store(results / "campaign-primary-unscaled.json", {"focus": 0.55, "random": 0.45}, 3)
    found = verdicts.verdicts((RANDOM,))[0]
    assert (found.regime, found.word) == (UNSCALED, "confirmed")  # three seeds are all of them
    store(results / "campaign-primary.json", {"focus": 0.45, "random": 0.45})
    verdicts.stored_bits.cache_clear()
    verdicts.verdicts.cache_clear()
    assert verdicts.verdicts((RANDOM,))[0].regime == PAPERS


def test_a_claim_of_the_primary_study_is_not_judged_by_the_secondary_one(results):
    store(results / "campaign-secondary.json", {"focus": 0.55, "random": 0.45})
    assert verdicts.verdicts((RANDOM,)) == ()


def test_one_seed_decides_nothing(results):
    store(results / "campaign-primary.json", {"focus": 0.75, "random": 0.25}, seeds=1)
    assert verdicts.verdicts((RANDOM,)) == ()


def test_intervals_of_three_seeds_miss_nothing_in_one_case_of_twenty():
    rng, missed = np.random.default_rng(0), 0
    for _ in range(200):
        luck = rng.normal(0, 0.02, (3, 1))
        first, second = rng.random((3, 400)) < 0.5 + luck, rng.random((3, 400)) < 0.5
        _, low, high, _ = effect_over_seeds(first, second, draws=200)
        missed += not low <= 0 <= high
    assert missed <= 20


def test_student():
    assert student_quantile(0.975, 2) == pytest.approx(4.3027, abs=1e-3)
    assert student_quantile(0.975, 4) == pytest.approx(2.7764, abs=1e-3)
    assert student_p(4.3027, 2) == pytest.approx(0.05, abs=1e-4)


def test_short_runs_are_used_where_the_papers_regime_has_none_and_say_so(results):
    store(results / "campaign-primary.json", {"focus": 0.55, "random": 0.45})
    store(results / "methods-sudoku-quick.json", {"focus": 0.55, "no-penalty": 0.45})
    found = verdicts.verdicts((RANDOM, PENALTY))
    assert [(v.regime, v.word) for v in found] == [(PAPERS, "confirmed"), (SHORT, "seen")]


def judged(claim: Claim) -> tuple[str, str]:
    """The regime and the word, of what is stored now."""
    verdicts.stored_bits.cache_clear()
    verdicts.verdicts.cache_clear()
    (verdict,) = verdicts.verdicts((claim,))
    return verdict.regime, verdict.word


def test_a_third_of_the_length_comes_before_short_runs_and_after_all_others(results):
    claim = Claim("FOCUS above No memory", "sudoku", "focus", "no-memory")  # none in the paper
    ahead, behind = {"focus": 0.55, "no-memory": 0.45}, {"focus": 0.45, "no-memory": 0.55}
    store(results / "methods-sudoku-quick.json", behind)
    assert judged(claim) == (SHORT, "not seen")
    third = results / "campaign-secondary-third.json"
    store(third, ahead)
    assert judged(claim) == (THIRD, "seen")
    store(third, behind)
    assert judged(claim) == (THIRD, "not seen")
    store(results / "campaign-secondary-unscaled.json", ahead)
    assert judged(claim) == (UNSCALED, "confirmed")
    store(results / "campaign-secondary.json", behind)
    assert judged(claim) == (PAPERS, "contradicted")


@pytest.mark.parametrize("worse", ["no-memory", "random"])
def test_on_mazes_the_papers_regime_is_unscaled(results, worse):
    claim = Claim(f"FOCUS above {worse}", "maze", "focus", worse)
    store(results / "methods-maze-quick.json", {"focus": 0.45, worse: 0.55}, steps=16)
    assert judged(claim) == (SHORT, "not seen")
    study = "campaign-primary-maze" if worse == "random" else "campaign-secondary-maze"
    store(results / f"{study}.json", {"focus": 0.55, worse: 0.45}, steps=16, seeds=3)
    assert judged(claim) == (UNSCALED, "confirmed")


def test_runs_without_a_teacher_are_found_at_every_length(results):
    claim = Claim("the teacher helps", "sudoku", "focus", "focus", teacher=True)
    for length, regime, word in (("-third", THIRD, "seen"), ("", PAPERS, "confirmed")):
        store(results / f"campaign-secondary{length}.json", {"focus": 0.55})
        store(results / f"campaign-secondary{length}-untaught.json", {"focus": 0.45})
        assert judged(claim) == (regime, word)


def test_on_mazes_it_is_the_runs_with_a_teacher_that_have_a_study_of_their_own(results):
    claim = Claim("the teacher helps", "maze", "focus", "focus", teacher=True)
    for study, rate in (("secondary-maze-taught", 0.55), ("secondary-maze", 0.45)):
        store(results / f"campaign-{study}.json", {"focus": rate}, steps=16, seeds=3)
    assert judged(claim) == (UNSCALED, "confirmed")


def test_a_p_value_that_misses_the_limit_does_not_look_like_it():
    about = {"regime": PAPERS, "effect": 0.02, "low": 0.001, "high": 0.04, "seeds": 5, "planned": 5}
    assert Verdict(RANDOM, p=0.052, **about).word == "undecided (p = 0.052)"


def test_without_runs_nothing_is_said(results):
    assert verdicts.verdicts((RANDOM,)) == ()


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


def test_every_claim_names_methods_that_are_there():
    assert {name for claim in CLAIMS for name in (claim.better, claim.worse)} <= set(METHODS)
    planned = {name for study in STUDIES.values() for name in study.methods}
    assert {claim.worse for claim in CLAIMS} <= planned


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.task}: {claim.what}")
def test_a_study_can_judge_every_claim_at_full_length(claim):
    asked = [
        tuple(STUDIES[name.removeprefix("campaign-")] for name in sides)
        for regime, *sides in verdicts._regimes(claim)
        if regime != SHORT
    ]
    better, worse = asked[0]
    assert claim.better in better.methods
    assert claim.worse in worse.methods
    assert len(set(better.seeds) & set(worse.seeds)) >= 3
    assert better.updates == worse.updates == recipe(claim.task).optimizer.updates
    assert bool(better.teacher) != claim.teacher or not worse.teacher


def test_effects_of_the_paper_are_differences_of_its_tables():
    assert RANDOM.in_paper == pytest.approx(6.6)
    assert Claim("more steps", "sudoku", "focus", "focus", 16).in_paper is None
