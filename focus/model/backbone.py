"""R_{phi,psi}(x): what the updater knows of the puzzle besides the answer it revises.

`none` is a learned embedding of the clues, the control that every result with a language model
is compared with. A language model reads the puzzle as a prompt with one token per cell; its last
hidden state at the cells, through G_psi = RMSNorm + Linear, is R.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from focus.errors import UserError
from focus.tasks.base import Task
from focus.tasks.prompt import PromptTokens, tokenize_prompt
from focus.tasks.records import Problem


@dataclass(frozen=True)
class BackboneConfig:
    """Which encoder, and its LoRA."""

    name: str = "none"  # none, tiny-llama, tiny-qwen3, a local folder or a hub id
    rank: int = 16  # LoRA r
    alpha: int = 32  # LoRA alpha
    lora_dropout: float = 0.05


LORA_TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class ClueEmbedding(nn.Module):
    """`none`: no language model, an embedding of each token's clue."""

    def __init__(self, task: Task, width: int):
        super().__init__()
        self.table = nn.Embedding(len(task.prompt().symbols), width)
        nn.init.normal_(self.table.weight, std=0.5)

    def forward(self, x: Problem) -> Float[Tensor, "batch tokens width"]:
        """R."""
        return self.table(x.grid.gather(1, x.cell))


class LanguageModel(nn.Module):
    """A causal language model with LoRA; all but the adapter and G_psi is frozen."""

    prompt_template: Tensor
    prompt_slot: Tensor
    prompt_readout: Tensor
    prompt_symbol_ids: Tensor

    def __init__(
        self, task: Task, model: Any, prompt: PromptTokens, config: BackboneConfig, width: int
    ):
        super().__init__()
        from peft import LoraConfig, get_peft_model

        lora = LoraConfig(
            r=config.rank, lora_alpha=config.alpha, lora_dropout=config.lora_dropout,
            target_modules=LORA_TARGETS, task_type="CAUSAL_LM",
        )  # fmt: skip
        # Wrapping the CausalLM, not its decoder: the saved adapter then loads into one.
        self.model: Any = get_peft_model(model, lora)
        for name in ("template", "slot", "readout", "symbol_ids"):
            self.register_buffer(f"prompt_{name}", getattr(prompt, name), persistent=False)
        hidden = model.config.hidden_size
        self.readout_norm, self.readout = nn.RMSNorm(hidden), nn.Linear(hidden, width)
        # Where the grid is printed once, early cells have not seen all of it: add a summary.
        printed_once = bool((prompt.slot >= 0).sum() == task.cells)
        self.summary = nn.Linear(hidden, width, bias=False) if printed_once else None

    @property
    def prompt(self) -> PromptTokens:
        """The prompt on the model's device."""
        return PromptTokens(
            self.prompt_template, self.prompt_slot, self.prompt_readout, self.prompt_symbol_ids
        )

    def forward(self, x: Problem) -> Float[Tensor, "batch tokens width"]:
        """R, from one pass of the decoder without its vocabulary head."""
        decoder = self.model.get_base_model().get_decoder()
        hidden = decoder(input_ids=self.prompt.ids(x.grid), use_cache=False).last_hidden_state
        hidden = self.readout_norm(hidden.float())
        places = self.prompt_readout[x.cell]
        at_cells = hidden.gather(1, places[..., None].expand(-1, -1, hidden.shape[-1]))
        R = self.readout(at_cells)
        return R if self.summary is None else R + self.summary(hidden[:, -1:])


def build_backbone(task: Task, config: BackboneConfig, width: int) -> nn.Module:
    """The encoder that a config names."""
    if config.name == "none":
        return ClueEmbedding(task, width)
    if config.name in ("tiny-llama", "tiny-qwen3"):
        prompt = tokenize_prompt(task.prompt(), lambda text: [ord(char) % 128 for char in text])
        return LanguageModel(task, _tiny(config.name), prompt, config, width)
    model, prompt = _pretrained(task, config.name)
    return LanguageModel(task, model, prompt, config, width)


def _tiny(name: str) -> nn.Module:
    """A small random-weight model of a real architecture, for tests."""
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

    sizes: dict[str, Any] = dict(
        vocab_size=128, hidden_size=48, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=12, max_position_embeddings=2048,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)  # the same frozen weights wherever a checkpoint is loaded
        if name == "tiny-llama":
            return LlamaForCausalLM(LlamaConfig(**sizes))
        return Qwen3ForCausalLM(Qwen3Config(**sizes))


def _pretrained(task: Task, name: str) -> tuple[nn.Module, PromptTokens]:
    """A model and its prompt from a local folder or the hub."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
        model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"cannot load the backbone {name!r} ({reason}); give none, a folder with a model and "
            "its tokenizer, or a hub id; gated models need `hf auth login` first"
        ) from error
    begin = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]

    def encode(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False)

    return model, tokenize_prompt(task.prompt(), encode, begin)
