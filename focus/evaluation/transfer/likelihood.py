"""Bits of the reference texts: how well a variant predicts what it was asked to write.

A small language model answers next to nothing right, with any adapter and with none; how likely it
finds a right text differs long before that. The reference stands where a completion would begin,
after the same prompt, and ending there is counted apart.
"""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from focus.errors import UserError
from focus.evaluation.statistics import ratio_intervals
from focus.evaluation.transfer import BENCHMARKS, beyond_null
from focus.evaluation.transfer.benchmark import Benchmark
from focus.evaluation.transfer.items import Item
from focus.evaluation.transfer.run import Forecast, Progress, Settings, claim_missing
from focus.evaluation.transfer.store import Bits, Store
from focus.evaluation.transfer.variants import Variant, load_variant
from focus.model.generate import BYTES_READING, batches, end_ids, prompt_ids

Measured = dict[str, dict[str, list[Bits]]]  # by variant and benchmark, in the order of items
_REFERENCES = 2  # version of the references' texts
_AT_ONCE = 256  # tokens whose logits are float32 at a time


def conditions(settings: Settings) -> dict:
    """What the bits of all variants depend on."""
    return {
        "backbone": settings.backbone, "thinking": settings.thinking, "references": _REFERENCES,
    }  # fmt: skip


def measure(
    variant: Variant, benchmarks: Sequence[tuple[Benchmark, list[Item]]], settings: Settings,
    folder: Path, batch: int | None, progress: Progress, forecast: Forecast | None = None,
) -> dict[str, list[Bits]]:  # fmt: skip
    """The figures of each benchmark's items; those that `folder` lacks are measured first."""
    store = Store(folder)
    missing = claim_missing(variant, benchmarks, conditions(settings), store, Bits)
    if missing:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        model, codec = load_variant(variant, settings.backbone, device)
        ends = end_ids(model, codec)
        planned = []
        for benchmark, items in missing:
            pairs = [
                (prompt_ids(codec, benchmark.ask(i), settings.thinking), codec.encode(i.gold))
                for i in items
            ]
            lengths = [len(prompt) + len(reference) for prompt, reference in pairs]
            size = batch or _batch_size(model, max(lengths), device)
            planned.append((benchmark, items, pairs, lengths, batches(lengths, size)))
        every = sum(sum(lengths) for *_, lengths, _ in planned)
        count = sum(len(items) for _, items, *_ in planned)
        warming_up = sum(len(parts) for *_, parts in planned) > 1  # the first batch is slower
        for benchmark, items, pairs, lengths, parts in planned:
            what, done = f"{variant.name}, {benchmark.source}", 0
            progress(what, done, sum(lengths))
            for part in parts:
                began = time.monotonic()
                scored = reference_bits(model, [pairs[n] for n in part], ends, device)
                seconds, tokens = time.monotonic() - began, sum(lengths[n] for n in part)
                if forecast is not None and not warming_up:
                    by = f"texts of {variant.name}"
                    forecast.tell(seconds / tokens * every, count, "references to read: about", by)
                warming_up = False
                lines = [
                    Bits(items[n].id, len(pairs[n][1]), *one)
                    for n, one in zip(part, scored, strict=True)
                ]
                store.append(benchmark.source, lines)
                done += tokens
                progress(what, done, sum(lengths))
    figures = {}
    for benchmark, items in benchmarks:
        lines_by_id = store.read(Bits, benchmark.source)
        figures[benchmark.name] = [lines_by_id[item.id] for item in items]
    return figures


