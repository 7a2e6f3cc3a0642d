"""Checkpoints: folders that are whole or not there, with a manifest of hashes.

Weights are safetensors, everything else JSON; nothing is unpickled. A folder is written under a
temporary name and renamed; the one it replaces is removed only afterwards.
"""

import json
import os
import shutil
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from focus.errors import UserError
from focus.files import sha256, write_text
from focus.model.solver import Solver
from focus.training.config import RunConfig, from_json, to_json

MANIFEST = "manifest.json"


def trained_weights(solver: nn.Module) -> dict[str, Tensor]:
    """The parameters that training changes, by name; frozen ones come from their own source."""
    return {name: p.detach() for name, p in solver.named_parameters() if p.requires_grad}


def write_folder(
    folder: Path, tensors: dict[str, dict[str, Tensor]], texts: dict[str, str]
) -> None:
    """Write files of tensors and of text, with their manifest, as one folder."""
    fresh = folder.with_name(f".{folder.name}.new")
    stale = folder.with_name(f".{folder.name}.old")
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        for name, values in tensors.items():
            save_file({k: v.contiguous().cpu() for k, v in values.items()}, fresh / name)
        for name, text in texts.items():
            write_text(fresh / name, text)
        hashes = {path.name: sha256(path) for path in sorted(fresh.iterdir())}
        write_text(fresh / MANIFEST, json.dumps(hashes, indent=1) + "\n")
        if folder.exists():
            shutil.rmtree(stale, ignore_errors=True)
            os.replace(folder, stale)
        os.replace(fresh, folder)
        shutil.rmtree(stale, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        raise UserError(f"cannot write the checkpoint {folder}: {error}") from error


def find_folder(folder: Path) -> Path | None:
    """The checkpoint, or the one it was about to replace when the process was killed."""
    stale = folder.with_name(f".{folder.name}.old")
    return next((path for path in (folder, stale) if (path / MANIFEST).is_file()), None)


def check_folder(folder: Path) -> None:
    """Refuse a checkpoint of which a file is missing, truncated or altered, by name."""
    try:
        hashes = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{folder} is no checkpoint: it has no {MANIFEST}") from error
    except ValueError as error:
        raise UserError(f"{folder / MANIFEST} is damaged ({error})") from error
    for name, expected in hashes.items():
        path = folder / name
        if not path.is_file():
            raise UserError(f"the checkpoint file {path} is missing")
        if sha256(path) != expected:
            raise UserError(f"the checkpoint file {path} is damaged: its hash has changed")


def load_weights(solver: nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    """Put stored weights into a solver of the same config."""
    own = dict(solver.named_parameters())
    wanted = {name for name, p in own.items() if p.requires_grad}
    if wanted != set(weights):
        odd = sorted(wanted ^ set(weights))[0]
        raise UserError(f"{path} does not fit the config beside it: parameter {odd}")
    with torch.no_grad():
        for name, value in weights.items():
            if own[name].shape != value.shape:
                raise UserError(
                    f"{path}: parameter {name} is {tuple(value.shape)}, "
                    f"the config needs {tuple(own[name].shape)}"
                )
            own[name].copy_(value)


def save_solver(solver: Solver, config: RunConfig, folder: Path, notes: dict) -> None:
    """A checkpoint to use: trained weights, config, and what is known of it."""
    write_folder(
        folder,
        {"solver.safetensors": trained_weights(solver)},
        {"config.json": to_json(config), "notes.json": json.dumps(notes, indent=1) + "\n"},
    )


def load_solver(folder: Path) -> tuple[Solver, RunConfig]:
    """The solver of a checkpoint folder, or of the best checkpoint of a run's folder."""
    if not folder.is_dir():
        raise UserError(f"no such checkpoint: {folder}; focus train RECIPE --out DIR makes one")
    best = find_folder(folder / "best")
    if not (folder / MANIFEST).is_file() and best is not None:
        folder = best
    check_folder(folder)
    config = from_json((folder / "config.json").read_text(encoding="utf-8"), folder / "config.json")
    solver = Solver(config.task, config.solver)
    path = folder / "solver.safetensors"
    load_weights(solver, load_file(path), path)
    return solver.eval(), config
