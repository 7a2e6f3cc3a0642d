"""The paper's tables and our own, from stored evaluations. What is missing is a gap."""

import statistics
from collections.abc import Callable, Iterable, Sequence

from focus.evaluation.statistics import mcnemar, wilson_interval
from focus.evaluation.transfer import BENCHMARKS
from focus.report import paper
from focus.report.runs import Evaluated, Transferred
from focus.report.table import Cell, Quoted, Rate, Table

TITLES = {
    "focus": "FOCUS", "random": "Random", "energy-hard": "Energy-Hard", "fixed-mix": "Fixed Mix",
    "no-penalty": "FOCUS w/o defect penalty", "random-penalty": "FOCUS, random selection",
    "no-memory": "FOCUS w/o memory restore", "recurrent": "Recurrent final-only",
    "one-step": "One-step State-SFT", "direct": "Direct LoRA SFT", "base": "Base", "trm": "TRM",
    "trm-focus": "TRM with FOCUS", "trm-random": "TRM, random states",
    "trm-energy-hard": "TRM, highest-energy states", "deep-supervision": "Deep supervision",
}  # fmt: skip
_TASKS = {"sudoku": "Sudoku", "maze": "Maze"}
_SEVERAL = "Several seeds: their mean, with the interval of one test set at that rate."
_DIFFERS = (
    "† differs from FOCUS: the same sign in at least three seeds, and McNemar's p < 0.05 in each. "
    "Where there is no mark, no ordering is claimed."
)
_QUOTED = "Columns and rows called paper are quoted."


def _pick(runs: Iterable[Evaluated], **wanted) -> list[Evaluated]:
    """Runs without a control whose properties are as wanted, by seed."""
    picked = [
        run for run in runs
        if run.control == "none" and all(getattr(run, name) == v for name, v in wanted.items())
    ]  # fmt: skip
    return sorted(picked, key=lambda run: run.seed)


def _pooled(runs: Sequence[Evaluated], mark: str = "") -> Rate | None:
    """The rate of one run, or the mean over seeds."""
    rates = [rate for run in runs if (rate := run.rate()) is not None]
    if not rates:
        return None
    if runs[0].steps not in (0, runs[0].config.eval_steps):
        mark += f" (K = {runs[0].steps})"  # not evaluated where it should be reported
    if len(rates) == 1:
        only = rates[0]
        return Rate(only.value, only.low, only.high, only.n, mark)
    mean, n = statistics.mean(rate.value for rate in rates), rates[0].n
    return Rate(mean, *wilson_interval(mean * n, n), n, mark)


def _mark(runs: Sequence[Evaluated], focus: Sequence[Evaluated]) -> str:
    """† where a method differs from FOCUS beyond the spread of seeds."""
    by_seed = {run.seed: run for run in focus}
    signs, certain = [], True
    for run in runs:
        other = by_seed.get(run.seed)
        if other is None or other is run:
            continue
        ours, theirs = run.exact[run.steps], other.exact[other.steps]
        better = sum(right and not theirs[id_] for id_, right in ours.items() if id_ in theirs)
        worse = sum(theirs[id_] and not right for id_, right in ours.items() if id_ in theirs)
        signs.append(better > worse)
        certain = certain and mcnemar(better, worse) < 0.05
    return "†" if len(signs) >= 3 and certain and len(set(signs)) == 1 else ""


def source_table(runs: Sequence[Evaluated]) -> Table:
    """Methods by backbones on both source tasks; the paper's Table 1."""
    methods = ("direct", "one-step", "recurrent", "focus")
    headings = [f"{title} {TITLES[m]}" for title in _TASKS.values() for m in methods]
    table = Table("source", "Exact solve rate by backbone, %", ["backbone", *headings])
    ours = dict.fromkeys(run.where for run in runs if run.method in ("base", *methods))
    for where in ours:
        cells: list[Cell] = [
            _pooled(_pick(runs, task=task, where=where, method=method))
            for task in _TASKS for method in methods
        ]  # fmt: skip
        table.rows.append([where, *cells])
    for backbone in paper.BACKBONES:
        quoted = [paper.source_rate(task, backbone, m) for task in _TASKS for m in methods]
        table.rows.append([f"{backbone} (paper)", *quoted])
    base = _pick(runs, method="base")
    rates = ", ".join(
        f"{run.where} on {run.task} {100 * r.value:.1f} %" for run in base if (r := run.rate())
    )
    table.notes += [
        f"Base models: {rates or 'not evaluated'}; 0.0 % in the paper.",
        _SEVERAL,
        _QUOTED,
    ]
    return table


