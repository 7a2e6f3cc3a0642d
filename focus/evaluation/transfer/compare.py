"""Variants side by side: rates with intervals, paired tests against the baseline, the average."""

import re
from collections.abc import Sequence

import numpy as np

from focus.evaluation.statistics import effect_over_seeds, mcnemar
from focus.evaluation.transfer import AVERAGED, BENCHMARKS
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

    Against the baseline, and against as many random adapters; on each benchmark, and on the average
    of the paper's four.
    """
    several = {stem: names for stem, names in _by_stem(results).items() if len(names) > 1}
    rows = []
    for stem, names in several.items():
        controls = {baseline: [baseline] * len(names)} | {
            other: theirs for other, theirs in several.items()
            if other.startswith("null-") and not stem.startswith("null-")
        }  # fmt: skip
        for control, theirs in controls.items():
            seeds = min(len(names), len(theirs))
            changes = {
                name: _changes(results, name, names[:seeds], theirs[:seeds]) for name in BENCHMARKS
            }
            averaged = _average_of([(name, changes[name]) for name in AVERAGED])
            for benchmark, items in (changes | {"average": averaged}).items():
                if items:
                    change = np.stack(list(items.values()), 1)
                    effect, low, high, p = effect_over_seeds(change, np.zeros_like(change))
                    rows.append({
                        "variant": stem, "against": control, "benchmark": benchmark, "seeds": seeds,
                        "points": 100 * effect, "low": 100 * low, "high": 100 * high, "p": p,
                    })  # fmt: skip
    return rows


def _by_stem(results: Results) -> dict[str, list[str]]:
    """Variants with a last number, by what is left without it; those of a random adapter, which
    has its checkpoint's number before its own, without both."""
    stems: dict[str, list[str]] = {}
    for variant in dict.fromkeys(name for name, _ in results):
        numbers = r"(-\d+)+$" if variant.startswith("null-") else r"-\d+$"
        stem = re.sub(numbers, "", variant)
        if stem != variant:
            stems.setdefault(stem, []).append(variant)
    return stems


def _changes(
    results: Results, benchmark: str, ours: Sequence[str], theirs: Sequence[str]
) -> dict[str, np.ndarray]:
    """What each seed gains on each item that all variants have; nothing where one has none."""
    right = [
        {line.id: line.correct for line in results.get((name, benchmark), ())}
        for name in (*ours, *theirs)
    ]
    items = set.intersection(*(set(one) for one in right))
    bits = {item: np.array([one[item] for one in right], float) for item in sorted(items)}
    return {item: own[: len(ours)] - own[len(ours) :] for item, own in bits.items()}


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
    """Markdown: what each variant gains over its seeds."""
    lines = [
        "| variant, seeds | against | benchmark | points [95 % interval] | p |",
        "|---" * 5 + "|",
    ]
    for row in rows:
        known = BENCHMARKS.get(row["benchmark"])
        title = "average" if known is None else known.title
        effect = f"{row['points']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"
        what = f"{row['variant']}, {row['seeds']}"
        lines.append(f"| {what} | {row['against']} | {title} | {effect} | {row['p']:.2g} |")
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
