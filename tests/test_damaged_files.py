"""Whatever is wrong with a file, the answer is one line and exit code 2, and no file changes."""

import contextlib
import io
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from focus.cli import main
from focus.files import sha256
from focus.folders import MANIFEST
from tests.conftest import ASSETS

GRIDS = ("1234341221434321", "3412123443212143", "4321214312343412", "2143432134121234")
DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000


@dataclass(frozen=True)
class House:
    """A run with its checkpoint and evaluation, data, a language model, stored completions."""

    root: Path
    files: tuple[str, ...]  # what may be damaged

    def commands(self, name: str) -> list[list[str]]:
        """The commands that read a file; what they write goes to the folder out."""
        root, out = self.root, str(self.root / "out")
        run, data = str(root / "run"), str(root / "data")
        solve = ["eval", run, "--steps", "1", "--limit", "2", "--data", f"{data}/puzzles"]
        if name.startswith("run/eval/"):
            return [["report", run, "--out", out]]
        if name.startswith(("run/best/", "lm/")):
            return [[*solve, "--out", out]]
        if name.startswith("run/"):
            return [["train", "mini-sudoku", "--out", run, "--resume"]]
        if name.startswith("data/puzzles/"):
            audit = ["data", "audit", "--data", f"{data}/puzzles", "--task", "sudoku"]
            show = ["data", "show", "--data", f"{data}/puzzles", "--side", "4", "--json"]
            return [solve, show, [*audit, "--workers", "1"]]
        gold = ["transfer", "gold", "--only-generate", "--data", data, "--limit", "2"]
        stored = str(root / "transfer") if name.startswith("transfer/") else out
        return [[*gold, "--benchmarks", "math,aime25,cruxeval-o", "--out", stored]]

    def contents(self, words: Sequence[str] = ()) -> dict[str, bytes | str]:
        """Every file and link, but for where a command was told to write completions or results."""
        written = ("out", "transfer") if "transfer" in words else ("out",)
        paths = [
            p for p in self.root.rglob("*") if p.relative_to(self.root).parts[0] not in written
        ]
        return {
            str(path): str(path.readlink()) if path.is_symlink() else path.read_bytes()
            for path in paths if path.is_symlink() or path.is_file()
        }  # fmt: skip


