"""Variants: whose adapter is used, and what a null adapter is."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from focus.errors import UserError
from focus.evaluation.transfer.store import Store, Written
from focus.evaluation.transfer.variants import (
    Variant,
    find_backbone,
    find_variants,
    load_variant,
    randomised,
)
from focus.training.loop import Trainer
from tests.training.samples import tiny_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "solver"
    Trainer(tiny_run("sudoku", "tiny-llama", updates=3), folder).run()
    return folder


def _logits(model):
    with torch.no_grad():
        return model(torch.arange(20)[None]).logits


def test_a_checkpoint_and_its_null_differ_from_the_base(run):
    variants = find_variants(["base", str(run), "null"], 2)
    assert [v.name for v in variants] == ["base", "solver", "null-solver-1", "null-solver-2"]
    backbone = find_backbone(variants, None)
    assert backbone == "tiny-llama"
    logits = [_logits(load_variant(v, backbone, "cpu")[0]) for v in variants]
    for one in range(4):
        for other in range(one):
            assert not torch.equal(logits[one], logits[other])


def test_a_null_adapter_has_the_norm_of_each_matrix_and_depends_on_its_seed_alone(run):
    weights = load_file(find_variants([str(run)], 1)[0].adapter / "adapter_model.safetensors")
    null, again, other = randomised(weights, 1), randomised(weights, 1), randomised(weights, 2)
    for name in (name for name in weights if "lora_A" in name):
        up = name.replace("lora_A", "lora_B")
        was, now = (w[up].float() @ w[name].float() for w in (weights, null))
        torch.testing.assert_close(now.norm(), was.norm(), rtol=1e-4, atol=1e-7)
        assert torch.equal(null[name], again[name])
        assert not torch.equal(null[name], other[name])


def test_an_adapter_for_another_backbone_is_refused(run):
    variants = find_variants([str(run)], 1)
    with pytest.raises(UserError, match="is for tiny-llama, not for tiny-qwen3"):
        find_backbone(variants, "tiny-qwen3")


@pytest.fixture
def adapter(run, tmp_path):
    """A folder with an adapter, to be changed."""
    folder = tmp_path / "adapter"
    shutil.copytree(find_variants([str(run)], 1)[0].adapter, folder)
    return folder


def _configure(folder, **fields):
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def _rewrite(folder, change):
    path = folder / "adapter_model.safetensors"
    save_file({n: w.contiguous() for n, w in change(load_file(path)).items()}, path)


def test_an_adapter_that_does_not_fit_is_refused(adapter):
    _configure(adapter, target_modules=["q_proj"])
    with pytest.raises(UserError, match="does not fit"):
        load_variant(find_variants([str(adapter)], 1)[0], "tiny-llama", "cpu")


def test_an_adapter_of_other_shapes_is_refused(adapter):
    # Another backbone may have matrices of the same names.
    _rewrite(adapter, lambda weights: {
        name: weight[:, :-1] if "lora_A" in name else weight for name, weight in weights.items()
    })  # fmt: skip
    for kind in ("adapter", "null"):
        with pytest.raises(UserError, match=r"does not fit tiny-llama: .* is \(4, 95\), \(4, 96\)"):
            load_variant(Variant("one", kind, adapter), "tiny-llama", "cpu")


def test_a_config_of_another_kind_of_adapter_is_refused(adapter):
    _configure(adapter, target_modules=["nothing_like_it"])
    with pytest.raises(UserError, match="does not fit tiny-llama: "):
        load_variant(Variant("one", "adapter", adapter), "tiny-llama", "cpu")


def test_a_damaged_or_foreign_adapter_is_refused_before_anything_is_loaded(adapter):
    path = adapter / "adapter_model.safetensors"
    whole = path.read_bytes()

    def refused(message):
        for words in ([str(adapter)], [f"null:{adapter}"]):
            with pytest.raises(UserError, match=message):
                find_variants(words, 1)
        path.write_bytes(whole)

    path.write_bytes(whole[: len(whole) // 2])
    refused("is damaged")
    save_file({"model.weight": torch.ones(3)}, path)
    refused("holds no LoRA matrices")
    _rewrite(adapter, lambda weights: {n: w for n, w in weights.items() if "lora_A" in n})
    refused("has no B")
    _configure(adapter, r=5)
    refused("_config.json says 5")


def test_null_is_made_of_plain_matrices_alone(adapter):
    weights = load_file(adapter / "adapter_model.safetensors")
    save_file(
        {**weights, "lora_magnitude_vector": torch.ones(3)}, adapter / "adapter_model.safetensors"
    )
    for words in ([str(adapter), "null"], [f"null:{adapter}"]):
        with pytest.raises(UserError, match=f"{adapter} has lora_magnitude"):
            find_variants(words, 1)
    assert find_variants([str(adapter)], 1)


def test_completions_belong_to_an_adapter_with_its_config(adapter, tmp_path):
    def claim(variant):
        store = Store(tmp_path / variant.kind)
        store.claim(variant.identity(), {"math": 1})
        store.append("math", [Written("1", "text", 1, True)])

    variants = [Variant("one", kind, adapter) for kind in ("base", "adapter", "null")]
    for variant in variants:
        claim(variant)
    # What plain peft writes anew, in an order of its own, is the same adapter.
    modules = json.loads((adapter / "adapter_config.json").read_text())["target_modules"]
    _configure(adapter, peft_version="1.0", inference_mode=True, target_modules=modules[::-1])
    for variant in variants:
        claim(variant)
    _configure(adapter, lora_alpha=1)
    for variant in variants[1:]:
        with pytest.raises(UserError, match="was begun with adapter_config"):
            claim(variant)
    assert Variant("base", "base").identity() == {"kind": "base"}  # as stored runs have it


def test_names_are_given_to_checkpoints(run, tmp_path):
    best = str(run / "best")
    found = find_variants([f"focus-1={best}", f"focus-2={run}", "null:focus-2"], 1)
    assert [one.name for one in found] == ["focus-1", "focus-2", "null-focus-2-1"]
    assert found[0].adapter == run / "best" / "adapter"
    # A random adapter is compared with the adapter of its name.
    shutil.copytree(run / "best", tmp_path / "solver")
    with pytest.raises(UserError, match="both called 'solver'"):
        find_variants([str(run), f"null:{tmp_path / 'solver'}"], 1)
    for name in ("base", "gold", "null", "null-x", "cards", "table.md"):
        with pytest.raises(UserError, match="cannot be called"):
            find_variants([f"{name}={best}"], 1)
    with pytest.raises(UserError, match="two variants would be called 'a'; name them"):
        find_variants([f"a={best}", f"a={tmp_path / 'solver'}"], 1)
    odd = tmp_path / "rate=1"
    (tmp_path / "solver").rename(odd)
    assert find_variants([str(odd)], 1)[0].name == "rate=1"


def test_a_checkpoint_is_called_as_its_folder_is_from_inside_too(run, monkeypatch):
    monkeypatch.chdir(run / "best" / "adapter")
    assert [find_variants([word], 1)[0].name for word in (".", "..")] == ["adapter", "best"]


def test_null_is_a_control_for_every_adapter_named(run):
    words = [f"a={run}", "null", f"b={run / 'best'}", "null:a"]
    names = [one.name for one in find_variants(words, 2)]
    assert names == ["a", "null-a-1", "null-a-2", "null-b-1", "null-b-2", "b"]
    # null:CHECKPOINT is the control of what that checkpoint is called here.
    assert [one.name for one in find_variants([f"a={run}", f"null:{run}"], 1)] == ["a", "null-a-1"]


def test_words_that_are_no_variant_are_refused(run, tmp_path):
    for words, message in (
        ([], "name what to compare"),
        (["null"], "needs a checkpoint"),
        (["nothing"], "no such checkpoint"),
        ([str(run), str(run) + "/best"], None),
    ):
        if message:
            with pytest.raises(UserError, match=message):
                find_variants(words, 1)
        else:
            assert len(find_variants(words, 1)) == 2
    Trainer(tiny_run("sudoku", "none", updates=1), tmp_path / "plain").run()
    with pytest.raises(UserError, match="has no adapter"):
        find_variants([str(tmp_path / "plain")], 1)
