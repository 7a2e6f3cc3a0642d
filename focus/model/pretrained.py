"""Where pretrained language models come from: the cache, a folder, or the hub.

What `focus backbone install` has put into the cache goes by its short name alone. Every other name
is a short name of the paper's backbones, a folder, or a hub id.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from focus.errors import UserError, first_line
from focus.folders import check_folder
from focus.hub import reachable_hub
from focus.model.install import INSTALLABLE, SMOLLM2, installed
from focus.trust import FLAG, remote_code

HUB_IDS = {
    **{name: gguf.hub_id for name, gguf in INSTALLABLE.items()},
    "qwen3-1.7b": "Qwen/Qwen3-1.7B",
    "qwen3-4b": "Qwen/Qwen3-4B",
    "qwen3-8b": "Qwen/Qwen3-8B",
    "llama-3.2-3b": "meta-llama/Llama-3.2-3B-Instruct",
    "llama-3.1-8b": "meta-llama/Llama-3.1-8B-Instruct",
}
TINY = ("tiny-llama", "tiny-qwen3")
_RANDOM = "random-"  # random-NAME: the shape of that model, for `focus bench`


@dataclass(frozen=True)
class _Shape:
    """The sizes of a language model."""

    family: str  # as transformers names it
    width: int
    inner: int  # width inside the feed-forward part
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    tied: bool  # the output shares the embedding


_SHAPES = {
    "tiny-llama": _Shape("llama", 48, 96, 2, 4, 2, 12, 128, False),
    "tiny-qwen3": _Shape("qwen3", 48, 96, 2, 4, 2, 12, 128, False),
    "random-smollm2-135m": _Shape("llama", 576, 1536, 30, 9, 3, 64, 49_152, True),
    "random-qwen2.5-coder-0.5b": _Shape("qwen2", 896, 4864, 24, 14, 2, 64, 151_936, True),
    "random-qwen2.5-coder-1.5b": _Shape("qwen2", 1536, 8960, 28, 12, 2, 128, 151_936, True),
    "random-qwen3-1.7b": _Shape("qwen3", 2048, 6144, 28, 16, 8, 128, 151_936, True),
    "random-qwen3-4b": _Shape("qwen3", 2560, 9728, 36, 32, 8, 128, 151_936, True),
    "random-qwen3-8b": _Shape("qwen3", 4096, 12_288, 36, 32, 8, 128, 151_936, False),
    "random-llama-3.2-3b": _Shape("llama", 3072, 8192, 28, 24, 8, 128, 128_256, True),
    "random-llama-3.1-8b": _Shape("llama", 4096, 14_336, 32, 32, 8, 128, 128_256, False),
}


@dataclass(frozen=True)
class Codec:
    """Text to ids and back, and the ids that begin and end a text."""

    encode: Callable[[str], list[int]]
    decode: Callable[[Sequence[int]], str]
    begin: tuple[int, ...]
    end: int
    # A user's message as the model's chat template has it, with or without thinking; None = none.
    chat: Callable[[str, bool], list[int]] | None = None


def load_language_model(name: str) -> tuple[nn.Module, Codec]:
    """A causal language model (bf16 on a GPU machine, float32 elsewhere) and its tokenizer."""
    return _random(name) if name in _SHAPES else _pretrained(name)


def public_name(name: str) -> str:
    """What others know the model by: its hub id, or the name itself."""
    return HUB_IDS.get(name, name)


def random_name(name: str) -> str:
    """The name of random weights in the shape of a model."""
    if f"{_RANDOM}{name}" not in _SHAPES:
        shapes = (shape.removeprefix(_RANDOM) for shape in _SHAPES if shape not in TINY)
        raise UserError(f"the shape of the backbone {name!r} is not known; {', '.join(shapes)} are")
    return f"{_RANDOM}{name}"


def short_name(name: str) -> str:
    """What we know a model by: the short name of a hub id that has one, or the name itself."""
    return next((short for short, hub in HUB_IDS.items() if hub == name), name)


def _pretrained(name: str) -> tuple[nn.Module, Codec]:
    """A model and its tokenizer from the cache, a local folder or the hub."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    folder = installed(name)
    if name in INSTALLABLE and folder is None:
        others = "; sudoku-none and maze-none solve without a language model"
        raise UserError(
            f"{name} is not installed yet: focus backbone install {name}"
            f"{others if name == SMOLLM2 else ''}"
        )
    source = str(folder or public_name(name))
    if Path(source, "manifest.json").is_file():
        check_folder(Path(source))
    dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32
    try:
        with nullcontext() if Path(source).exists() else reachable_hub():
            trusted = remote_code.get()  # said in any case: transformers would ask on stdin
            AutoConfig.from_pretrained(source, trust_remote_code=trusted)  # says what is refused
            tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=trusted)
            reader: Any = AutoModelForCausalLM
            model, loaded = reader.from_pretrained(
                source, dtype=dtype, trust_remote_code=trusted, use_safetensors=True,
                output_loading_info=True,
            )  # fmt: skip
        tokenizer.decode(tokenizer.encode("1", add_special_tokens=False))
    except Exception as error:  # whatever the libraries raise at what a file holds
        raise UserError(_why_not(name, error)) from error
    _check_model(name, model, tokenizer, loaded["missing_keys"])
    begin = () if tokenizer.bos_token_id is None else (tokenizer.bos_token_id,)
    return model, Codec(
        lambda text: tokenizer.encode(text, add_special_tokens=False),
        lambda ids: str(tokenizer.decode(list(ids), skip_special_tokens=True)),
        begin, tokenizer.eos_token_id, _chat(tokenizer) if tokenizer.chat_template else None,
    )  # fmt: skip