def make_language_model(folder: Path) -> None:
    """A language model with random weights that reads characters."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = {chr(code): code - 32 for code in range(32, 127)} | {"\n": 95, "</s>": 96}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="</s>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>").save_pretrained(folder)
    sizes: dict[str, Any] = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1)
    heads: dict[str, Any] = dict(num_attention_heads=1, num_key_value_heads=1)
    ends: dict[str, Any] = dict(bos_token_id=None, eos_token_id=96, pad_token_id=None)
    config = LlamaConfig(vocab_size=97, max_position_embeddings=256, **sizes, **heads, **ends)
    LlamaForCausalLM(config).save_pretrained(folder)


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> House:
    root = tmp_path_factory.mktemp("house")
    make_language_model(root / "lm")
    for part in ("math", "aime", "cruxeval"):
        shutil.copytree(ASSETS / "data" / part, root / "data" / part)
    (root / "data" / "puzzles").mkdir()
    for split, grids in (("train", GRIDS[:2]), ("validation", GRIDS[2:3]), ("test", GRIDS[2:])):
        rows = [f"{grid[:9]}.......,{grid}" for grid in grids]
        (root / "data" / "puzzles" / f"{split}.csv").write_text(
            "\n".join(["question,answer", *rows, ""])
        )
    (root / "outside").mkdir()
    (root / "outside" / "secret.txt").write_text("not to be read, not to be written")
    few = "--optimizer.updates 2 --optimizer.batch 4 --solver.updater.width 32 --eval-rows 4"
    few += f" --eval-every 2 --save-every 2 --solver.backbone.rank 1 --data {root}/data/puzzles"
    run = str(root / "run")
    words = ["train", "mini-sudoku", *few.split(), "--solver.backbone.name", str(root / "lm")]
    assert main([*words, "--out", run]) == 0
    words = ["eval", run, "--steps", "1,2", "--limit", "2", "--out", f"{run}/eval"]
    assert main(words) == 0
    words = ["transfer", "gold", "--only-generate", "--data", str(root / "data"), "--limit", "1"]
    words += ["--benchmarks", "math,aime25,cruxeval-o", "--out", str(root / "transfer")]
    assert main(words) == 0
    every = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    unread = ("tensorboard", "README.md", ".lock", ".saved", "outside")
    return House(root, tuple(sorted(n for n in every if not any(part in n for part in unread))))


# ------------------------------------------------------------------- damages
def cut(raw: bytes, share: float) -> bytes:
    return raw[: int(share * len(raw))]


def flip(raw: bytes, places: list[float], byte: int) -> bytes:
    changed = bytearray(raw)
    for place in places if raw else ():
        changed[int(place * (len(raw) - 1))] ^= byte
    return bytes(changed)


def set_leaf(raw: bytes, number: int, value: Any) -> bytes:
    """JSON, or lines of it, with another value at one of its places; other files as they were."""
    lines = raw.decode("utf-8", "replace").splitlines()
    try:
        whole = json.loads(raw)
    except ValueError:
        try:
            row = number % max(1, len(lines))
            lines[row] = json.dumps(_set(json.loads(lines[row]), number, value))
        except (ValueError, LookupError):
            return raw
        return "\n".join([*lines, ""]).encode()
    return json.dumps(_set(whole, number, value)).encode()


def _set(node: Any, number: int, value: Any) -> Any:
    places = list(_places(node))
    if not places:
        return value
    *path, last = places[number % len(places)]
    parent = node
    for key in path:
        parent = parent[key]
    parent[last] = value
    return node


def _places(node: Any, above: tuple = ()) -> Iterator[tuple]:
    if isinstance(node, dict | list):
        for key, item in node.items() if isinstance(node, dict) else enumerate(node):
            yield (*above, key)
            yield from _places(item, (*above, key))


VALUES = st.sampled_from([
    None, True, "", "three", "../../x", "NaN", -1, 0, 3, 2.5, 10**6, 2**70, 1e308, float("nan"),
    float("inf"), [], [1], [[]], {}, {"a": 1}, [None], "x" * 5_000, ["x"] * 5_000,
])  # fmt: skip
SHARES = st.floats(0, 1, exclude_max=True)
# A function from the old content to the new one, or what takes the place of the file.
DAMAGES = st.one_of(
    st.builds(lambda share: lambda raw: cut(raw, share), SHARES),
    st.builds(
        lambda places, byte: lambda raw: flip(raw, places, byte),
        st.lists(SHARES, min_size=1, max_size=8), st.integers(1, 255),
    ),
    st.builds(
        lambda number, value: lambda raw: set_leaf(raw, number, value),
        st.integers(0, 10_000), VALUES,
    ),
    st.binary(max_size=300).map(lambda new: lambda raw: new),
    st.sampled_from([b"", b"{}", b"[]", b"null", b"3", b"{}\n[]\n", DEEP, b"\xff\xfe"])
    .map(lambda new: lambda raw: new),
    st.sampled_from(["missing", "a folder", "link:outside", "link:outside/secret.txt",
                     "link:nowhere", "link:itself"]),
)  # fmt: skip


@contextlib.contextmanager
def damaged(house: House, name: str, damage: Any, agrees: bool) -> Iterator[None]:
    """The house with a damaged file; `agrees` says whether the manifest beside it does."""
    path = house.root / name
    raw, manifest = path.read_bytes(), path.parent / MANIFEST
    old_manifest = manifest.read_bytes() if manifest.is_file() else None
    path.unlink()
    try:
        if callable(damage):
            path.write_bytes(damage(raw))
            if agrees and old_manifest is not None and path != manifest:
                hashes = json.loads(old_manifest)
                manifest.write_text(json.dumps({**hashes, path.name: sha256(path)}))
        elif damage == "a folder":
            path.mkdir()
        elif damage.startswith("link:"):
            target = damage.removeprefix("link:")
            path.symlink_to(path if target == "itself" else house.root / target)
        yield
    finally:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.write_bytes(raw)
        if old_manifest is not None:
            manifest.write_bytes(old_manifest)


def answer(words: list[str]) -> tuple[int, str]:
    """Exit code and standard error of a command."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        return main(words), said.getvalue()


def check(house: House, name: str, damage: Any, agrees: bool) -> None:
    whole = house.contents()
    with damaged(house, name, damage, agrees):
        for words in house.commands(name):
            before = house.contents(words)
            code, said = answer(words)
            assert code in (0, 2), (words, said)
            assert "Traceback" not in said, words
            if code == 2:
                assert len(said.splitlines()) == 1, (words, said)
                assert said.startswith(f"focus {words[0]}"), words
                assert house.contents(words) == before, words
    for path in house.contents().keys() - whole.keys():
        Path(path).unlink()
    for path, content in whole.items():  # what a command that ended well has written in its run
        if isinstance(content, bytes) and Path(path).read_bytes() != content:
            assert words[0] in ("train", "transfer"), (words, path)
            Path(path).write_bytes(content)
    shutil.rmtree(house.root / "out", ignore_errors=True)


@pytest.fixture
def without_figures(monkeypatch):
    """A report that reads all that figures need, and draws nothing: drawing takes seconds."""
    import focus.report.figures as figures

    def read_only(runs, folder):
        for run in runs:
            _ = run.curve, run.puzzles, run.answers, run.energies, run.exact
        return {}, []

    monkeypatch.setattr(figures, "all_figures", read_only)


FEW = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
CASES = {"number": st.integers(0, 10_000), "damage": DAMAGES, "agrees": st.booleans()}


@FEW
@given(**CASES)
def test_damaged_files_are_one_line_and_nothing_changes(
    house, without_figures, number, damage, agrees
):
    check(house, house.files[number % len(house.files)], damage, agrees)


@pytest.mark.long
@settings(FEW, max_examples=5_000, derandomize=False)
@given(**CASES)
def test_thousands_of_damaged_files(house, without_figures, number, damage, agrees):
    check(house, house.files[number % len(house.files)], damage, agrees)
