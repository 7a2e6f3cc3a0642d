"""Attention between tokens with a learned bias for related pairs.

    softmax(q k' / sqrt(d) + sum_r strength[head, r] * related_r) v

Where tokens are related because they belong to the same group (the row, column and box of a
Sudoku), the bias is itself a product of queries and keys: one-hot memberships, appended to both.
Attention then needs no mask, which on a GPU is twice as fast, and the strengths get their gradient
from the same product. Elsewhere, and on a CPU, the bias is a matrix. Both give the same numbers.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from focus.model.precision import rms_norm

_HIDDEN = -1e4  # bias of padding
_ALIGNED = 8  # sizes that kernels take in steps of


@dataclass(frozen=True)
class Structure:
    """How the tokens of a batch are related; one of the two is there."""

    bias: Float[Tensor, "shared heads keys keys"] | None
    members: Float[Tensor, "relations keys groups"] | None

    def detach(self) -> "Structure":
        """Cut off from the strengths."""
        return self if self.bias is None else Structure(self.bias.detach(), None)


def by_bias(
    related: Bool[Tensor, "shared relations tokens tokens"],
    mask: Bool[Tensor, "batch tokens"] | None, extra: int,
    strength: Float[Tensor, "heads relations"],
) -> Structure:  # fmt: skip
    """Relations as a matrix; `mask` is False at padding, `extra` more tokens have no relation."""
    bias = torch.einsum("hr,brij->bhij", strength, related.to(strength.dtype))
    if mask is not None:
        bias = bias.masked_fill(~mask[:, None, None, :], _HIDDEN)
    return Structure(functional.pad(bias, (0, extra, 0, extra)), None)


def by_groups(groups: Int[Tensor, "relations tokens"], extra: int) -> Structure:
    """Relations as membership of groups, in which `extra` more tokens have no part."""
    members = functional.one_hot(groups).float()
    return Structure(None, functional.pad(members, (0, 0, 0, extra)))


def related_attention(
    qkv: Float[Tensor, "batch keys three_widths"], structure: Structure,
    strength: Float[Tensor, "heads relations"], norm: bool = False,
) -> Float[Tensor, "batch keys width"]:  # fmt: skip
    """Attention of all heads; queries, keys and values lie side by side in `qkv`.

    With `norm`, queries and keys are scaled to a mean square of 1 first.
    """
    q, k, v = qkv.unflatten(-1, (3, len(strength), -1)).permute(2, 0, 3, 1, 4)
    scale, bias = 1 / math.sqrt(q.shape[-1]), structure.bias
    if norm:
        q, k = rms_norm(q), rms_norm(k)
    if structure.members is not None:
        asked = torch.einsum("hr,rng->hnrg", strength / scale, structure.members).flatten(2)
        is_in = structure.members.transpose(0, 1).flatten(1)
        q, k = _append(q, asked), _append(k, is_in)
    mask = None if bias is None else bias.to(q.dtype)
    mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    return mixed.transpose(1, 2).flatten(2)


def _append(
    x: Float[Tensor, "batch heads keys size"], more: Float[Tensor, "*heads keys more"]
) -> Float[Tensor, "batch heads keys sum"]:
    """More numbers for every token, the same in each puzzle; zeros fill up to an aligned size."""
    more = functional.pad(more, (0, -(x.shape[-1] + more.shape[-1]) % _ALIGNED))
    return torch.cat([x, more.to(x.dtype).expand(*x.shape[:-1], -1)], -1)
