"""Response cards: what variants wrote to the same question, side by side, as HTML and Markdown.

A text that begins like the first variant's is told from where it goes its own way.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from focus.evaluation.transfer.benchmark import Benchmark
from focus.evaluation.transfer.items import Item
from focus.evaluation.transfer.store import Scored

Verdicts = dict[str, dict[str, Scored]]  # by variant and item
_LONG = 40  # characters in common that are worth a word
_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;
  color:#1b1b1b;background:#fff}
article{border:1px solid #bbb;border-radius:8px;margin:1.5rem 0;padding:1rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f5f5f5;padding:.7rem;border-radius:6px;
  max-height:28rem;overflow:auto}
.all{display:grid;grid-template-columns:repeat(auto-fit,minmax(20rem,1fr));gap:1rem}
.right{border-left:6px solid #0072b2;padding-left:.6rem}
.wrong{border-left:6px dashed #d55e00;padding-left:.6rem}
.same{color:#767676}
h3{margin:.2rem 0}
"""


@dataclass(frozen=True)
class Card:
    """An item, and what each variant made of it."""

    benchmark: Benchmark
    item: Item
    answers: dict[str, Scored]  # by variant; the others are compared with the first


def changed(benchmark: Benchmark, items: Sequence[Item], pair: Verdicts, count: int) -> list[Card]:
    """Items that only one of two variants got right, alternately, then those that both did."""
    first, second = pair.values()
    both = [item for item in items if item.id in first and item.id in second]
    gained, lost, same = (
        [i for i in both if (first[i.id].correct, second[i.id].correct) == verdicts]
        for verdicts in ((False, True), (True, False), (True, True))
    )
    mixed = chain.from_iterable(zip_longest(gained, lost))
    chosen = [item for item in chain(mixed, same) if item is not None][:count]
    return [_card(benchmark, item, pair) for item in chosen]


def separating(
    benchmarks: Sequence[tuple[Benchmark, Sequence[Item], Verdicts]], adapters: set[str], count: int
) -> list[Card]:
    """The items whose verdicts differ most between the adapters and all other variants."""
    found: list[tuple[float, Card]] = []
    seen = set()  # a benchmark may be part of another
    for benchmark, items, verdicts in benchmarks:
        groups = [
            [lines for name, lines in verdicts.items() if (name in adapters) == adapted]
            for adapted in (True, False)
        ]
        for item in items if all(groups) else ():
            known = all(item.id in lines for lines in verdicts.values())
            if known and (benchmark.source, item.id) not in seen:
                seen.add((benchmark.source, item.id))
                ours, others = (sum(v[item.id].correct for v in g) / len(g) for g in groups)
                if ours != others:
                    found.append((abs(ours - others), _card(benchmark, item, verdicts)))
    found.sort(key=lambda one: -one[0])
    return [card for _, card in found[:count]]


def _card(benchmark: Benchmark, item: Item, verdicts: Verdicts) -> Card:
    return Card(benchmark, item, {name: lines[item.id] for name, lines in verdicts.items()})


def in_common(first: str, other: str) -> int:
    """How many characters of a text are those of another, up to a line or word; 0 if few."""
    signs = zip(first, other, strict=False)
    length = next((n for n, (a, b) in enumerate(signs) if a != b), min(len(first), len(other)))
    if length < len(other):
        length = max(other.rfind(space, 0, length) + 1 for space in (" ", "\n"))
    return length if length >= _LONG else 0


def as_markdown(title: str, cards: Sequence[Card]) -> str:
    """Cards as a document."""
    text = [f"# {title}", ""]
    for card in cards:
        text += [
            f"## {card.benchmark.title}, {card.item.id}",
            "",
            *_fenced(card.benchmark.ask(card.item)),
            f"Reference: `{card.item.reference}`",
        ]
        first, base = next(iter(card.answers.items()))
        for name, line in card.answers.items():
            verdict = "right" if line.correct else f"wrong ({line.why})"
            text += ["", f"**{name}**: {verdict}, answer `{line.extracted}`", ""]
            same = 0 if name == first else in_common(base.completion, line.completion)
            if same and line.completion == base.completion:
                text += [f"The same text as {first}.", ""]
                continue
            if same:
                text += [f"As {first} for {same:,} characters, then:", ""]
            text += _fenced(line.completion[same:])
    return "\n".join(text) + "\n"


def _fenced(text: str) -> list[str]:
    fence = "```"
    while fence in text:
        fence += "`"
    return [f"{fence}text", text, fence, ""]


def as_html(title: str, cards: Sequence[Card]) -> str:
    """The same as a page that needs nothing but itself; what is in common is grey."""
    articles = []
    for card in cards:
        base = next(iter(card.answers.values()))
        columns = "".join(_column(name, line, base) for name, line in card.answers.items())
        articles.append(
            f"<article><h2>{html.escape(f'{card.benchmark.title}, {card.item.id}')}</h2>"
            f"<pre>{html.escape(card.benchmark.ask(card.item))}</pre>"
            f"<p>Reference: <code>{html.escape(card.item.reference)}</code></p>"
            f'<div class="all">{columns}</div></article>'
        )
    heading = html.escape(title)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{heading}</title><style>{_STYLE}</style><h1>{heading}</h1>{''.join(articles)}"
        "</html>\n"
    )


def _column(name: str, line: Scored, base: Scored) -> str:
    verdict = "right" if line.correct else f"wrong: {line.why}"
    answer = "–" if line.extracted is None else line.extracted
    same = 0 if line is base else in_common(base.completion, line.completion)
    grey = f'<span class="same">{html.escape(line.completion[:same])}</span>' if same else ""
    return (
        f'<section class="{"right" if line.correct else "wrong"}"><h3>{html.escape(name)}</h3>'
        f"<p>{html.escape(verdict)}; answer <code>{html.escape(answer)}</code></p>"
        f"<pre>{grey}{html.escape(line.completion[same:])}</pre></section>"
    )
