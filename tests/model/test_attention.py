"""Attention with a bias for related tokens: by a matrix, and by membership of groups."""

import pytest
import torch

from focus.model.attention import by_bias, by_groups, related_attention
from focus.tasks import Sudoku
from tests.tasks.samples import batch


@pytest.mark.parametrize("extra", [0, 3])
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_groups_and_the_matrix_give_the_same_numbers(padded, norm, extra):
    """Values, and the gradients of queries, keys, values and strengths."""
    task = Sudoku()
    x, _ = batch(task)
    mask = torch.arange(81) < torch.tensor([[60], [81], [5], [70]]) if padded else None
    torch.manual_seed(0)
    qkv, gradient = torch.randn(4, 81 + extra, 3 * 64), torch.randn(4, 81 + extra, 64)
    found = []
    for grouped in (False, True):
        strength = torch.tensor([[4.0, 0.0, -1.0], [0.5, 2.0, 1.0]], requires_grad=True)
        inputs = qkv.clone().requires_grad_()
        structure = (
            by_groups(task.members(x), mask, extra)
            if grouped
            else by_bias(task.relations(x), mask, extra, strength)
        )
        out = related_attention(inputs, structure, strength, norm)
        found.append([out, *torch.autograd.grad(out, (inputs, strength), gradient)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_the_matrix_is_what_it_says():
    """Two heads, written out; padding is not attended to."""
    torch.manual_seed(0)
    related, mask = torch.rand(2, 3, 6, 6) < 0.3, torch.arange(6) < torch.tensor([[4], [6]])
    strength, qkv = torch.randn(2, 3), torch.randn(2, 6, 3 * 32)
    bias = sum(strength[None, :, r, None, None] * related[:, r, None] for r in range(3))
    bias = bias.masked_fill(~mask[:, None, None], -torch.inf)
    q, k, v = qkv.view(2, 6, 3, 2, 16).unbind(2)
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / 4 + bias
    expected = torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).flatten(2)
    found = related_attention(qkv, by_bias(related, mask, 0, strength), strength)
    torch.testing.assert_close(found, expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_updater_agrees_between_cpu_and_gpu():
    """bf16 with groups on a GPU, float32 with the matrix on a CPU."""
    from focus.model.base import SolverConfig, evaluating
    from focus.model.solver import Solver

    torch.manual_seed(0)
    solver = Solver(Sudoku(), SolverConfig())
    torch.nn.init.normal_(solver.updater.head.weight, std=0.05)
    answers = []
    with torch.no_grad(), evaluating(solver):
        for device in ("cpu", "cuda:0"):
            solver.to(device)
            x = batch(Sudoku())[0].to(device)
            rollout = solver.roll(solver.updater.initial(x), solver.encode(x), x, 4)
            answers.append(rollout.last.z.cpu())
    assert (answers[0] - answers[1]).norm() / answers[0].norm() < 0.02
