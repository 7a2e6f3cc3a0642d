"""Response cards: what two variants wrote to the same question, side by side, as HTML and Markdown.

First the items that only one of them got right, alternately, then those that both did.
"""

import html
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

from focus.evaluation.transfer.benchmark import Benchmark
from focus.evaluation.transfer.items import Item
from focus.evaluation.transfer.store import Scored

_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;
  color:#1b1b1b;background:#fff}
article{border:1px solid #bbb;border-radius:8px;margin:1.5rem 0;padding:1rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f5f5f5;padding:.7rem;border-radius:6px;
  max-height:28rem;overflow:auto}
.two{display:grid;grid-template-columns:1fr 1fr;gap:1rem}
.right{border-left:6px solid #0072b2;padding-left:.6rem}
.wrong{border-left:6px dashed #d55e00;padding-left:.6rem}
h3{margin:.2rem 0}
@media(max-width:50rem){.two{grid-template-columns:1fr}}
"""


def choose(first: dict[str, Scored], second: dict[str, Scored], count: int) -> list[str]:
    """Ids of the items to show."""
    both = [id_ for id_ in first if id_ in second]
    gained = [i for i in both if second[i].correct and not first[i].correct]
    lost = [i for i in both if first[i].correct and not second[i].correct]
    same = [i for i in both if first[i].correct and second[i].correct]
    mixed = chain.from_iterable(zip_longest(gained, lost))
    return [i for i in chain(mixed, same) if i is not None][:count]


def _rows(
    items: Sequence[Item], pair: dict[str, dict[str, Scored]], count: int
) -> Iterator[tuple[Item, dict[str, Scored]]]:
    first, second = pair.values()
    items_by_id = {item.id: item for item in items}
    for id_ in choose(first, second, count):
        yield items_by_id[id_], {name: lines[id_] for name, lines in pair.items()}


def as_markdown(
    benchmark: Benchmark, items: Sequence[Item], pair: dict[str, dict[str, Scored]], count: int = 6
) -> str:
    """Cards of one benchmark; `pair` is two variants' verdicts by id."""
    text = [f"# {benchmark.title}: {' and '.join(pair)}", ""]
    for item, answers in _rows(items, pair, count):
        text += [
            f"## {item.id}",
            "",
            *_fenced(benchmark.ask(item)),
            f"Reference: `{item.reference}`",
        ]
        for name, line in answers.items():
            verdict = "right" if line.correct else f"wrong ({line.why})"
            text += ["", f"**{name}**: {verdict}, answer `{line.extracted}`", ""]
            text += _fenced(line.completion)
    return "\n".join(text) + "\n"


def _fenced(text: str) -> list[str]:
    fence = "```"
    while fence in text:
        fence += "`"
    return [f"{fence}text", text, fence, ""]


def as_html(
    benchmark: Benchmark, items: Sequence[Item], pair: dict[str, dict[str, Scored]], count: int = 6
) -> str:
    """The same as a page that needs nothing but itself."""
    title = html.escape(f"{benchmark.title}: {' and '.join(pair)}")
    cards = []
    for item, answers in _rows(items, pair, count):
        columns = "".join(_column(name, line) for name, line in answers.items())
        cards.append(
            f"<article><h2>{html.escape(item.id)}</h2><pre>{html.escape(benchmark.ask(item))}</pre>"
            f"<p>Reference: <code>{html.escape(item.reference)}</code></p>"
            f'<div class="two">{columns}</div></article>'
        )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>{''.join(cards)}</html>\n"
    )


def _column(name: str, line: Scored) -> str:
    verdict = "right" if line.correct else f"wrong: {line.why}"
    answer = "–" if line.extracted is None else line.extracted
    return (
        f'<section class="{"right" if line.correct else "wrong"}"><h3>{html.escape(name)}</h3>'
        f"<p>{html.escape(verdict)}; answer <code>{html.escape(answer)}</code></p>"
        f"<pre>{html.escape(line.completion)}</pre></section>"
    )