def prompt_table(runs: Sequence[Evaluated]) -> Table:
    """Models that are only prompted; quoted."""
    rows: list[Sequence[Cell]] = [[n, *rates] for n, rates in paper.PROMPT_ONLY.items()]
    return Table(
        "prompt-only", "Prompt-only reasoning models, exact solve rate, % (quoted from the paper)",
        ["model", "Sudoku-Extreme", "Maze-Hard"], rows,
    )  # fmt: skip


def _study(name: str, title: str, methods: Sequence[str]) -> Callable[[Sequence[Evaluated]], Table]:
    """A table of methods: every backbone of ours beside the paper's."""

    def build(runs: Sequence[Evaluated]) -> Table:
        groups = [
            (task, where) for task in _TASKS
            for where in dict.fromkeys(r.where for r in runs if r.task == task)
        ]  # fmt: skip
        headings = [f"{_TASKS[task]}, {where}" for task, where in groups]
        quoted = [f"{title}, paper" for title in _TASKS.values()]
        table = Table(name, title, ["method", *headings, *quoted])
        for method in methods:
            cells: list[Cell] = []
            for task, where in groups:
                picked = _pick(runs, task=task, where=where, method=method)
                focus = _pick(runs, task=task, where=where, method="focus")
                cells.append(_pooled(picked, _mark(picked, focus)))
            cells += [paper.source_rate(task, paper.STUDIED, method) for task in _TASKS]
            table.rows.append([TITLES[method], *cells])
        table.notes += [_SEVERAL, _DIFFERS, _QUOTED + " The paper's backbone here is Qwen3-1.7B."]
        return table

    return build


curation_table = _study(
    "curation", "Which states are replayed, exact solve rate, %",
    ("random", "energy-hard", "fixed-mix", "focus"),
)  # fmt: skip
ablation_table = _study(
    "ablations", "Parts of FOCUS taken away, exact solve rate, %",
    ("no-penalty", "random-penalty", "no-memory", "focus"),
)  # fmt: skip
baseline_table = _study(
    "baselines", "Baselines, exact solve rate, %",
    ("base", "direct", "one-step", "recurrent", "trm", "focus"),
)  # fmt: skip


def depth_table(runs: Sequence[Evaluated]) -> Table:
    """Exact rate by the number of steps K, and the K that validation puzzles choose."""
    shown = [run for run in runs if run.control == "none" and len(run.results) > 1]
    steps = sorted({k for run in shown for k in run.results})
    chosen = ["chosen K"] * any(run.chosen for run in shown)
    table = Table(
        "depth", "Exact solve rate by number of steps, %",
        ["run", *(f"K = {k}" for k in steps), *chosen],
    )  # fmt: skip
    for run in shown:
        cells = [*(run.rate(k) for k in steps), *([run.chosen] if chosen else [])]
        table.rows.append([f"{run.task}, {label(run)}", *cells])
    if chosen:
        table.notes.append(
            "Chosen K: the one with the highest rate on validation puzzles, the smallest of equals."
        )
    return table


def seed_table(runs: Sequence[Evaluated]) -> Table:
    """Every seed of every method that has several."""
    groups: dict[tuple[str, str, str], list[Evaluated]] = {}
    for run in _pick(runs):
        groups.setdefault((run.task, run.where, run.method), []).append(run)
    seeds = sorted({run.seed for group in groups.values() for run in group})
    table = Table(
        "seeds", "Every seed, exact solve rate, %", ["run", *(f"seed {s}" for s in seeds), "spread"]
    )
    for (task, where, method), group in groups.items():
        by = {run.seed: run.rate() for run in group}
        values = [rate.value for rate in by.values() if rate]
        spread = f"{100 * (max(values) - min(values)):.1f}" if len(values) > 1 else None
        table.rows.append(
            [f"{task}, {where}, {TITLES.get(method, method)}", *(by.get(s) for s in seeds), spread]
        )
    return table


