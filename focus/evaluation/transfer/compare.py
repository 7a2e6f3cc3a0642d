"""Variants side by side: rates with intervals, paired tests against the baseline, the average."""

from collections.abc import Sequence

from focus.evaluation.statistics import mcnemar
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
