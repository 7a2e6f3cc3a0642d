"""Tables of the runs in the paper's regime are those of their task."""

import json

import numpy as np
import pytest

from experiments import regime_tables, stored, verdicts


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A function that stores runs of three seeds on 100 test puzzles."""
    for module in (stored, verdicts):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    verdicts.stored_bits.cache_clear()

    def store(study: str, solved: dict[str, int], steps: tuple[int, ...]) -> None:
        runs = {}
        for method, count in solved.items():
            bits = stored.pack(np.arange(100) < count)
            tested = (*steps, 1024) if method == "focus" else steps
            for seed in (1, 2, 3):
                runs[f"as-is-{method}-{seed}"] = {
                    "method": method, "seed": seed, "n_test": 100,
                    "test": {str(k): bits for k in tested},
                }  # fmt: skip
        (tmp_path / f"campaign-{study}.json").write_text(json.dumps({"runs": runs}))

    yield store
    verdicts.stored_bits.cache_clear()


def test_one_run_is_compared_with_several_as_if_it_could_be_one_of_them():
    puzzles = np.arange(100)
    one = {1: {"128": puzzles < 60}}
    seeds = {seed: {"128": puzzles < 48 + 2 * seed} for seed in (1, 2, 3)}
    effect, low, high = regime_tables.with_minus_without(one, seeds, "128")
    assert effect == pytest.approx(0.08)
    # Student's t of two degrees of freedom, for the spread of the seeds and of one more run.
    assert effect - low >= 4.3 * 0.02 * (1 + 1 / 3) ** 0.5
    assert regime_tables.with_minus_without(seeds, one, "128")[0] == pytest.approx(-effect)
    _, narrow, _ = regime_tables.with_minus_without(one, {1: seeds[3]}, "128")
    assert low < 0 < narrow < high  # of one beside one the puzzles alone are known
    more = {seed: {"128": puzzles < 58 + 2 * seed} for seed in (2, 3, 4)}
    both, *_ = regime_tables.with_minus_without(more, seeds, "128")
    assert both == pytest.approx(0.1)  # of the seeds that both have


@pytest.mark.parametrize(
    ("ending", "steps", "at", "half"),
    [("", (16, 32, 64, 128, 256), 128, 64), ("-maze", (8, 16, 32, 64, 256), 16, 8)],
)
def test_both_tasks_have_tables(store, ending, steps, at, half):
    methods = {"focus": 60, "random": 50, "no-penalty": 55, "random-penalty": 50}
    store(f"primary{ending}", methods, steps)
    store(f"secondary{ending}", {"focus": 60, "permuted": 40}, steps)
    factors = regime_tables.factors(f"primary{ending}")
    assert "+10.0 [" in factors
    assert f"the other at K = {at} |" in factors
    assert all(f"K = {k} |" in factors for k in steps)
    assert "| permuted | 3 | 40.0" in regime_tables.secondary(f"secondary{ending}")
    rollouts = regime_tables.long_rollouts(f"primary{ending}")
    assert f"| {half} to {at} | {at} to 1,024 |" in rollouts
    assert "| focus, 1 | 60.0" in rollouts
    assert rollouts.count("+0.0 [+0.0, +0.0]") == 15  # by 12 runs, and FOCUS at the longest K too
