"""Variants side by side: rates with intervals, paired tests against the baseline, the average."""

import math
import re
from collections.abc import Sequence

import numpy as np

from focus.evaluation.statistics import mcnemar
from focus.evaluation.transfer import AVERAGED, BENCHMARKS, beyond_null
from focus.evaluation.transfer.store import Scored

Results = dict[tuple[str, str], list[Scored]]  # by variant and benchmark
FLOOR = 0.05  # below this a rate says nothing of reasoning


def paired(ours: list[Scored], theirs: list[Scored]) -> tuple[float, float]:
    """Difference in points and McNemar's p, over the items that both have."""
    other = {line.id: line.correct for line in theirs}
    pairs = [(line.correct, other[line.id]) for line in ours if line.id in other]
    gained = sum(mine and not his for mine, his in pairs)
    lost = sum(his and not mine for mine, his in pairs)
    return (100 * (gained - lost) / len(pairs) if pairs else 0.0), mcnemar(gained, lost)


def comparisons(results: Results, baseline: str = "base") -> list[dict]:
    """Each variant against the baseline on each benchmark."""
    rows = []
    for (variant, benchmark), lines in results.items():
        if variant != baseline and (baseline, benchmark) in results:
            points, p = paired(lines, results[baseline, benchmark])
            rows.append({
                "variant": variant, "benchmark": benchmark, "against": baseline,
                "points": points, "p": p,
            })  # fmt: skip
    return rows


def over_seeds(results: Results, baseline: str = "base") -> list[dict]:
    """Variants that differ in a last number alone are seeds of one: their effect over all of them.

    Against the baseline, on each benchmark and on the average of the paper's four. Random adapters
    have their checkpoint's number before their own, and are seeds of one without both.
    """
    stems: dict[str, list[str]] = {}
    for variant in _variants(results):
        numbers = r"(-\d+)+$" if variant.startswith("null-") else r"-\d+$"
        if (stem := re.sub(numbers, "", variant)) != variant:
            stems.setdefault(stem, []).append(variant)
    rows = []
    for stem, names in stems.items():
        if len(names) > 1:
            about = {"variant": stem, "against": baseline, "seeds": len(names)}
            rows += _effects(about, {b: _changes(results, b, names, baseline) for b in BENCHMARKS})
    return rows


def against_nulls(results: Results) -> list[dict]:
    """Each adapter, and seeds of one together, against their own random adapters."""
    variants, rows = _variants(results), []
    right = {b: {v: _right(results, v, b) for v in variants} for b in BENCHMARKS}
    for name, adapters in beyond_null.adapters_with_nulls(variants):
        about = beyond_null.about(name, adapters, variants)
        rows += _effects(about, {b: beyond_null.changes(adapters, right[b]) for b in BENCHMARKS})
    return rows


def _variants(results: Results) -> list[str]:
    return list(dict.fromkeys(variant for variant, _ in results))


def _right(results: Results, variant: str, benchmark: str) -> dict[str, float]:
    return {line.id: float(line.correct) for line in results.get((variant, benchmark), ())}


def _effects(about: dict, changes: dict[str, dict[str, np.ndarray]]) -> list[dict]:
    """A row for each benchmark that has changes of items, and for the average of the four."""
    averaged = _average_of([(name, changes[name]) for name in AVERAGED])
    rows = []
    for benchmark, items in (changes | {"average": averaged}).items():
        if items:
            points, low, high, p = beyond_null.effect(
                np.stack(list(items.values()), 1), about["seeds"]
            )
            rows.append({
                **about, "benchmark": benchmark,
                "points": 100 * points, "low": 100 * low, "high": 100 * high, "p": p,
            })  # fmt: skip
    return rows


