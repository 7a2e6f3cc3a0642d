"""Completions on disk: one line each, appended batch by batch, so that a killed run goes on.

OUT/VARIANT/settings.json            what the completions depend on
OUT/VARIANT/BENCHMARK.written.jsonl  completions as they come
OUT/VARIANT/BENCHMARK.jsonl          completions with extraction and verdict
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from focus.errors import UserError
from focus.files import read_object, write_text


@dataclass(frozen=True)
class Written:
    """A stored completion."""

    id: str
    completion: str
    tokens: int
    finished: bool  # ended by itself, not by the cap


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


class Store:
    """The files of one variant."""

    def __init__(self, folder: Path):
        self.folder = folder

    def claim(self, settings: dict, versions: dict[str, int]) -> None:
        """Begin, or go on where settings and versions of benchmarks are the stored ones."""
        path = self.folder / "settings.json"
        begun = path.exists() and any(self.folder.glob("*.written.jsonl"))
        stored_settings = _read_object(path) if begun else settings
        stored = stored_settings.get("versions", {})
        for name, version in versions.items():
            if stored.get(name, version) != version:
                raise UserError(
                    f"{self.folder} has completions of version {stored[name]} of {name}, now it is "
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
        """The completions so far; a last line that a kill has torn is cut off."""
        path = self.folder / f"{benchmark}.written.jsonl"
        if not path.exists():
            return {}
        raw = path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        if len(whole) < len(raw):
            with open(path, "r+b") as stream:
                stream.truncate(len(whole))
        completions = {}
        for number, line in enumerate(whole.decode("utf-8").splitlines(), 1):
            try:
                one = Written(**json.loads(line))
            except (ValueError, TypeError, RecursionError) as error:
                raise UserError(f"{path}, line {number} is damaged; remove the line") from error
            completions[one.id] = one
        return completions

    def append(self, benchmark: str, lines: list[Written]) -> None:
        """Add a batch; it is on the disk when this returns."""
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
        try:
            lines = [Scored(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
        except (ValueError, TypeError, RecursionError) as error:
            raise UserError(f"{path} is damaged; remove it, and it is made again") from error
        return {line.id: line for line in lines}


def _read_object(path: Path) -> dict:
    try:
        return read_object(path)
    except UserError as error:
        raise UserError(f"{error}; remove the folder and begin again") from error
