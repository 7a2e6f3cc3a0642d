"""Joined projections compute what peft's do, for one solver and for several."""

import pytest
import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import nn

from focus.model.backbone import (
    BackboneConfig,
    LanguageModel,
    adapter_tensors,
    recompute_activations,
)
from focus.model.base import SolverConfig
from focus.model.dropout import HashedDropout
from focus.model.joined_lora import JoinedLinear, join_projections
from focus.model.solver import Solver
from focus.model.stacked import StackedSolver
from focus.model.updater import UpdaterConfig
from focus.tasks import Sudoku
from tests.tasks.samples import batch

MINI = Sudoku(box=2)


def solver(seed: int, backbone: str = "tiny-llama", dropout: float = 0.0) -> Solver:
    torch.manual_seed(seed)
    language_model = BackboneConfig(backbone, rank=4, lora_dropout=dropout)
    made = Solver(MINI, SolverConfig(language_model, UpdaterConfig(width=32, dropout=0.0)))
    for name, weight in made.named_parameters():  # an adapter that changes something
        if "lora_B" in name:
            nn.init.normal_(weight, std=0.1)
    return made.train()


def reading(one: Solver) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """What is read of a batch, and the gradient of each weight of the adapter."""
    x, _ = batch(MINI, 4)
    one.zero_grad()
    read = one.backbone.read(x)
    (read * torch.randn(read.shape, generator=torch.Generator().manual_seed(0))).sum().backward()
    grads = {n: p.grad.clone() for n, p in one.named_parameters() if "lora_" in n}
    return read.detach(), grads


@pytest.mark.parametrize("backbone", ["tiny-llama", "tiny-qwen3"])
def test_readings_and_gradients_are_peft_s(backbone):
    made = solver(0, backbone)
    read, grads = reading(made)
    saved = {name: value.clone() for name, value in adapter_tensors(made.language_model).items()}
    join_projections(made.language_model)
    joined = [part for part in made.modules() if isinstance(part, JoinedLinear)]
    assert len(joined) == 5 * len(made.backbone.decoder().layers)
    again, others = reading(made)
    torch.testing.assert_close(again, read, rtol=1e-4, atol=1e-5)
    assert all(gradient.any() for gradient in others.values())
    for name, gradient in grads.items():
        assert (others[name] - gradient).norm() < 1e-3 * gradient.norm(), name
    assert not any(part.joined.waiting or part.joined.given is not None for part in joined)
    with torch.no_grad():  # peft's own where nothing is trained
        torch.testing.assert_close(made.eval().backbone.read(batch(MINI, 4)[0]), read)
    made.train()
    with torch.no_grad(), made.language_model.disable_adapter():
        off = made.backbone.read(batch(MINI, 4)[0])
    assert not torch.allclose(off, read, atol=1e-3)
    after = adapter_tensors(made.language_model)
    assert after.keys() == saved.keys()
    assert all(torch.equal(after[name], value) for name, value in saved.items())


def a_layer(biases: tuple[bool, bool, bool]) -> nn.Module:
    """Three projections with adapters."""
    layer = nn.Module()
    for name, bias, rows in zip(("q_proj", "k_proj", "v_proj"), biases, (8, 4, 4), strict=True):
        torch.manual_seed(rows)
        setattr(layer, name, nn.Linear(6, rows, bias=bias))
    config = LoraConfig(r=2, target_modules=["q_proj", "k_proj", "v_proj"], init_lora_weights=False)
    return inject_adapter_in_model(config, layer).train()


@pytest.mark.parametrize("order", ["qkv", "vqk"])
@pytest.mark.parametrize("biased", [False, True])
def test_biases_and_the_order_of_calls(order, biased):
    layer, x, other = a_layer((biased,) * 3), torch.randn(2, 6), torch.randn(2, 6)
    expected = {name: getattr(layer, f"{name}_proj")(x) for name in order}
    beside = layer.v_proj(other)
    join_projections(layer)
    assert isinstance(layer.k_proj, JoinedLinear)
    layer.q_proj(x.clone())  # a pass that ended before the others were called
    for name, output in expected.items():
        torch.testing.assert_close(getattr(layer, f"{name}_proj")(x), output)
    layer.q_proj(x)
    torch.testing.assert_close(layer.v_proj(other), beside)  # attends to something else


def test_projections_of_which_some_have_a_bias_stay_apart():
    layer = a_layer((True, False, True))
    join_projections(layer)
    assert not any(isinstance(part, JoinedLinear) for part in layer.modules())


