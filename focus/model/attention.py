"""Attention between tokens with a learned bias for related pairs.

    softmax(q k' / sqrt(d) + sum_r strength[head, r] * related_r) v

On a GPU the relations of a pair are bits of a byte, and a kernel of our own adds the strengths
(`attention_kernels.py`). Elsewhere the bias is a matrix. Both give the same numbers.
"""

import warnings
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor
from torch.nn import functional

from focus.tasks.records import SomeRows, constant

_HIDDEN = -1e4  # bias of padding
_MOST_RELATIONS = 7  # bits of a byte, but for that of padding
_HEAD_SIZES = (16, 32, 64, 128)  # that the kernel takes


@dataclass(frozen=True)
class Structure:
    """How the tokens of a batch are related: a bias for each pair, or its relations as bits.

    With the bits come the numbers of tokens that are no padding, which lies behind them.
    """

    bias: Float[Tensor, "shared heads keys keys"] | None = None
    codes: UInt8[Tensor, "shared keys columns"] | None = None
    counts: Int[Tensor, " shared"] | None = None

    def detach(self) -> "Structure":
        """Cut off from the strengths."""
        return self if self.bias is None else Structure(self.bias.detach())

    def of_rows(self, rows: SomeRows, batch: int) -> "Structure":
        """The structure of some of `batch` puzzles; what they share stays as it is."""
        parts = (self.bias, self.codes, self.counts)
        return Structure(
            *(one[rows] if one is not None and len(one) == batch > 1 else one for one in parts)
        )


def structure_of(
    related: Bool[Tensor, "shared relations tokens tokens"],
    mask: Bool[Tensor, "batch tokens"] | None, strength: Float[Tensor, "*several heads relations"],
    head_size: int,
) -> Structure:  # fmt: skip
    """Relations as attention wants them on this device; `mask` is False at padding."""
    heads, relations = strength.shape[-2:]
    takes = head_size in _HEAD_SIZES and relations <= _MOST_RELATIONS
    tokens = related.shape[-1]
    if (
        related.is_cuda
        and takes
        and _kernel_runs(related.device, (1, tokens, 3, heads, head_size), relations)
    ):
        return by_codes(related, mask)
    return by_bias(related, mask, strength)


@cache
def _kernel_runs(device: torch.device, shape: tuple[int, ...], relations: int) -> bool:
    """Whether the kernels can be built and run here, found out by trying them.

    A GPU may be too old or have too little shared memory, a machine no C compiler for Triton.
    """
    if find_spec("triton") is None or torch.cuda.get_device_capability(device) < (8, 0):
        return False
    try:
        from focus.model.attention_kernels import COLUMNS, related_attention

        with torch.enable_grad():
            qkv = torch.zeros(shape, dtype=torch.bfloat16, device=device, requires_grad=True)
            columns = -(-shape[1] // COLUMNS) * COLUMNS
            codes = torch.zeros(1, shape[1], columns, dtype=torch.uint8, device=device)
            counts = codes.new_full((1,), shape[1], dtype=torch.int32)
            strength = qkv.new_zeros(1, shape[3], relations, requires_grad=True)
            related_attention(qkv, codes, counts, strength)[0].sum().backward()
    except Exception as error:  # whatever a compiler or a driver says
        reason = " ".join(str(error).split())[:200]
        warnings.warn(
            f"attention runs without its kernels, which is slower: {reason}", stacklevel=2
        )
        return False
    return True


def by_bias(
    related: Bool[Tensor, "shared relations tokens tokens"],
    mask: Bool[Tensor, "batch tokens"] | None, strength: Float[Tensor, "*several heads relations"],
) -> Structure:  # fmt: skip
    """Relations as a matrix for each head; each of several solvers has its own."""
    related = related.to(strength.dtype)
    if strength.ndim == 2:
        bias = torch.einsum("hr,brij->bhij", strength, related)
    else:
        number = max(len(strength), len(related))
        strength = strength.repeat_interleave(number // len(strength), 0)
        bias = torch.einsum("bhr,brij->bhij", strength, related.expand(number, -1, -1, -1))
    if mask is not None:
        bias = bias.masked_fill(~mask[:, None, None, :], _HIDDEN)
    return Structure(bias)


def by_codes(
    related: Bool[Tensor, "shared relations tokens tokens"],
    mask: Bool[Tensor, "batch tokens"] | None,
) -> Structure:  # fmt: skip
    """Relations as bits, for the kernel."""
    from focus.model.attention_kernels import COLUMNS, HIDDEN  # which needs Triton

    bits = constant(tuple(1 << r for r in range(related.shape[1])), related.device)
    bits = bits.to(torch.uint8)
    codes = (related * bits[:, None, None]).sum(1, dtype=torch.uint8)
    tokens = codes.shape[-1]
    if mask is None:
        counts = codes.new_full((len(codes),), tokens, dtype=torch.int32)
    else:
        codes = codes | (~mask[:, None, :] * HIDDEN).to(torch.uint8)
        number = torch.arange(1, tokens + 1, dtype=torch.int32, device=codes.device)
        counts = (mask * number).amax(1)
    codes = functional.pad(codes, (0, -tokens % COLUMNS), value=HIDDEN)
    return Structure(codes=codes, counts=counts)


def related_attention(
    qkv: Float[Tensor, "batch keys three_widths"], structure: Structure,
    strength: Float[Tensor, "*several heads relations"],
) -> Float[Tensor, "batch keys width"]:  # fmt: skip
    """Attention of all heads; queries, keys and values lie side by side in `qkv`.

    The strengths of several solvers are each for an equal part of the batch. What padding gets
    means nothing.
    """
    apart = qkv.unflatten(-1, (3, strength.shape[-2], -1))
    if structure.codes is not None:
        several = strength.view(-1, *strength.shape[-2:])
        codes, counts = structure.codes, structure.counts
        return torch.ops.focus.related_attention(apart, codes, counts, several)[0].flatten(2)
    q, k, v = apart.permute(2, 0, 3, 1, 4)
    bias = structure.bias
    if bias is not None:
        bias = bias.to(q.dtype)
        if strength.ndim == 3:
            bias = bias.repeat_interleave(len(q) // len(bias), 0)
    mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    return mixed.transpose(1, 2).flatten(2)
