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

from focus.model.precision import EPSILON, rms_norm

try:
    import triton
    import triton.language as tl
except ImportError:  # a machine without a GPU
    triton = None

MOST_RELATIONS = 7  # bits of a byte but one
_HIDDEN_BIT = 7
_HIDDEN = -1e4  # bias of a hidden key
_MOST_TOKENS = 128  # of the kernel: the keys of a head stay on the chip
_CHUNK, _WARPS = 32, 4  # queries at a time, and warps of a program


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
    return pad_to_block(bits) if kernel else bias_matrix(bits, strength)


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


def pad_to_block(bits: UInt8[Tensor, "shared keys keys"]) -> UInt8[Tensor, "shared block block"]:
    """The relations in a square that the kernel can load; what is beyond the tokens is hidden."""
    tokens = bits.shape[-1]
    block = max(16, 1 << (tokens - 1).bit_length())
    hidden = 1 << _HIDDEN_BIT
    wide = functional.pad(bits, (0, block - tokens), value=hidden)
    return functional.pad(wide, (0, 0, 0, block - tokens), value=hidden).contiguous()


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
    strength: Float[Tensor, "heads relations"], norm: bool = False,
) -> Float[Tensor, "batch keys width"]:  # fmt: skip
    """Attention of all heads; queries, keys and values lie side by side in `qkv`.

    With `norm`, queries and keys are scaled to a mean square of 1 first.
    """
    if of_batch.dtype == torch.uint8:
        return _fused(qkv.contiguous(), of_batch, strength.float(), norm)
    q, k, v = qkv.unflatten(-1, (3, len(strength), -1)).permute(2, 0, 3, 1, 4)
    if norm:
        q, k = rms_norm(q), rms_norm(k)
    mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=of_batch.to(q.dtype))
    return mixed.transpose(1, 2).flatten(2)


# ------------------------------------------------------------------ the kernel
# A program takes one head of one puzzle. Keys and values stay on the chip while the queries pass
# by in chunks; the scores of a chunk are whole rows, so that nothing is kept for the way back.
if triton is not None:

    @triton.jit
    def _rows(place, row, column, stride, keep):
        """A tile of some rows and columns; 0 where it is not to be kept."""
        return tl.load(
            place + row[:, None] * stride + column[None, :], mask=keep[:, None], other=0.0
        )

    @triton.jit
    def _scaled(x, epsilon, size: tl.constexpr):
        """Rows scaled to a mean square of 1, and the scale."""
        x = x.to(tl.float32)
        scale = 1 / tl.sqrt(tl.sum(x * x, 1) / size + epsilon)
        return x * scale[:, None], scale

    @triton.jit
    def _unscaled_grad(grad, x, scale, size: tl.constexpr):
        """The gradient before `_scaled`; `x` is what it gave."""
        return scale[:, None] * (grad - x * (tl.sum(grad * x, 1) / size)[:, None])

    @triton.jit
    def _probabilities(q, k, pairs, strength, scale, relations: tl.constexpr):
        """softmax of the biased scores."""
        scores = tl.dot(q, tl.trans(k)) * scale
        for r in tl.static_range(relations):
            scores += tl.load(strength + r) * ((pairs >> r) & 1).to(tl.float32)
        scores += -1e4 * ((pairs >> 7) & 1).to(tl.float32)
        weights = tl.exp(scores - tl.max(scores, 1)[:, None])
        return weights / tl.sum(weights, 1)[:, None]

    @triton.jit
    def _forward_kernel(
        qkv, related, strength, out, tokens, heads, pair_stride, scale, epsilon,
        relations: tl.constexpr, size: tl.constexpr, block: tl.constexpr, chunk: tl.constexpr,
        chunks: tl.constexpr, norm: tl.constexpr,
    ):  # fmt: skip
        puzzle, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
        width = heads * size
        key, column = tl.arange(0, block), tl.arange(0, size)
        qkv += puzzle * tokens * 3 * width + head * size
        out += puzzle * tokens * width + head * size
        k = _rows(qkv + width, key, column, 3 * width, key < tokens)
        v = _rows(qkv + 2 * width, key, column, 3 * width, key < tokens)
        if norm:
            k = _scaled(k, epsilon, size)[0].to(v.dtype)
        for number in tl.static_range(chunks):
            row = number * chunk + tl.arange(0, chunk)
            q = _rows(qkv, row, column, 3 * width, row < tokens)
            if norm:
                q = _scaled(q, epsilon, size)[0].to(v.dtype)
            place = related + puzzle * pair_stride + row[:, None] * block + key[None, :]
            pairs = tl.load(place).to(tl.int32)
            p = _probabilities(q, k, pairs, strength + head * relations, scale, relations)
            mixed = tl.dot(p.to(v.dtype), v).to(v.dtype)
            place = out + row[:, None] * width + column[None, :]
            tl.store(place, mixed, mask=(row < tokens)[:, None])

    @triton.jit
    def _backward_kernel(
        qkv, related, strength, out_grad, qkv_grad, strength_grad, tokens, heads, pair_stride,
        scale, epsilon, relations: tl.constexpr, size: tl.constexpr, block: tl.constexpr,
        chunk: tl.constexpr, chunks: tl.constexpr, norm: tl.constexpr,
    ):  # fmt: skip
        puzzle, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
        width = heads * size
        key, column = tl.arange(0, block), tl.arange(0, size)
        qkv += puzzle * tokens * 3 * width + head * size
        qkv_grad += puzzle * tokens * 3 * width + head * size
        out_grad += puzzle * tokens * width + head * size
        k = _rows(qkv + width, key, column, 3 * width, key < tokens)
        v = _rows(qkv + 2 * width, key, column, 3 * width, key < tokens)
        kind = v.dtype
        if norm:
            k = _scaled(k, epsilon, size)[0].to(kind)
        k_grad = tl.zeros([block, size], tl.float32)
        v_grad = tl.zeros([block, size], tl.float32)
        relation = tl.arange(0, 8)
        sums = tl.zeros([8], tl.float32)
        for number in tl.static_range(chunks):
            row = number * chunk + tl.arange(0, chunk)
            keep = row < tokens
            q = _rows(qkv, row, column, 3 * width, keep)
            if norm:
                q_scaled, q_scale = _scaled(q, epsilon, size)
                q = q_scaled.to(kind)
            place = related + puzzle * pair_stride + row[:, None] * block + key[None, :]
            pairs = tl.load(place).to(tl.int32)
            p = _probabilities(q, k, pairs, strength + head * relations, scale, relations)
            g = _rows(out_grad, row, column, width, keep)
            v_grad += tl.dot(tl.trans(p.to(kind)), g)
            p_grad = tl.dot(g, tl.trans(v))
            score_grad = p * (p_grad - tl.sum(p * p_grad, 1)[:, None])
            for r in tl.static_range(relations):
                of_relation = tl.sum(tl.sum(score_grad * ((pairs >> r) & 1).to(tl.float32), 1), 0)
                sums += tl.where(relation == r, of_relation, 0.0)
            score_grad = (score_grad * scale).to(kind)
            k_grad += tl.dot(tl.trans(score_grad), q)
            q_grad = tl.dot(score_grad, k)
            if norm:
                q_grad = _unscaled_grad(q_grad, q_scaled, q_scale, size)
            place = qkv_grad + row[:, None] * (3 * width) + column[None, :]
            tl.store(place, q_grad.to(kind), mask=keep[:, None])
        if norm:
            k = _rows(qkv + width, key, column, 3 * width, key < tokens)
            k_scaled, k_scale = _scaled(k, epsilon, size)
            k_grad = _unscaled_grad(k_grad, k_scaled, k_scale, size)
        place = qkv_grad + key[:, None] * (3 * width) + column[None, :]
        tl.store(place + width, k_grad.to(kind), mask=(key < tokens)[:, None])
        tl.store(place + 2 * width, v_grad.to(kind), mask=(key < tokens)[:, None])
        place = strength_grad + (puzzle * heads + head) * relations + relation
        tl.store(place, sums, mask=relation < relations)


