"""A portable state is as small as it has to be, and as close as it says."""

from dataclasses import replace

import pytest
import torch

from focus.errors import UserError
from focus.model.backbone import LORA_TARGETS
from focus.model.checkpoint import build_model, trained_weights
from focus.recipes import recipe
from focus.training.loop import Trainer
from focus.training.portable_state import reduce_state, restore_state
from focus.training.state import load_state, save_state
from tests.training.samples import tiny_run


def restored(kind: str, value: torch.Tensor, tmp_path) -> torch.Tensor:
    return restore_state(reduce_state({f"{kind}/one": value}), tmp_path)[f"{kind}/one"]


def test_weights_have_24_bits(tmp_path):
    torch.manual_seed(0)
    values = torch.randn(1000, 7) * torch.randn(1000, 7).mul(8).exp()
    near = restored("weights", values, tmp_path)
    assert near.shape == values.shape
    assert ((near - values).abs() <= 2**-16 * values.abs()).all()
    assert (near != values).any()
    assert torch.equal(restored("weights", near, tmp_path), near)  # a second journey costs nothing
    halves = torch.tensor([1 + 2**-16, 1 + 3 * 2**-16, -0.0, 0.0])  # in the middle: to even
    assert restored("weights", halves, tmp_path).tolist() == [1, 1 + 2**-14, 0, 0]
    assert restored("weights", torch.tensor(1.5), tmp_path) == 1.5


@pytest.mark.parametrize(("decades", "off"), [(2, 0.01), (10, 0.05), (16, 0.08)])
def test_second_moments_have_an_error_that_grows_with_their_range(tmp_path, decades, off):
    torch.manual_seed(0)
    values = 10 ** (-3 - decades * torch.rand(50, 60))
    near = restored("exp_avg_sq", values, tmp_path)
    assert ((near - values).abs() <= off * values).all()
    assert near.max() == pytest.approx(values.max().item(), rel=1e-4)


def test_second_moments_that_are_zero_or_hardly_more_stay_so(tmp_path):
    values = torch.tensor([0.0, 1e-38, 1e-22, 1e-6, 1.0])
    near = restored("exp_avg_sq", values, tmp_path)
    assert near[0] == 0
    assert (near[1:3].sqrt() <= 1.01e-10).all()  # beside AdamW's 1e-8
    for same in (torch.zeros(4), torch.full((4,), 3e-7), torch.tensor(2e-5)):
        torch.testing.assert_close(restored("exp_avg_sq", same, tmp_path), same)


@pytest.mark.parametrize("kind", ["weights", "exp_avg", "exp_avg_sq"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_refused_when_it_is_read(tmp_path, kind, value):
    config = replace(tiny_run("sudoku"), portable=True)
    tensors = {"weights/one": torch.ones(3), "exp_avg/one": torch.ones(3)}
    tensors |= {"exp_avg_sq/one": torch.ones(3)}
    tensors[f"{kind}/one"][1] = value
    moments = {name: tensor for name, tensor in tensors.items() if name != "weights/one"}
    weights = {"one": tensors["weights/one"]}
    save_state(tmp_path / "last", config, weights, {}, moments, [], {"update": 1}, {})
    with pytest.raises(UserError, match="holds values that are not finite"):
        load_state(tmp_path / "last", config, "cpu")


def test_a_portable_state_of_another_version_is_refused(tmp_path):
    with pytest.raises(UserError, match="holds a portable state of another version"):
        restore_state({"weights/one": torch.ones(3)}, tmp_path)


def test_the_state_of_the_paper_s_updater_with_a_small_language_model_fits_into_few_files(tmp_path):
    """Qwen2.5-Coder-0.5B by its shapes, which need no download."""
    config = replace(recipe("sudoku/qwen2.5-coder-0.5b"), portable=True)
    plain = recipe("sudoku")
    updater = trained_weights(build_model(plain.task, plain.solver))
    shapes = {name: weight.shape for name, weight in updater.items()}
    width, hidden, heads, rank = 896, 4864, 128, config.solver.backbone.rank
    shapes["encoder.projection.weight"] = torch.Size([config.solver.updater.width, width])
    sizes = {
        "q_proj": (width, width), "k_proj": (width, heads), "v_proj": (width, heads),
        "o_proj": (width, width), "gate_proj": (width, hidden), "up_proj": (width, hidden),
        "down_proj": (hidden, width),
    }  # fmt: skip
    assert set(sizes) == set(LORA_TARGETS)
    for layer in range(24):
        for target, (inner, outer) in sizes.items():
            name = f"encoder.language.model.base_model.model.model.layers.{layer}.mlp.{target}"
            shapes[f"{name}.lora_A.default.weight"] = torch.Size([rank, inner])
            shapes[f"{name}.lora_B.default.weight"] = torch.Size([outer, rank])
    count = sum(shape.numel() for name, shape in shapes.items() if "lora_" in name)
    assert count == 8_798_208
    weights = {name: torch.randn(shape) for name, shape in shapes.items()}
    moments: dict[str, torch.Tensor] = {}
    for name, weight in weights.items():
        moments[f"step/{name}"] = torch.tensor(100.0)
        moments[f"exp_avg/{name}"] = weight * 1e-3
        moments[f"exp_avg_sq/{name}"] = weight.square() * 1e-6
    counters = {"update": 100, "best": 0.5, "best_energy": None, "seconds": 1.0}
    save_state(tmp_path / "last", config, weights, {}, moments, [torch.ones(10)], counters, {})
    files = [path.stat().st_size for path in (tmp_path / "last").iterdir()]
    assert 50 * 2**20 < sum(files) < 52 * 2**20
    assert max(files) < 16 * 2**20
    assert len(files) < 8  # and metrics.jsonl goes with them
    assert sum(weight.numel() for weight in weights.values()) > 10_500_000


def test_carried_states_begin_anew_where_a_run_goes_on_elsewhere(tmp_path):
    config = recipe("trm-mini-sudoku")
    config = replace(
        config, portable=True, eval_rows=4,
        optimizer=replace(config.optimizer, updates=4, batch=4, warmup=1),
        solver=replace(config.solver, trm=replace(config.solver.trm, width=16)),
    )  # fmt: skip
    whole = Trainer(config, tmp_path)
    for _ in range(2):
        whole.train_update()
    whole.save()
    moved = Trainer(config, tmp_path)
    moved.resume()
    assert moved.update == 2
    moved.run()
