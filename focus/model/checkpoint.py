"""Checkpoints to use: a peft adapter folder, the other trained weights, config, model card.

    DIR/config.json                    task, sizes, and the run that trained it
    DIR/updater.safetensors            updater and G_psi (all that is trained but the adapter)
    DIR/adapter/                       what plain peft loads into a causal language model
    DIR/notes.json, README.md          what is known of it
    DIR/manifest.json                  hashes; an altered file is refused by name

Weights are safetensors, everything else JSON or text; nothing is unpickled.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from focus.errors import UserError, did_you_mean, first_line
from focus.files import read_object, read_text, write_text
from focus.folders import MANIFEST, atomic_folder, check_folder, find_folder
from focus.hub import HUB_OWNER, reachable_hub
from focus.model.backbone import adapter_config, adapter_tensors
from focus.model.base import Model, SolverConfig
from focus.model.card import model_card
from focus.model.solver import Solver
from focus.model.writer import Writer
from focus.serialization import build, read_values, task_of, to_json
from focus.tasks.base import Task


def release_folders(package: Path) -> list[Path]:
    """Light solvers come with the package; the others lie beside it in a checkout, and on the hub.

    What lies beside an installed package belongs to others.
    """
    project = package.parent / "pyproject.toml"
    is_checkout = project.is_file() and 'name = "focus-solver"' in read_text(project)
    return [package / "releases", *[package.parent / "releases"] * is_checkout]


RELEASES = release_folders(Path(__file__).parents[1])


def releases() -> dict[str, Path]:
    """The released checkpoints that are here, by name."""
    paths = [path.parent for folder in RELEASES[::-1] for path in folder.glob(f"*/{MANIFEST}")]
    return {path.name: path for path in sorted(paths, key=lambda path: path.name)}


def offered() -> dict[str, str]:
    """The released checkpoints that are here and their tasks: no language model first, TRMs last.

    One that cannot be read comes at the very end, of no task: the others stay usable.
    """
    ranked: list[tuple[tuple[bool, bool, bool, str], str]] = []
    for name, folder in releases().items():
        try:
            values = read_values(folder / "config.json")
            solver = values["solver"]
            reads, is_trm = solver["backbone"]["name"] != "none", solver.get("answer") == "trm"
            ranked.append(((False, is_trm, reads, name), task_of(values).name))
        except (UserError, LookupError, TypeError, AttributeError):
            ranked.append(((True, True, True, name), ""))
    return {order[-1]: task for order, task in sorted(ranked)}


def released_for(task: str) -> str:
    """The released checkpoint for a task: one that needs nothing else to be installed first."""
    for name, its_task in offered().items():
        if its_task == task:
            return name
    raise UserError(f"no checkpoint for {task} comes with this package; name one: --checkpoint DIR")


def build_model(task: Task, config: SolverConfig) -> Model:
    """The model that a config names, untrained."""
    return Writer(task, config) if config.answer == "written" else Solver(task, config)


def trained_weights(model: Model) -> dict[str, Tensor]:
    """The parameters that training changes, by name; frozen ones come from their own source."""
    return {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}


def load_weights(model: Model, weights: dict[str, Tensor], path: Path) -> None:
    """Put weights under their names into a model of the same config; `path` is for errors."""
    _copy(trained_weights(model), weights, path)


def _copy(own: dict[str, Tensor], stored: dict[str, Tensor], path: Path) -> None:
    if set(own) != set(stored):
        odd = sorted(set(own) ^ set(stored))[0]
        raise UserError(f"{path} does not fit the config beside it: parameter {odd}")
    with torch.no_grad():
        for name, value in stored.items():
            if own[name].shape != value.shape:
                raise UserError(
                    f"{path}: parameter {name} is {tuple(value.shape)}, "
                    f"the config needs {tuple(own[name].shape)}"
                )
            own[name].copy_(value)


def _own_weights(model: Model) -> dict[str, Tensor]:
    """All trained weights but the adapter's."""
    return {n: w for n, w in trained_weights(model).items() if "lora_" not in n}


@dataclass(frozen=True)
class _Described:
    """What a config file holds at least."""

    task: Task
    solver: SolverConfig


