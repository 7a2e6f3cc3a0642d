"""Folders that are whole or not there, with a manifest of hashes.

A folder is written under a temporary name and renamed; the one it replaces is removed only
afterwards, so that a kill at any moment leaves one of the two.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError

from focus.errors import UserError
from focus.files import read_object, sha256, usual_mode, write_text

MANIFEST = "manifest.json"


def cache_folder() -> Path:
    """Where what takes long to get or compute is kept: $FOCUS_CACHE, or the user's cache."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "focus"
    return Path(os.environ.get("FOCUS_CACHE") or default)


@contextlib.contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """An empty folder to fill, which replaces `folder` when the block ends without an error.

    Only what such a block wrote before is ever replaced.
    """
    check_replaceable(folder)
    fresh, stale = _beside(folder)
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        yield fresh
        files = sorted(path for path in fresh.rglob("*") if path.is_file())
        for path in files:
            usual_mode(path)
        # A README is for people, who may add to it.
        hashed = [path for path in files if path.name != "README.md"]
        hashes = {path.relative_to(fresh).as_posix(): sha256(path) for path in hashed}
        write_text(fresh / MANIFEST, json.dumps(hashes, indent=1) + "\n")
        if folder.exists():
            shutil.rmtree(stale, ignore_errors=True)
            os.replace(folder, stale)
        os.replace(fresh, folder)
        shutil.rmtree(stale, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        raise UserError(f"cannot write the folder {folder}: {error}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)  # a full disk gets its space back


def discard_unfinished(folder: Path) -> None:
    """Remove what a killed process had written of a folder, which may be large."""
    shutil.rmtree(_beside(folder)[0], ignore_errors=True)


def find_folder(folder: Path) -> Path | None:
    """The folder, or the one it was about to replace when the process was killed."""
    if not folder.name:
        return None
    _, stale = _beside(folder)
    return next((path for path in (folder, stale) if (path / MANIFEST).is_file()), None)


def _beside(folder: Path) -> tuple[Path, Path]:
    """Where a folder is written before it takes its place, and where the old one waits."""
    new, old = (folder.with_name(f".{folder.name}.focus-{end}") for end in ("new", "old"))
    return new, old


def check_replaceable(folder: Path) -> None:
    """Refuse a folder that holds anything but what `atomic_folder` wrote; a new one is fine."""
    refusal = "choose a new or empty folder"
    if folder.is_symlink():
        raise UserError(f"{folder} is a link; {refusal}")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; {refusal}")
    if folder.resolve() == Path.cwd() or folder.resolve() in Path.cwd().parents:
        raise UserError(f"{folder} is the folder that you are in, or above it; {refusal}")
    if not folder.exists():
        return
    inside = {path.relative_to(folder).as_posix() for path in folder.iterdir()}
    try:
        written = set(read_object(folder / MANIFEST))
        inside = {
            path.relative_to(folder).as_posix()
            for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()
        } - {MANIFEST, "README.md"}  # fmt: skip
    except UserError:
        written = set()
    if foreign := sorted(inside - written):
        raise UserError(f"{folder} holds {foreign[0]}, which is no part of a checkpoint; {refusal}")


def check_folder(folder: Path) -> None:
    """Refuse a folder of which a file is missing, truncated or altered, by name."""
    if not (folder / MANIFEST).is_file():
        raise UserError(f"{folder} is not a checkpoint: it has no {MANIFEST}")
    hashes = read_object(folder / MANIFEST)
    if not hashes:
        raise UserError(f"{folder / MANIFEST} is damaged: it lists no files")
    for name, expected in hashes.items():
        path = folder / name
        if not path.is_file():
            raise UserError(f"the checkpoint file {path} is missing")
        if sha256(path) != expected:
            raise UserError(f"the checkpoint file {path} is damaged: its hash has changed")
