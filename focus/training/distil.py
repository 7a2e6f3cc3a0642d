"""Distillation: a frozen teacher's opinion of every training puzzle, computed once and cached.

An opinion is a distribution for each token, at the teacher's steps that the student's first steps
are aligned with, softened by a temperature and kept in 8 bits. The cache is named by a hash of the
teacher's weights, the puzzles and the settings, so that a stale one is never used; each stored
symmetry has a file, so that a kill costs little. An opinion is drawn with its puzzle and turned by
the same symmetry.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path

import torch
from jaxtyping import Float, UInt8
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from focus.errors import UserError
from focus.files import atomic_path, sha256
from focus.folders import MANIFEST
from focus.model.checkpoint import checkpoint_folder, fetch, load_model
from focus.model.pretrained import cache_folder
from focus.model.solver import Solver, evaluating
from focus.tasks.base import Task
from focus.tasks.records import Problem, TensorRecord
from focus.training.config import TeacherConfig

_BATCH, _BATCH_ON_A_CPU = 256, 16  # puzzles at a time; there activations should stay near the cache
_LAST = 16  # steps of the teacher


def teacher_steps(config: TeacherConfig) -> list[int]:
    """The teacher's step for each of the student's first steps."""
    student = range(1, config.steps + 1)
    return {
        "fourth": [min(_LAST, 4 * j) for j in student],
        "index": list(student),
        "final": [_LAST for _ in student],
    }[config.align]


def opinions(
    task: Task, rows: TensorRecord, config: TeacherConfig, device: str,
    asked: Callable[[int, int], None] = lambda done, total: None,
) -> UInt8[Tensor, "rows variants steps tokens classes"]:  # fmt: skip
    """The teacher's opinions of packed puzzles, from the cache where they are known.

    `asked` is told how many puzzles a teacher that is not in the cache has been asked about.
    """
    folder = checkpoint_folder(fetch(config.checkpoint))
    name = _name(folder, rows, config, (task.cells, task.tokens))
    variants, found = task.variants(rows), []
    teacher: Solver | None = None
    size = _BATCH_ON_A_CPU if device == "cpu" else _BATCH
    for number, variant in enumerate(variants):
        path = cache_folder() / "opinions" / f"{name}-{number}.safetensors"
        part = _known(path)
        if part is None:
            teacher = teacher or _load(folder, task, config, device)
            asked_before, parts = number * len(rows), []
            for first in range(0, len(rows), size):
                asked(asked_before + first, len(variants) * len(rows))
                parts.append(_ask(teacher, variant[first : first + size].to(device), config))
            part = torch.cat(parts).cpu()
            with atomic_path(path) as fresh:
                save_file({"opinions": part.contiguous()}, fresh)
        found.append(part)
    return torch.stack(found, 1).to(device)


def _known(path: Path) -> Tensor | None:
    """Stored opinions; None where there are none, or where they were cut short."""
    if not path.is_file():
        return None
    try:
        return load_file(path)["opinions"]
    except (SafetensorError, KeyError):
        path.unlink(missing_ok=True)
        return None
    except OSError as error:
        raise UserError(f"cannot read the teacher's opinions {path}: {error}") from error


def _load(folder: Path, task: Task, config: TeacherConfig, device: str) -> Solver:
    """The teacher; one of other puzzles is refused."""
    teacher = load_model(folder).to(device)
    if not isinstance(teacher, Solver):
        raise UserError(f"teacher.checkpoint: {config.checkpoint} writes its answer")
    ours, theirs = (
        f"{one.name} with {one.cells:,} cells in {one.tokens} tokens"
        for one in (task, teacher.task)
    )
    if ours != theirs:
        raise UserError(f"teacher.checkpoint: {config.checkpoint} solves {theirs}, this run {ours}")
    return teacher


@torch.no_grad()
def _ask(
    teacher: Solver, rows: TensorRecord, config: TeacherConfig
) -> UInt8[Tensor, "rows steps tokens classes"]:
    x, _ = teacher.task.unpack(rows)
    wanted = teacher_steps(config)
    with evaluating(teacher):
        rollout = teacher.roll(
            teacher.updater.initial(x), teacher.encode(x), x, max(wanted), keep=set(wanted)
        )
    logits = torch.stack([teacher.task.opinion(rollout.kept[step].z, x) for step in wanted], 1)
    shares = (logits.float() / config.temperature).softmax(-1)
    return (shares * 255).round().to(torch.uint8)


def _name(folder: Path, rows: TensorRecord, config: TeacherConfig, sizes: Sequence[int]) -> str:
    known = hashlib.sha256(sha256(folder / MANIFEST).encode())
    known.update(repr((config.temperature, config.steps, config.align, *sizes)).encode())
    for field in fields(rows):
        known.update(getattr(rows, field.name).cpu().numpy().tobytes())
    return known.hexdigest()[:32]


def distillation_loss(
    task: Task, answers: Float[Tensor, "steps batch tokens channels"], x: Problem,
    taught: UInt8[Tensor, "batch taught tokens classes"], temperature: float,
) -> Float[Tensor, " batch"]:  # fmt: skip
    """KL(teacher || student) T^2 over the open tokens, mean over the aligned steps."""
    shares = taught.transpose(0, 1).float()
    shares = shares / shares.sum(-1, keepdim=True).clamp(min=1)
    count = min(len(shares), len(answers))
    log_q = (task.opinion(answers[:count], x).float() / temperature).log_softmax(-1)
    shares = shares[:count]
    per_token = (torch.xlogy(shares, shares) - shares * log_q).sum(-1)
    wanted = task.open_tokens(x)
    per_step = (per_token * wanted).sum(-1) / wanted.sum(-1).clamp(min=1)
    return per_step.mean(0) * temperature**2