def reference_bits(
    model: Any, pairs: Sequence[tuple[list[int], list[int]]], ends: Sequence[int], device: str
) -> list[tuple[float, float]]:
    """Bits of each reference after its prompt, and of a token that ends a completion after both.

    A batch that does not fit into memory is read in two halves.
    """
    try:
        return _read_together(model, pairs, ends, device)
    except torch.OutOfMemoryError as error:
        if len(pairs) == 1:
            raise UserError(
                f"a prompt with its reference of {len(pairs[0][0]) + len(pairs[0][1]):,} tokens "
                "does not fit into the GPU's memory; take a smaller backbone"
            ) from error
    torch.cuda.empty_cache()
    half = len(pairs) // 2
    return [
        one
        for part in (pairs[:half], pairs[half:])
        for one in reference_bits(model, part, ends, device)
    ]


@torch.inference_mode()
def _read_together(
    model: Any, pairs: Sequence[tuple[list[int], list[int]]], ends: Sequence[int], device: str
) -> list[tuple[float, float]]:
    """The same for one batch, padded on the right."""
    width = max(len(prompt) + len(reference) for prompt, reference in pairs)
    first = min(len(prompt) for prompt, _ in pairs) - 1  # the first place whose logits are needed
    ids = torch.zeros(len(pairs), width, dtype=torch.long)
    mask = torch.zeros(len(pairs), width, dtype=torch.bool)
    for row, (prompt, reference) in enumerate(pairs):
        text = prompt + reference
        ids[row, : len(text)], mask[row, : len(text)] = torch.tensor(text), True
    logits = model(
        input_ids=ids.to(device), attention_mask=mask.to(device), use_cache=False,
        logits_to_keep=width - first,
    ).logits  # fmt: skip
    bits = []
    for row, (prompt, reference) in enumerate(pairs):
        place = len(prompt) - 1 - first
        after = logits[row, place : place + len(reference) + 1]
        bits.append(_bits(after, reference, ends))
    return bits


def _bits(logits: torch.Tensor, tokens: list[int], ends: Sequence[int]) -> tuple[float, float]:
    """Bits of the tokens, and of any end in the last place; logits are (tokens + 1, vocabulary)."""
    wanted = torch.tensor(tokens, device=logits.device)
    nats = 0.0
    for some, these in zip(logits[:-1].split(_AT_ONCE), wanted.split(_AT_ONCE), strict=True):
        log_p = some.float().log_softmax(-1).gather(1, these[:, None])
        nats -= float(log_p.double().sum())
    last = logits[-1].float().log_softmax(-1)
    end_nats = -float(last[list(ends)].logsumexp(0))
    return nats / math.log(2), end_nats / math.log(2)


def _batch_size(model: Any, width: int, device: str) -> int:
    """How many texts of at most `width` tokens fit into memory with their logits."""
    if device == "cpu":
        return 1  # a text fills a CPU, and alone it has no padding
    config = model.config
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    torch.cuda.empty_cache()  # what earlier batches have left counts as free
    free, _ = torch.cuda.mem_get_info()
    return int(max(1, 0.5 * free / (width * (4 * config.vocab_size + BYTES_READING * inner))))


def compare(measured: Measured) -> dict[str, list[dict]]:
    """Bits per token and bits of the end of every variant, and the difference to `base`.

    Intervals (95 %) come from a bootstrap over items, which every variant shares: a difference is
    paired.
    """
    results, compared, names = [], [], list(measured)
    for benchmark in measured[names[0]]:
        lines = [measured[name][benchmark] for name in names]
        tokens = np.array([line.tokens for line in lines[0]])
        bits = np.array([[line.bits for line in of_one] for of_one in lines])
        ends = np.array([[line.end_bits for line in of_one] for of_one in lines])
        about = {"benchmark": benchmark, "n": len(tokens), "tokens": int(tokens.sum())}
        results += [
            {"variant": name, **about, **row}
            for name, row in zip(names, _figures(bits, ends, tokens), strict=True)
        ]
        if "base" in names:
            base = names.index("base")
            less_base = _figures(bits - bits[base], ends - ends[base], tokens)
            compared += [
                {"variant": name, "benchmark": benchmark, "against": "base", **row}
                for name, row in zip(names, less_base, strict=True) if name != "base"
            ]  # fmt: skip
    return {"results": results, "compared": compared, "beyond_null": against_nulls(measured)}


