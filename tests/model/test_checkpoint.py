"""Checkpoints: saved, loaded, and their adapter usable by plain peft."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from peft import PeftModel

from focus.errors import UserError
from focus.files import sha256
from focus.folders import MANIFEST
from focus.model.backbone import BackboneConfig, add_lora
from focus.model.checkpoint import (
    fetch,
    load_model,
    offered,
    release_folders,
    released_for,
    save_model,
    trained_weights,
)
from focus.model.pretrained import load_language_model
from focus.model.solver import Solver
from focus.model.writer import Writer
from focus.serialization import to_json
from focus.training.loop import Trainer
from tests.training.samples import tiny_run


@pytest.fixture(scope="module", params=["tiny-llama", "tiny-qwen3"])
def trained(request, tmp_path_factory):
    """A run of a few updates with a language model: its name and folder."""
    folder = tmp_path_factory.mktemp("run")
    Trainer(tiny_run("sudoku", request.param, updates=3), folder).run()
    return request.param, folder


def test_a_saved_solver_answers_as_before(trained, tmp_path):
    _, folder = trained
    solver = Solver.from_pretrained(folder)
    questions = solver.task.generate(5, 0, 8, "minimal")[0]
    solver.save_pretrained(tmp_path / "copy")
    again = Solver.from_pretrained(str(tmp_path / "copy"))
    x, _ = solver.task.unpack(solver.task.pack(questions, questions))
    with torch.no_grad():
        states = [s.roll(s.updater.initial(x), s.encode(x), x, 3).last.z for s in (solver, again)]
    assert torch.equal(*states)
    assert (solver.answer(questions, 3) == again.answer(questions, 3)).all()


def test_the_adapter_changes_the_logits_of_a_freshly_loaded_model(trained):
    name, folder = trained
    ids = torch.arange(20)[None] + 40
    fresh, _ = load_language_model(name)
    with torch.no_grad():
        before = fresh.eval()(input_ids=ids).logits
        adapted = PeftModel.from_pretrained(fresh, str(folder / "best" / "adapter")).eval()
        after = adapted(input_ids=ids).logits
        ours = load_model(folder).adapted_model(input_ids=ids).logits
    assert (before - after).abs().max() > 1e-6
    torch.testing.assert_close(after, ours)
    settings = json.loads((folder / "best" / "adapter" / "adapter_config.json").read_text())
    assert settings["task_type"] == "CAUSAL_LM"
    assert settings["base_model_name_or_path"] == name


def test_none_says_that_it_has_no_adapter(tmp_path):
    Trainer(tiny_run("sudoku", updates=2), tmp_path).run()
    assert not (tmp_path / "best" / "adapter").exists()
    with pytest.raises(UserError, match="no adapter"):
        _ = load_model(tmp_path).adapted_model


def test_an_altered_adapter_is_refused_by_name(trained, tmp_path):
    _, folder = trained
    Solver.from_pretrained(folder).save_pretrained(tmp_path / "copy")
    path = tmp_path / "copy" / "adapter" / "adapter_model.safetensors"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    with pytest.raises(UserError, match=r"adapter_model.safetensors is damaged"):
        load_model(tmp_path / "copy")


def test_a_writer_is_saved_and_loaded_too(tmp_path):
    config = tiny_run("sudoku", "tiny-llama", updates=2, method="direct")
    Trainer(config, tmp_path).run()
    again = load_model(tmp_path)
    assert isinstance(again, Writer)
    with pytest.raises(UserError, match="writes its answer"):
        Solver.from_pretrained(tmp_path)
    save_model(again, tmp_path / "copy", to_json(config), {})
    question = config.task.generate(5, 0, 2, "minimal")[0]
    assert load_model(tmp_path / "copy").write(question) == again.write(question)


def test_the_card_says_what_was_measured(trained):
    _, folder = trained
    card = (folder / "best" / "README.md").read_text()
    notes = json.loads((folder / "best" / "notes.json").read_text())
    assert f"after {notes['update']} updates of the method `focus`" in card
    assert f"{notes['validation']['exact']:.4g}" in card
    assert MANIFEST in {path.name for path in (folder / "best").iterdir()}


def test_what_is_known_of_a_checkpoint_survives_saving_it_again(trained, tmp_path):
    _, folder = trained
    Solver.from_pretrained(folder).save_pretrained(tmp_path / "copy")
    for name in ("config.json", "notes.json", "README.md"):
        assert (tmp_path / "copy" / name).read_text() == (folder / "best" / name).read_text()


def test_a_training_state_is_no_checkpoint_to_use(trained):
    _, folder = trained
    with pytest.raises(UserError, match="is a training state"):
        load_model(folder / "last")


def test_a_model_with_other_names_for_its_projections_gets_lora_too():
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    sizes = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
    model = GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=64, **sizes))
    adapted = add_lora(model, BackboneConfig("other", rank=2))
    names = {name for name, p in adapted.named_parameters() if p.requires_grad}
    assert any("query_key_value.lora_A" in name for name in names)
    assert all("lora_" in name and "embed_out" not in name for name in names)


def test_folders_and_hub_names_are_told_apart(tmp_path):
    assert str(fetch("../nope")) == "../nope"
    assert fetch(str(tmp_path)) == tmp_path
    assert str(fetch("a/b/c")) == "a/b/c"
    with pytest.raises(UserError, match="no such checkpoint"):
        load_model(tmp_path / "nothing")


def test_half_the_size_in_bf16_and_nearly_the_same_answers(trained, tmp_path):
    _, folder = trained
    solver = Solver.from_pretrained(folder)
    save_model(solver, tmp_path / "small", dtype=torch.bfloat16)
    small, whole = (
        sum(path.stat().st_size for path in root.rglob("*.safetensors"))
        for root in (tmp_path / "small", folder / "best")
    )
    assert small < 0.65 * whole
    again = Solver.from_pretrained(tmp_path / "small")
    for name, weight in trained_weights(again).items():
        assert weight.dtype == torch.float32
        torch.testing.assert_close(weight, trained_weights(solver)[name], rtol=0.01, atol=1e-6)


def test_a_released_checkpoint_goes_by_its_name(trained, tmp_path, monkeypatch):
    _, folder = trained
    save_model(load_model(folder), tmp_path / "tiny-release")
    monkeypatch.setattr("focus.model.checkpoint.RELEASES", (tmp_path,))
    assert fetch("tiny-release") == tmp_path / "tiny-release"
    with pytest.raises(
        UserError, match="here: tiny-release; others: focus-solver/NAME from the hub"
    ):
        load_model(fetch("no-such-release"))


def test_what_lies_beside_an_installed_package_is_no_release(tmp_path):
    package = tmp_path / "focus"
    assert release_folders(package) == [package / "releases"]
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert release_folders(package) == [package / "releases"]
    ours = Path(__file__).parents[2] / "focus"
    assert release_folders(ours) == [ours / "releases", ours.parent / "releases"]


@pytest.mark.parametrize("text", [None, "{", "[]", '{"format": 3, "solver": null}'])
def test_a_damaged_release_leaves_the_others_usable(trained, tmp_path, monkeypatch, text):
    _, folder = trained
    monkeypatch.setattr("focus.model.checkpoint.RELEASES", (tmp_path,))
    for name in ("a-damaged", "whole"):
        save_model(load_model(folder), tmp_path / name)
    config = tmp_path / "a-damaged" / "config.json"
    config.unlink() if text is None else config.write_text(text)
    assert offered() == {"whole": "sudoku", "a-damaged": ""}
    assert (released_for("sudoku"), fetch("whole")) == ("whole", tmp_path / "whole")
    with pytest.raises(UserError, match="a-damaged"):
        load_model(fetch("a-damaged"))


@pytest.mark.parametrize(
    ("part", "changes", "name"),
    [
        ("updater", {"width": 10**9}, "solver.updater.width"),
        ("updater", {"layers": 10**6}, "solver.updater.layers"),
        ("updater", {"hops": 1, "hop_hidden": 10**9}, "solver.updater.hop-width"),
        ("backbone", {"rank": 10**9}, "solver.backbone.rank"),
    ],
)
def test_sizes_are_compared_before_anything_is_built(trained, tmp_path, part, changes, name):
    """A config of a stranger cannot take the memory of the machine."""
    shutil.copytree(trained[1] / "best", tmp_path / "copy")
    path = tmp_path / "copy" / "config.json"
    config = json.loads(path.read_text())
    config["solver"][part].update(changes)
    path.write_text(json.dumps(config))
    manifest = tmp_path / "copy" / MANIFEST
    manifest.write_text(
        json.dumps({**json.loads(manifest.read_text()), "config.json": sha256(path)})
    )
    with pytest.raises(UserError, match=f"does not fit the config beside it: {name}"):
        load_model(tmp_path / "copy")
