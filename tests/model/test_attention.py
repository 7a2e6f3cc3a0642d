"""Attention with a bias for related tokens: by a matrix, and by a kernel."""

import os
from importlib.util import find_spec

import pytest
import torch

from focus.model.attention import by_bias, by_codes, related_attention
from focus.tasks import Maze, Sudoku
from tests.tasks.samples import batch


def kernel_device() -> str:
    """Where the kernels run: on a GPU, or in Triton's interpreter if that was asked for."""
    if torch.cuda.is_available():
        return "cuda:0"
    if find_spec("triton") is None or not os.environ.get("TRITON_INTERPRET"):
        pytest.skip("needs a CUDA device, or TRITON_INTERPRET=1 and Triton")
    return "cpu"


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("task", "several"), [("sudoku", 2), ("sudoku", 1), ("maze", 1), ("maze", 2)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernel_and_the_matrix_give_the_same_numbers(task, several, dtype):
    """Values, and the gradients of queries, keys, values and strengths."""
    device = kernel_device()
    if device == "cpu" and dtype == torch.bfloat16:
        pytest.skip("Triton's interpreter has no products in bf16")
    task = Sudoku() if task == "sudoku" else Maze(size=14, min_path=20)
    x = batch(task)[0].to(device)
    tokens, mask = x.cell.shape[1], x.mask if task.padded else None
    torch.manual_seed(0)
    qkv = torch.randn(len(x), tokens, 3 * 64, dtype=dtype)
    gradient = torch.randn(len(x), tokens, 64, device=device, dtype=dtype) * x.mask[..., None]
    strengths = 2 * torch.randn(several, 2, len(task.relation_names))
    found = []
    for kernel in (False, True):
        strength = strengths.to(device, copy=True).requires_grad_()
        inputs = qkv.to(device, copy=True).requires_grad_()
        related = task.relations(x)
        structure = by_codes(related, mask) if kernel else by_bias(related, mask, strength)
        out = related_attention(inputs, structure, strength)
        out = out * x.mask[..., None]  # what padding gets means nothing
        found.append([out, *torch.autograd.grad(out, (inputs, strength), gradient)])
    within = 1e-4 if dtype == torch.float32 else 2e-2
    for one, other in zip(*found, strict=True):
        assert (one.float() - other.float()).norm() < within * other.float().norm()


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
    found = related_attention(qkv, by_bias(related, mask, strength), strength)
    torch.testing.assert_close(found, expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_updater_agrees_between_cpu_and_gpu():
    """bf16 with the kernel on a GPU, float32 with the matrix on a CPU."""
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
