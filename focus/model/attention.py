"""Attention between tokens with a learned bias for related pairs.

    softmax(q k' / sqrt(d) + sum_r strength[head, r] * related_r) v

`related` packs the relations of a pair of tokens into the bits of one byte; the top bit hides a
key (padding). On a GPU with Triton, up to 128 tokens, one kernel does a head of a puzzle at once:
scores never leave the chip, and the gradient of `strength` is summed where they are. Elsewhere
PyTorch's own attention gets the bias as a matrix. Both give the same numbers (tests).
"""

import math

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor
from torch.nn import functional

try:
    import triton
    import triton.language as tl
except ImportError:  # a machine without a GPU
    triton = None

MOST_RELATIONS = 7  # bits of a byte but one
_HIDDEN_BIT = 7
_HIDDEN = -1e4  # bias of a hidden key
_MOST_TOKENS = 128  # of the kernel: a head's scores fit into one tile


def structure(
    related: Bool[Tensor, "shared relations tokens tokens"],
    mask: Bool[Tensor, "batch tokens"] | None, extra: int,
    strength: Float[Tensor, "heads relations"], width: int,
) -> Tensor:  # fmt: skip
    """What `related_attention` needs of a batch: packed relations, or the bias as a matrix.

    `mask` is False at padding; `extra` further tokens are related to none.
    """
    bits = pack_relations(related, mask, extra)
    size = width // len(strength)
    fits = bits.shape[-1] <= _MOST_TOKENS and size in (16, 32, 64)
    kernel = triton is not None and bits.is_cuda and fits
    return bits if kernel else bias_matrix(bits, strength)


def pack_relations(
    related: Bool[Tensor, "shared relations tokens tokens"],
    mask: Bool[Tensor, "batch tokens"] | None = None, extra: int = 0,
) -> UInt8[Tensor, "batch keys keys"]:  # fmt: skip
    """The relations of each pair of tokens as the bits of a byte."""
    weight = 2 ** torch.arange(related.shape[1], device=related.device)
    bits = (related * weight[:, None, None]).sum(1).to(torch.uint8)
    if mask is not None:
        bits = bits | (~mask[:, None, :]).to(torch.uint8) << _HIDDEN_BIT
    return functional.pad(bits, (0, extra, 0, extra)).contiguous()


def bias_matrix(
    bits: UInt8[Tensor, "shared keys keys"], strength: Float[Tensor, "heads relations"]
) -> Float[Tensor, "shared heads keys keys"]:
    """The additive bias of every head."""
    places = torch.arange(strength.shape[1], device=bits.device, dtype=torch.uint8)
    related = ((bits[:, None] >> places[:, None, None]) & 1).to(strength.dtype)
    hidden = (bits[:, None] >> _HIDDEN_BIT).to(strength.dtype)
    return torch.einsum("hr,brij->bhij", strength, related) + _HIDDEN * hidden


def related_attention(
    qkv: Float[Tensor, "batch keys three_widths"], of_batch: Tensor,
    strength: Float[Tensor, "heads relations"],
) -> Float[Tensor, "batch keys width"]:  # fmt: skip
    """Attention of all heads; queries, keys and values lie side by side in `qkv`."""
    if of_batch.dtype == torch.uint8:
        return _fused(qkv.contiguous(), of_batch, strength.float())
    q, k, v = qkv.unflatten(-1, (3, len(strength), -1)).permute(2, 0, 3, 1, 4)
    mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=of_batch.to(q.dtype))
    return mixed.transpose(1, 2).flatten(2)


