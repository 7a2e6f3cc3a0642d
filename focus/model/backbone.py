"""R_{phi,psi}(x): what the updater knows of the puzzle besides the answer it revises.

`none` is a learned embedding of the clues, the control that every result with a language model
is compared with. A language model reads the puzzle as a prompt with one token per cell; its last
hidden state at the cells, through G_psi = RMSNorm + Linear, is R.
"""

import json
import tempfile
import typing
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from focus.errors import UserError
from focus.model.dropout import HashedDropout, draw_seeds
from focus.model.layers import Embedding, Linear, RMSNorm
from focus.model.precision import mixed_precision
from focus.model.pretrained import load_language_model, public_name
from focus.model.static_generation import is_static
from focus.settings import AtLeast, Role, Settings, Share
from focus.tasks.base import Task
from focus.tasks.prompt import tokenize_prompt
from focus.tasks.records import Problem


@dataclass(frozen=True)
class BackboneConfig(Settings, section="solver.backbone"):
    """Which encoder, and its LoRA."""

    # none, a name of `focus backbone list`, tiny-llama, tiny-qwen3, a local folder or a hub id
    name: Annotated[str, Role.AXIS] = "none"
    rank: Annotated[int, AtLeast(1)] = 16  # LoRA r
    alpha: Annotated[int, AtLeast(1)] = 32  # LoRA alpha
    # before the adapter's first matrix
    lora_dropout: Annotated[float, Share(below_one=True)] = 0.05
    # no adapter: the language model's own features, and no pass back through it
    frozen: bool = False
    # recompute activations: less memory, a third slower; None = where they do not fit otherwise
    gradient_checkpointing: Annotated[bool | None, Role.AXIS] = None


_STORED_WIDTHS = 8  # stored activations of a decoder layer, in widths per token (bf16),
_STORED_HIDDEN_WIDTHS = 4  # and in widths of its hidden part
_STORED_WITH_DROPOUT = 3  # more widths where adapters drop (measured with peft's own dropout),
_STORED_WITH_NORM = 2  # and where queries and keys are normalised
_CAUSAL = "focus_causal"  # attention that transformers makes no mask for: all is seen, causally
_SEEDS_APART = 4  # 16 bytes: compiled code wants tensors to begin at multiples of them
LORA_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class Backbone(nn.Module, ABC):
    """An encoder: what it reads of a puzzle once, and the projection of that to R."""

    language_model: Any = None  # with its adapter, where there is one

    @abstractmethod
    def read(self, x: Problem) -> Shaped[Tensor, "batch places *hidden"]:
        """What the encoder finds in the puzzle, before it is projected."""

    @abstractmethod
    def project(
        self, read: Shaped[Tensor, "batch places *hidden"]
    ) -> Float[Tensor, "batch tokens width"]:
        """R = G_psi of what was read."""

    def compile_layers(self) -> None:
        """Compile what training repeats, for one batch size."""

    def prepare_capture(self) -> bool:
        """Make ready for CUDA graphs; False where none can hold what it does."""
        return True

    def read_flops(self) -> float:
        """Operations of reading one puzzle, with the pass back where there is one."""
        return 0.0

    def read_bytes(self) -> int:
        """Activations of one puzzle that a pass back needs."""
        return 0