def save_model(
    model: Model, folder: Path, config: str | None = None, notes: dict | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:  # fmt: skip
    """Write a checkpoint; `config` is the JSON of the run, `notes` what is known of the result.

    bf16 as `dtype` halves its size.
    """
    known_config, known_notes = model.record or (None, {})
    config = config or known_config or to_json(_Described(model.task, model.config))
    notes = known_notes if notes is None else notes
    with atomic_folder(folder) as fresh:
        own = {n: w.to(dtype).contiguous().cpu() for n, w in _own_weights(model).items()}
        save_file(own, fresh / "updater.safetensors")
        if model.has_adapter:
            (fresh / "adapter").mkdir()
            lora = {
                n: w.to(dtype).contiguous().cpu()
                for n, w in adapter_tensors(model.adapted_model).items()
            }
            save_file(lora, fresh / "adapter" / "adapter_model.safetensors", {"format": "pt"})
            write_text(
                fresh / "adapter" / "adapter_config.json", adapter_config(model.adapted_model)
            )
        write_text(fresh / "config.json", config)
        write_text(fresh / "notes.json", json.dumps(notes, indent=1) + "\n")
        source = str(json.loads(config).get("data", ""))
        write_text(fresh / "README.md", model_card(model.task, model.config, notes, source))


def checkpoint_folder(folder: Path) -> Path:
    """A checkpoint, or the best checkpoint of a run's folder; checked."""
    if not folder.is_dir():
        raise UserError(
            f"no such checkpoint: {folder}; focus train RECIPE --out DIR makes one; released and "
            f"here: {', '.join(releases()) or 'none'}; others: {HUB_OWNER}/NAME from the hub, or "
            f"releases/NAME of a checkout{did_you_mean(str(folder), releases())}"
        )
    best = find_folder(folder / "best")
    if not (folder / MANIFEST).is_file() and best is not None:
        folder = best
    check_folder(folder)
    return folder


def load_model(folder: Path, side: int | None = None) -> Model:
    """The model of a checkpoint folder, or of the best checkpoint of a run's folder.

    `side` asks for puzzles of another size than those of training, where the weights fit any.
    """
    folder = checkpoint_folder(folder)
    path = folder / "config.json"
    values = read_values(path)
    task = task_of(values) if side is None else task_of(values).resized(side)
    config = build(SolverConfig, values["solver"], path)
    own = folder / "updater.safetensors"
    if not own.is_file():
        raise UserError(f"{folder} is a training state; name the run's folder or its best/")
    _check_sizes(config, own, folder / "adapter" / "adapter_model.safetensors")
    model = build_model(task, config)
    _copy(_own_weights(model), read_tensors(own), own)
    if model.has_adapter:
        lora = folder / "adapter" / "adapter_model.safetensors"
        _copy(adapter_tensors(model.adapted_model), read_tensors(lora), lora)
    notes = read_object(folder / "notes.json")
    model.record = path.read_text(encoding="utf-8"), notes
    return model.eval()


def _check_sizes(config: SolverConfig, own: Path, lora: Path) -> None:
    """Compare the config's sizes with the weights before anything of these sizes is built."""
    shapes, adapter = _shapes(own), _shapes(lora) if lora.is_file() else {}

    def size(name: str, axis: int) -> int:
        return next((s[axis] for n, s in shapes.items() if n == f"updater.{name}"), 0)

    updater, trm = config.updater, config.trm
    wanted = {"solver.backbone.rank": (config.backbone.rank, _rank(adapter))} if adapter else {}
    if config.answer == "revised":
        blocks = {name.split(".")[2] for name in shapes if name.startswith("updater.blocks.")}
        wanted |= {
            "solver.updater.width": (updater.width, size("head.weight", 1)),
            "solver.updater.layers": (updater.layers, len(blocks)),
        }
        if updater.hops:
            wanted["solver.updater.hop-width"] = updater.hop_width, size("hops.mix.weight", 0)
            wanted["solver.updater.hop-hidden"] = updater.hop_hidden, size("hops.hear.weight", 0)
    if config.answer == "trm":
        layers = {name.split(".")[3] for name in shapes if name.startswith("updater.net.layers.")}
        wanted |= {
            "solver.trm.width": (trm.width, size("head.weight", 1)),
            "solver.trm.layers": (trm.layers, len(layers)),
        }
    for name, (said, stored) in wanted.items():
        if said != stored:
            raise UserError(f"{own} does not fit the config beside it: {name} {said}, not {stored}")


def _rank(adapter: dict[str, list[int]]) -> int:
    return next((shape[0] for name, shape in adapter.items() if "lora_A" in name), 0)


def read_tensors(path: Path, device: str = "cpu") -> dict[str, Tensor]:
    """The tensors of a file; refuses one that is damaged, or that holds what is no number."""
    try:
        tensors = load_file(path, device=device)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is damaged ({error})") from error
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.float().isfinite().all():
            raise UserError(f"{path} is damaged: {name} holds values that are not finite")
    return tensors


def _shapes(path: Path) -> dict[str, list[int]]:
    """The shapes of the tensors of a file, from its header alone."""
    try:
        with safe_open(path, "pt") as stream:
            return {name: stream.get_slice(name).get_shape() for name in stream.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is damaged ({error})") from error


def fetch(
    name: str, *, revision: str | None = None, token: str | bool | None = None,
    cache_dir: str | Path | None = None, local_files_only: bool = False,
) -> Path:  # fmt: skip
    """A released checkpoint, a local folder as it is, or a download from the hub (OWNER/NAME)."""
    if name in (here := releases()):
        return here[name]
    if Path(name).exists() or not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name):
        return Path(name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        with reachable_hub():
            folder = snapshot_download(
                name, revision=revision, token=token, cache_dir=cache_dir,
                local_files_only=local_files_only,
            )  # fmt: skip
        return Path(folder)
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = first_line(error)
        if isinstance(error, LocalEntryNotFoundError):
            reason = "it does not answer, or has no such model"
        raise UserError(
            f"no folder {name} (focus train RECIPE --out {name} makes one), and the hub does not "
            f"give it ({reason})"
        ) from error


def push(
    model: Model, repository: str, *, private: bool = True, commit_message: str | None = None,
    revision: str | None = None, token: str | bool | None = None,
) -> str:  # fmt: skip
    """Upload a checkpoint to the hub."""
    import tempfile

    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi(token=token)
    try:
        with reachable_hub(), tempfile.TemporaryDirectory() as temporary:
            api.create_repo(repository, private=private, exist_ok=True)
            folder = Path(temporary, "checkpoint")
            save_model(model, folder)
            commit = api.upload_folder(
                repo_id=repository, folder_path=folder, commit_message=commit_message,
                revision=revision,
            )  # fmt: skip
        return str(commit)
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise UserError(
            f"the hub does not take {repository} ({first_line(error)}); check the name, the "
            "connection and `hf auth login`"
        ) from error
