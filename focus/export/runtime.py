"""onnxruntime-web, which computes on the page: three files of an npm package, got once and checked.

They are not in this repository. Whatever they come from, their hashes are the ones below.
"""

import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path

from focus.errors import UserError
from focus.files import sha256
from focus.folders import atomic_folder, cache_folder, find_folder

VERSION = "1.22.0"  # later ones are 0.7 to 2.3 MB larger
FILES = {
    "ort.wasm.min.mjs":
        "6ef726f355b791129f7ddf3f62e7877a16b9b777abe87004b8ab306e6b9cf265",
    "ort-wasm-simd-threaded.mjs":
        "30dd851d9c00622940500f71ddd2ff8820c5cb65270816080175b958705385a8",
    "ort-wasm-simd-threaded.wasm":
        "71aef04959c5c1b6de461b6538e2058e306610034a85aad2742d0c7fd4533fe4",
}  # fmt: skip
_PACKAGE = f"onnxruntime-web@{VERSION}"
_LARGEST = 64 * 2**20  # bytes of a file, and of the package
_SECONDS = 60


def find_runtime(given: str | None = None, say: Callable[[str], None] = print) -> Path:
    """A folder that holds the files: from the cache, what the user names, or the npm registry."""
    if given is None:
        cached = find_folder(cache_folder() / f"onnxruntime-web-{VERSION}")
        if cached is not None and _fault(cached) is None:
            return cached
        say(f"fetching {_PACKAGE} from the npm registry")
        with tempfile.TemporaryDirectory() as temporary:
            return _keep(_unpack(_download(Path(temporary)), Path(temporary)), "the npm registry")
    path = Path(given).expanduser()
    if path.is_file():
        with tempfile.TemporaryDirectory() as temporary:
            return _keep(_unpack(path, Path(temporary)), given)
    for folder in (path, path / "dist", path / "package" / "dist"):
        if all((folder / name).is_file() for name in FILES):
            return _checked(folder, given)
    raise UserError(
        f"{given} holds no {next(iter(FILES))}; name the folder or the .tgz of {_PACKAGE}"
    )


def _keep(folder: Path, source: str) -> Path:
    """Copy the checked files into the cache."""
    _checked(folder, source)
    target = cache_folder() / f"onnxruntime-web-{VERSION}"
    with atomic_folder(target) as fresh:
        for name in FILES:
            shutil.copyfile(folder / name, fresh / name)
    return target


def _checked(folder: Path, source: str) -> Path:
    if (name := _fault(folder)) is not None:
        raise UserError(f"{name} of {source} is not that of {_PACKAGE}: its hash is another one")
    return folder


def _fault(folder: Path) -> str | None:
    """The first file that is missing or altered."""
    for name, expected in FILES.items():
        path = folder / name
        if not path.is_file() or sha256(path) != expected:
            return name
    return None


def _download(folder: Path) -> Path:
    """The package as npm gets it, with its settings; over HTTPS where there is no npm."""
    reason = "there is no npm"
    if npm := shutil.which("npm"):
        words = [npm, "pack", "--silent", "--pack-destination", str(folder), _PACKAGE]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        if packed := list(folder.glob("*.tgz")):
            return packed[0]
        reason = (done.stderr.strip().splitlines() or ["npm gave no reason"])[-1]
    address = os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/")
    file = folder / "package.tgz"
    try:
        where = f"{address}/onnxruntime-web/-/onnxruntime-web-{VERSION}.tgz"
        with urllib.request.urlopen(where, timeout=_SECONDS) as answer, open(file, "wb") as copy:
            copy.write(answer.read(_LARGEST))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{_PACKAGE} cannot be had from the npm registry ({reason}; {error}); fetch it where "
            f"there is one (npm pack {_PACKAGE}) and name it: --runtime FILE.tgz"
        ) from error
    return file


def _unpack(package: Path, folder: Path) -> Path:
    """Take the files out of the package; nothing else of it is written."""
    try:
        with tarfile.open(package) as archive:
            for name in FILES:
                inside = archive.extractfile(f"package/dist/{name}")
                if inside is None:
                    raise KeyError(name)
                (folder / name).write_bytes(inside.read(_LARGEST))
    except (tarfile.TarError, KeyError, OSError, EOFError) as error:
        raise UserError(f"{package} is not the package {_PACKAGE}: {error}") from error
    return folder
