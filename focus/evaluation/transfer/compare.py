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
    """Variants that differ in a last number alone are seeds of one: their effects over all seeds.

    Against the baseline, and against random adapters of several seeds; on each benchmark, and on
    the average of the paper's four.
    """
    stems: dict[str, list[str]] = {}
    for variant in dict.fromkeys(name for name, _ in results):
        stems.setdefault(re.sub(r"-\d+$", "", variant), []).append(variant)
    several = {stem: names for stem, names in stems.items() if len(names) > 1}
    rows = []
    for stem, names in several.items():
        controls = {baseline: [baseline] * len(names)} | {
            other: theirs for other, theirs in several.items()
            if other.startswith("null-") and not stem.startswith("null-")
        }  # fmt: skip
        for control, theirs in controls.items():
            seeds = min(len(names), len(theirs))
            pairs = {
                benchmark: pair for benchmark in BENCHMARKS
                if (pair := _bits(results, benchmark, names[:seeds], theirs[:seeds])) is not None
            }  # fmt: skip
            parts = [pairs[name] for name in AVERAGED if name in pairs]
            if len(parts) == len(AVERAGED):  # each benchmark counts as much as another
                pairs["average"] = tuple(
                    np.concatenate([side / side.shape[1] for side in sides], 1)
                    * (sum(side.shape[1] for side in sides) / len(sides))
                    for sides in zip(*parts, strict=True)
                )
            for benchmark, (ours, other) in pairs.items():
                effect, low, high, p = effect_over_seeds(ours, other)
                rows.append({
                    "variant": stem, "against": control, "benchmark": benchmark, "seeds": seeds,
                    "points": 100 * effect, "low": 100 * low, "high": 100 * high, "p": p,
                })  # fmt: skip
    return rows


def _bits(
    results: Results, benchmark: str, ours: Sequence[str], theirs: Sequence[str]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Verdicts (seeds, items) of both sides, on the items that all of them have."""
    lines = {name: results.get((name, benchmark)) for name in (*ours, *theirs)}
    if not all(lines.values()):
        return None
    right = {name: {one.id: one.correct for one in own or ()} for name, own in lines.items()}
    items = sorted(set.intersection(*(set(own) for own in right.values())))
    sides = [
        np.array([[right[name][i] for i in items] for name in n], float) for n in (ours, theirs)
    ]
    return (sides[0], sides[1]) if items else None


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
