"""Completions are the model's greedy ones, whatever shares their batch."""

import torch

from focus.evaluation.transfer.generate import batches, complete
from focus.model.pretrained import load_language_model


def _model():
    model, codec = load_language_model("tiny-llama")
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


def test_batched_completions_equal_single_ones_of_a_slow_loop():
    model, codec = _model()
    texts = ["a", "much longer than a", "2 + 2", "x" * 40]
    prompts = [codec.encode(text) for text in texts]
    # An end that one of the rows meets early, so that rows leave the batch at different times.
    slow = [_by_hand(model, prompt, 40, -1)[0] for prompt in prompts]
    end = slow[1][3]
    wanted = [_by_hand(model, prompt, 40, end) for prompt in prompts]
    found = complete(model, prompts, 40, [end], "cpu")
    assert [(one.ids, one.finished) for one in found] == wanted
    assert len({finished for _, finished in wanted}) == 2


def test_batches_hold_every_prompt_once_longest_first():
    lengths = [3, 9, 1, 9, 5]
    parts = batches(lengths, 2)
    assert parts == [[1, 3], [4, 0], [2]]