# ------------------------------------------------------------------ the kernel
if triton is not None:

    @triton.jit
    def _tile(qkv, row, column, keep, width, part: tl.constexpr):
        """Queries, keys or values of one head of one puzzle; 0 beyond its tokens."""
        place = qkv + row[:, None] * (3 * width) + part * width + column[None, :]
        return tl.load(place, mask=keep[:, None], other=0.0)

    @triton.jit
    def _probabilities(q, k, pairs, live, strength, scale, relations: tl.constexpr):
        """softmax of the biased scores, all of them at once."""
        scores = tl.dot(q, tl.trans(k)) * scale
        for r in tl.static_range(relations):
            scores += tl.load(strength + r) * ((pairs >> r) & 1).to(tl.float32)
        scores += -1e4 * ((pairs >> 7) & 1).to(tl.float32)
        scores = tl.where(live[None, :], scores, float("-inf"))
        weights = tl.exp(scores - tl.max(scores, 1)[:, None])
        return weights / tl.sum(weights, 1)[:, None]

    @triton.jit
    def _forward_kernel(
        qkv, related, strength, out, tokens, heads, pair_stride, scale,
        relations: tl.constexpr, size: tl.constexpr, block: tl.constexpr,
    ):  # fmt: skip
        puzzle, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
        width = heads * size
        row, column = tl.arange(0, block), head * size + tl.arange(0, size)
        live = row < tokens
        both = live[:, None] & live[None, :]
        qkv += puzzle * tokens * 3 * width
        q, k = _tile(qkv, row, column, live, width, 0), _tile(qkv, row, column, live, width, 1)
        v = _tile(qkv, row, column, live, width, 2)
        place = related + puzzle * pair_stride + row[:, None] * tokens + row[None, :]
        pairs = tl.load(place, mask=both, other=0).to(tl.int32)
        p = _probabilities(q, k, pairs, live, strength + head * relations, scale, relations)
        mixed = tl.dot(p.to(v.dtype), v)
        place = out + puzzle * tokens * width + row[:, None] * width + column[None, :]
        tl.store(place, mixed.to(v.dtype), mask=live[:, None])

    @triton.jit
    def _backward_kernel(
        qkv, related, strength, out_grad, qkv_grad, strength_grad, tokens, heads, pair_stride,
        scale, relations: tl.constexpr, size: tl.constexpr, block: tl.constexpr,
    ):  # fmt: skip
        puzzle, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
        width = heads * size
        row, column = tl.arange(0, block), head * size + tl.arange(0, size)
        live = row < tokens
        both = live[:, None] & live[None, :]
        qkv += puzzle * tokens * 3 * width
        q, k = _tile(qkv, row, column, live, width, 0), _tile(qkv, row, column, live, width, 1)
        v = _tile(qkv, row, column, live, width, 2)
        place = related + puzzle * pair_stride + row[:, None] * tokens + row[None, :]
        pairs = tl.load(place, mask=both, other=0).to(tl.int32)
        p = _probabilities(q, k, pairs, live, strength + head * relations, scale, relations)
        place = out_grad + puzzle * tokens * width + row[:, None] * width + column[None, :]
        g = tl.load(place, mask=live[:, None], other=0.0)
        back = qkv_grad + puzzle * tokens * 3 * width + row[:, None] * (3 * width) + column[None, :]
        v_grad = tl.dot(tl.trans(p).to(g.dtype), g)
        tl.store(back + 2 * width, v_grad.to(g.dtype), mask=live[:, None])
        p_grad = tl.dot(g, tl.trans(v))
        score_grad = p * (p_grad - tl.sum(p * p_grad, 1)[:, None])
        score_grad = tl.where(both, score_grad, 0.0)
        place = strength_grad + (puzzle * heads + head) * relations
        for r in tl.static_range(relations):
            of_relation = score_grad * ((pairs >> r) & 1).to(tl.float32)
            tl.store(place + r, tl.sum(tl.sum(of_relation, 1), 0))
        score_grad = (score_grad * scale).to(g.dtype)
        tl.store(back, tl.dot(score_grad, k).to(g.dtype), mask=live[:, None])
        k_grad = tl.dot(tl.trans(score_grad), q)
        tl.store(back + width, k_grad.to(g.dtype), mask=live[:, None])


def _sizes(qkv: Tensor, related: Tensor, strength: Tensor) -> tuple[tuple, dict]:
    """Arguments and constants of both kernels."""
    tokens, (heads, relations) = qkv.shape[1], strength.shape
    size = qkv.shape[-1] // (3 * heads)
    pair_stride = 0 if len(related) == 1 else tokens * tokens
    block = max(16, triton.next_power_of_2(tokens))
    constants = {"relations": relations, "size": size, "block": block, "num_warps": 8}
    return (tokens, heads, pair_stride, 1 / math.sqrt(size)), constants


@torch.library.custom_op("focus::related_attention", mutates_args=(), device_types="cuda")
def _fused(qkv: Tensor, related: Tensor, strength: Tensor) -> Tensor:
    out = qkv.new_empty(*qkv.shape[:-1], qkv.shape[-1] // 3)
    numbers, constants = _sizes(qkv, related, strength)
    _forward_kernel[(len(qkv), len(strength))](qkv, related, strength, out, *numbers, **constants)
    return out


@_fused.register_fake
def _(qkv, related, strength):
    return qkv.new_empty(*qkv.shape[:-1], qkv.shape[-1] // 3)


@torch.library.custom_op("focus::related_attention_grad", mutates_args=(), device_types="cuda")
def _fused_grad(
    out_grad: Tensor, qkv: Tensor, related: Tensor, strength: Tensor
) -> tuple[Tensor, Tensor]:
    qkv_grad, per_puzzle = torch.empty_like(qkv), strength.new_empty(len(qkv), *strength.shape)
    numbers, constants = _sizes(qkv, related, strength)
    _backward_kernel[(len(qkv), len(strength))](
        qkv, related, strength, out_grad, qkv_grad, per_puzzle, *numbers, **constants
    )
    return qkv_grad, per_puzzle


@_fused_grad.register_fake
def _(out_grad, qkv, related, strength):
    return torch.empty_like(qkv), strength.new_empty(len(qkv), *strength.shape)


def _keep(context, inputs, output):
    context.save_for_backward(*inputs)


def _backward(context, out_grad):
    qkv_grad, per_puzzle = _fused_grad(out_grad.contiguous(), *context.saved_tensors)
    return qkv_grad, None, per_puzzle.sum(0)


_fused.register_autograd(_backward, setup_context=_keep)
