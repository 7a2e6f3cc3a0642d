"""Prompts have one token per cell, for tokenizers that merge."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from focus.errors import UserError
from focus.model.backbone import BackboneConfig, LanguageModel
from focus.tasks.prompt import tokenize_prompt
from tests.tasks.samples import TASKS, batch


@pytest.fixture(scope="module")
def merging_tokenizer() -> Tokenizer:
    """A byte-level BPE trained so that runs of digits and of # become single tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    corpus = ["0123456789" * 20, "##" * 200, "....#..##S.G" * 30, "Solve this Sudoku." * 5]
    tokenizer.train_from_iterator(corpus, trainer)
    assert len(tokenizer.encode("0123").ids) < 4
    assert len(tokenizer.encode("####").ids) < 4
    return tokenizer


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_every_cell_is_one_token_read_at_its_last_place(task, merging_tokenizer):
    def encode(text):
        return merging_tokenizer.encode(text).ids

    prompt = task.prompt()
    tokens = tokenize_prompt(prompt, encode, begin=[7])
    questions, _ = task.generate(2, 0, 3, task.generator_modes[0])
    grid = torch.from_numpy(questions.astype(np.int64))
    ids = tokens.ids(grid)
    assert (ids[:, 0] == 7).all()
    symbols = torch.tensor([encode(symbol)[0] for symbol in prompt.symbols])
    assert torch.equal(ids[:, tokens.readout], symbols[grid])
    last = {int(c): place for place, c in enumerate(tokens.slot) if c >= 0}
    assert tokens.readout.tolist() == [last[cell] for cell in range(task.cells)]
    text = merging_tokenizer.decode(ids[0, 1:].tolist())
    assert task.render(questions[0]).replace(" ", ".").splitlines()[0] in text or (
        task.name == "sudoku"
        and task.question_text(questions[0])[: task.side].replace(".", "0") in text
    )
    if task.name == "sudoku":
        # Read in the second copy: a causal model has then seen the whole puzzle.
        assert tokens.readout.min() > len(ids[0]) // 2 - 2


def test_a_grid_printed_once_is_half_as_long_and_has_a_summary(merging_tokenizer):
    once = replace(TASKS["sudoku9"], grids_in_prompt=1)
    lengths = [
        len(tokenize_prompt(t.prompt(), lambda text: merging_tokenizer.encode(text).ids).template)
        for t in (once, TASKS["sudoku9"])
    ]
    assert lengths[1] - lengths[0] == 81
    models = [LanguageModel(t, BackboneConfig("tiny-llama"), 32) for t in (once, TASKS["sudoku9"])]
    assert models[0].summary is not None
    assert models[1].summary is None
    x, _ = batch(once, 2)
    read = models[0].read(x)
    assert read.shape[1] == 81 + 1
    # The first cell is read before the last one has been seen; the summary is not.
    other = replace(x, grid=x.grid.clone())
    other.grid[:, -1] = (other.grid[:, -1] + 1) % 10
    changed = (models[0].read(other) - read).abs().amax(-1)
    assert (changed[:, :80] < 1e-5).all()
    assert (changed[:, 80:] > 1e-4).all()
    with pytest.raises(UserError, match="1 or 2"):
        replace(once, grids_in_prompt=3)


def test_a_tokenizer_without_the_symbols_is_refused(merging_tokenizer):
    def spell_out(text):
        return [byte for char in text for byte in (1, ord(char) % 50)]

    with pytest.raises(UserError, match="needs 2 tokens for the cell symbol"):
        tokenize_prompt(TASKS["maze6"].prompt(), spell_out)
    with pytest.raises(UserError, match="same token to different cell symbols"):
        tokenize_prompt(TASKS["maze6"].prompt(), lambda text: [3] * len(text))


def test_a_symbol_that_the_vocabulary_lacks_is_refused():
    vocabulary = "0123456789 ."

    def encode(text):
        return [vocabulary.find(char) + 1 for char in text]

    def decode(ids):
        return "".join(vocabulary[i - 1] if i else "<unk>" for i in ids)

    tokenize_prompt(TASKS["sudoku9"].prompt(), encode, decode=decode)
    with pytest.raises(UserError, match="does not know the cell symbol '#'"):
        tokenize_prompt(TASKS["maze6"].prompt(), encode, decode=decode)
