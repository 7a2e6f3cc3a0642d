"""Soft targets: a frozen teacher's prediction for every training puzzle, computed once and cached.

A soft target is a distribution for each token, at the teacher's steps that the student's first
steps are aligned with, softened by a temperature and kept in 8 bits. The cache is named by a hash
of the teacher's weights, the puzzles and the settings, so that a stale one is never used; a file
holds a thousand puzzles, so that a kill costs little. A soft target is drawn with its puzzle and
transformed by the same symmetry.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import islice
from pathlib import Path

import torch
from jaxtyping import UInt8
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from focus.errors import UserError
from focus.files import atomic_path, sha256
from focus.folders import MANIFEST, cache_folder
from focus.model.base import evaluating
from focus.model.checkpoint import checkpoint_folder, fetch, load_model
from focus.model.solver import Solver, solver_of
from focus.tasks.base import Task
from focus.tasks.records import TensorRecord
from focus.training.config import TeacherConfig

_BLOCK = 1024  # puzzles of a file, and of a batch on a GPU
_BATCH_ON_A_CPU = 16  # activations stay near the cache; divides a block
_LAST = 16  # steps of the teacher
WITHOUT_TEACHER = '--teacher.checkpoint "" trains without a teacher'


def teacher_steps(config: TeacherConfig) -> list[int]:
    """The teacher's step for each of the student's first steps."""
    student = range(1, config.steps + 1)
    return [min(_LAST, 4 * j) if config.align == "fourth" else j for j in student]


def check_teacher(task: Task, config: TeacherConfig) -> None:
    """Refuse a teacher that is missing or damaged, or that solves other puzzles."""
    _load(_folder(config), task, config, "cpu")


def _folder(config: TeacherConfig) -> Path:
    try:
        return checkpoint_folder(fetch(config.checkpoint))
    except UserError as error:
        raise UserError(f"teacher.checkpoint: {error}; {WITHOUT_TEACHER}") from error


def soft_targets(
    task: Task, rows: TensorRecord, config: TeacherConfig, device: str,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> UInt8[Tensor, "rows variants steps tokens classes"]:  # fmt: skip
    """The teacher's soft targets of packed puzzles, from the cache where they are there.

    `progress` is told how far it has come where puzzles are not in the cache.
    """
    folder = _folder(config)
    cache = cache_folder() / "soft_targets" / _name(folder, rows, config, (task.cells, task.tokens))
    variants, blocks = task.variants(rows), []
    teacher: Solver | None = None
    size = _BATCH_ON_A_CPU if device == "cpu" else _BLOCK
    for number, variant in enumerate(variants):
        for begin in range(0, len(rows), _BLOCK):
            path = cache / f"{number}-{begin}.safetensors"
            block = _cached(path)
            if block is None:
                teacher = teacher or _load(folder, task, config, device)
                batches = []
                for first in range(begin, min(begin + _BLOCK, len(rows)), size):
                    progress(number * len(rows) + first, len(variants) * len(rows))
                    start = max(0, min(first, len(rows) - size))  # it is compiled for one size
                    batch = variant[start : start + size].to(device)
                    batches.append(_predict(teacher, batch, config)[first - start :])
                block = torch.cat(batches).cpu()
                with atomic_path(path) as fresh:
                    save_file({"soft_targets": block.contiguous()}, fresh)
            blocks.append(block)
    every = torch.cat(blocks).unflatten(0, (len(variants), len(rows)))
    return every.transpose(0, 1).contiguous().to(device)


def _cached(path: Path) -> Tensor | None:
    """Stored soft targets; None where there are none, or where they were cut short."""
    if not path.is_file():
        return None
    try:
        return load_file(path)["soft_targets"]
    except (SafetensorError, KeyError):
        path.unlink(missing_ok=True)
        return None
    except OSError as error:
        raise UserError(f"cannot read the teacher's soft targets {path}: {error}") from error


def _load(folder: Path, task: Task, config: TeacherConfig, device: str) -> Solver:
    """The teacher; one of other puzzles is refused."""
    teacher = solver_of(load_model(folder), f"teacher.checkpoint: {config.checkpoint}").to(device)
    ours, theirs = (
        f"{one.name} with {one.cells:,} cells in {one.tokens} tokens"
        for one in (task, teacher.task)
    )
    if ours != theirs:
        raise UserError(
            f"teacher.checkpoint: {config.checkpoint} solves {theirs}, this run {ours}; "
            f"{WITHOUT_TEACHER}"
        )
    if device != "cpu":
        teacher.compile_parts()
    return teacher


@torch.no_grad()
def _predict(
    teacher: Solver, rows: TensorRecord, config: TeacherConfig
) -> UInt8[Tensor, "rows steps tokens classes"]:
    x, _ = teacher.task.unpack(rows)
    wanted = teacher_steps(config)
    with evaluating(teacher):
        answers = [state.z for state in islice(teacher.rollout(x), max(wanted))]
    logits = torch.stack([teacher.task.class_logits(answers[t - 1], x) for t in wanted], 1)
    shares = (logits.float() / config.temperature).softmax(-1)
    return (shares * 255).round().to(torch.uint8)


def _name(folder: Path, rows: TensorRecord, config: TeacherConfig, sizes: Sequence[int]) -> str:
    digest = hashlib.sha256(sha256(folder / MANIFEST).encode())
    settings = (config.temperature, config.steps, config.align, _BLOCK, *sizes)
    digest.update(repr(settings).encode())
    for field in fields(rows):
        digest.update(getattr(rows, field.name).cpu().numpy().tobytes())
    return digest.hexdigest()[:32]