class ClueEmbedding(Backbone):
    """`none`: no language model, an embedding of each token's clue."""

    def __init__(self, task: Task, width: int):
        super().__init__()
        self.table = Embedding(len(task.prompt().symbols), width)
        nn.init.normal_(self.table.weight, std=0.5)

    def read(self, x: Problem) -> Int[Tensor, "batch tokens"]:
        """The clue of each token."""
        return x.grid.gather(1, x.cell)

    def project(self, read: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens width"]:
        return self.table(read)


class CausalModel(nn.Module):
    """A causal language model with LoRA, and how training runs it: compiled, recorded."""

    def __init__(self, config: BackboneConfig):
        super().__init__()
        model, self.codec = load_language_model(config.name)
        self.frozen, self.maskless = config.frozen, False
        self.dropouts: list[HashedDropout] = []  # those of compiled layers
        self.model: Any = model.requires_grad_(False) if config.frozen else add_lora(model, config)

    def decoder(self) -> Any:
        """The language model without its vocabulary head."""
        return (self.model if self.frozen else self.model.get_base_model()).get_decoder()

    def compile_layers(self) -> None:
        from focus.model.joined_lora import (  # peft takes seconds to load
            hash_dropout,
            join_projections,
        )

        if not self.frozen:
            join_projections(self.model)
            if not recomputes_activations(self.model):  # which would find another seed
                self.dropouts = hash_dropout(self.model)
        for layer in getattr(self.decoder(), "layers", ()):
            layer.compile(dynamic=False)

    def prepare_capture(self) -> bool:
        """Read without a mask from now on: to make one, transformers looks at the host.

        Only the usual attention can do that. Recomputing sets random numbers back, which is the
        host's work as well.
        """
        from transformers import AttentionInterface
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        self.maskless = is_static(self.model) and not recomputes_activations(self.model)
        AttentionInterface.register(_CAUSAL, sdpa_attention_forward)
        return self.maskless

    def hidden(self, ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length hidden"]:
        """Last hidden states of texts of one length: one pass of the decoder."""
        with self._reading(ids.device):
            return self.decoder()(input_ids=ids, use_cache=False).last_hidden_state

    def logits(
        self, ids: Int[Tensor, "batch length"], last: int
    ) -> Float[Tensor, "batch last vocabulary"]:
        """What follows the last tokens of texts of one length."""
        with self._reading(ids.device):
            return self.model(input_ids=ids, use_cache=False, logits_to_keep=last).logits

    def vocabulary(
        self, hidden: Float[Tensor, "batch length hidden"]
    ) -> Float[Tensor, "batch length vocabulary"]:
        """Logits of the next tokens, by the frozen head."""
        with mixed_precision(hidden.device):
            return self.model.get_output_embeddings()(hidden)

    @contextmanager
    def _reading(self, device: torch.device) -> Iterator[None]:
        """What a pass needs: seeds of dropout, attention without a mask where that was prepared."""
        if self.dropouts and self.training:
            seeds = draw_seeds(_SEEDS_APART * len(self.dropouts), device)[::_SEEDS_APART]
            for dropout, seed in zip(self.dropouts, seeds, strict=True):
                dropout.seed = seed
        config = self.decoder().config
        usual = config._attn_implementation
        if self.maskless:
            config._attn_implementation = _CAUSAL
        learning = torch.is_grad_enabled() and not self.frozen
        try:
            with mixed_precision(device), torch.set_grad_enabled(learning):
                yield
        finally:
            config._attn_implementation = usual


class LanguageModel(CausalModel, Backbone):
    """A causal language model that reads puzzles; all but its adapter and G_psi is frozen."""

    def __init__(self, task: Task, config: BackboneConfig, width: int):
        super().__init__(config)
        codec, settings = self.codec, self.model.config
        self.prompt = tokenize_prompt(task.prompt(), codec.encode, codec.begin, codec.decode)
        length = len(self.prompt.template)
        room = getattr(settings, "max_position_embeddings", None) or length
        if length > room:
            raise UserError(
                f"the prompt has {length:,} tokens, and {config.name} has room for {room:,}; "
                "choose a smaller puzzle or another backbone"
            )
        hidden = settings.hidden_size
        self.readout_norm, self.readout = RMSNorm(hidden, eps=None), Linear(hidden, width)
        # Where the grid is printed once, early cells have not seen all of it: add a summary.
        printed_once = bool((self.prompt.slot >= 0).sum() == task.cells)
        self.summary = Linear(hidden, width, bias=False) if printed_once else None

    @property
    def language_model(self) -> Any:
        """The language model, with its adapter unless it is frozen."""
        return self.model

    def read_flops(self) -> float:
        """Frozen weights cost 4 for each and token of the prompt, 2 without a pass back.

        The adapter's own products are not counted.
        """
        layers = self.decoder().layers.parameters()
        weights = sum(p.numel() for p in layers if p.ndim == 2 and not p.requires_grad)
        return (2 if self.frozen else 4) * weights * len(self.prompt.template)

    def read_bytes(self) -> int:
        every_layer = activation_bytes(self.model, len(self.prompt.template))
        return every_layer // self.model.config.num_hidden_layers if self.frozen else every_layer

    def read(self, x: Problem) -> Float[Tensor, "batch places hidden"]:
        """Last hidden states at the cells (and at the prompt's end)."""
        hidden = self.hidden(self.prompt.ids(x.grid))
        places = self.prompt.readout[x.cell]
        if self.summary is not None:
            last = places.new_full((len(places), 1), hidden.shape[1] - 1)
            places = torch.cat([places, last], 1)
        return hidden.gather(1, places[..., None].expand(-1, -1, hidden.shape[-1]))

    def project(
        self, read: Float[Tensor, "batch places hidden"]
    ) -> Float[Tensor, "batch tokens width"]:
        read = self.readout_norm(read.float())
        if self.summary is None:
            return self.readout(read)
        return self.readout(read[:, :-1]) + self.summary(read[:, -1:])


def build_backbone(task: Task, config: BackboneConfig, width: int) -> Backbone:
    """The encoder that a config names."""
    if config.name == "none":
        return ClueEmbedding(task, width)
    return LanguageModel(task, config, width)


def activation_bytes(model: Any, length: int) -> int:
    """Activations of a prompt that a pass back through a language model needs."""
    config = model.config
    # Models of GPT-2's kind have four times their width unless they say otherwise.
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    adapter = getattr(model, "peft_config", {}).get("default")
    widths = _STORED_WIDTHS
    if adapter is not None and adapter.lora_dropout:
        widths += _STORED_WITH_DROPOUT
    if any(name.endswith("q_norm") for name, _ in model.named_modules()):
        widths += _STORED_WITH_NORM
    layer = widths * config.hidden_size + _STORED_HIDDEN_WIDTHS * inner
    layers = config.num_hidden_layers
    if recomputes_activations(model):
        return 2 * length * (layers * config.hidden_size + layer)
    return 2 * length * layers * layer


def add_lora(model: nn.Module, config: BackboneConfig) -> Any:
    """The model with its weights frozen and a fresh adapter, which changes nothing yet."""
    from peft import LoraConfig, get_peft_model
    from transformers.pytorch_utils import Conv1D

    # Models that name their projections otherwise (GPT-2, Phi) get LoRA on all linear layers.
    names = {name.rsplit(".", 1)[-1] for name, _ in model.named_modules()}
    usual = set(LORA_TARGETS) <= names
    lora = LoraConfig(
        r=config.rank, lora_alpha=config.alpha, lora_dropout=config.lora_dropout,
        target_modules=list(LORA_TARGETS) if usual else "all-linear", task_type="CAUSAL_LM",
        fan_in_fan_out=any(isinstance(part, Conv1D) for part in model.modules()),
    )  # fmt: skip
    # Wrapping the CausalLM, not its decoder: the saved adapter then loads into one.
    try:
        adapted = get_peft_model(typing.cast(Any, model), lora)
    except (ValueError, TypeError) as error:
        raise UserError(f"peft cannot add LoRA to the backbone {config.name!r}: {error}") from error
    adapted.peft_config["default"].base_model_name_or_path = public_name(config.name)
    for name, part in adapted.named_modules():
        if type(part) is nn.Linear and ".lora_" in name:
            part.__class__ = Linear  # which also takes the adapters of several solvers
    if config.gradient_checkpointing:
        recompute_activations(adapted)
    return adapted


def recompute_activations(model: Any) -> None:
    """Store the inputs of a language model's layers alone, and compute the rest once more."""
    model.gradient_checkpointing_enable({"use_reentrant": False})


def recomputes_activations(model: Any) -> bool:
    """Whether a language model does."""
    return any(getattr(part, "gradient_checkpointing", False) for part in model.modules())


def adapter_tensors(model: Any) -> dict[str, Tensor]:
    """The adapter's weights under the names that peft gives them in a file."""
    from peft import get_peft_model_state_dict

    return get_peft_model_state_dict(model, save_embedding_layers=False)


def adapter_config(model: Any) -> str:
    """`adapter_config.json`, the same each time: peft writes a set of modules in any order."""
    with tempfile.TemporaryDirectory() as folder:
        model.peft_config["default"].save_pretrained(folder)
        values = json.loads(Path(folder, "adapter_config.json").read_text(encoding="utf-8"))
    if isinstance(values["target_modules"], list):
        values["target_modules"].sort()
    return json.dumps(values, indent=2) + "\n"
