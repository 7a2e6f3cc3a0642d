"""Intervals and paired tests for rates."""

import math

import numpy as np


def wilson_interval(hits: float, n: int, z: float = 1.959964) -> tuple[float, float]:
    """The Wilson score interval of a rate, 95 % by default."""
    if n == 0:
        return 0.0, 1.0
    rate = hits / n
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


def paired_difference(
    first: np.ndarray, second: np.ndarray, z: float = 1.959964
) -> tuple[float, float, float]:
    """Rate of the first less that of the second on the same items, with its interval (Wald)."""
    n = len(first)
    change = first.astype(float) - second.astype(float)
    spread = z * math.sqrt(change.var() / n)
    return change.mean(), change.mean() - spread, change.mean() + spread