@pytest.mark.parametrize("backbone", ["tiny-llama", "tiny-qwen3"])
def test_activations_that_are_recomputed_change_nothing(backbone):
    made = solver(0, backbone)
    join_projections(made.language_model)
    read, grads = reading(made)
    recompute_activations(made.language_model)
    again, others = reading(made)
    torch.testing.assert_close(again, read)
    for name, gradient in grads.items():
        torch.testing.assert_close(others[name], gradient)


def test_frozen_weights_are_not_stored_twice():
    made = solver(0)
    join_projections(made.language_model)
    join_projections(made.language_model)  # once more changes nothing
    for part in made.modules():
        if isinstance(part, JoinedLinear):
            storage = part.joined.weight.untyped_storage().data_ptr()
            assert part.base_layer.weight.untyped_storage().data_ptr() == storage


def test_adapters_of_several_solvers_each_read_their_own():
    solvers = [solver(seed) for seed in (1, 2)]
    x, _ = batch(MINI, 4)
    expected = torch.cat(
        [one.encode(part).inputs for one, part in zip(solvers, (x[:2], x[2:]), strict=True)]
    )
    assert not torch.allclose(expected[2:], solvers[0].encode(x[2:]).inputs)
    stack = StackedSolver(solvers).train()
    join_projections(stack.backbone.language_model)
    found = stack.encode(x).inputs
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    found.square().sum().backward()
    trained = {name: weight for name, weight in stack.weights.items() if "lora_" in name}
    assert all(weight.grad[n].any() for weight in trained.values() for n in range(2))


def test_joined_adapters_see_the_same_dropped_input():
    made = solver(0, dropout=0.5)
    join_projections(made.language_model)
    attention = made.backbone.decoder().layers[0].self_attn
    for part in (attention.q_proj, attention.k_proj):  # then equal inputs give equal outputs
        part.lora_A["default"].weight.data.fill_(1)
        part.lora_B["default"].weight.data.fill_(1)
    width = attention.k_proj.base_layer.out_features
    x = torch.randn(2, 5, attention.q_proj.base_layer.in_features)
    changes = []
    for part in (attention.q_proj, attention.k_proj):
        base = nn.functional.linear(x, part.base_layer.weight, part.base_layer.bias)
        changes.append((part(x) - base)[..., :width])
    torch.testing.assert_close(changes[0], changes[1], rtol=1e-3, atol=1e-3)
    attention.v_proj(x)
    kept = changes[0][..., 0] / (attention.q_proj.scaling["default"] * 4)
    assert not torch.allclose(kept, x.sum(-1), atol=0.1)  # something was dropped


def test_a_pass_back_finds_the_mask_of_its_own_reading(monkeypatch):
    monkeypatch.setattr(nn.Module, "compile", lambda self, **how: None)  # takes long
    made = solver(0, dropout=0.3)
    for _ in range(2):  # once more changes nothing
        made.backbone.compile_layers()
    torch.manual_seed(1)
    read, grads = reading(made)
    assert not torch.equal(made.backbone.read(batch(MINI, 4)[0]), read)  # another mask
    torch.manual_seed(1)
    made.zero_grad()
    again = made.backbone.read(batch(MINI, 4)[0])
    made.backbone.read(batch(MINI, 4)[0])  # as the text term does before all is passed back
    weights = torch.randn(read.shape, generator=torch.Generator().manual_seed(0))
    (again * weights).sum().backward()
    assert torch.equal(again, read)
    for name, weight in made.named_parameters():
        assert "lora_" not in name or torch.equal(weight.grad, grads[name]), name
    made.eval()
    assert torch.equal(*(made.backbone.read(batch(MINI, 4)[0]) for _ in range(2)))


def test_recomputed_layers_keep_peft_s_dropout(monkeypatch):
    monkeypatch.setattr(nn.Module, "compile", lambda self, **how: None)
    made = solver(0, dropout=0.3)
    recompute_activations(made.language_model)
    made.backbone.compile_layers()
    assert not any(isinstance(part, HashedDropout) for part in made.modules())


def test_a_compiled_layer_is_joined_and_a_frozen_one_is_left_alone(monkeypatch):
    monkeypatch.setattr(nn.Module, "compile", lambda self, **how: None)  # takes long
    made = solver(0)
    made.backbone.compile_layers()
    assert any(isinstance(part, JoinedLinear) for part in made.modules())
    frozen = SolverConfig(BackboneConfig("tiny-llama", frozen=True), UpdaterConfig(width=32))
    other = Solver(MINI, frozen)
    other.backbone.compile_layers()
    assert isinstance(other.backbone, LanguageModel)
    assert not any(isinstance(part, JoinedLinear) for part in other.modules())
