"""Attention with a bias for related tokens: the kernel is the plain computation."""

import os
import subprocess
import sys

import pytest
import torch

from focus.model.attention import (
    bias_matrix,
    pack_relations,
    pad_to_block,
    related_attention,
    structure,
)

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def sample(tokens: int, padded: bool, heads: int = 4, size: int = 64, batch: int = 5):
    torch.manual_seed(tokens)
    related = torch.rand(batch if padded else 1, 3, tokens, tokens) < 0.3
    mask = torch.arange(tokens) < torch.randint(4, tokens, (batch, 1)) if padded else None
    strength = torch.randn(heads, 3)
    qkv, gradient = (
        torch.randn(batch, tokens, 3 * heads * size),
        torch.randn(batch, tokens, heads * size),
    )
    return related, mask, strength, qkv, gradient


def test_the_bias_is_what_it_says():
    related, mask, strength, qkv, _ = sample(6, padded=True, heads=2, size=16)
    bias = bias_matrix(pack_relations(related, mask), strength)
    expected = sum(strength[None, :, r, None, None] * related[:, r, None].float() for r in range(3))
    torch.testing.assert_close(bias, expected - 1e4 * (~mask)[:, None, None].float())
    # Two heads, written out.
    q, k, v = qkv.view(5, 6, 3, 2, 16).unbind(2)
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / 4 + bias
    mixed = torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).flatten(2)
    torch.testing.assert_close(related_attention(qkv, bias, strength), mixed)


def test_further_tokens_are_related_to_none():
    related, _, strength, _, _ = sample(6, padded=False, heads=2, size=16)
    bias = structure(related, None, 2, strength, 32)
    assert bias.shape == (1, 2, 8, 8)
    assert not bias[..., 6:].any()
    assert not bias[..., 6:, :].any()


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("tokens", [16, 81, 128])
def test_the_kernel_equals_plain_attention(tokens, norm, padded):
    """bf16 inputs; the reference is float32 on the same numbers."""
    related, mask, strength, qkv, gradient = (
        None if t is None else t.cuda() for t in sample(tokens, padded)
    )
    assert structure(related, mask, 0, strength, 256).dtype == torch.uint8
    bits = pack_relations(related, mask)
    found, expected = [], []
    for exact, results in ((False, found), (True, expected)):
        dtype = torch.float32 if exact else torch.bfloat16
        inputs = qkv.bfloat16().to(dtype).requires_grad_()
        own = strength.clone().requires_grad_()
        of_batch = bias_matrix(bits, own) if exact else pad_to_block(bits)
        out = related_attention(inputs, of_batch, own, norm)
        grads = torch.autograd.grad(out, (inputs, own), gradient.bfloat16().to(dtype))
        results += [out.float(), *(grad.float() for grad in grads)]
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() / other.norm() < 0.01


INTERPRETED = """
import torch
from focus.model import attention
from tests.model.test_attention import sample
for padded, norm in ((False, False), (True, False), (True, True)):
    related, mask, strength, qkv, gradient = sample(40, padded, heads=2, size=16)
    bits = attention.pack_relations(related, mask)
    block = attention.pad_to_block(bits)
    qkv.requires_grad_(), strength.requires_grad_()
    bias = attention.bias_matrix(bits, strength)
    plain = attention.related_attention(qkv, bias, strength, norm)
    expected = [plain, *torch.autograd.grad(plain, (qkv, strength), gradient)]
    fused = attention.related_attention(qkv, block, strength, norm)
    found = [fused, *torch.autograd.grad(fused, (qkv, strength), gradient)]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
compiled = torch.compile(attention.related_attention, backend="aot_eager", fullgraph=True)
torch.testing.assert_close(compiled(qkv, block, strength, norm), fused)
"""


def test_the_kernels_in_tritons_interpreter():
    """Where triton is installed, its interpreter runs the kernels on a CPU."""
    pytest.importorskip("triton")
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED], capture_output=True, text=True,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
