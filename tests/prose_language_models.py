"""What the sentences on language models and transfer must say, made from the stored figures."""

from pathlib import Path

import numpy as np

from experiments import by_file as files
from experiments.stored import stored_results, unpack
from focus.evaluation.statistics import mcnemar
from tests.prose import DEVIATIONS, HARDEST, README, RESULTS, ROOT, UNBIASED, full_length, span

LANGUAGE_MODELS, TRANSFER = (
    ROOT / "docs" / "measured" / f"{page}.md" for page in ("language-models", "transfer")
)


def bits_of_qwen(file: str, adapter: str) -> dict[str, list[float]]:
    """Bits per token more than as it is, on three benchmarks: an adapter and its random ones."""
    costs: dict[str, list[float]] = {}
    for row in stored_results(f"transfer-bits-qwen2.5-coder-0.5b-{file}")["compared"]:
        kind = adapter if row["variant"] == adapter else "random"
        if row["benchmark"] != "math-hard":  # a part of MATH
            costs.setdefault(kind, []).append(row["bits_per_token"])
    return costs


def on_the_first_60() -> list[float]:
    """What the adapter of the paper's length costs on the items of the shorter run."""
    few, every = (
        stored_results(f"transfer-bits-qwen2.5-coder-0.5b-{file}")["results"]
        for file in ("focus", "full")
    )
    assert {row["n"] for row in few} == {60}, "the first 60"
    costs = []
    for benchmark in ("math", "cruxeval-o", "cruxeval-i"):
        ids = next(row for row in few if row["benchmark"] == benchmark)["items"]["id"]
        items = {row["variant"]: row["items"] for row in every if row["benchmark"] == benchmark}
        first = [items["base"]["id"].index(item) for item in ids]
        tokens, before, after = (
            np.array(items[variant][key])[first].sum()
            for variant, key in (("base", "tokens"), ("base", "bits"), ("focus-full", "bits"))
        )
        costs.append((after - before) / tokens)
    return costs


def harm() -> list[tuple[Path, str]]:
    """What the adapter of the run at the paper's length does to mathematics and code."""
    stored = stored_results("transfer-qwen2.5-coder-0.5b-full")
    right = {(row["variant"], row["benchmark"]): 100 * row["accuracy"] for row in stored["results"]}
    p_values = {test["benchmark"]: test["p"] for test in stored["compared"]}
    assert max(p_values["math"], p_values["cruxeval-o"]) < 0.001, "on MATH and CruxEval-O"
    math, code = (
        [right[variant, benchmark] for variant in ("base", "focus-full")]
        for benchmark in ("math", "cruxeval-o")
    )
    changed = 100 * (stored["average"]["focus-full"] - stored["average"]["base"])
    early, late = bits_of_qwen("focus", "focus-1"), bits_of_qwen("full", "focus-full")
    shorter, own, same = (
        [f"{cost:.2f}" for cost in costs]
        for costs in (early["focus-1"], late["focus-full"], on_the_first_60())
    )
    at_most = f"at most {max(map(abs, early['random'] + late['random'])):.1g}"
    return [
        (README, "MATH falls from {:.1f} to {:.1f} %, CruxEval-O from {:.1f} to {:.2f} %".format(
            *math, *code)),
        (README, f"costs {own[0]} to {own[2]} bits per token of reference text, two random adapters"
                 f" of the same norms {at_most}"),
        (RESULTS, "solves {:.1f} % of MATH instead of {:.1f}, and {:.2f} % of CruxEval-O instead of"
                  " {:.1f}; the average of four benchmarks falls by {:.1f} points".format(
                      *math[::-1], *code[::-1], -changed)),
        (TRANSFER, f"solves {math[0]:.1f} % of MATH and {code[0]:.1f} % of CruxEval-O; with the"
                   f" adapter of FOCUS on Sudoku, trained in the paper's regime and at its length,"
                   f" {math[1]:.1f} and {code[1]:.2f} %"),
        (TRANSFER, f"ours by {changed:.1f}"),
        (TRANSFER, "of ordinary text {} % of the mean square is the same for every token without"
                   " the adapter and {} % with it".format(
                       *alike_in_all_tokens("qwen2.5-coder-0.5b-full"))),
        (TRANSFER, "does the like ({} and {} %)".format(*alike_in_all_tokens("sudoku-smollm2"))),
        (TRANSFER, f"costs {own[0]} bits per token on MATH, {own[1]} on CruxEval-O and {own[2]} on"
                   f" CruxEval-I. That of another run, of 20,000 updates (`focus-1`), costs"
                   f" {shorter[0]}, {shorter[1]} and {shorter[2]} on the first 60 items, where"
                   f" `focus-full` costs {same[0]}, {same[1]} and {same[2]}. Random adapters of"
                   f" their norms cost {at_most}"),
        (RESULTS, f"costs {own[0]} bits per token of the reference solutions of MATH, {own[1]} and"
                  f" {own[2]} of CruxEval-O and -I; two random adapters of the same norms cost"
                  f" {at_most}. The adapter of another run, of 20,000 updates, costs {shorter[0]},"
                  f" {shorter[1]} and {shorter[2]} on the first 60 items, where this one costs"
                  f" {same[0]}, {same[1]} and {same[2]}"),
    ]  # fmt: skip