def _check_model(name: str, model: Any, tokenizer: Any, missing: Collection[str]) -> None:
    """Refuse a model that lacks weights, or whose tokenizer knows more than its embedding."""
    absent = sorted(key for key in missing if "lm_head" not in key)
    if absent:
        raise UserError(f"the weights of {name!r} are not whole: {absent[0]} is missing")
    if not all(weight.isfinite().all() for weight in model.parameters()):
        raise UserError(f"the weights of {name!r} hold values that are not finite")
    if tokenizer.eos_token_id is None:
        raise UserError(f"the tokenizer of {name!r} has no end-of-text token")
    rows, tokens = model.get_input_embeddings().num_embeddings, len(tokenizer)
    if tokens > rows:
        raise UserError(f"the tokenizer of {name!r} has {tokens:,} tokens, its model {rows:,}")


def _chat(tokenizer: Any) -> Callable[[str, bool], list[int]]:
    """The chat template; what it may say of today is pinned, so that prompts do not age."""

    def ask(message: str, thinking: bool) -> list[int]:
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": message}], add_generation_prompt=True, tokenize=False,
            enable_thinking=thinking, date_string="26 Jul 2024",
        )  # fmt: skip
        return tokenizer.encode(text, add_special_tokens=False)

    return ask


def _why_not(name: str, error: Exception) -> str:
    """What to do about a model that does not load."""
    text = str(error)
    if "trust_remote_code" in text:
        return (
            f"the backbone {name!r} brings Python code of its own, which is not run; add {FLAG} to "
            "the command if you have read the code and trust it"
        )
    if "gated" in text.lower() or "401" in text or "403" in text:
        where = f"https://huggingface.co/{public_name(name)}"
        return (
            f"the backbone {name!r} is gated: accept its licence at {where}, then log in with "
            "`hf auth login`, or give a folder that holds the model"
        )
    reason = first_line(error)
    if name.startswith((".", "/", "~")) and not Path(name).is_dir():
        reason = "there is no such folder"
    return (
        f"cannot load the backbone {name!r} ({reason}); give none, {', '.join(HUB_IDS)}, a folder "
        "with a model and its tokenizer, or a hub id"
    )


def _random(name: str) -> tuple[nn.Module, Codec]:
    """Random weights in the shape of a real model, with a character tokenizer."""
    from transformers import AutoConfig, AutoModelForCausalLM

    shape, tiny = _SHAPES[name], name in TINY
    config = AutoConfig.for_model(
        shape.family, vocab_size=shape.vocabulary, hidden_size=shape.width,
        intermediate_size=shape.inner, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_size, max_position_embeddings=2048, tie_word_embeddings=shape.tied,
        bos_token_id=1, eos_token_id=2, pad_token_id=2,
    )  # fmt: skip
    codec = Codec(
        lambda text: [ord(char) % 128 for char in text],
        lambda ids: "".join(chr(i) for i in ids), (1,), 2,
    )  # fmt: skip
    on_gpu = torch.cuda.is_available() and not tiny
    with torch.random.fork_rng(), torch.device("cuda" if on_gpu else "cpu"):
        torch.manual_seed(0)  # tiny ones are the same wherever a checkpoint is loaded
        model = AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16 if on_gpu else torch.float32
        )
    return model, codec
