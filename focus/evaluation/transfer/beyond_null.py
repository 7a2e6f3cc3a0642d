"""Does an adapter help beyond random adapters of its norms? Each is compared with its own.

Any change of a language model of that size moves its figures, up or down. Seeds of an adapter: each
less the mean of its own random adapters, judged over seeds and items. A single adapter: less each
of its random ones; could it be one more of them? One random adapter does not say how they differ.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from focus.evaluation.statistics import effect_over_seeds, holm
from focus.evaluation.transfer import BENCHMARKS


@dataclass(frozen=True)
class Unit:
    """What a comparison counts in."""

    key: str  # of its rows
    name: str
    digits: int
    better: int  # 1 where more is better, -1 where less is


POINTS = Unit("points", "points", 2, 1)
BITS = Unit("bits_per_token", "bits per token", 3, -1)
Figures = Mapping[str, Mapping[str, float]]  # by variant and item


def adapters_with_nulls(variants: Sequence[str]) -> list[tuple[str, list[str]]]:
    """What is compared, and its seeds: every adapter that has a null, then seeds together.

    Adapters whose names differ in a last number alone are seeds of one.
    """
    single = [name for name in variants if nulls_of(name, variants)]
    seeds: dict[str, list[str]] = {}
    for name in single:
        stem = re.sub(r"-\d+$", "", name)
        if stem != name:
            seeds.setdefault(stem, []).append(name)
    together = [(stem, names) for stem, names in seeds.items() if len(names) > 1]
    return [(name, [name]) for name in single] + together


def nulls_of(adapter: str, variants: Sequence[str]) -> list[str]:
    """The random adapters with an adapter's norms."""
    return [name for name in variants if re.fullmatch(rf"null-{re.escape(adapter)}-\d+", name)]


def changes(adapters: Sequence[str], figures: Figures) -> dict[str, np.ndarray]:
    """What each seed has more than its nulls, or one adapter more than each null, on each item.

    Only items that all of them have; nothing where one has none.
    """
    nulls = [nulls_of(name, list(figures)) for name in adapters]
    everyone = [*adapters, *(name for of_one in nulls for name in of_one)]
    items = set.intersection(*(set(figures[name]) for name in everyone))
    changed = {}
    for item in sorted(items):
        own = [figures[name][item] for name in adapters]
        others = [[figures[name][item] for name in of_one] for of_one in nulls]
        changed[item] = np.array(
            [own[0] - other for other in others[0]] if len(adapters) == 1
            else [one - np.mean(of_one) for one, of_one in zip(own, others, strict=True)]
        )  # fmt: skip
    return changed


def effect(change: np.ndarray, seeds: int) -> tuple[float, float, float, float]:
    """Effect, 95 % interval and p of (seeds, items), or of one adapter's (nulls, items)."""
    return effect_over_seeds(change, np.zeros_like(change), of_one=seeds == 1)


def about(name: str, adapters: Sequence[str], variants: Sequence[str]) -> dict:
    """What a row of such a comparison begins with."""
    nulls = sum(len(nulls_of(adapter, variants)) for adapter in adapters)
    return {"variant": name, "against": f"null-{name}", "seeds": len(adapters), "nulls": nulls}


def verdicts(rows: Sequence[dict], backbone: str, unit: Unit) -> list[str]:
    """A line for each adapter: does it help beyond null?

    On the average where there is one, otherwise on each benchmark, corrected by Holm for their
    number; seeds are judged together.
    """
    together = {row["variant"] for row in rows if row["seeds"] > 1}
    by_adapter: dict[tuple[str, int], list[dict]] = {}
    for row in rows:
        alone = row["seeds"] == 1
        if not (alone and re.sub(r"-\d+$", "", row["variant"]) in together - {row["variant"]}):
            by_adapter.setdefault((row["variant"], row["seeds"]), []).append(row)
    lines = []
    for (name, seeds), of_one in by_adapter.items():
        averaged = [row for row in of_one if row["benchmark"] == "average"]
        asked = averaged or of_one
        p_values = holm({row["benchmark"]: row["p"] for row in asked})
        parts = [_verdict(row, unit, p_values[row["benchmark"]]) for row in asked]
        several = f"{name} ({seeds} seeds)" if seeds > 1 else name
        nulls = of_one[0]["nulls"]
        against = f"{nulls} random adapter{'' if nulls == 1 else 's'} of its norms"
        lines.append(f"{backbone}: {several} against {against}: {'; '.join(parts)}")
    return lines


def _verdict(row: dict, unit: Unit, p: float) -> str:
    effect, *ends = (f"{row[key]:+.{unit.digits}f}" for key in (unit.key, "low", "high"))
    if math.isinf(row["low"]):
        word, interval = "two random adapters or more are needed for a verdict", ""
    else:
        one_side = row["low"] * row["high"] > 0 and p < 0.05
        better = "helps" if unit.better * row[unit.key] > 0 else "costs"
        word, interval = better if one_side else "no difference seen", f" [{', '.join(ends)}]"
    return f"{title(row['benchmark'])}: {word}, {effect} {unit.name}{interval}"


def title(benchmark: str) -> str:
    """A benchmark's title; `average` is that of the paper's four."""
    return BENCHMARKS[benchmark].title if benchmark in BENCHMARKS else benchmark
