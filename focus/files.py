"""Files that are whole or not there: writes go to a temporary name and are renamed."""

import contextlib
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from focus.errors import UserError

_LARGEST_OBJECT = 64 * 2**20  # bytes


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that replaces it when the block ends without an error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        usual_mode(temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def usual_mode(path: Path) -> None:
    """Give a file the mode that a plain open would; some libraries keep theirs private."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(0o666 & ~umask)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def json_text(value: Any, indent: int | None = None) -> str:
    """A value as JSON, which knows no NaN: what is not finite is null."""
    return json.dumps(_finite(value), indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object of a file from anywhere; one line says what is wrong with it."""
    with contextlib.suppress(OSError):
        if path.stat().st_size > _LARGEST_OBJECT:
            raise UserError(
                f"{path} is too large: more than {_LARGEST_OBJECT // 2**20} MiB of JSON"
            )
    return parse_object(read_text(path), str(path))


def read_text(path: Path) -> str:
    """The text of a file from anywhere; one line says why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is damaged: it is not text") from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error


def parse_object(text: str, where: str) -> dict[str, Any]:
    """The JSON object that a text holds; `where` names it in errors."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise UserError(f"{where} is damaged: {reason}") from error
    if not isinstance(value, dict):
        raise UserError(f"{where} is damaged: it is not a JSON object")
    return value


def check_fields(row: dict[str, Any], kinds: dict[str, Any], where: str) -> None:
    """Refuse an object that lacks a field, or has one of another type or a number like NaN."""
    for name, kind in kinds.items():
        value = row.get(name)
        fits = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
        if not fits or (isinstance(value, float) and not math.isfinite(value)):
            raise UserError(f"{where} is damaged: its {name} is {value!r:.40}")


def check_writable(folder: Path) -> None:
    """Make the folder, and refuse it if no file can be made in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror or error}") from error


def sha256(path: Path) -> str:
    """Hash of a file's content."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Refuse if another process is in the block for the same folder; ends with the process."""
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror or error}") from error
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UserError(
                    f"another process is writing into {folder}; wait for it, or end it"
                ) from error
        yield
    finally:
        os.close(lock)
