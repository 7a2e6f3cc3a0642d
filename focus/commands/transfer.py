"""`focus transfer`: does the adapted language model reason better elsewhere?"""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from focus.commands.output import print_json, progress
from focus.errors import UserError
from focus.evaluation import sandbox
from focus.evaluation.transfer import (
    BENCHMARKS,
    beyond_null,
    cards,
    compare,
    find_benchmarks,
    likelihood,
)
from focus.evaluation.transfer.benchmark import Benchmark
from focus.evaluation.transfer.compare import Results
from focus.evaluation.transfer.items import Item
from focus.evaluation.transfer.likelihood import Measured, measure
from focus.evaluation.transfer.run import (
    Forecast,
    Settings,
    claim_missing,
    generate,
    score,
    summary,
)
from focus.evaluation.transfer.store import Bits, Store, Written
from focus.evaluation.transfer.variants import Variant, find_backbone, find_variants
from focus.files import json_text, write_text

_CARDS_OF_A_PAIR, _SEPARATING = 6, 10  # items on a page of response cards


def transfer(
    variants: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="VARIANT")],
    benchmarks: str = ",".join(BENCHMARKS), data: str | None = None, backbone: str | None = None,
    max_tokens: int = 1024, thinking: Annotated[bool, tyro.conf.FlagConversionOff] = False,
    null_seeds: int = 3, batch: int | None = None, limit: int | None = None,
    allow_code: bool = False, only_generate: bool = False, bits: bool = False,
    out: str = "runs-out/transfer", json: bool = False,
) -> None:  # fmt: skip
    """Accuracy of a language model on mathematics and code, with and without an adapter.

    Zero-shot: one greedy chain-of-thought completion for each item, the same prompt and token cap
    for all.
    With --bits nothing is generated: the same prompts, and how likely the reference texts are.
    A run that was stopped goes on where it was.

    Args:
        variants: base, CHECKPOINT or NAME=CHECKPOINT (its adapter; the updater is off), null
            (random adapters with the norms of each adapter named, the control) or null:NAME (of
            one), gold (the reference answers).
        benchmarks: math, math-hard, cruxeval-o, cruxeval-i, aime25, aime26, with commas.
        data: folder with math/, aime/, cruxeval/, or hub; default $FOCUS_DATA, else the hub.
        backbone: the language model; default that of the checkpoints, else smollm2-135m.
        max_tokens: cap of a completion.
        thinking: let backbones think that can.
        null_seeds: random adapters for each adapter.
        batch: completions or references at a time; default what fits into memory.
        limit: only the first so many items of each benchmark.
        allow_code: run the programs that CruxEval's verdicts need, in a sandbox.
        only_generate: write completions and leave the verdicts for another call.
        bits: measure bits per token of the reference texts, and write no completions.
        out: folder of completions, verdicts, table and response cards, or of bits.
        json: print one JSON object instead of a table.
    """
    chosen_benchmarks = find_benchmarks(benchmarks)
    chosen_variants = find_variants(variants, null_seeds)
    _check(limit, batch, null_seeds)
    if bits:
        _check_bits(chosen_variants, only_generate)
    elif not only_generate:
        _check_code(chosen_benchmarks, allow_code)
    settings = Settings(find_backbone(chosen_variants, backbone), max_tokens, thinking)
    loaded = [(benchmark, benchmark.items(data)[:limit]) for benchmark in chosen_benchmarks]
    folder = Path(out)
    results: Results = {}
    measured: Measured = {}
    with progress() as bar:
        line = bar.add_task("", total=None)

        def tell(what: str, done: int, total: int) -> None:
            bar.update(line, description=what, completed=done, total=total)

        missing = _count_missing(chosen_variants, loaded, settings, folder, bits)
        forecast = Forecast(missing, partial(bar.console.print, markup=False, soft_wrap=True))
        for variant in chosen_variants:
            if bits:
                inside = folder / variant.name / "bits"
                measured[variant.name] = measure(
                    variant, loaded, settings, inside, batch, tell, forecast
                )
                continue
            store = Store(folder / variant.name)
            generate(variant, loaded, settings, store, batch, tell, forecast)
            for benchmark, items in [] if only_generate else loaded:
                results[variant.name, benchmark.name] = score(
                    variant, benchmark, items, store, tell
                )
    if bits:
        _tell_bits(folder, settings, measured, json)
        return
    if only_generate:
        print(f"completions are in {folder}")
        return
    summaries = [
        summary(variant, benchmark, results[variant.name, benchmark.name])
        for variant in chosen_variants for benchmark in chosen_benchmarks
    ]  # fmt: skip
    compared, of_seeds = compare.comparisons(results), compare.over_seeds(results)
    against_nulls = compare.against_nulls(results)
    averages = {v.name: compare.average(summaries, v.name) for v in chosen_variants}
    report = {
        "backbone": settings.backbone,
        "results": summaries,
        "compared": compared,
        "over_seeds": of_seeds,
        "beyond_null": against_nulls,
        "average": averages,
    }
    text = compare.table(summaries, compared)
    if of_seeds or against_nulls:
        text += f"\n\n{compare.seeds_table([*of_seeds, *against_nulls])}"
    text += _verdicts(against_nulls, settings, beyond_null.POINTS)
    write_text(folder / "results.json", json_text(report, indent=1) + "\n")
    write_text(folder / "table.md", text + "\n")
    _write_cards(folder / "cards", chosen_variants, loaded, results)
    if json:
        print_json(report)
        return
    print(text)
    print(f"\ncompletions with their verdicts, results.json, table.md and response cards: {folder}")


