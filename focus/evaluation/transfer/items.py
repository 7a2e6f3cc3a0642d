"""Items of a benchmark: what is asked, and what is right. Read from files or from the hub."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from focus.data.table import read_text
from focus.errors import UserError
from focus.files import parse_object
from focus.hub import reachable_hub


@dataclass(frozen=True)
class Item:
    """One question.

    `fields` fill the gaps of the prompt, `reference` is the answer as it is shown, and `gold` a
    completion that is right; mathematical completions are compared with it.
    """

    id: str
    fields: dict[str, str]
    reference: str
    gold: str


def read_rows(folder: str | None, name: str, hub: Callable[[], list[dict]]) -> Iterator[tuple]:
    """Rows of a benchmark file in a data folder, each with where it stands; else from the hub.

    `name` is the file's path in the folder; `NAME.gz` will do too.
    """
    folder = folder or os.environ.get("FOCUS_DATA") or "hub"
    if folder == "hub":
        yield from ((f"row {number} of the hub's data", row) for number, row in enumerate(hub(), 1))
        return
    path = next((p for p in (Path(folder, name), Path(folder, name + ".gz")) if p.is_file()), None)
    if path is None:
        raise UserError(
            f"no {name} (or {name}.gz) in {folder}; give --data a folder that has it, or --data hub"
        )
    yield from _read_lines(path)


def _read_lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, parse_object(line, where)


def take(row: dict, where: str, *names: str) -> list[str]:
    """The named values of a row as text; numbers will do, anything else or nothing will not."""
    values = []
    for name in names:
        value = row.get(name)
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            what = "is missing" if name not in row else f"is {json.dumps(value)[:40]}"
            raise UserError(f"{where}: the field {name!r} {what}; text or a number is wanted")
        values.append(str(value))
    return values


def distinct(items: list[Item], name: str) -> list[Item]:
    """The items, none of them twice and at least one."""
    if not items:
        raise UserError(f"the benchmark {name} has no items")
    seen: set[str] = set()
    for item in items:
        if item.id in seen:
            raise UserError(f"the benchmark {name} has the id {item.id!r} twice")
        seen.add(item.id)
    return items


def from_hub(repository: str, split: str, config: str | None = None) -> list[dict]:
    """A data set of the hub, or a local folder of the same layout."""
    try:
        import datasets
    except ImportError as error:
        raise UserError(
            f"{repository} comes from a folder (--data DIR or $FOCUS_DATA), or from the hub with "
            "an extra: pip install '.[hub]'"
        ) from error
    try:
        with reachable_hub():
            return list(datasets.load_dataset(repository, config, split=split))
    except Exception as error:  # the library's own errors share no base class
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"the hub does not give {repository} ({reason})") from error
