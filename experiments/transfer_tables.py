"""Tables on mathematics and code: accuracy, how completions end, bits of references, a check."""

from itertools import product

import numpy as np

from experiments.stored import RESULTS, markdown, rate_of, stored_results, unpack
from focus.evaluation.statistics import ratio_intervals
from focus.evaluation.transfer import AVERAGED, BENCHMARKS, likelihood
from focus.evaluation.transfer.compare import FLOOR
from focus.model.install import INSTALLABLE


def harness() -> str:
    """Both evaluators of CruxEval on answers whose truth is known."""
    rows = [["benchmark", "answers judged", "right by", "reference", "next item's", "same verdict"]]
    for name, judged in stored_results("harness").items():
        if not name.startswith("answers "):
            continue
        benchmark, same = BENCHMARKS[name.removeprefix("answers ")].title, judged["same_verdict"]
        for who, key in (("focus", "ours_right"), ("lm-evaluation-harness", "harness_right")):
            right = [f"{judged[key][kind]} of {judged['items']}" for kind in judged[key]]
            rows.append([benchmark, str(judged["of"]), who, *right, str(same)])
    return markdown(rows)


# What language models are called: as on the hub, where each is one that follows instructions.
_TITLES = {
    name: gguf.hub_id.partition("/")[2].removesuffix("-Instruct")
    for name, gguf in INSTALLABLE.items()
}


Figures = dict[str, list[dict]]  # of each benchmark, a row's seeds


def _measured(name: str) -> dict[str, Figures]:
    """The figures of a language model and its adapters, by what their row is called."""
    stored = stored_results(f"transfer-{name}")
    tests = {(test["variant"], test["benchmark"]): test for test in stored["compared"]}
    measured: dict[str, Figures] = {}
    for row in stored["results"]:
        variant, benchmark = row["variant"], row["benchmark"]
        kind = variant.rsplit("-", 1)[0] if variant.startswith("null-") else variant
        of_one = measured.setdefault(_called(kind, stored["backbone"]), {})
        of_one.setdefault(benchmark, []).append(row | tests.get((variant, benchmark), {}))
    return measured


def transfer(name: str) -> str:
    """Accuracy on mathematics and code; a row of random adapters is the mean of its seeds."""
    measured = _measured(name)
    base, *_ = measured.values()
    benchmarks = [benchmark for benchmark in BENCHMARKS if benchmark in base]
    head = []
    for benchmark in benchmarks:
        best = max(row["accuracy"] for figures in measured.values() for row in figures[benchmark])
        floor = ", floor" if best < FLOOR else ""
        head.append(f"{BENCHMARKS[benchmark].title} ({base[benchmark][0]['n']:,}){floor}")
    table = [["language model", *head, "Avg."]]
    for kind, figures in measured.items():
        means = [np.mean([row["accuracy"] for row in figures[name]]) for name in AVERAGED]
        cells = (_accuracy(figures[benchmark]) for benchmark in benchmarks)
        table.append([kind, *cells, f"{100 * np.mean(means):.2f}"])
    return markdown(table)


def transfer_ends(name: str) -> str:
    """How completions end: by themselves, with an answer that can be read, in repetitions."""
    rows = [["language model", "benchmark", "ended by itself", "answer found", "repeats", "tokens"]]
    for kind, figures in _measured(name).items():
        for benchmark in ("math", "cruxeval-o", "cruxeval-i"):
            mean = {
                key: float(np.mean([row[key] for row in figures[benchmark]]))
                for key in ("finished", "answered", "repeats", "tokens")
            }
            shares = [f"{100 * mean[key]:.1f} %" for key in ("finished", "answered", "repeats")]
            title = BENCHMARKS[benchmark].title
            rows.append([kind, title, *shares, f"{mean['tokens']:.0f}"])
    return markdown(rows)


def transfer_bits() -> str:
    """Bits of reference texts, of every backbone that was measured, on all items or on few."""
    rows = []
    for backbone, part in product(_TITLES, ("", "-focus", "-full")):
        if not (RESULTS / f"transfer-bits-{backbone}{part}.json").exists():
            continue
        head, *more = likelihood.rows(stored_results(f"transfer-bits-{backbone}{part}"))
        rows += [] if rows else [["language model", *head]]
        rows += [[backbone, *cells] for cells in more]
    return markdown(rows)


def text_held() -> str:
    """What the term that holds the text is worth: bits of references, and puzzles solved."""
    runs = stored_results("campaign-text-mini-sudoku")["runs"]
    results = stored_results("transfer-bits-text-mini-sudoku")["results"]
    items = {(row["variant"], row["benchmark"]): row["items"] for row in results}
    benchmarks = list(dict.fromkeys(row["benchmark"] for row in results))
    rows = [["seed", "text", "validation, K = 16", *(BENCHMARKS[b].title for b in benchmarks)]]
    for seed in sorted({run["seed"] for run in runs.values()}):
        pairs = (("free", "base", "as it is"), ("held", f"free-focus-{seed}", "free"))
        for text, other, less in pairs:
            name = f"{text}-focus-{seed}"
            run = runs[f"text-{name}"]
            solved = unpack(run["validation"]["16"], run["n_validation"])
            costs = (_paired(items[name, b], items[other, b]) for b in benchmarks)
            rows.append([str(seed), text, rate_of(solved), *(f"{c} over {less}" for c in costs)])
    return markdown(rows)


def _paired(one: dict, other: dict) -> str:
    """Bits per token that one variant has more than another on the same items."""
    tokens = np.array(one["tokens"])
    bits = np.array(one["bits"]) - np.array(other["bits"])
    ((value, low, high),) = ratio_intervals(bits[None], tokens)
    return f"{value:+.3f} [{low:+.3f}, {high:+.3f}]"


def _called(kind: str, backbone: str) -> str:
    if kind.startswith("null-"):
        return f"random adapters of the norms of `{kind.removeprefix('null-')}`"
    return f"{_TITLES[backbone]} as it is" if kind == "base" else f"with the adapter of `{kind}`"


def _accuracy(seeds: list[dict]) -> str:
    """A rate with its interval and the paired difference, or the mean and range of seeds."""
    rates = [100 * seed["accuracy"] for seed in seeds]
    if len(seeds) > 1:
        return f"{np.mean(rates):.2f} ({min(rates):.2f} to {max(rates):.2f})"
    (one,) = seeds
    text = f"{rates[0]:.2f} [{100 * one['low']:.1f}, {100 * one['high']:.1f}]"
    if "points" in one:
        text += f" ({one['points']:+.2f}, p = {one['p']:.2g})"
    return text
