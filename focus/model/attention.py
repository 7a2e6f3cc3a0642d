"""Attention between tokens with a learned bias for related pairs.

    softmax(q k' / sqrt(d) + sum_r strength[head, r] * related_r) v

Where tokens are related because they belong to the same group (the row, column and box of a
Sudoku), the bias is itself a product of queries and keys: one-hot memberships, appended to both.
Padding is one more number of the same kind. Attention then needs no mask, which on a GPU is twice
as fast, and the strengths get their gradient from the same product. Elsewhere, and on a CPU, the
bias is a matrix. Both give the same numbers.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from focus.model.precision import rms_norm

_HIDDEN = -1e4  # bias of padding
_ALIGNED = 8  # sizes that kernels take in steps of


@dataclass(frozen=True)
class Structure:
    """How the tokens of a batch are related: a bias, or members of groups and what is hidden."""

    bias: Float[Tensor, "shared heads keys keys"] | None = None
    members: Float[Tensor, "relations keys groups"] | None = None
    hidden: Float[Tensor, "batch keys"] | None = None  # bias of a key: very low at padding

    def detach(self) -> "Structure":
        """Cut off from the strengths."""
        return self if self.bias is None else Structure(self.bias.detach())

    def of_rows(self, rows: Bool[Tensor, " batch"], batch: int) -> "Structure":
        """The structure of some of `batch` puzzles; what they share stays as it is."""
        bias, hidden = self.bias, self.hidden
        if bias is not None and len(bias) == batch:
            bias = bias[rows]
        return Structure(bias, self.members, None if hidden is None else hidden[rows])


def by_bias(
    related: Bool[Tensor, "shared relations tokens tokens"],
    mask: Bool[Tensor, "batch tokens"] | None, extra: int,
    strength: Float[Tensor, "heads relations"],
) -> Structure:  # fmt: skip
    """Relations as a matrix; `mask` is False at padding, `extra` more tokens have no relation."""
    bias = torch.einsum("hr,brij->bhij", strength, related.to(strength.dtype))
    bias = functional.pad(bias, (0, extra, 0, extra))
    if mask is not None:
        hidden = functional.pad(~mask, (0, extra))
        bias = bias.masked_fill(hidden[:, None, None, :], _HIDDEN)
    return Structure(bias)


def by_groups(
    members: Float[Tensor, "relations tokens groups"] | None,
    mask: Bool[Tensor, "batch tokens"] | None, extra: int,
) -> Structure:  # fmt: skip
    """Relations as membership of groups, in which `extra` more tokens have no part."""
    hidden = None
    if members is not None:
        members = functional.pad(members, (0, 0, 0, extra))
    if mask is not None:
        hidden = functional.pad(torch.where(mask, 0.0, _HIDDEN), (0, extra))
    return Structure(None, members, hidden)


def related_attention(
    qkv: Float[Tensor, "batch keys three_widths"], structure: Structure,
    strength: Float[Tensor, "*several heads relations"], norm: bool = False,
) -> Float[Tensor, "batch keys width"]:  # fmt: skip
    """Attention of all heads; queries, keys and values lie side by side in `qkv`.

    With `norm`, queries and keys are scaled to a mean square of 1 first. The strengths of several
    solvers are each for an equal part of the batch.
    """
    q, k, v = qkv.unflatten(-1, (3, strength.shape[-2], -1)).permute(2, 0, 3, 1, 4)
    scale, bias = 1 / math.sqrt(q.shape[-1]), structure.bias
    if norm:
        q, k = rms_norm(q), rms_norm(k)
    if structure.members is not None or structure.hidden is not None:
        q, k = _appended(q, k, structure, strength / scale, scale)
    mask = None if bias is None else bias.to(q.dtype)
    mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    return mixed.transpose(1, 2).flatten(2)


def _appended(
    q: Float[Tensor, "batch heads keys size"], k: Float[Tensor, "batch heads keys size"],
    structure: Structure, strength: Float[Tensor, "*several heads relations"], scale: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Queries and keys with the numbers whose products are the bias; zeros align their size."""
    query_parts: list[Tensor] = [q]
    given: list[Tensor] = [k]
    size = q.shape[-1]
    if structure.members is not None:
        wanted = torch.einsum("...hr,rng->...hnrg", strength, structure.members).flatten(-2)
        if wanted.ndim == 4:
            wanted = wanted.repeat_interleave(len(q) // len(wanted), 0)
        is_in = structure.members.transpose(0, 1).flatten(1)
        query_parts.append(wanted.to(q.dtype).expand(*q.shape[:-1], -1))
        given.append(is_in.to(k.dtype).expand(*k.shape[:-1], -1))
        size += is_in.shape[-1]
    if structure.hidden is not None:
        hidden = (structure.hidden / scale).to(k.dtype)[:, None, :, None]
        query_parts.append(torch.ones_like(q[..., :1]))
        given.append(hidden.expand(*k.shape[:-1], -1))
        size += 1
    fill = q.new_zeros(()).expand(*q.shape[:-1], -size % _ALIGNED)
    return torch.cat([*query_parts, fill], -1), torch.cat([*given, fill], -1)