def control_table(runs: Sequence[Evaluated]) -> Table:
    """Does the language model matter? R taken away in three ways, beside no language model."""
    controls = ("zeroed", "shuffled", "adapter-off")
    table = Table(
        "controls", "Does the language model matter? Exact solve rate, %",
        ["run", "as trained", *controls, "norm of the adapter", "no language model"],
    )  # fmt: skip
    for run in (r for r in runs if r.control == "none" and r.backbone != "none"):
        same = {r.control: r for r in runs if r.config == run.config and r.control != "none"}
        if not same:
            continue
        norm = next((r.adapter for r in same.values() if r.adapter is not None), None)
        free = _pick(runs, task=run.task, backbone="none", letter=run.letter, method=run.method)
        cells = [same[c].rate() if c in same else None for c in controls]
        size = None if norm is None else f"{norm:.4f}"
        table.rows.append([f"{run.task}, {label(run)}", run.rate(), *cells, size, _pooled(free)])
    table.notes.append(
        "zeroed: R = 0; shuffled: R of another puzzle; adapter-off: LoRA switched off; "
        "norm: ||dW|| / ||W||."
    )
    return table


def label(run: Evaluated) -> str:
    """A run's name in tables and legends."""
    return f"{TITLES.get(run.method, run.method)}, {run.where}, seed {run.seed}"


def transfer_table(
    transferred: Sequence[Transferred], names: Sequence[str], name: str, title: str
) -> Table:
    """Zero-shot accuracy of every variant, the paper's rows below."""
    averaged = tuple(names) == paper.TRANSFER_BENCHMARKS
    headings = ["variant", *(BENCHMARKS[n].title for n in names), *(["Avg."] if averaged else [])]
    table = Table(name, title, headings)
    for one in transferred:
        by = {(row["variant"], row["benchmark"]): row for row in one.results}
        tests = {(row["variant"], row["benchmark"]): row["p"] for row in one.compared}
        for variant in dict.fromkeys(row["variant"] for row in one.results):
            cells: list[Cell] = []
            for benchmark in names:
                row = by.get((variant, benchmark))
                mark = "‡" if tests.get((variant, benchmark), 1.0) < 0.05 else ""
                cells.append(
                    Rate(row["accuracy"], row["low"], row["high"], row["n"], mark) if row else None
                )
            if not any(cells):
                continue
            mean = one.average.get(variant) if averaged else None
            table.rows.append(
                [
                    f"{one.backbone}, {variant}",
                    *cells,
                    *([None if mean is None else 100 * mean] if averaged else []),
                ]
            )
    for backbone, sources in (paper.TRANSFER if averaged else paper.AIME).items():
        for source, rates in sources.items():
            label = f"FOCUS ({source.capitalize()})" if source else "Baseline"
            quoted = [Quoted(rate) for rate in (*rates, *([statistics.mean(rates)] * averaged))]
            table.rows.append([f"{backbone}, {label} (paper)", *quoted])
    table.notes += ["‡ McNemar's p < 0.05 against the base model on the same items.", _QUOTED]
    return table


def all_tables(runs: Sequence[Evaluated], transferred: Sequence[Transferred]) -> list[Table]:
    """Every table; one that has no run of ours shows its gaps."""
    builders = (
        source_table, prompt_table, curation_table, ablation_table, baseline_table, depth_table,
        seed_table, control_table,
    )  # fmt: skip
    return [
        *(build(runs) for build in builders),
        transfer_table(
            transferred, paper.TRANSFER_BENCHMARKS, "transfer", "Zero-shot transfer, accuracy, %"
        ),
        transfer_table(transferred, ("aime25", "aime26"), "aime", "AIME, zero-shot, accuracy, %"),
    ]
