"""Whatever is wrong with a file, the answer is one line and exit code 2, and no file changes."""

import json
import shutil
from pathlib import Path

import pytest

from focus.cli import main
from focus.files import sha256
from focus.folders import MANIFEST

NAN = b'{"weight": NaN}'
DAMAGES = {
    "missing": None,
    "empty": b"",
    "cut": "cut",
    "binary": bytes(range(256)) * 4,
    "list": b"[]",
    "empty object": b"{}",
    "deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "wrong types": "wrong types",
}
STATE = ("config.json", "trainer.json", "state-1.safetensors", MANIFEST)
CHECKPOINT = ("config.json", "notes.json", "updater.safetensors", MANIFEST)
EVALUATION = ("config.json", "results.json", "predictions.jsonl", "puzzles.jsonl")
FINE = {  # what a reader may do without, or cannot tell from a whole one
    ("notes.json", "empty object"), ("notes.json", "wrong types"), ("puzzles.jsonl", "wrong types"),
    ("puzzles.jsonl", "empty"), ("puzzles.jsonl", "cut"),
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A finished run and its evaluation."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    few = "--optimizer.updates 2 --optimizer.batch 4 --solver.updater.width 32 --eval-rows 4"
    few += " --eval-every 2 --save-every 2 --data generated"
    assert main(["train", "mini-sudoku", *few.split(), "--out", str(folder)]) == 0
    words = ["eval", str(folder), "--steps", "1,2", "--limit", "4", "--out", str(folder / "eval")]
    assert main(words) == 0
    return folder


def wrong_types(value):
    """The same JSON with every leaf of another type."""
    if isinstance(value, dict):
        return {name: wrong_types(item) for name, item in value.items()}
    return 3 if isinstance(value, str | list) else "three"


def damage(path: Path, kind: str) -> None:
    """Damage a file, and let the manifest beside it agree."""
    new, raw = DAMAGES[kind], path.read_bytes()
    if kind == "cut":
        new = raw[: len(raw) // 2]
    if kind == "wrong types":
        is_object = path.suffix == ".json"
        new = json.dumps(wrong_types(json.loads(raw))).encode() if is_object else NAN + b"\n"
    if new is None:
        path.unlink()
    else:
        path.write_bytes(new)
    manifest = path.parent / MANIFEST
    if path != manifest and manifest.is_file() and path.exists():
        hashes = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**hashes, path.name: sha256(path)}))


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize(
    ("part", "name"),
    [
        *(("best", name) for name in CHECKPOINT),
        *(("last", name) for name in STATE),
        *(("eval", name) for name in EVALUATION),
    ],
)
def test_a_damaged_file_is_named_and_nothing_changes(run, tmp_path, capsys, part, name, kind):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    damage(copy / part / name, kind)
    words = {
        "best": ["eval", str(copy), "--steps", "1", "--limit", "2", "--data", "generated"],
        "last": ["train", "mini-sudoku", "--out", str(copy), "--resume"],
        "eval": ["report", str(copy / "eval"), "--out", str(tmp_path / "report")],
    }[part]
    before = contents(copy)
    capsys.readouterr()
    code = main(words)
    said = capsys.readouterr().err
    assert code == (0 if (name, kind) in FINE and code == 0 else 2), said
    if code == 2:
        lines = [line for line in said.splitlines() if line.startswith("focus ")]
        assert len(lines) == 1
        assert "Traceback" not in said
        assert contents(copy) == before
