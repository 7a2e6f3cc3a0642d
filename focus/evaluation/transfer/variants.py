"""The language models that are compared: as it is, with an adapter, with a random adapter.

`base` has no adapter. A checkpoint lends its adapter, with scale one, and its updater stays off.
`null` is the control: a random LoRA whose change of each weight matrix has the norm of the
checkpoint's change, so that whatever it gains or loses is what any change of that size does.
`gold` writes the reference answers; the scorer must find all of them right.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from focus.errors import UserError
from focus.files import read_object, sha256
from focus.folders import MANIFEST
from focus.model.backbone import adapter_tensors
from focus.model.checkpoint import checkpoint_folder, fetch, read_tensors
from focus.model.install import SMOLLM2
from focus.model.pretrained import Codec, load_language_model, short_name

# A variant's name is that of its folder as well, beside what is written there.
_TAKEN = ("base", "gold", "null", "cards", "results.json", "table.md", "bits.json", "bits.md")
_WEIGHTS, _CONFIG = "adapter_model.safetensors", "adapter_config.json"
# Fields of the config that change no completion; `find_backbone` compares the first.
_IDLE = (
    "base_model_name_or_path", "auto_mapping", "inference_mode", "lora_dropout", "peft_version",
    "revision", "task_type",
)  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """One row of the comparison."""

    name: str  # as it is shown, and the folder of its completions
    kind: Literal["base", "adapter", "null", "gold"]
    adapter: Path | None = None
    seed: int = 0

    def identity(self) -> dict:
        """What its completions depend on besides backbone and prompts."""
        about: dict[str, Any] = {"kind": self.kind}
        if self.adapter is not None:
            about["adapter"] = sha256(self.adapter / _WEIGHTS)
            about["adapter_config"] = _what_shapes(self.adapter)
        if self.kind == "null":
            about["seed"] = self.seed
        return about


def find_variants(words: Sequence[str], null_seeds: int) -> list[Variant]:
    """The variants of the command line.

    An adapter is CHECKPOINT, called as its folder is, or NAME=CHECKPOINT. `null` takes the norms of
    every adapter named, `null:NAME` or `null:CHECKPOINT` those of one.
    """
    if not words:
        raise UserError("name what to compare: base, gold, null, or checkpoints")
    words = list(dict.fromkeys(words))
    adapters = {
        word: _adapter(word) for word in words
        if word not in ("base", "gold") and word.partition(":")[0] != "null"
    }  # fmt: skip
    variants: list[Variant] = []
    for word in words:
        if word in adapters:
            variants.append(adapters[word])
        elif word in ("base", "gold"):
            variants.append(Variant(word, "base" if word == "base" else "gold"))
        else:
            for one in _lenders(word.partition(":")[2], list(adapters.values())):
                variants += [
                    Variant(f"null-{one.name}-{seed}", "null", one.adapter, seed)
                    for seed in range(1, null_seeds + 1)
                ]
    variants = list(dict.fromkeys(variants))
    for folder in {one.adapter for one in variants if one.kind == "null" and one.adapter}:
        _check_plain(folder)
    names = [variant.name for variant in variants]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UserError(f"two variants would be called {twice!r}; name them: NAME=CHECKPOINT")
    return variants


def _adapter(word: str) -> Variant:
    """The variant that CHECKPOINT or NAME=CHECKPOINT means; a file name may have a sign = too."""
    named = None if Path(word).exists() else re.fullmatch(r"(\w[\w.-]*)=(.+)", word)
    name, checkpoint = named.groups() if named else (Path(os.path.abspath(word)).name, word)
    folder = adapter_folder(checkpoint)
    if not re.match(r"\w", name) or name in _TAKEN or name.startswith("null-"):
        raise UserError(f"an adapter cannot be called {name!r}; name it: NAME={checkpoint}")
    return Variant(name, "adapter", folder)


def _lenders(named: str, adapters: Sequence[Variant]) -> Sequence[Variant]:
    """The adapters whose norms `null:NAMED` takes: that one, or all where none is named."""
    if not named:
        if not adapters:
            raise UserError("null needs a checkpoint for its norms: null:CHECKPOINT")
        return adapters
    if known := [one for one in adapters if one.name == named]:
        return known
    one = _adapter(named)
    if same := [other for other in adapters if other.adapter == one.adapter]:
        return same
    # The random adapters of a name are those that the adapter of that name is compared with.
    if any(other.name == one.name for other in adapters):
        raise UserError(
            f"null:{named} and another checkpoint are both called {one.name!r}; "
            "name them: NAME=CHECKPOINT"
        )
    return [one]


def adapter_folder(name: str) -> Path:
    """The adapter of a checkpoint, or a folder that peft itself has written."""
    folder = fetch(name)
    if not (folder / _CONFIG).is_file():
        folder = checkpoint_folder(folder) / "adapter"
    for part in (_CONFIG, _WEIGHTS):
        if not (folder / part).is_file():
            hint = "it was trained without a language model, or with a frozen one"
            inside = folder.parent if (folder.parent / MANIFEST).is_file() else folder
            raise UserError(f"{inside} has no adapter ({part} is missing): {hint}")
    _check_adapter(folder)
    return folder


def _check_adapter(folder: Path) -> None:
    """Refuse weights that are cut off, are no LoRA, or have another rank than the config says.

    The backbone is not needed for it, so that this is known before any variant has begun.
    """
    weights, config = read_tensors(folder / _WEIGHTS), read_object(folder / _CONFIG)
    downs = [name for name in weights if "lora_A" in name]
    if not downs:
        raise UserError(f"{folder / _WEIGHTS} holds no LoRA matrices; another file was put there")
    for name in downs:
        other = name.replace("lora_A", "lora_B")
        rank = weights[name].shape[:1]
        if other not in weights or weights[other].shape[-1:] != rank:
            raise UserError(f"{folder / _WEIGHTS} is damaged: {name} has no B of its rank")
        if not config.get("rank_pattern") and tuple(rank) != (config.get("r"),):
            raise UserError(
                f"the adapter {folder} does not fit its config: {name} has rank {rank.numel()}, "
                f"{_CONFIG} says {config.get('r')}"
            )


def _check_plain(folder: Path) -> None:
    """Refuse norms of an adapter that has more than matrices A and B."""
    for name in read_tensors(folder / _WEIGHTS):
        if "lora_A" not in name and "lora_B" not in name:
            raise UserError(f"null makes plain LoRA matrices alone, and {folder} has {name}")


def _what_shapes(folder: Path) -> dict:
    """What of an adapter's config its completions depend on; lists are in no order of their own."""
    config = read_object(folder / _CONFIG)
    return {
        name: sorted(value, key=str) if isinstance(value, list) else value
        for name, value in sorted(config.items()) if value and name not in _IDLE
    }  # fmt: skip