def _count_missing(
    variants: list[Variant], loaded: list[tuple[Benchmark, list[Item]]], settings: Settings,
    folder: Path, bits: bool,
) -> int:  # fmt: skip
    """What a model has to do; refuses a folder of other settings before any variant begins."""
    missing = 0
    for variant in variants:
        place = folder / variant.name / "bits" if bits else folder / variant.name
        kind, about = (
            (Bits, likelihood.conditions(settings)) if bits else (Written, asdict(settings))
        )
        parts = claim_missing(variant, loaded, about, Store(place), kind)
        missing += sum(len(items) for _, items in parts if variant.kind != "gold")
    return missing


def _tell_bits(folder: Path, settings: Settings, measured: Measured, json: bool) -> None:
    compared = likelihood.compare(measured)
    report = {"backbone": settings.backbone, **compared}
    text = likelihood.table(report)
    text += _verdicts(compared["beyond_null"], settings, beyond_null.BITS)
    write_text(folder / "bits.json", json_text(report, indent=1) + "\n")
    write_text(folder / "bits.md", text + "\n")
    if json:
        print_json(report)
        return
    print(text)
    print(f"\nbits of every item, bits.json and bits.md: {folder}")


def _verdicts(rows: list[dict], settings: Settings, unit: beyond_null.Unit) -> str:
    lines = beyond_null.verdicts(rows, settings.backbone, unit)
    return "".join(f"\n\n{line}" for line in lines)


def _check(limit: int | None, batch: int | None, null_seeds: int) -> None:
    for name, value in (("limit", limit), ("batch", batch), ("null-seeds", null_seeds)):
        if value is not None and value < 1:
            raise UserError(f"--{name} takes a number from 1, not {value}")


def _check_bits(variants: list[Variant], only_generate: bool) -> None:
    if any(variant.kind == "gold" for variant in variants):
        raise UserError(
            "--bits measures the reference texts, and gold is those texts: name base, checkpoints "
            "or null"
        )
    if only_generate:
        raise UserError("--bits generates nothing; leave --only-generate out")


def _check_code(benchmarks: list[Benchmark], allow_code: bool) -> None:
    code = [benchmark.name for benchmark in benchmarks if benchmark.judge == "code"]
    if code:
        if not allow_code:
            raise UserError(
                f"{', '.join(code)} run Python programs that a language model has written; "
                "add --allow-code to run them in a sandbox, or leave them out of --benchmarks"
            )
        sandbox.check_available()


def _write_cards(
    folder: Path, variants: list[Variant], loaded: list[tuple[Benchmark, list[Item]]],
    results: Results,
) -> None:  # fmt: skip
    """Cards of the baseline and each adapter, and of the items that most separate all variants."""
    adapters = [variant.name for variant in variants if variant.kind == "adapter"]
    compared = [variant.name for variant in variants if variant.kind != "gold"]

    def verdicts(benchmark: Benchmark, *names: str) -> cards.Verdicts:
        return {n: {line.id: line for line in results[n, benchmark.name]} for n in names}

    def write(name: str, title: str, chosen: list[cards.Card]) -> None:
        write_text(folder / f"{name}.md", cards.as_markdown(title, chosen))
        write_text(folder / f"{name}.html", cards.as_html(title, chosen))

    for name in adapters if "base" in compared else ():
        for benchmark, items in loaded:
            pair = verdicts(benchmark, "base", name)
            chosen = cards.changed(benchmark, items, pair, _CARDS_OF_A_PAIR)
            write(f"{name}-{benchmark.name}", f"{benchmark.title}: base and {name}", chosen)
    everything = [(b, items, verdicts(b, *compared)) for b, items in loaded]
    chosen = cards.separating(everything, set(adapters), _SEPARATING)
    for earlier in folder.glob("separating.*"):
        earlier.unlink()
    if chosen:
        write("separating", f"What most separates {', '.join(adapters)} from the others", chosen)
