"""The complete training state as a folder, in two precisions.

*exact* continues bit for bit on the same machine. *portable* is small enough to move between
machines (`portable_state.py`). Files hold about 15 MiB.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from focus.errors import UserError
from focus.files import check_fields, read_object, write_text
from focus.folders import atomic_folder, check_folder
from focus.model.checkpoint import read_tensors
from focus.serialization import to_json
from focus.training.config import RunConfig, first_difference, read_config
from focus.training.optimizer import Optimizer
from focus.training.portable_state import Tensors, reduce_state, restore_state

_SHARD = 15 * 2**20  # bytes
_OTHERS = ("weights", "average", "metric_sums", "carried")  # what is no moment


def optimizer_tensors(optimizer: Optimizer) -> Tensors:
    """The moments by the names of the weights, whichever of them an optimizer moves as one."""
    vector = optimizer.vector
    moments: Tensors = {}
    states = [each.state for part in optimizer.parts for each in part.optimizers]
    for parameter, state in (item for one in states for item in one.items()):
        start = int(parameter.storage_offset() - vector.values.storage_offset())
        names = vector.split(parameter.flatten(), start)
        for key, value in state.items():
            own = dict.fromkeys(names, value)  # a single number, the step, is that of each
            if value.ndim:
                own = vector.split(value.flatten(), start)
            moments |= {f"{key}/{name}": part for name, part in own.items()}
    return moments


def restore_optimizer(optimizer: Optimizer, moments: Tensors) -> None:
    """Put stored moments back."""
    own = optimizer_tensors(optimizer)
    if strange := sorted(set(moments) ^ set(own)):
        raise UserError(f"the stored moments are of another optimizer ({strange[0]})")
    with torch.no_grad():
        for name, value in moments.items():
            own[name].copy_(value)


def save_state(
    folder: Path, config: RunConfig, weights: Tensors, average: Tensors, moments: Tensors,
    metric_sums: list[Tensor], counters: dict, carried: Tensors,
) -> None:  # fmt: skip
    """Write the state; `counters` are the numbers that go with it.

    A portable state leaves out what is carried from update to update: those puzzles begin anew.
    """
    tensors = {f"weights/{name}": value for name, value in weights.items()}
    tensors |= {f"metric_sums/{number}": value for number, value in enumerate(metric_sums)}
    if config.optimizer.ema:
        tensors |= {f"average/{name}": value for name, value in average.items()}
    tensors |= moments
    if config.portable:
        tensors = reduce_state(tensors)
    else:
        tensors |= {f"carried/{name}": value for name, value in carried.items()}
    with atomic_folder(folder) as fresh:
        for number, shard in enumerate(_shards(tensors), 1):
            save_file(shard, fresh / f"state-{number}.safetensors")
        write_text(fresh / "config.json", to_json(config))
        write_text(fresh / "trainer.json", json.dumps(counters) + "\n")


def load_state(
    folder: Path, config: RunConfig, device: str
) -> tuple[Tensors, Tensors, Tensors, list[Tensor], dict, Tensors]:
    """Weights, average, moments, metric_sums, counters and what is carried, of a checked folder."""
    check_folder(folder)
    stored = read_config(folder / "config.json")
    other = first_difference(stored, config)
    if other is not None:
        raise UserError(f"{folder} belongs to a run with another config: --{other} differs")
    tensors: Tensors = {}
    for path in sorted(folder.glob("state-*.safetensors")):
        tensors |= read_tensors(path, device)
    if stored.portable:
        tensors = restore_state(tensors, folder)

    def part(name: str) -> Tensors:
        head = f"{name}/"
        return {key[len(head) :]: value for key, value in tensors.items() if key.startswith(head)}

    weights = part("weights")
    average = part("average") or {name: value.clone() for name, value in weights.items()}
    moments = {key: value for key, value in tensors.items() if key.split("/")[0] not in _OTHERS}
    metric_sums = [value for _, value in sorted(part("metric_sums").items())]
    path = folder / "trainer.json"
    counters = {"best_energy": None, "evals_without_gain": 0, **read_object(path)}
    number = int | float
    kinds = {"update": int, "best": number, "seconds": number, "evals_without_gain": int}
    check_fields(counters, {**kinds, "best_energy": number | None}, str(path))
    if counters["update"] < 0:
        raise UserError(f"{path} is damaged: its update is {counters['update']}")
    return weights, average, moments, metric_sums, counters, part("carried")


def _shards(tensors: Tensors) -> list[Tensors]:
    """Groups of tensors of at most `_SHARD` bytes; a larger tensor stands alone."""
    shards: list[Tensors] = [{}]
    room = _SHARD
    for name, value in tensors.items():
        size = value.numel() * value.element_size()
        if size > room and shards[-1]:
            shards.append({})
            room = _SHARD
        # Copied: a file holds no tensors that share memory.
        shards[-1][name] = value.detach().to(
            "cpu", copy=True, memory_format=torch.contiguous_format
        )
        room -= size
    return shards
