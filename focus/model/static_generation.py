"""Greedy completions on a GPU: a token of all rows is one replay of a CUDA graph.

Written token by token, a small model spends its time on launches. Here keys and values lie in
buffers of their final size, so that every token is the same work, recorded once. Heads that share
their keys are left to the kernel: repeating the keys for each costs more than attending.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from focus.cuda_graphs import WARM_UPS, record, warm_up

LOOK = 16  # tokens between two looks at which rows have ended; each look waits for the device
_ATTENTION = "focus_one_query"
# Numbers of rows that have ended since the last look, or reached the cap, and their tokens.
Written = Iterator[tuple[Int[Tensor, " rows"], Int[Tensor, "rows cap"]]]


def is_static(model: Any) -> bool:
    """Whether a model's attention is the usual one, to everything written so far.

    Others (sliding windows, alibi, attention of the model's own) would need other work here.
    """
    from transformers import StaticCache
    from transformers.cache_utils import StaticLayer

    base, config = getattr(model, "get_base_model", lambda: model)(), model.config
    usual = config._attn_implementation in ("sdpa", _ATTENTION)
    if not usual or not base._supports_attention_backend or getattr(config, "alibi", False):
        return False
    if getattr(config, "attn_logit_softcapping", None) is not None:
        return False
    layers = StaticCache(config=config, max_cache_len=1).layers
    return all(type(layer) is StaticLayer for layer in layers)


class Rows:
    """The rows that are being written."""

    def __init__(
        self, model: Any, prompts: Int[Tensor, "rows length"], mask: Bool[Tensor, "rows length"],
        cap: int, ends: Sequence[int],
    ):  # fmt: skip
        """Read the prompts, padded on the left where `mask` is False, and write the first token."""
        from transformers import StaticCache

        count, width = prompts.shape
        device = prompts.device
        _use_own_attention(model)
        self.model, self.captured = model, device.type == "cuda"
        self.ends = torch.tensor(list(ends), device=device)
        self.cache: Any = StaticCache(config=model.config, max_cache_len=width + cap)
        self.seen = torch.zeros(count, 1, 1, width + cap, dtype=torch.bool, device=device)
        self.seen[:, 0, 0, :width] = mask
        positions = (mask.long().cumsum(1) - 1).clamp_min(0)
        self.at = torch.tensor([width], device=device)  # where the next key will lie
        self.number = torch.tensor([0], device=device)  # of the last token
        self.written = torch.full((count, cap), ends[0], device=device)
        self.ended = torch.zeros(count, dtype=torch.bool, device=device)
        self.token, self.position = prompts[:, -1:].clone(), positions[:, -1:].clone()
        self._graph: torch.cuda.CUDAGraph | None = None
        self._take(self._ask(prompts, mask, positions))

    def advance(self, most: int) -> int:
        """Write one more token of every row, or a few, at most so many; says how many."""
        if self._graph is not None:
            self._graph.replay()
        elif self.captured and most >= WARM_UPS:
            warm_up(self._advance)  # these are real tokens: nothing has to be put back
            try:
                self._graph = record(self._advance)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError:  # a model that waits for the host goes on without a graph
                self.captured = False
            return WARM_UPS
        else:
            self._advance()
        return 1

    def _advance(self) -> None:
        self.seen.index_fill_(3, self.at, True)
        self.position.add_(1)
        self.at.add_(1)
        self.number.add_(1)
        self._take(self._ask(self.token, self.seen, self.position))

    def _ask(self, ids: Tensor, mask: Tensor, positions: Tensor) -> Tensor:
        return self.model(
            input_ids=ids, attention_mask=mask, position_ids=positions,
            past_key_values=self.cache, use_cache=True, logits_to_keep=1,
        ).logits  # fmt: skip

    def _take(self, logits: Tensor) -> None:
        token = logits[:, -1].argmax(-1, keepdim=True)
        self.token.copy_(token)
        self.written.index_copy_(1, self.number, token)
        self.ended.logical_or_((token == self.ends).any(1))

    def keep(self, going: Int[Tensor, " rows"]) -> None:
        """Go on with these rows alone."""
        for name in ("seen", "written", "ended", "token", "position"):
            setattr(self, name, getattr(self, name)[going].clone())
        for layer in self.cache.layers:
            layer.keys, layer.values = layer.keys[going], layer.values[going]
        self._graph = None


def write(
    model: Any, prompts: Int[Tensor, "rows length"], mask: Bool[Tensor, "rows length"], cap: int,
    ends: Sequence[int],
) -> Written:  # fmt: skip
    """Greedy continuations of at most `cap` tokens, at every look those that have ended since.

    What follows an end is nothing.
    """
    rows = Rows(model, prompts, mask, cap, ends)
    given = torch.zeros_like(rows.ended)  # has ended, and was yielded
    numbers = torch.arange(len(prompts), device=prompts.device)
    number, look = 1, LOOK
    while number < cap:
        number += rows.advance(cap - number)
        if number >= look:
            look += LOOK
            fresh = (rows.ended & ~given).nonzero()[:, 0]
            yield numbers[fresh], rows.written[fresh]
            given = rows.ended.clone()
            going = (~rows.ended).nonzero()[:, 0]
            if not len(going):
                return
            if len(going) > 0.5 * len(numbers):
                continue  # not worth another recording
            numbers, given = numbers[going], given[going]
            rows.keep(going)
    yield numbers[~given], rows.written[~given]


def _use_own_attention(model: Any) -> None:
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(_ATTENTION, _attend)
    AttentionMaskInterface.register(_ATTENTION, sdpa_mask)
    getattr(model, "get_base_model", lambda: model)().set_attn_implementation(_ATTENTION)


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,
    **others: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """Attention as transformers wants it: (rows, heads, queries, size) to (rows, queries, ...)."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if query.shape[2] > 1 or attention_mask is None or others.get("position_bias") is not None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **others)
    mixed = scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, scale=others.get("scaling"), enable_gqa=True
    )
    return mixed.transpose(1, 2), None