def _sizes(qkv: Tensor, related: Tensor, strength: Tensor, norm: bool) -> tuple[tuple, dict]:
    """Arguments and constants of both kernels."""
    tokens, (heads, relations) = qkv.shape[1], strength.shape
    size, block = qkv.shape[-1] // (3 * heads), related.shape[-1]
    pair_stride = 0 if len(related) == 1 else block * block
    chunk = min(_CHUNK, block)
    constants = {
        "relations": relations, "size": size, "block": block, "chunk": chunk,
        "chunks": triton.cdiv(tokens, chunk), "norm": norm, "num_warps": _WARPS,
    }  # fmt: skip
    return (tokens, heads, pair_stride, 1 / math.sqrt(size), EPSILON), constants


@torch.library.custom_op("focus::related_attention", mutates_args=())
def _fused(qkv: Tensor, related: Tensor, strength: Tensor, norm: bool) -> Tensor:
    out = qkv.new_empty(*qkv.shape[:-1], qkv.shape[-1] // 3)
    numbers, constants = _sizes(qkv, related, strength, norm)
    _forward_kernel[(len(qkv), len(strength))](qkv, related, strength, out, *numbers, **constants)
    return out


@_fused.register_fake
def _(qkv, related, strength, norm):
    return qkv.new_empty(*qkv.shape[:-1], qkv.shape[-1] // 3)


@torch.library.custom_op("focus::related_attention_grad", mutates_args=())
def _fused_grad(
    out_grad: Tensor, qkv: Tensor, related: Tensor, strength: Tensor, norm: bool
) -> tuple[Tensor, Tensor]:
    qkv_grad, per_puzzle = torch.empty_like(qkv), strength.new_empty(len(qkv), *strength.shape)
    numbers, constants = _sizes(qkv, related, strength, norm)
    _backward_kernel[(len(qkv), len(strength))](
        qkv, related, strength, out_grad, qkv_grad, per_puzzle, *numbers, **constants
    )
    return qkv_grad, per_puzzle


@_fused_grad.register_fake
def _(out_grad, qkv, related, strength, norm):
    return torch.empty_like(qkv), strength.new_empty(len(qkv), *strength.shape)


def _keep(ctx, inputs, output):
    *tensors, ctx.norm = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx, out_grad):
    qkv_grad, per_puzzle = _fused_grad(out_grad.contiguous(), *ctx.saved_tensors, ctx.norm)
    return qkv_grad, None, per_puzzle.sum(0), None


_fused.register_autograd(_backward, setup_context=_keep)
