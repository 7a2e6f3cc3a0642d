"""Completions are the model's greedy ones, whatever shares their batch."""

import pytest
import torch

from focus.errors import UserError
from focus.model import generate, static_generation
from focus.model.backbone import BackboneConfig, add_lora
from focus.model.generate import batches, complete, pad_left
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


PROMPTS = ("a", "much longer than a", "2 + 2", "x" * 40)


def test_batched_completions_equal_single_ones_of_a_slow_loop():
    model, codec = _model()
    prompts = [codec.encode(text) for text in PROMPTS]
    # An end that one of the rows meets early, so that rows leave the batch at different times.
    slow = [_by_hand(model, prompt, 40, -1)[0] for prompt in prompts]
    end = slow[1][3]
    wanted = [_by_hand(model, prompt, 40, end) for prompt in prompts]
    found = complete(model, prompts, 40, [end], "cpu")
    assert [(one.ids, one.finished) for one in found] == wanted
    assert len({finished for _, finished in wanted}) == 2


def test_a_completion_is_given_as_soon_as_it_has_ended():
    """Not when the last of its batch has: a kill would lose what was long done."""
    model, codec = _model()
    prompts = [codec.encode(text) for text in PROMPTS]
    alone = complete(model, prompts, 40, [-1], "cpu")
    end = alone[1].ids[3]
    ids, mask = pad_left(prompts, "cpu")
    early = [n for n, one in enumerate(alone) if end in one.ids[: static_generation.LOOK]]
    assert 0 < len(early) < len(prompts)
    with torch.inference_mode():
        for write in (static_generation.write, generate._write_growing):
            pieces = [numbers.tolist() for numbers, _ in write(_model()[0], ids, mask, 40, [end])]
            assert pieces[0] == early
            assert sorted(number for piece in pieces for number in piece) == list(
                range(len(prompts))
            )
    calls = []
    model.register_forward_hook(lambda *given: calls.append(1))
    first = next(generate.complete_in_pieces(model, prompts, 40, [end], "cpu"))
    assert [number for number, _ in first] == early
    assert len(calls) == static_generation.LOOK


def _steadily(model, prompts, cap, ends, device="cpu") -> list:
    """The work of a GPU; on a CPU without a graph."""
    ids, mask = pad_left(prompts, device)
    assert static_generation.is_static(model)
    with torch.inference_mode():
        written = {
            number: row
            for piece in static_generation.write(model, ids, mask, cap, ends)
            for number, row in zip(piece[0].tolist(), piece[1].tolist(), strict=True)
        }
    ends = set(ends)
    rows = [written[number] for number in range(len(prompts))]
    return [next((row[:n] for n, t in enumerate(row) if t in ends), row) for row in rows]


@pytest.mark.parametrize("name", ["tiny-llama", "tiny-qwen3"])
@pytest.mark.parametrize("cap", [1, 2, 17, 40])
def test_static_generation_writes_the_same(name, cap):
    """Ends that most rows meet make rows leave."""
    model, codec = _model(name)
    prompts = [codec.encode(text) for text in PROMPTS]
    slow = complete(model, prompts, 40, [-1], "cpu")
    for ends in ([slow[1].ids[3]], [row.ids[5] for row in slow[:3]]):
        wanted = [one.ids for one in complete(_model(name)[0], prompts, cap, ends, "cpu")]
        assert _steadily(_model(name)[0], prompts, cap, ends) == wanted


def test_static_generation_reads_an_adapter():
    def adapted():
        model = add_lora(_model()[0], BackboneConfig("tiny-llama")).eval()
        random = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "lora_" in name:
                    weight.normal_(std=0.3, generator=random)
        return model

    prompts = [_model()[1].encode(text) for text in ("a", "2 + 2")]
    found = _steadily(adapted(), prompts, 12, [-1])
    assert found != _steadily(_model()[0], prompts, 12, [-1])
    assert found == [one.ids for one in complete(adapted(), prompts, 12, [-1], "cpu")]


@pytest.mark.parametrize("family", ["gptj", "bloom", "mistral"])
def test_other_attention_is_not_taken_for_the_usual_one(family):
    """GPT-J has its own, Bloom's depends on distance, this Mistral looks back a little."""
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {
        "gptj": dict(n_embd=32, n_layer=1, n_head=2, rotary_dim=8),
        "bloom": dict(hidden_size=32, n_layer=1, n_head=2),
        "mistral": dict(
            hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, sliding_window=4,
        ),
    }[family]  # fmt: skip
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, vocab_size=64, **sizes))
    assert not static_generation.is_static(model)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("cap", [1, 2, 3, 40])
def test_recorded_tokens_are_the_eager_ones(cap):
    prompts = [_model()[1].encode(text) for text in PROMPTS]
    slow = complete(_model()[0].float(), prompts, 40, [-1], "cpu")
    for ends in ([-1], [row.ids[20] for row in slow[:3]]):
        wanted = [one.ids for one in complete(_model()[0].float(), prompts, cap, ends, "cpu")]
        model = _model()[0].float().to("cuda:0")
        assert _steadily(model, prompts, cap, ends, "cuda:0") == wanted
    ids, mask = pad_left(prompts, "cuda:0")
    with torch.inference_mode():
        rows = static_generation.Rows(_model()[0].to("cuda:0"), ids, mask, 40, [-1])
        rows.advance(39)
    assert rows._graph is not None


def test_a_batch_beyond_memory_is_completed_in_halves(monkeypatch):
    model, codec = _model()
    prompts = [codec.encode(text) for text in PROMPTS]
    wanted = complete(model, prompts, 8, [-1], "cpu")
    sizes, write = [], generate._write_growing

    def small(model, ids, *others):
        sizes.append(len(ids))
        if len(ids) > 2:
            raise torch.OutOfMemoryError("no room")
        return write(model, ids, *others)

    monkeypatch.setattr(generate, "_write_growing", small)
    assert complete(model, prompts, 8, [-1], "cpu") == wanted
    assert sizes == [4, 2, 2]

    def late(model, ids, *others):
        """Room is gone after the first completion of a batch, which is kept."""
        sizes.append(len(ids))
        pieces = write(model, ids, *others)
        if len(ids) < 4:
            return pieces
        numbers, written = next(pieces)

        def one():
            yield numbers[:1], written[:1]
            raise torch.OutOfMemoryError("no room")

        return one()

    sizes.clear()
    monkeypatch.setattr(generate, "_write_growing", late)
    assert complete(model, prompts, 8, [-1], "cpu") == wanted
    assert sizes == [4, 1, 2]

    def none(*others):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(generate, "_write_growing", none)
    with pytest.raises(UserError, match="--max-tokens"):
        complete(model, prompts, 8, [-1], "cpu")


def test_batches_hold_every_prompt_once_longest_first():
    lengths = [3, 9, 1, 9, 5]
    parts = batches(lengths, 2)
    assert parts == [[1, 3], [4, 0], [2]]
