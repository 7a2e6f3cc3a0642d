"""Attention with a bias for related pairs on a GPU: one kernel forward, one back.

Which relations hold for a pair of tokens are the bits of a byte. The kernels read that byte where
a matrix of biases would take two of them for each head, and sum up the gradient of the strengths
on the way. They read queries, keys and values as the layer before leaves them, side by side, and
end where the padding of a puzzle begins.

Softmax in blocks after Dao et al., arXiv 2205.14135. Imported where a GPU is used: Triton comes
with PyTorch for one.
"""

import math
from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

HIDDEN = 128  # the bit of a key that nothing attends to
COLUMNS = 128  # keys of a row of codes are a multiple of it; those behind the end are hidden
_BLOCK, _INNER, _WARPS = 64, 64, 4  # tokens of a program, at a time, warps: fastest on an H200
_HIDDEN = tl.constexpr(HIDDEN)


@triton.constexpr_function
def _width(tokens):
    """Columns of the codes."""
    return -(-tokens // COLUMNS) * COLUMNS


@triton.jit
@no_type_check
def _scores(
    q, k, codes, strength, rows, columns, tokens: tl.constexpr, scale, RELATIONS: tl.constexpr
):
    """Scores of a block of pairs, and their codes."""
    at = tl.minimum(rows, tokens - 1)[:, None] * _width(tokens) + columns[None, :]
    code = tl.load(codes + at)
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    for r in tl.static_range(RELATIONS):
        scores += tl.where((code & (1 << r)) != 0, tl.load(strength + r).to(tl.float32), 0.0)
    return tl.where(code >= _HIDDEN, float("-inf"), scores), code


@triton.jit
@no_type_check
def _load(base, rows, tokens, stride, SIZE: tl.constexpr):
    """Rows of a matrix (tokens, SIZE), zeros behind its end."""
    at = rows[:, None] * stride + tl.arange(0, SIZE)[None, :]
    return tl.load(base + at, mask=rows[:, None] < tokens, other=0.0)


@triton.jit
@no_type_check
def _store(base, value, rows, tokens, stride, SIZE: tl.constexpr):
    at = rows[:, None] * stride + tl.arange(0, SIZE)[None, :]
    tl.store(base + at, value.to(base.dtype.element_ty), mask=rows[:, None] < tokens)


@triton.jit
@no_type_check
def _forward(
    qkv, codes, counts, strength, out, lse, batch_per_code, batch_per_strength, scale,
    tokens: tl.constexpr,
    HEADS: tl.constexpr, SIZE: tl.constexpr, RELATIONS: tl.constexpr,
    BLOCK: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """A block of queries against all keys."""
    pair = tl.program_id(0).to(tl.int64)
    puzzle, head = pair // HEADS, pair % HEADS
    WIDTH: tl.constexpr = HEADS * SIZE
    qkv += puzzle * tokens * 3 * WIDTH + head * SIZE
    codes += puzzle // batch_per_code * tokens * _width(tokens)
    strength += (puzzle // batch_per_strength * HEADS + head) * RELATIONS
    count = tl.load(counts + puzzle // batch_per_code)
    end = tl.where(tl.program_id(1) * BLOCK < count, count, 0)  # a block of padding reads nothing
    rows = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    q = _load(qkv, rows, tokens, 3 * WIDTH, SIZE)
    highest = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    mixed = tl.zeros([BLOCK, SIZE], tl.float32)
    for start in range(0, end, INNER):
        columns = start + tl.arange(0, INNER)
        k = _load(qkv + WIDTH, columns, tokens, 3 * WIDTH, SIZE)
        v = _load(qkv + 2 * WIDTH, columns, tokens, 3 * WIDTH, SIZE)
        scores, _ = _scores(q, k, codes, strength, rows, columns, tokens, scale, RELATIONS)
        now = tl.maximum(highest, tl.max(scores, 1))
        now = tl.maximum(now, -1e30)  # where all keys so far are hidden
        p = tl.exp(scores - now[:, None])
        shrink = tl.exp(highest - now)
        total = total * shrink + tl.sum(p, 1)
        mixed = mixed * shrink[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        highest = now
    total = tl.where(total > 0, total, 1.0)  # of padding
    _store(out + puzzle * tokens * WIDTH + head * SIZE, mixed / total[:, None], rows, tokens,
           WIDTH, SIZE)  # fmt: skip
    tl.store(lse + pair * tokens + rows, highest + tl.log(total), mask=rows < tokens)


@triton.jit
@no_type_check
def _backward(
    qkv, codes, counts, strength, d_out, lse, delta, d_qkv, d_strength, batch_per_code,
    batch_per_strength, scale, tokens: tl.constexpr, HEADS: tl.constexpr, SIZE: tl.constexpr,
    RELATIONS: tl.constexpr, BLOCK: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """A block of tokens, first as keys against all queries, then as queries against all keys."""
    pair = tl.program_id(0).to(tl.int64)
    puzzle, head = pair // HEADS, pair % HEADS
    WIDTH: tl.constexpr = HEADS * SIZE
    qkv += puzzle * tokens * 3 * WIDTH + head * SIZE
    d_qkv += puzzle * tokens * 3 * WIDTH + head * SIZE
    d_out += puzzle * tokens * WIDTH + head * SIZE
    codes += puzzle // batch_per_code * tokens * _width(tokens)
    strength += (puzzle // batch_per_strength * HEADS + head) * RELATIONS
    lse += pair * tokens
    delta += pair * tokens
    count = tl.load(counts + puzzle // batch_per_code)
    end = tl.where(tl.program_id(1) * BLOCK < count, count, 0)  # a block of padding reads nothing
    own = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)

    own_k = _load(qkv + WIDTH, own, tokens, 3 * WIDTH, SIZE)
    own_v = _load(qkv + 2 * WIDTH, own, tokens, 3 * WIDTH, SIZE)
    d_k = tl.zeros([BLOCK, SIZE], tl.float32)
    d_v = tl.zeros([BLOCK, SIZE], tl.float32)
    for start in range(0, end, INNER):
        rows = start + tl.arange(0, INNER)
        q = _load(qkv, rows, tokens, 3 * WIDTH, SIZE)
        d_o = _load(d_out, rows, tokens, WIDTH, SIZE)
        scores, _ = _scores(q, own_k, codes, strength, rows, own, tokens, scale, RELATIONS)
        p = tl.exp(scores - tl.load(lse + rows, mask=rows < count, other=float("inf"))[:, None])
        d_v += tl.dot(tl.trans(p.to(q.dtype)), d_o, input_precision="ieee")
        d_p = tl.dot(d_o, tl.trans(own_v), input_precision="ieee")
        d_s = p * (d_p - tl.load(delta + rows, mask=rows < tokens, other=0.0)[:, None])
        d_k += tl.dot(tl.trans(d_s.to(q.dtype)), q, input_precision="ieee")
    _store(d_qkv + WIDTH, d_k * scale, own, tokens, 3 * WIDTH, SIZE)
    _store(d_qkv + 2 * WIDTH, d_v, own, tokens, 3 * WIDTH, SIZE)

    own_q = _load(qkv, own, tokens, 3 * WIDTH, SIZE)
    own_d_o = _load(d_out, own, tokens, WIDTH, SIZE)
    own_lse = tl.load(lse + own, mask=own < count, other=float("inf"))
    own_delta = tl.load(delta + own, mask=own < tokens, other=0.0)
    d_q = tl.zeros([BLOCK, SIZE], tl.float32)
    relation = tl.arange(0, 8)
    sums = tl.zeros([8], tl.float32)
    for start in range(0, end, INNER):
        columns = start + tl.arange(0, INNER)
        k = _load(qkv + WIDTH, columns, tokens, 3 * WIDTH, SIZE)
        v = _load(qkv + 2 * WIDTH, columns, tokens, 3 * WIDTH, SIZE)
        own_scores, code = _scores(
            own_q, k, codes, strength, own, columns, tokens, scale, RELATIONS
        )
        own_p = tl.exp(own_scores - own_lse[:, None])
        own_d_p = tl.dot(own_d_o, tl.trans(v), input_precision="ieee")
        own_d_s = own_p * (own_d_p - own_delta[:, None])
        d_q += tl.dot(own_d_s.to(k.dtype), k, input_precision="ieee")
        for r in tl.static_range(RELATIONS):
            one = tl.sum(tl.where((code & (1 << r)) != 0, own_d_s, 0.0))
            sums += tl.where(relation == r, one, 0.0)
    _store(d_qkv, d_q * scale, own, tokens, 3 * WIDTH, SIZE)
    at = (pair * tl.num_programs(1) + tl.program_id(1)) * RELATIONS + relation
    tl.store(d_strength + at, sums, mask=relation < RELATIONS)


def _launch(
    kernel, qkv: Tensor, codes: Tensor, counts: Tensor, strength: Tensor, *tensors: Tensor
) -> None:
    batch, tokens, _, heads, size = qkv.shape
    with torch.cuda.device_of(qkv):
        kernel[(batch * heads, triton.cdiv(tokens, _BLOCK))](
            qkv, codes.contiguous(), counts, strength.contiguous(), *tensors,
            batch // len(codes), batch // len(strength), 1 / math.sqrt(size), tokens=tokens,
            HEADS=heads, SIZE=size, RELATIONS=strength.shape[-1], BLOCK=_BLOCK, INNER=_INNER,
            num_warps=_WARPS,
        )  # fmt: skip


@torch.library.custom_op("focus::related_attention", mutates_args=())
def related_attention(
    qkv: Tensor, codes: Tensor, counts: Tensor, strength: Tensor
) -> tuple[Tensor, Tensor]:
    """Attention of all heads, and the logarithms of the sums behind it.

    qkv (batch, tokens, 3, heads, size), codes (shared or batch, tokens, columns), counts (shared
    or batch) of the tokens before a puzzle's padding, which gets zeros or nothing of meaning,
    strength (several, heads, relations): the strengths of several solvers are each for an equal
    part of the batch.
    """
    qkv = qkv.contiguous()
    out, lse = _empty(qkv)
    _launch(_forward, qkv, codes, counts, strength, out, lse)
    return out, lse


@related_attention.register_fake
def _empty(
    qkv: Tensor, codes: Tensor | None = None, counts: Tensor | None = None,
    strength: Tensor | None = None,
):  # fmt: skip
    batch, tokens, _, heads, size = qkv.shape
    lse = qkv.new_empty(batch, heads, tokens, dtype=torch.float32)
    return qkv.new_empty(batch, tokens, heads, size), lse


@torch.library.custom_op("focus::related_attention_backward", mutates_args=())
def _gradients(
    qkv: Tensor, codes: Tensor, counts: Tensor, strength: Tensor, d_out: Tensor, lse: Tensor,
    delta: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    qkv = qkv.contiguous()
    batch, tokens, _, heads, _ = qkv.shape
    blocks = triton.cdiv(tokens, _BLOCK)
    d_qkv = torch.empty_like(qkv)
    parts = qkv.new_empty(batch, heads, blocks, strength.shape[-1], dtype=torch.float32)
    _launch(
        _backward, qkv, codes, counts, strength, d_out.contiguous(), lse, delta.contiguous(),
        d_qkv, parts,
    )  # fmt: skip
    return d_qkv, parts.sum(2).unflatten(0, (len(strength), -1)).sum(1)


@_gradients.register_fake
def _empty_gradients(qkv, codes, counts, strength, d_out, lse, delta):
    return torch.empty_like(qkv), torch.empty_like(strength, dtype=torch.float32)


def _remember(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs, *output)


def _differentiate(ctx, d_out, _):
    qkv, codes, counts, strength, out, lse = ctx.saved_tensors
    delta = (d_out.float() * out.float()).sum(-1).transpose(1, 2)
    d_qkv, d_strength = _gradients(qkv, codes, counts, strength, d_out, lse, delta)
    return d_qkv, None, None, d_strength.to(strength.dtype)


related_attention.register_autograd(_differentiate, setup_context=_remember)
