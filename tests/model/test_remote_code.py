"""Code that comes with a language model runs only if the user says so."""

import json
import sys

import pytest

from focus.cli import main
from focus.errors import UserError
from focus.model.pretrained import load_language_model
from focus.trust import remote_code

CODE = """
from pathlib import Path
from transformers import LlamaConfig
Path({marker!r}).write_text("it ran")
class StrangeConfig(LlamaConfig):
    model_type = "strange"
"""


@pytest.fixture
def strange(tmp_path):
    """A model folder whose config names code of its own, and what that code leaves when it runs."""
    folder, marker = tmp_path / "strange", tmp_path / "marker"
    folder.mkdir()
    (folder / "code.py").write_text(CODE.format(marker=str(marker)))
    config = {"model_type": "strange", "auto_map": {"AutoConfig": "code.StrangeConfig"}}
    (folder / "config.json").write_text(json.dumps(config))
    return folder, marker


class NoInput:
    """Standard input that must not be read."""

    def __getattr__(self, name):
        raise AssertionError("standard input was read")


def test_a_strange_model_is_refused_without_asking(strange, monkeypatch):
    folder, marker = strange
    monkeypatch.setattr(sys, "stdin", NoInput())
    with pytest.raises(UserError, match="brings Python code of its own, which is not run"):
        load_language_model(str(folder))
    assert not marker.exists()


def test_only_the_flag_lets_the_code_run(strange, capsys, tmp_path):
    folder, marker = strange
    words = ["train", "mini-sudoku", "--solver.backbone.name", str(folder)]
    words += ["--out", str(tmp_path / "run"), "--data", "generated"]
    assert main(words) == 2
    assert "add --trust-remote-code" in capsys.readouterr().err
    assert not marker.exists()
    assert main([*words, "--trust-remote-code"]) == 2  # it has no weights, but its code was read
    assert marker.exists()
    assert main(words) == 2
    assert not remote_code.get()


def test_weights_that_are_pickled_are_refused(tmp_path):
    from transformers import LlamaConfig

    LlamaConfig(hidden_size=32, num_hidden_layers=1).save_pretrained(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(UserError, match="cannot load the backbone"):
        load_language_model(str(tmp_path))
