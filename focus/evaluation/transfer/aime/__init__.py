"""AIME 2025 and 2026: thirty problems each, answers from 0 to 999."""

from functools import partial

from focus.errors import UserError
from focus.evaluation.transfer.benchmark import Benchmark, read_prompt
from focus.evaluation.transfer.items import Item, distinct, from_hub, read_rows, take

_HUB = {2025: ("test-time-compute/aime_2025", "test"), 2026: ("MathArena/aime_2026", "train")}


def load(year: int, data: str | None) -> list[Item]:
    """The problems of a year."""
    items = []
    rows = read_rows(data, f"aime/aime{year}.jsonl", partial(from_hub, *_HUB[year]))
    for number, (where, row) in enumerate(rows, 1):
        problem, answer = take(row, where, "problem", "answer")
        if not (answer.isdecimal() and int(answer) <= 999):
            raise UserError(f"{where}: an answer of the AIME is a number from 0 to 999: {answer!r}")
        answer = str(int(answer))  # 033 is 33
        gold = rf"The answer is \boxed{{{answer}}}."
        items.append(Item(str(row.get("id", number)), {"problem": problem}, answer, gold))
    return distinct(items, f"aime{year % 100}")


_PROMPT = read_prompt(__package__ or "", "prompt.txt")

AIME25, AIME26 = (
    Benchmark(f"aime{year % 100}", f"AIME{year % 100}", "math", _PROMPT, 1, partial(load, year))
    for year in (2025, 2026)
)