def alike_in_all_tokens(reading: str) -> list[str]:
    """Percent of the hidden states of text, without the adapter and with it."""
    texts = stored_results(f"reading-{reading}")["texts"]
    return [f"{100 * texts[which]:.0f}" for which in ("unadapted", "adapted")]


def at_length_with_qwen() -> list[tuple[Path, str]]:
    """The run with Qwen2.5-Coder-0.5B as long as the paper, beside those without."""
    own, without = 100 * full_length("table1-full")[1], full_length("primary").values()
    run = stored_results("campaign-table1-full")["runs"]["as-is-focus-1"]
    other = 100 * unpack(run["controls"]["shuffled"], run["n_test"]).mean()
    solved = by_file_with_qwen("table1-full", "primary", HARDEST, UNBIASED)
    early = by_file_with_qwen("table1", "table1-none", HARDEST, UNBIASED)
    longest = 100 * full_length("table1-full", steps=1024)[1]
    changed, gained, p = changed_by_another_r("table1-full")
    five = span(without, 100, 1)
    return [
        (README, f"one run of the paper's length solves {own:.1f} %; with the encoding of another"
                 f" puzzle the same weights solve {other:.1f} %"),
        (README, f"and so are {own:.1f} and 96.6"),
        (RESULTS, f"(`sudoku-qwen2.5-coder-0.5b` {run['seconds'] / 60:.0f}), trials not counted"),
        (RESULTS, f"one run solves {own:.1f} % at K = 128 (the paper has 64.4 with Qwen3-1.7B),"
                  f" five runs without a language model {five} %"),
        (RESULTS, f"of another puzzle the same weights solve {other:.1f} % (p = {p:.2f})"),
        (RESULTS, f"takes {run['seconds'] / 60:.0f} minutes, with prompts of 85 tokens"),
        (DEVIATIONS, f"with Qwen2.5-Coder-0.5B solves {own:.1f} %, five without {five}"),
        (LANGUAGE_MODELS, f"one run solves {own:.1f} % of the test Sudokus at K = 128; five runs"
                          f" without a language model solve {five} %. With R of another puzzle the"
                          f" same weights solve {other:.1f} %"),
        (LANGUAGE_MODELS, f"Another puzzle's R changes {changed} of 9,000 verdicts and gains"
                          f" {gained} points, which is not significant (p = {p:.2f}); after 20,000"
                          " updates it was {}, and {} points".format(
                              *changed_by_another_r("table1")[:2])),
        (LANGUAGE_MODELS, f"At K = 1,024 it has {longest:.1f} %, the lowest of the five"
                          f" {100 * min(full_length('primary', steps=1024).values()):.1f}"),
        (LANGUAGE_MODELS, "with the language model {} % of the largest hard file are solved, of the"
                          " unbiased one {}; the means of the five runs without are {} and {}."
                          " After 20,000 updates it was {} and {} %, {} and {}".format(
                              solved[0], solved[2], solved[1], solved[3], *early)),
        (LANGUAGE_MODELS, f"Training took {run['seconds'] / 60:.1f} minutes of one H200"),
    ]  # fmt: skip


def by_file_with_qwen(with_it: str, without: str, *names: str) -> list[str]:
    """Percent of files that FOCUS solves with the 0.5B and without."""
    return [
        f"{100 * files.solved(study, 'focus', inside).mean():.1f}"
        for inside in (files.of_file(stored_results("sudoku-test-files"), name) for name in names)
        for study in (with_it, without)
    ]


