"""The term that holds ordinary text near what the language model wrote before training."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from focus.errors import UserError
from focus.model.generate import complete, end_ids, prompt_ids
from focus.training import text_kl as text_kl_module
from focus.training.config import TextKLConfig
from focus.training.loop import Trainer
from tests.training.samples import tiny_run


def a_run(weight: float, updates: int = 4):
    config = tiny_run("sudoku", "tiny-llama", updates=updates)
    optimizer = replace(
        config.optimizer, accumulate=1, lora_learning_rate=5e-3, warmup=1
    )  # fmt: skip
    text_kl = TextKLConfig(weight, texts=8, length=160)
    return replace(config, optimizer=optimizer, text_kl=text_kl)


def move_adapter(trainer: Trainer) -> None:
    for name, weight in trainer.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.5)


def test_a_fresh_adapter_has_moved_nothing_and_a_trained_one_has(tmp_path):
    trainer = Trainer(a_run(1.0), tmp_path)
    text_kl = trainer.text_kl
    assert text_kl is not None
    assert text_kl.measure() == pytest.approx(0, abs=1e-6)
    move_adapter(trainer)
    moved = text_kl.measure()
    assert moved > 1e-3
    # By its definition, text by text, from the model's own logits.
    model = text_kl.backbone.language_model.eval()
    with torch.no_grad(), model.disable_adapter():
        before = model(input_ids=text_kl.ids).logits.double().log_softmax(-1)
    with torch.no_grad():
        now = model(input_ids=text_kl.ids).logits.double().log_softmax(-1)
    expected = (before.exp() * (before - now)).sum(-1)[text_kl.written].mean()
    assert moved == pytest.approx(float(expected), rel=1e-3)


def test_what_counts_is_what_the_model_wrote_and_its_end(tmp_path):
    text_kl = Trainer(a_run(1.0), tmp_path).text_kl
    assert text_kl is not None
    backbone = text_kl.backbone
    model, codec = backbone.language_model.eval(), backbone.codec
    lines = Path(text_kl_module.__file__).with_name("ordinary_prompts.txt").read_text().splitlines()
    ended = 0
    for row, line in enumerate(lines):
        prompt = prompt_ids(codec, line, False)
        (answer,) = complete(model, [prompt], text_kl.answer_length, end_ids(model, codec), "cpu")
        places = text_kl.written[row].nonzero()[:, 0].tolist()
        first = len(prompt) - 1
        assert places == list(range(first, first + len(answer.ids) + answer.finished))
        assert text_kl.ids[row, : first + 1].tolist() == prompt
        ended += answer.finished
    assert 0 < ended < len(lines)


def test_the_term_keeps_the_text_and_the_run_is_resumed_exactly(tmp_path):
    lines = {}
    for name, weight in (("free", 1e-9), ("held", 100.0)):
        Trainer(a_run(weight, updates=12), tmp_path / name).run()
        text = (tmp_path / name / "metrics.jsonl").read_text()
        lines[name] = json.loads(text.splitlines()[-1])
    assert lines["held"]["validation"]["text_kl"] < 0.5 * lines["free"]["validation"]["text_kl"]
    begun = Trainer(a_run(100.0, updates=12), tmp_path / "cut")
    begun.begin()
    for _ in range(6):
        begun.train_update()
        begun.after_update()
    again = Trainer(a_run(100.0, updates=12), tmp_path / "cut")
    again.resume()
    again.run()
    last = json.loads((tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()[-1])
    assert {**last, "seconds": 0} == {**lines["held"], "seconds": 0}


def test_a_question_that_does_not_fit_is_refused(tmp_path):
    config = replace(a_run(1.0), text_kl=TextKLConfig(1.0, length=4))
    with pytest.raises(UserError, match=r"text-kl\.length must be above"):
        Trainer(config, tmp_path)
    frozen = replace(config.solver, backbone=replace(config.solver.backbone, frozen=True))
    with pytest.raises(UserError, match="train the adapter"):
        replace(config, solver=frozen)