def against_nulls(measured: Measured) -> list[dict]:
    """Bits per token that each adapter has more than its own random adapters, and seeds of one
    together."""
    variants, rows = list(measured), []
    for name, adapters in beyond_null.adapters_with_nulls(variants):
        about = beyond_null.about(name, adapters, variants)
        for benchmark, lines in measured[adapters[0]].items():
            tokens = {line.id: line.tokens for line in lines}
            figures = {v: {one.id: one.bits for one in measured[v][benchmark]} for v in variants}
            changes = beyond_null.changes(adapters, figures)
            counts = np.array([tokens[item] for item in changes])
            change = _per_token(np.stack(list(changes.values()), 1), counts)
            found = beyond_null.effect(change, len(adapters))
            row = dict(zip(("bits_per_token", "low", "high", "p"), found, strict=True))
            rows.append({**about, "benchmark": benchmark, **row})
    return rows


def _per_token(bits: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """A number for each item: their mean is the ratio of both sums, and varies as it does."""
    ratio = bits.sum(1, keepdims=True) / tokens.sum()
    return ratio + (bits - ratio * tokens) / tokens.mean()


def _figures(bits: np.ndarray, ends: np.ndarray, tokens: np.ndarray) -> list[dict]:
    """A row for each variant."""
    of_tokens = ratio_intervals(bits, tokens)
    of_ends = ratio_intervals(ends, np.ones_like(tokens))
    keys = ("bits_per_token", "low", "high", "end_bits", "end_low", "end_high")
    rows = np.concatenate([of_tokens, of_ends], axis=1)
    return [dict(zip(keys, map(float, row), strict=True)) for row in rows]


def table(report: dict) -> str:
    """The same in Markdown."""
    head, *lines = (f"| {' | '.join(row)} |" for row in rows(report))
    return "\n".join([head, "|---" * head.count(" | ") + "|---|", *lines])


def rows(report: dict) -> list[list[str]]:
    """The cells of a table, its head first: a row for each benchmark and variant.

    In [] a 95 % interval; the seeds of a null adapter share a row, their mean and in () the lowest
    and the highest.
    """
    differences = {(row["variant"], row["benchmark"]): row for row in report["compared"]}
    grouped: dict[tuple[str, str], list[dict]] = {}
    for row in report["results"]:
        name = row["variant"]
        kind = name.rsplit("-", 1)[0] if name.startswith("null-") else name
        grouped.setdefault((row["benchmark"], kind), []).append(row)
    cells_by_row = [
        ["benchmark", "variant", "bits per token", "less base", "bits of the end", "less base"]
    ]
    for (benchmark, kind), same in grouped.items():
        pairs = [(row["variant"], benchmark) for row in same]
        less_base = [differences[pair] for pair in pairs if pair in differences]
        cells = []
        for keys in (("bits_per_token", "low", "high"), ("end_bits", "end_low", "end_high")):
            cells += [_cell(same, keys, ""), _cell(less_base, keys, "+")]
        title = f"{BENCHMARKS[benchmark].title} ({same[0]['n']:,})"
        seeds = f" ({len(same)} seeds)" if len(same) > 1 else ""
        cells_by_row.append([title, kind + seeds, *cells])
    return cells_by_row


def _cell(seeds: list[dict], keys: tuple[str, str, str], sign: str) -> str:
    if not seeds:
        return "–"
    values = [seed[keys[0]] for seed in seeds]
    if len(seeds) == 1:
        value, low, high = (f"{seeds[0][key]:{sign}.3f}" for key in keys)
        return f"{value} [{low}, {high}]"
    mean, low, high = (f"{x:{sign}.3f}" for x in (np.mean(values), min(values), max(values)))
    return f"{mean} ({low} to {high})"
