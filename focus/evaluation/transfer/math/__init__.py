"""MATH, and MATH-Hard as its problems of level 5."""

import re

from focus.errors import UserError
from focus.evaluation.transfer.benchmark import Benchmark, read_prompt
from focus.evaluation.transfer.items import Item, distinct, from_hub, read_rows, take

_SUBJECTS = (
    "algebra", "counting_and_probability", "geometry", "intermediate_algebra", "number_theory",
    "prealgebra", "precalculus",
)  # fmt: skip


def _hub() -> list[dict]:
    """The seven subjects, in alphabetical order."""
    return [row for s in _SUBJECTS for row in from_hub("EleutherAI/hendrycks_math", "test", s)]


def boxed(text: str) -> list[str]:
    """What each \\boxed{} (or \\fbox{}) of a text holds; braces inside are balanced."""
    contents = []
    for command in re.finditer(r"\\(?:boxed|fbox)\s*", text):
        rest, depth = text[command.end() :], 0
        if not rest.startswith("{"):  # \boxed 5
            contents += [re.split(r"[\s$]", rest, maxsplit=1)[0]]
            continue
        for position, char in enumerate(rest):
            depth += (char == "{") - (char == "}")
            if depth == 0:
                contents.append(rest[1:position])
                break
    return [answer for answer in contents if answer]


def load(data: str | None) -> list[Item]:
    """The test problems."""
    items: list[Item] = []
    for where, row in read_rows(data, "math/test.jsonl", _hub):
        problem, level, solution = take(row, where, "problem", "level", "solution")
        answers = boxed(solution)
        if not answers:
            raise UserError(f"{where}: the solution has no boxed answer")
        id_, fields = str(row.get("idx", len(items))), {"problem": problem, "level": level}
        items.append(Item(id_, fields, " and ".join(answers), solution))
    return distinct(items, "math")


_PROMPT = read_prompt(__package__ or "", "prompt.txt")

MATH = Benchmark("math", "MATH", "math", _PROMPT, 1, load)
MATH_HARD = Benchmark(
    "math-hard", "MATH-Hard", "math", _PROMPT, 1, load, part_of="math",
    belongs=lambda item: item.fields["level"] == "Level 5",
)  # fmt: skip
