"""Intervals and paired tests for rates."""

import math

import numpy as np

_Z = 1.959964  # of a 95 % interval


def wilson_interval(hits: float, n: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a rate."""
    if n == 0:
        return 0.0, 1.0
    rate, z = hits / n, _Z
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    spread = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    low = centre - spread if hits > 0 else 0.0  # exact where rounding would leave a trace
    high = centre + spread if hits < n else 1.0
    return low, high


def mcnemar(only_first: int, only_second: int) -> float:
    """Two-sided exact p-value that two paired models differ, from the discordant pairs."""
    n, fewer = only_first + only_second, min(only_first, only_second)
    if n == 0:
        return 1.0
    tail = sum(math.comb(n, k) for k in range(fewer + 1)) / 2**n
    return min(1.0, 2 * tail)


def paired_difference(first: np.ndarray, second: np.ndarray) -> tuple[float, float, float]:
    """Rate of the first less that of the second on the same items, with its interval (Wald)."""
    n = len(first)
    change = first.astype(float) - second.astype(float)
    spread = _Z * math.sqrt(change.var() / n)
    return change.mean(), change.mean() - spread, change.mean() + spread


def crossed_bootstrap(
    first: np.ndarray, second: np.ndarray, draws: int = 10_000
) -> tuple[float, float, float, float]:
    """Effect, 95 % interval and two-sided p-value of a difference over seeds and puzzles.

    Both hold (seeds, puzzles) bits of runs with the same seeds on the same puzzles. Seeds and
    puzzles are drawn anew, independently of each other; all that one seed or puzzle brought goes
    with it. The p-value is twice the share of draws on the other side of 0.
    """
    change = first.astype(np.float64) - second.astype(np.float64)
    rng, (seeds, puzzles) = np.random.default_rng(0), change.shape
    of_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), draws)
    means = np.empty(draws)
    for number, counts in enumerate(of_seeds):
        of_puzzles = np.bincount(rng.integers(puzzles, size=puzzles), minlength=puzzles)
        means[number] = counts @ change @ of_puzzles / (seeds * puzzles)
    low, high = np.quantile(means, [0.025, 0.975])
    beyond = min((means <= 0).mean(), (means >= 0).mean())
    return float(change.mean()), float(low), float(high), min(1.0, 2 * max(beyond, 1 / draws))


def effect_over_seeds(
    first: np.ndarray, second: np.ndarray, draws: int = 10_000, of_one: bool = False
) -> tuple[float, float, float, float]:
    """As `crossed_bootstrap`, and never surer than Student's t over the seeds' mean differences.

    A bootstrap of three seeds knows too few of them: where seeds differ more than puzzles do, one
    in five of its intervals misses an effect of 0. With one seed nothing is known of their spread,
    and the interval has no bounds. `of_one`: one side is the same run at each seed, so that it is
    asked whether that run could be one more seed of the others; its own spread counts as theirs.
    """
    effect, low, high, p = crossed_bootstrap(first, second, draws)
    differences = first.mean(1) - second.mean(1)
    seeds = len(differences)
    if seeds == 1:
        return effect, -math.inf, math.inf, 1.0
    error = float(differences.std(ddof=1)) * math.sqrt(1 / seeds + of_one)
    reach = error * student_quantile(0.975, seeds - 1)
    p_of_seeds = student_p(effect / error, seeds - 1) if error else 0.0
    return effect, min(low, effect - reach), max(high, effect + reach), max(p, p_of_seeds)


def student_p(t: float, freedom: int) -> float:
    """Two-sided p-value of Student's t."""
    angle, share = _student(freedom)
    return 2 * (1 - float(np.interp(math.atan(abs(t) / math.sqrt(freedom)), angle, share)))


def student_quantile(share: float, freedom: int) -> float:
    """The t below which this share of Student's distribution lies."""
    angle, shares = _student(freedom)
    return math.sqrt(freedom) * math.tan(float(np.interp(share, shares, angle)))


def _student(freedom: int) -> tuple[np.ndarray, np.ndarray]:
    """The distribution function over the angle whose tangent is t / sqrt(freedom)."""
    angle = np.linspace(-math.pi / 2, math.pi / 2, 200_001)
    density = np.cos(angle) ** (freedom - 1)
    share = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return angle, share / share[-1]


def ratio_intervals(totals: np.ndarray, counts: np.ndarray, draws: int = 10_000) -> np.ndarray:
    """Ratios of sums with their 95 % intervals, by a bootstrap over items.

    Each row of `totals` holds a figure of every item, of which `counts` says how much there is; a
    row of the answer is the ratio, low, high. All rows share the draws.
    """
    rng, n = np.random.default_rng(0), len(counts)
    ratios = np.empty((draws, len(totals)))
    for number in range(draws):
        drawn = np.bincount(rng.integers(n, size=n), minlength=n)
        ratios[number] = totals @ drawn / (counts @ drawn)
    low, high = np.quantile(ratios, [0.025, 0.975], axis=0)
    return np.stack([totals.sum(1) / counts.sum(), low, high], axis=1)


def holm(p_values: dict[str, float]) -> dict[str, float]:
    """P-values corrected for their number, by Holm's step-down procedure."""
    corrected, least = {}, 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[name]))
        corrected[name] = least
    return corrected