def changed_by_another_r(study: str) -> tuple[str, str, float]:
    """Verdicts of a run with the 0.5B that differ when R is that of another puzzle; points; p."""
    run = stored_results(f"campaign-{study}")["runs"]["as-is-focus-1"]
    own, other = (
        unpack(bits, run["n_test"]) for bits in (run["test"]["128"], run["controls"]["shuffled"])
    )
    gained, lost = int((other & ~own).sum()), int((own & ~other).sum())
    points = f"{100 * (gained - lost) / len(own):.1f}"
    return str(gained + lost), points, mcnemar(lost, gained)


def bits_of_adapters() -> tuple[str, str]:
    """Bits per token that trained and random adapters of SmolLM2 cost on reference solutions."""
    study = stored_results("transfer-bits-smollm2-135m")
    benchmarks = {row["benchmark"] for row in study["results"]}
    assert {row["n"] for row in study["results"]} == {30}, "the first 30 items"
    assert len(benchmarks) == 2, "of two benchmarks"
    costs = {row["variant"]: [] for row in study["compared"]}
    for row in study["compared"]:
        costs[row["variant"]].append(row["bits_per_token"])
    trained = [c for name, own in costs.items() if not name.startswith("null") for c in own]
    random = [c for name, own in costs.items() if name.startswith("null") for c in own]
    return f"{min(trained):.2g} to {max(trained):.2g} bits", f"{max(random):.1g}"


def text_held() -> list[tuple[Path, str]]:
    """What the term that holds the text takes away, where the adapter ends a text too."""
    rows = stored_results("transfer-bits-text-mini-sudoku")["compared"]
    bits = {(row["variant"], row["benchmark"]): row for row in rows}

    def of(text: str, key: str, benchmark: str) -> list[float]:
        return [bits[f"{text}-focus-{seed}", benchmark][key] for seed in (1, 2)]

    free, held = (
        [*of(text, "bits_per_token", "math"), *of(text, "bits_per_token", "cruxeval-o")]
        for text in ("free", "held")
    )
    assert max(held) < 0, "nothing is left"
    ends = [
        round(end, 1) for benchmark in ("math", "cruxeval-o")
        for text in ("free", "held") for end in of(text, "end_bits", benchmark)
    ]  # fmt: skip
    assert ends[2] == ends[3], "both"
    runs = stored_results("campaign-text-mini-sudoku")["runs"].values()
    least = 100 * min(unpack(r["validation"]["16"], r["n_validation"]).mean() for r in runs)
    return [
        (RESULTS, f"cost of {min(free):.2f} to {max(free):.2f} bits per token away and still solves"
                  f" {least:.1f} % or more"),
        (TRANSFER, f"solve {least:.1f} % or more of the validation puzzles"),
        (TRANSFER, "costs {} and {} bits in the free runs and {} in both held ones, of CruxEval-O"
                   " {} and {}, {} and {}.".format(*ends[:3], *ends[4:])),
    ]  # fmt: skip


def half_way() -> str:
    """Percent of the final cost in bits that the adapter had at update 10,000."""
    rows = stored_results("transfer-bits-qwen2.5-coder-0.5b-states")["compared"]
    costs = {(row["variant"], row["benchmark"]): row["bits_per_token"] for row in rows}
    return (
        "{:.0f} % are there at update 10,000 on MATH, {:.0f} % on CruxEval-O and {:.0f} %".format(
            *(
                100 * costs["update-10000", name] / costs["update-50000", name]
                for name in ("math", "cruxeval-o", "cruxeval-i")
            )
        )
    )


def part_of_the_puzzle() -> str:
    """Percent of R that depends on the puzzle, along the run."""
    first, later, last = (
        100 * stored_results(f"reading-qwen2.5-coder-0.5b-full{at}")["trained"]["puzzle"]
        for at in ("-10000", "-45000", "")
    )
    return (
        f"the part is down to {first:.3f} % of R and the mean of R does as well as R; at 45,000 it"
        f" is {later:.3f} % and at 50,000 {last:.3f} %"
    )


def words() -> list[tuple[Path, str]]:
    """Pages, and what each must hold."""
    trained, random = bits_of_adapters()
    return [
        (RESULTS, f"cost {trained} per token"),
        (RESULTS, f"adapters of the same norms at most {random}"),
        (TRANSFER, half_way()),
        (LANGUAGE_MODELS, part_of_the_puzzle()),
        *text_held(),
        *harm(),
        *at_length_with_qwen(),
    ]
