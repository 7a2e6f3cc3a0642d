"""Whether an adapter is told from random ones, and one of these is not."""

import numpy as np
import pytest

from focus.evaluation.transfer.beyond_null import (
    BITS,
    POINTS,
    adapters_with_nulls,
    changes,
    effect,
    verdicts,
)


def row(benchmark: str, p: float, low: float, high: float) -> dict:
    about = {"variant": "a", "against": "null-a", "seeds": 1, "nulls": 3}
    middle = (low + high) / 2
    return {**about, "benchmark": benchmark, "points": middle, "low": low, "high": high, "p": p}


@pytest.mark.parametrize("nulls", [2, 3, 6])
def test_a_random_adapter_is_seldom_told_from_others(nulls):
    rng, told, tries = np.random.default_rng(nulls), 0, 100
    for _ in range(tries):  # adapters that differ in their means, the first not more than others
        means = rng.normal(0, 1, nulls + 1)
        bits = means[:, None] + rng.normal(0, 1, (nulls + 1, 50))
        _, low, high, _ = effect(bits[0] - bits[1:], seeds=1)
        told += low > 0 or high < 0
    assert told <= 12  # 5 are expected; more than 12 in one of 1,500 times


def test_one_random_adapter_gives_no_verdict():
    figures = {"a": {"0": 1.0, "1": 1.0}, "null-a-1": {"0": 0.0, "1": 0.1}}
    change = np.stack(list(changes(["a"], figures).values()), 1)
    found = dict(zip(("points", "low", "high", "p"), effect(change, seeds=1), strict=True))
    about = {"variant": "a", "against": "null-a", "benchmark": "math", "seeds": 1, "nulls": 1}
    (line,) = verdicts([{**about, **found}], "tiny-llama", POINTS)
    assert line == (
        "tiny-llama: a against 1 random adapter of its norms: MATH: two random adapters or more "
        "are needed for a verdict, +0.95 points"
    )


def test_an_adapter_far_from_its_random_ones_is_told_from_them():
    rng = np.random.default_rng(0)
    nulls = rng.normal(0, 0.01, (3, 1)) + rng.normal(0, 1, 50)  # items differ, adapters hardly
    more, _, high, p = effect(nulls[:1] - 1 - nulls, seeds=1)
    assert more == pytest.approx(-1, abs=0.05)
    assert high < 0
    assert p < 0.05


def test_an_adapter_without_a_number_is_no_seed_of_those_with_one():
    names = ["base", "focus", "focus-1", "focus-2"]
    nulls = [f"null-{name}-1" for name in names[1:]]
    assert adapters_with_nulls([*names, *nulls]) == [
        ("focus", ["focus"]), ("focus-1", ["focus-1"]), ("focus-2", ["focus-2"]),
        ("focus", ["focus-1", "focus-2"]),
    ]  # fmt: skip


def test_a_line_with_many_benchmarks_corrects_for_their_number():
    rows = [row("math", 0.03, 0.1, 2.0), row("cruxeval-o", 0.001, 1.0, 2.0)]
    rows += [row(name, 0.6, -1.0, 2.0) for name in ("math-hard", "cruxeval-i")]
    (line,) = verdicts(rows, "tiny-llama", POINTS)
    assert "MATH: no difference seen, +1.05" in line
    assert "CruxEval-O: helps, +1.50" in line
    for one in rows:
        one["bits_per_token"] = one["points"]
    assert "CruxEval-O: costs, +1.500" in verdicts(rows, "tiny-llama", BITS)[0]
