"""What a benchmark is: items, a prompt with a version, how an answer is found and judged."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from focus.evaluation.sandbox import Program
from focus.evaluation.transfer.items import Item


@dataclass(frozen=True)
class Benchmark:
    """One benchmark.

    `judge` says which scorer decides: `math` (symbolic equality) or `code` (execution). A part of
    another benchmark (MATH-Hard) names it as `part_of`; `belongs` picks its items, whose
    completions are those of the whole.
    """

    name: str
    title: str
    judge: Literal["math", "code"]
    prompt: str  # with gaps {field}
    version: int  # of prompt and extraction; figures of different versions are not compared
    load: Callable[[str | None], list[Item]]
    extract: Callable[[str], str | None] | None = None  # for `code`: the prediction
    program: Callable[[Item, str], Program | None] | None = None  # for `code`: what is executed
    part_of: str | None = None
    belongs: Callable[[Item], bool] = lambda item: True

    @property
    def source(self) -> str:
        """The benchmark whose completions are scored."""
        return self.part_of or self.name

    def items(self, data: str | None) -> list[Item]:
        """The items that belong to it."""
        return [item for item in self.load(data) if self.belongs(item)]

    def ask(self, item: Item) -> str:
        """The prompt of an item, its gaps filled in one pass: code may hold braces of its own."""
        return re.sub(r"\{(\w+)\}", lambda gap: item.fields.get(gap[1], gap[0]), self.prompt)


def read_prompt(package: str, name: str) -> str:
    """A prompt file beside a benchmark's code."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8").strip()