def _changes(
    results: Results, benchmark: str, names: Sequence[str], baseline: str
) -> dict[str, np.ndarray]:
    """What each seed gains on each item that all variants have; nothing where one has none."""
    right = [_right(results, name, benchmark) for name in (*names, baseline)]
    items = sorted(set.intersection(*(set(one) for one in right)))
    return {i: np.array([one[i] - right[-1][i] for one in right[:-1]]) for i in items}


def _average_of(parts: Sequence[tuple[str, dict[str, np.ndarray]]]) -> dict[str, np.ndarray]:
    """Benchmarks that count alike, by what they ask about: MATH-Hard is a part of MATH, and both
    sides of CruxEval have the same functions, so that neither is drawn apart from the other."""
    asked: dict[str, np.ndarray] = {}
    for name, changes in parts:
        for item, change in changes.items():
            key = f"{BENCHMARKS[name].source.partition('-')[0]} {item}"
            asked[key] = asked.get(key, 0.0) + change / (len(parts) * len(changes))
    whole = all(changes for _, changes in parts)
    return {key: change * len(asked) for key, change in asked.items()} if whole else {}


def seeds_table(rows: Sequence[dict]) -> str:
    """Markdown: what variants gain, with their seeds and those of their random adapters."""
    lines = [
        "| variant, seeds | against | benchmark | points [95 % interval] | p |",
        "|---" * 5 + "|",
    ]
    for row in rows:
        title = beyond_null.title(row["benchmark"])
        known = math.isfinite(row["low"])  # not of one adapter against one
        interval = f"[{row['low']:+.2f}, {row['high']:+.2f}]" if known else "[–]"
        effect = f"{row['points']:+.2f} {interval}"
        what = f"{row['variant']}, {row['seeds']}"
        control = f"{row['against']}, {row['nulls']}" if "nulls" in row else row["against"]
        lines.append(f"| {what} | {control} | {title} | {effect} | {row['p']:.2g} |")
    return "\n".join(lines)


def average(summaries: Sequence[dict], variant: str) -> float | None:
    """The paper's Avg.: the unweighted mean of four benchmarks; None where one is missing."""
    rates = {s["benchmark"]: s["accuracy"] for s in summaries if s["variant"] == variant}
    if not all(name in rates for name in AVERAGED):
        return None
    return sum(rates[name] for name in AVERAGED) / len(AVERAGED)


def table(summaries: Sequence[dict], compared: Sequence[dict]) -> str:
    """Markdown: a row for each variant. `*`: p < 0.05 against the baseline; `(floor)`: under 5 %
    for all variants, which says nothing."""
    variants = list(dict.fromkeys(s["variant"] for s in summaries))
    names = [name for name in BENCHMARKS if any(s["benchmark"] == name for s in summaries)]
    cell = {(s["variant"], s["benchmark"]): s for s in summaries}
    tests = {(c["variant"], c["benchmark"]): c for c in compared}
    head = []
    for name in names:
        best = max(s["accuracy"] for s in summaries if s["benchmark"] == name)
        n = next(s["n"] for s in summaries if s["benchmark"] == name)
        head.append(f"{BENCHMARKS[name].title} (n = {n:,}){' (floor)' if best < FLOOR else ''}")
    lines = [f"| variant | {' | '.join(head)} | Avg. |", "|---" * (len(names) + 2) + "|"]
    for variant in variants:
        cells = [_cell(cell.get((variant, n)), tests.get((variant, n))) for n in names]
        mean = average(summaries, variant)
        lines.append(
            f"| {variant} | {' | '.join(cells)} | {'–' if mean is None else f'{100 * mean:.2f}'} |"
        )
    return "\n".join(lines)


def _cell(summary: dict | None, test: dict | None) -> str:
    if summary is None:
        return "–"
    text = (
        f"{100 * summary['accuracy']:.2f} [{100 * summary['low']:.1f}, {100 * summary['high']:.1f}]"
    )
    if test is not None:
        star = "*" if test["p"] < 0.05 else ""
        text += f" ({test['points']:+.2f}{star}, p = {test['p']:.2g})"
    return text