def find_backbone(variants: Sequence[Variant], backbone: str | None) -> str:
    """The one backbone that all variants share."""
    wanted = {v.adapter: _backbone_of(v.adapter) for v in variants if v.adapter is not None}
    name = backbone or next(iter(wanted.values()), SMOLLM2)
    for folder, other in wanted.items():
        if short_name(name) != other:
            raise UserError(
                f"the adapter {folder} is for {other}, not for {name}: "
                "variants of one comparison share a backbone"
            )
    return name


def _backbone_of(folder: Path) -> str:
    name = read_object(folder / _CONFIG).get("base_model_name_or_path")
    if not isinstance(name, str):
        raise UserError(f"{folder / _CONFIG} names no backbone")
    return short_name(name)


def load_variant(variant: Variant, backbone: str, device: str) -> tuple[Any, Codec]:
    """The variant's language model, ready to write."""
    from peft import set_peft_model_state_dict

    model: Any
    model, codec = load_language_model(backbone)
    if variant.adapter is not None:
        weights = read_tensors(variant.adapter / _WEIGHTS)
        model = _with_empty_adapter(model, variant.adapter, backbone)
        shapes, wanted = (
            {name: tuple(tensor.shape) for name, tensor in tensors.items()}
            for tensors in (weights, adapter_tensors(model))
        )
        for name in sorted(shapes.keys() | wanted.keys()):
            if shapes.get(name) != wanted.get(name):
                raise UserError(
                    f"the adapter {variant.adapter} does not fit {backbone}: {name} is "
                    f"{shapes.get(name, 'missing')}, {wanted.get(name, 'nothing')} is wanted"
                )
        if variant.kind == "null":
            weights = randomised(weights, variant.seed)
        set_peft_model_state_dict(model, weights)
    return model.eval().to(device), codec


def _with_empty_adapter(model: Any, folder: Path, backbone: str) -> Any:
    """The language model with places for an adapter, as the adapter's config has them."""
    from peft import LoraConfig, get_peft_model

    try:
        config = LoraConfig.from_pretrained(str(folder))
        config.base_model_name_or_path = None  # `find_backbone` has compared it
        return get_peft_model(model, config)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"the adapter {folder} does not fit {backbone}: {reason}") from error


def randomised(weights: dict[str, Tensor], seed: int) -> dict[str, Tensor]:
    """Random factors A and B for every matrix, with ||B A|| as it was."""
    fresh = {}
    for name in sorted(weights):
        key = hashlib.sha256(f"{seed} {name}".encode()).digest()
        random = torch.Generator().manual_seed(int.from_bytes(key[:7], "big"))
        fresh[name] = torch.randn(weights[name].shape, generator=random)
    for name in (name for name in fresh if "lora_A" in name):
        other = name.replace("lora_A", "lora_B")
        was, now = _norm(weights[other], weights[name]), _norm(fresh[other], fresh[name])
        for part in (name, other):
            fresh[part] *= (was / now) ** 0.5
    return fresh


def _norm(up: Tensor, down: Tensor) -> float:
    """||B A|| from the small Gram matrices, without the product."""
    up, down = up.double(), down.double()
    return float(((up.T @ up) * (down @ down.T).T).sum().clamp_min(0).sqrt())
