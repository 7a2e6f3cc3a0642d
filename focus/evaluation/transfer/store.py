"""Completions on disk: one line each, appended as they end, so that a killed run goes on.

The folder OUT/VARIANT/bits holds bits of references in the same way, without verdicts.

OUT/VARIANT/settings.json            what the completions depend on
OUT/VARIANT/BENCHMARK.written.jsonl  completions as they come
OUT/VARIANT/BENCHMARK.jsonl          completions with extraction and verdict
"""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from focus.errors import UserError
from focus.files import parse_object, read_object, read_text, write_text
from focus.serialization import build


@dataclass(frozen=True)
class Written:
    """A stored completion."""

    id: str
    completion: str
    tokens: int
    finished: bool  # ended by itself, not by the cap


@dataclass(frozen=True)
class Bits:
    """How likely a reference text is."""

    id: str
    tokens: int
    bits: float  # of all tokens together
    end_bits: float  # of a token that ends a completion, after the last of them

    def __post_init__(self):
        if self.tokens < 1 or not math.isfinite(self.bits + self.end_bits):
            raise UserError(
                f"item {self.id} has {self.tokens} tokens of {self.bits} bits and an end of "
                f"{self.end_bits}: the adapter or the backbone is damaged"
            )


@dataclass(frozen=True)
class Scored:
    """A stored completion with its verdict."""

    id: str
    reference: str
    extracted: str | None
    correct: bool
    why: str  # of a verdict against it; "" when it is right
    completion: str
    tokens: int
    finished: bool


Line = TypeVar("Line", bound=Written | Bits | Scored)


class Store:
    """The files of one variant."""

    def __init__(self, folder: Path):
        self.folder = folder

    def claim(self, settings: dict, versions: dict[str, int]) -> None:
        """Begin, or go on where settings and versions of benchmarks are the stored ones."""
        path = self.folder / "settings.json"
        begun = any(self.folder.glob("*.written.jsonl"))
        if begun and not path.exists():
            raise UserError(
                f"{path} is missing, and nothing else says with what settings its folder was "
                "begun; put it back, or remove the folder"
            )
        stored_settings = _read_object(path) if begun else settings
        stored = stored_settings.get("versions", {})
        if not isinstance(stored, dict):
            raise UserError(f"{path} is damaged; remove the folder and begin again")
        for name, version in versions.items():
            if stored.get(name, version) != version:
                raise UserError(
                    f"{self.folder} holds version {stored[name]} of {name}, now it is "
                    f"{version}; choose another --out, or remove the folder"
                )
        for name in settings:
            if settings.get(name) != stored_settings.get(name):
                raise UserError(
                    f"{self.folder} was begun with {name} = {stored_settings.get(name)}, now it is "
                    f"{settings.get(name)}; choose another --out, or remove the folder"
                )
        if {**stored, **versions} != stored:
            stored_settings = {**stored_settings, "versions": {**stored, **versions}}
            write_text(path, json.dumps(stored_settings, indent=1) + "\n")

    def written(self, benchmark: str) -> dict[str, Written]:
        """The completions so far."""
        return self.read(Written, benchmark)

    def read(self, kind: type[Line], benchmark: str) -> dict[str, Line]:
        """The lines so far; a last one that a kill has torn is cut off."""
        path = self.folder / f"{benchmark}.written.jsonl"
        if not path.exists():
            return {}
        text = read_text(path)
        whole = text[: text.rfind("\n") + 1]
        lines = _read_lines(kind, whole, path)
        if len(whole) < len(text):
            write_text(path, whole)
        return {one.id: one for one in lines}

    def append(self, benchmark: str, lines: Sequence[Written | Bits]) -> None:
        """Add some; they are on the disk when this returns."""
        text = "".join(json.dumps(asdict(line)) + "\n" for line in lines)
        path = self.folder / f"{benchmark}.written.jsonl"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "ab") as stream:
                stream.write(text.encode("ascii"))
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror or error}") from error

    def write_scores(self, benchmark: str, lines: list[Scored]) -> None:
        """The final file of a benchmark."""
        text = "".join(json.dumps(asdict(line)) + "\n" for line in lines)
        write_text(self.folder / f"{benchmark}.jsonl", text)

    def scores(self, benchmark: str) -> dict[str, Scored]:
        """Verdicts that are stored."""
        path = self.folder / f"{benchmark}.jsonl"
        if not path.exists():
            return {}
        return {one.id: one for one in _read_lines(Scored, read_text(path), path)}


def _read_lines(kind: type[Line], text: str, path: Path) -> list[Line]:
    """The stored lines of a file; refuses one that lacks a field, or has one of another type."""
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path}, line {number}"
        try:
            lines.append(build(kind, parse_object(line, where), path))
        except UserError as error:
            raise UserError(f"{where} is damaged; remove it, and it is made again") from error
    return lines


def _read_object(path: Path) -> dict:
    try:
        return read_object(path)
    except UserError as error:
        raise UserError(f"{error}; remove the folder and begin again") from error
