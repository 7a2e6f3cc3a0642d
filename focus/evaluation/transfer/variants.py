"""The language models that are compared: as it is, with an adapter, with a random adapter.

`base` has no adapter. A checkpoint lends its adapter, with scale one, and its updater stays off.
`null` is the control: a random LoRA whose change of each weight matrix has the norm of the
checkpoint's change, so that whatever it gains or loses is what any change of that size does.
`gold` writes the reference answers; the scorer must find all of them right.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file
from torch import Tensor

from focus.errors import UserError
from focus.files import read_object, sha256
from focus.folders import MANIFEST
from focus.model.checkpoint import checkpoint_folder, fetch
from focus.model.install import SMOLLM2
from focus.model.pretrained import Codec, load_language_model, short_name

_WEIGHTS, _CONFIG = "adapter_model.safetensors", "adapter_config.json"


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
        if self.kind == "null":
            about["seed"] = self.seed
        return about


def find_variants(words: Sequence[str], null_seeds: int) -> list[Variant]:
    """The variants of the command line; `null` takes its norms from the first checkpoint named,
    `null:CHECKPOINT` from that one."""
    if not words:
        raise UserError("name what to compare: base, gold, null, or checkpoints")
    checkpoints = [w for w in words if w not in ("base", "gold", "null") and ":" not in w]
    variants: list[Variant] = []
    for word in dict.fromkeys(words):
        if word in ("base", "gold"):
            variants.append(Variant(word, "base" if word == "base" else "gold"))
            continue
        kind, _, named = word.partition(":") if word.startswith("null") else ("", "", word)
        if kind not in ("", "null"):
            raise UserError(f"no variant {word!r}; a control is null or null:CHECKPOINT")
        if kind == "null" and not named:
            if not checkpoints:
                raise UserError("null needs a checkpoint for its norms: null:CHECKPOINT")
            named = checkpoints[0]
        name = Path(named).name or named
        if kind == "null":
            variants += [
                Variant(f"null-{name}-{seed}", "null", adapter_folder(named), seed)
                for seed in range(1, null_seeds + 1)
            ]
        else:
            variants.append(Variant(name, "adapter", adapter_folder(named)))
    names = [variant.name for variant in variants]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UserError(f"two variants would be called {twice!r}; rename a folder")
    return variants


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
    return folder


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
    from peft import LoraConfig, get_peft_model, set_peft_model_state_dict

    model: Any
    model, codec = load_language_model(backbone)
    if variant.adapter is not None:
        config = LoraConfig.from_pretrained(str(variant.adapter))
        config.base_model_name_or_path = None  # `find_backbone` has compared it
        weights = load_file(variant.adapter / _WEIGHTS)
        if variant.kind == "null":
            weights = randomised(weights, variant.seed)
        model = get_peft_model(model, config)
        load_result: Any = set_peft_model_state_dict(model, weights)
        missing = [key for key in load_result.missing_keys if "lora_" in key]
        if load_result.unexpected_keys or missing:
            odd = [*load_result.unexpected_keys, *missing][0]
            raise UserError(f"the adapter {variant.adapter} does not fit {backbone}: {odd}")
    return model.eval().to(device), codec


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
