"""Completions are the model's greedy ones, whatever shares their batch."""

import pytest
import torch

from focus.evaluation.transfer import steady
from focus.evaluation.transfer.generate import batches, complete
from focus.model.backbone import BackboneConfig, add_lora
from focus.model.pretrained import load_language_model


def _model(name: str = "tiny-llama"):
    model, codec = load_language_model(name)
    return model.eval(), codec


def _by_hand(model, prompt, cap, end):
    """One token at a time, everything computed anew."""
    ids, written = list(prompt), []
    for _ in range(cap):
        with torch.no_grad():
            token = int(model(torch.tensor([ids])).logits[0, -1].argmax())
        if token == end:
            return written, True
        ids.append(token)
        written.append(token)
    return written, False


def _growing(patch) -> None:
    """As if the model did not attend to everything."""
    patch.setattr(steady, "is_steady", lambda model: False)


@pytest.mark.parametrize("way", ["steady", "growing"])
def test_batched_completions_equal_single_ones_of_a_slow_loop(way, monkeypatch):
    model, codec = _model()
    texts = ["a", "much longer than a", "2 + 2", "x" * 40]
    prompts = [codec.encode(text) for text in texts]
    # An end that one of the rows meets early, so that rows leave the batch at different times.
    slow = [_by_hand(model, prompt, 40, -1)[0] for prompt in prompts]
    end = slow[1][3]
    wanted = [_by_hand(model, prompt, 40, end) for prompt in prompts]
    if way == "growing":
        _growing(monkeypatch)
    found = complete(model, prompts, 40, [end], "cpu")
    assert [(one.ids, one.finished) for one in found] == wanted
    assert len({finished for _, finished in wanted}) == 2


@pytest.mark.parametrize("name", ["tiny-llama", "tiny-qwen3"])
@pytest.mark.parametrize("cap", [1, 2, 17, 40])
def test_both_ways_write_the_same(name, cap, monkeypatch):
    """Ends that most rows meet make rows leave."""
    model, codec = _model(name)
    prompts = [codec.encode(text) for text in ("a", "much longer than a", "2 + 2", "x" * 40)]
    slow = complete(model, prompts, 40, [-1], "cpu")
    for ends in ([slow[1].ids[3]], [row.ids[5] for row in slow[:3]]):
        found = complete(model, prompts, cap, ends, "cpu")
        with monkeypatch.context() as patch:
            _growing(patch)
            assert complete(_model(name)[0], prompts, cap, ends, "cpu") == found


def test_an_adapter_is_read(monkeypatch):
    def adapted():
        model = add_lora(_model()[0], BackboneConfig("tiny-llama")).eval()
        random = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "lora_" in name:
                    weight.normal_(std=0.3, generator=random)
        return model

    prompts = [_model()[1].encode(text) for text in ("a", "2 + 2")]
    found = complete(adapted(), prompts, 12, [-1], "cpu")
    assert found != complete(_model()[0], prompts, 12, [-1], "cpu")
    _growing(monkeypatch)
    assert complete(adapted(), prompts, 12, [-1], "cpu") == found


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_recorded_tokens_are_the_eager_ones(monkeypatch):
    model, codec = _model()
    model = model.float().to("cuda:0")
    prompts = [codec.encode(text) for text in ("a", "much longer than a", "2 + 2", "x" * 40)]
    for cap, ends in ((40, [-1]), (40, [ord("a")]), (2, [-1]), (1, [-1])):
        found = complete(model, prompts, cap, ends, "cuda:0")
        with monkeypatch.context() as patch:
            _growing(patch)
            assert complete(model, prompts, cap, ends, "cuda:0") == found


def test_batches_hold_every_prompt_once_longest_first():
    lengths = [3, 9, 1, 9, 5]
    parts = batches(lengths, 2)
    assert parts == [[1, 3], [4, 0], [2]]
