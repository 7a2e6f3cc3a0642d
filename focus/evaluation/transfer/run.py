"""Generate and score: every item once, whatever is killed in between."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch

from focus.errors import UserError
from focus.evaluation import sandbox
from focus.evaluation.statistics import wilson_interval
from focus.evaluation.transfer.benchmark import Benchmark
from focus.evaluation.transfer.equality import judge_answers
from focus.evaluation.transfer.items import Item
from focus.evaluation.transfer.store import Bits, Scored, Store, Written
from focus.evaluation.transfer.variants import Variant, load_variant
from focus.model.generate import batch_size, batches, complete_in_pieces, end_ids, prompt_ids
from focus.model.static_generation import LOOK

_LOOKS_BEFORE_A_FORECAST = 3  # at a batch; its first has the reading of the prompts
Progress = Callable[[str, int, int], None]  # what, how many done, of how many


@dataclass(frozen=True)
class Settings:
    """What all variants of a comparison share."""

    backbone: str
    max_tokens: int = 1024  # cap of a completion
    thinking: bool = False  # for backbones that can

    def __post_init__(self):
        if self.max_tokens < 1:
            raise UserError(f"--max-tokens takes a number from 1, not {self.max_tokens}")


class Forecast:
    """Says once how long all variants will take, as soon as a part of the first is timed."""

    def __init__(self, missing: int, say: Callable[[str], None]):
        self.missing, self._say, self.said = missing, say, False

    def tell(self, seconds: float, of: int, about: str, by: str) -> None:
        """`of` completions or references are expected to take so long."""
        if not self.said:
            whole = _duration(seconds / of * self.missing)
            self._say(f"{self.missing:,} {about} {whole}, by the first {by}")
        self.said = True


def generate(
    variant: Variant, benchmarks: Sequence[tuple[Benchmark, list[Item]]], settings: Settings,
    store: Store, batch: int | None, progress: Progress, forecast: Forecast | None = None,
) -> None:  # fmt: skip
    """Write the completions that are missing; the model is loaded only when there are some."""
    missing = claim_missing(variant, benchmarks, asdict(settings), store, Written)
    if not missing:
        return
    if variant.kind == "gold":
        for benchmark, items in missing:
            store.append(benchmark.source, [Written(i.id, i.gold, 0, True) for i in items])
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, codec = load_variant(variant, settings.backbone, device)
    ends, cap = end_ids(model, codec), settings.max_tokens
    planned = []
    for benchmark, items in missing:
        prompts = [prompt_ids(codec, benchmark.ask(item), settings.thinking) for item in items]
        lengths = [len(prompt) for prompt in prompts]
        size = batch or batch_size(model, max(lengths), cap, device)
        planned.append((benchmark, items, prompts, batches(lengths, size)))
    if cap < _LOOKS_BEFORE_A_FORECAST * LOOK:  # so few that it is not worth it
        forecast = None
    for benchmark, items, prompts, parts in planned:
        done, what = 0, f"{variant.name}, {benchmark.source}"
        progress(what, done, len(items))
        for part in parts:
            asked, seen = [prompts[i] for i in part], time.monotonic()
            pieces = complete_in_pieces(model, asked, cap, ends, device)
            for look, piece in enumerate(pieces, 1):
                if look == _LOOKS_BEFORE_A_FORECAST and forecast is not None:
                    count = sum(len(items) for _, items, _, _ in planned)
                    steps = cap * sum(len(parts) for *_, parts in planned)
                    most = (time.monotonic() - seen) / LOOK * steps
                    by = f"tokens of {variant.name}"
                    forecast.tell(most, count, "completions to write: at most about", by)
                if piece:
                    store.append(benchmark.source, [
                        Written(
                            items[part[n]].id, codec.decode(one.ids), len(one.ids), one.finished
                        )
                        for n, one in piece
                    ])  # fmt: skip
                done += len(piece)
                progress(what, done, len(items))
                seen = time.monotonic()


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{math.ceil(seconds)} s"


def claim_missing(
    variant: Variant, benchmarks: Sequence[tuple[Benchmark, list[Item]]], about: dict,
    store: Store, kind: type[Written] | type[Bits],
) -> list[tuple[Benchmark, list[Item]]]:  # fmt: skip
    """The items that have no line of this kind, in a store that has the same settings or none."""
    missing, asked_of = [], _sources(benchmarks)
    for source, (benchmark, items) in asked_of.items():
        there = store.read(kind, source)
        missing.append((benchmark, [item for item in items if item.id not in there]))
    missing = [(benchmark, items) for benchmark, items in missing if items]
    gold = variant.kind == "gold"
    about = variant.identity() if gold else {**about, **variant.identity()}
    if missing and not gold:  # what is there may be judged or compared on any machine
        about["precision"] = "bfloat16" if torch.cuda.is_available() else "float32"
    store.claim(about, {name: benchmark.version for name, (benchmark, _) in asked_of.items()})
    return missing


def _sources(
    benchmarks: Sequence[tuple[Benchmark, list[Item]]],
) -> dict[str, tuple[Benchmark, list[Item]]]:
    """Benchmarks to generate for; the whole of one serves its part too."""
    sources: dict[str, tuple[Benchmark, list[Item]]] = {}
    for benchmark, items in benchmarks:
        if benchmark.source in sources:
            items_by_id = {item.id: item for item in sources[benchmark.source][1]}
            items = list({**items_by_id, **{item.id: item for item in items}}.values())
        sources[benchmark.source] = benchmark, items
    return sources


def score(
    variant: Variant, benchmark: Benchmark, items: list[Item], store: Store, progress: Progress
) -> list[Scored]:
    """Judge the completions that have no verdict yet, and store all."""
    written, scores = store.written(benchmark.source), store.scores(benchmark.name)
    lost = [item.id for item in items if item.id not in written]
    if lost:
        raise UserError(f"{store.folder}: no completion for item {lost[0]} of {benchmark.source}")
    fresh = [
        item for item in items
        if item.id not in scores or scores[item.id].completion != written[item.id].completion
    ]  # fmt: skip
    if fresh:
        what = f"{variant.name}, {benchmark.name}: scoring"
        texts = [written[item.id].completion for item in fresh]

        def tell(done: int) -> None:
            progress(what, done, len(fresh))

        tell(0)
        judge = by_equality if benchmark.judge == "math" else by_execution
        for item, (extracted, correct, why) in zip(
            fresh, judge(benchmark, fresh, texts, tell), strict=True
        ):
            one = written[item.id]
            scores[item.id] = Scored(
                item.id, item.reference, extracted, correct, why, one.completion, one.tokens,
                one.finished,
            )  # fmt: skip
        store.write_scores(benchmark.name, list(scores.values()))
    return [scores[item.id] for item in items]


Verdict = tuple[str | None, bool, str]


def by_equality(
    benchmark: Benchmark, items: list[Item], texts: list[str], progress: Callable[[int], None]
) -> list[Verdict]:
    """Compare each completion with the reference solution."""
    pairs = [(item.gold, text) for item, text in zip(items, texts, strict=True)]
    return [(v.extracted, v.correct, v.why) for v in judge_answers(pairs, progress=progress)]


def by_execution(
    benchmark: Benchmark, items: list[Item], texts: list[str], progress: Callable[[int], None]
) -> list[Verdict]:
    """Run what each prediction makes a program of; a prediction that is none runs nothing."""
    assert benchmark.extract is not None
    assert benchmark.program is not None
    answers = [benchmark.extract(text) for text in texts]
    programs = [
        None if answer is None else benchmark.program(item, answer)
        for item, answer in zip(items, answers, strict=True)
    ]
    outcomes = iter(sandbox.run_many([p for p in programs if p is not None], progress=progress))
    verdicts: list[Verdict] = []
    for answer, program in zip(answers, programs, strict=True):
        if answer is None:
            verdicts.append((None, False, "no answer found"))
        elif program is None:
            verdicts.append((answer, False, "not a prediction of the kind asked for"))
        else:
            outcome = next(outcomes)
            why = "" if outcome.passed else f"{outcome.status}: {outcome.detail}".rstrip(": ")
            verdicts.append((answer, outcome.passed, why))
    return verdicts


def summary(variant: Variant, benchmark: Benchmark, lines: list[Scored]) -> dict:
    """Accuracy with its interval, and how the completions ended."""
    hits, n = sum(line.correct for line in lines), len(lines)
    low, high = wilson_interval(hits, n)
    return {
        "variant": variant.name, "benchmark": benchmark.name, "accuracy": hits / n,
        "low": low, "high": high, "n": n,
        "answered": sum(line.extracted is not None for line in lines) / n,
        "finished": sum(line.finished for line in lines) / n,
        "tokens": sum(line.tokens for line in lines) / n,
    }  # fmt: skip
