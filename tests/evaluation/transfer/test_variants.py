"""Variants: whose adapter is used, and what a null adapter is."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from focus.errors import UserError
from focus.evaluation.transfer.variants import (
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


def test_an_adapter_that_does_not_fit_is_refused(run, tmp_path):
    folder = tmp_path / "adapter"
    shutil.copytree(find_variants([str(run)], 1)[0].adapter, folder)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["target_modules"] = ["q_proj"]
    (folder / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="does not fit"):
        load_variant(find_variants([str(folder)], 1)[0], "tiny-llama", "cpu")


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
