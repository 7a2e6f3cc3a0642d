"""Greedy completions of many prompts.

Prompts of similar length are completed together, padded on the left. A row that has ended leaves
the batch soon, and the batch ends with its last row. Which prompts share a batch changes a
completion by float noise only: padding is masked, and positions are counted without it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from focus.errors import UserError
from focus.model import static_generation
from focus.model.pretrained import Codec
from focus.model.static_generation import LOOK

_MOST_ROWS = 2048
BYTES_READING = 24  # at the widest place of a layer, for a token: bf16, and float32 of the adapter


@dataclass(frozen=True)
class Completion:
    """What was written, without the token that ended it."""

    ids: list[int]
    finished: bool  # ended by itself, not by the cap


def batches(lengths: Sequence[int], size: int) -> list[list[int]]:
    """Numbers of prompts that are completed together: the longest first, so that memory that does
    not suffice shows at once."""
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    return [order[first : first + size] for first in range(0, len(order), size)]


def prompt_ids(codec: Codec, text: str, thinking: bool) -> list[int]:
    """As the model's chat template has it, else as plain text."""
    if codec.chat is not None:
        return codec.chat(text, thinking)
    return [*codec.begin, *codec.encode(text + "\n\n")]


def end_ids(model: Any, codec: Codec) -> list[int]:
    """Tokens that end a completion."""
    ends = getattr(model.generation_config, "eos_token_id", None)
    more = ends if isinstance(ends, list) else [] if ends is None else [ends]
    return list(dict.fromkeys([codec.end, *more]))


def complete(
    model: Any, prompts: Sequence[Sequence[int]], cap: int, ends: Sequence[int], device: str
) -> list[Completion]:
    """The greedy completions of one batch, of at most `cap` tokens."""
    pieces = complete_in_pieces(model, prompts, cap, ends, device)
    completions = dict(one for piece in pieces for one in piece)
    return [completions[number] for number in range(len(prompts))]


@torch.inference_mode()
def complete_in_pieces(
    model: Any, prompts: Sequence[Sequence[int]], cap: int, ends: Sequence[int], device: str
) -> Iterator[list[tuple[int, Completion]]]:
    """The same every `LOOK` tokens: the numbers of prompts that have ended, and what was written.

    A batch that does not fit into memory is completed in two halves.
    """
    ids, mask = pad_left(prompts, device)
    # On a CPU nothing is gained by attending to keys that are not there yet.
    write = (
        static_generation.write
        if ids.is_cuda and static_generation.is_static(model)
        else _write_growing
    )
    left = list(range(len(prompts)))
    try:
        for numbers, written in write(model, ids, mask, cap, ends):
            rows = zip(numbers.tolist(), written.tolist(), strict=True)
            piece = [(number, _cut(row, set(ends))) for number, row in rows]
            left = [number for number in left if number not in dict(piece)]
            yield piece
    except torch.OutOfMemoryError as error:
        if len(prompts) == 1:
            raise UserError(
                f"a prompt of {len(prompts[0]):,} tokens and a completion of {cap:,} do not fit "
                "into the GPU's memory; ask for fewer: focus transfer --max-tokens, focus train "
                "--text-kl.length"
            ) from error
    if not left:
        return
    del ids, mask
    torch.cuda.empty_cache()
    half = len(left) // 2
    for part in (left[:half], left[half:]):
        if part:
            fewer = [prompts[number] for number in part]
            for piece in complete_in_pieces(model, fewer, cap, ends, device):
                yield [(part[number], one) for number, one in piece]


def _write_growing(
    model: Any, ids: Int[Tensor, "batch length"], mask: Bool[Tensor, "batch length"], cap: int,
    ends: Sequence[int],
) -> static_generation.Written:  # fmt: skip
    """The same for any model: the cache grows with what is written."""
    from transformers import DynamicCache

    device = ids.device
    count, width = ids.shape
    seen = torch.ones(count, width + cap, dtype=torch.bool, device=device)
    seen[:, :width] = mask
    position = (mask.long().cumsum(1) - 1).clamp_min(0)
    ending = torch.tensor(list(ends), device=device)
    written = torch.full((count, cap), ends[0], device=device)
    rows = torch.arange(count, device=device)  # of those still being written
    ended = torch.zeros(count, dtype=torch.bool, device=device)
    given = ended.clone()  # has ended, and was yielded
    cache = DynamicCache(config=model.config)
    for number in range(cap):
        logits = model(
            input_ids=ids, attention_mask=seen[:, : width + number], position_ids=position,
            past_key_values=cache, use_cache=True, logits_to_keep=1,
        ).logits  # fmt: skip
        token = logits[:, -1].argmax(-1)
        written[rows, number] = token
        ended |= torch.isin(token, ending)
        ids, position = token[:, None], position[:, -1:] + 1
        if number % LOOK == LOOK - 1:
            fresh = rows[ended & ~given]
            yield fresh, written[fresh]
            given = ended.clone()
            going = (~ended).nonzero()[:, 0]
            if not len(going):
                return
            if len(going) <= 0.8 * len(rows):  # fewer rows are worth a copy of the cache
                cache.batch_select_indices(going)
                rows, ids, position = rows[going], ids[going], position[going]
                seen, ended, given = seen[going], ended[going], given[going]
    yield rows[~given], written[rows[~given]]


def pad_left(
    prompts: Sequence[Sequence[int]], device: str
) -> tuple[Int[Tensor, "batch length"], Bool[Tensor, "batch length"]]:
    """Prompts of one length, and where they are not padding."""
    width = max(len(prompt) for prompt in prompts)
    ids = torch.zeros(len(prompts), width, dtype=torch.long)
    mask = torch.zeros(len(prompts), width, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(list(prompt))
        mask[row, width - len(prompt) :] = True
    return ids.to(device), mask.to(device)


def _cut(ids: list[int], ends: set[int]) -> Completion:
    """Up to the first end; what a row wrote after it was never asked for."""
    for place, token in enumerate(ids):
        if token in ends:
            return Completion(ids[:place], True)
    return Completion(ids, False)


def batch_size(model: Any, width: int, cap: int, device: str) -> int:
    """How many completions of prompts of at most `width` tokens fit into memory."""
    if device == "cpu":
        return 32
    config = model.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    cache = 2 * 2 * config.num_hidden_layers * heads * size * (width + cap)
    reading = width * (BYTES_READING * inner + 3 * (width + cap))  # activations, and the mask
    torch.cuda.empty_cache()  # what earlier batches have left counts as free
    free, _ = torch.cuda.mem_get_info()
    return int(max(1, min(_MOST_ROWS, 0.8 * free / (cache + reading))))
