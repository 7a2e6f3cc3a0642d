"""Config dataclasses as versioned JSON, and back."""

import dataclasses
import json
import types
import typing
from pathlib import Path
from typing import Any

from focus.errors import UserError
from focus.files import read_object
from focus.tasks import Task, task_class

FORMAT = 6


def to_json(config: Any) -> str:
    """A dataclass with a `task` as JSON, with the task's name and a format version."""
    values = dataclasses.asdict(config)
    values["task"] = {"name": config.task.name, **values["task"]}
    return json.dumps({"format": FORMAT, **values}, indent=1) + "\n"


def read_values(path: Path) -> dict[str, Any]:
    """The fields of a stored config, its task built; `path` is named in errors."""
    values = read_object(path)
    try:
        version = values.pop("format")
        name = values["task"].pop("name")
    except (KeyError, AttributeError, TypeError) as error:
        raise UserError(f"{path} is not a run config ({error})") from error
    if not isinstance(name, str):
        raise UserError(f"{path} is not a run config: the task's name is {name!r:.40}")
    if version != FORMAT:
        raise UserError(f"{path} has format {version!r:.40}; this version reads format {FORMAT}")
    values["task"] = build(task_class(name), values["task"], path)
    return values


def build(kind: Any, values: Any, path: Path) -> Any:
    """Rebuild a dataclass from plain JSON values; `path` is named in errors."""
    try:
        return _build(kind, values)
    except (TypeError, ValueError, LookupError) as error:
        raise UserError(f"{path} does not fit this version ({error})") from error


def _build(kind: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        hints = typing.get_type_hints(kind)
        unknown = set(value) - {f.name for f in dataclasses.fields(kind)}
        if unknown:
            raise ValueError(f"unknown field {sorted(unknown)[0]!r}")
        built = {name: _field(name, hints[name], item) for name, item in value.items()}
        return typing.cast(Any, kind)(**built)
    if isinstance(value, list):
        inner = typing.get_args(kind) if typing.get_origin(kind) is tuple else ()
        first = inner[0] if inner and not isinstance(inner[0], types.EllipsisType) else Any
        return tuple(_build(first, item) for item in value)
    return value


_PLAIN: dict[Any, tuple[type, ...]] = {
    bool: (bool,), int: (int,), float: (float, int), str: (str,), tuple: (list,)
}  # fmt: skip


def _field(name: str, kind: Any, value: Any) -> Any:
    """The value of a field; refuses one of another type, or none of its choices."""
    origin = typing.get_origin(kind)
    if origin is typing.Literal and value not in typing.get_args(kind):
        raise ValueError(f"{name} is one of {', '.join(typing.get_args(kind))}, not {value!r:.40}")
    allowed = _PLAIN.get(origin or kind)
    wrong_bool = isinstance(value, bool) and kind is not bool
    if allowed is not None and (wrong_bool or not isinstance(value, allowed)):
        raise ValueError(f"{name} is {(origin or kind).__name__}, not {value!r:.40}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{name} is a number of more than 64 bits")
    if dataclasses.is_dataclass(kind) and not isinstance(value, dict | typing.cast(type, kind)):
        raise ValueError(f"{name} is a group of settings, not {value!r:.40}")
    return _build(kind, value)


def task_of(values: dict[str, Any]) -> Task:
    """The task of a stored config."""
    return typing.cast(Task, values["task"])
