"""Direct SFT: what the model is taught to write, and how a completion is judged."""

import numpy as np
import pytest
import torch

from focus.data.table import Table
from focus.errors import UserError
from focus.evaluation.puzzles import evaluate
from focus.model.backbone import BackboneConfig
from focus.model.base import SolverConfig
from focus.model.writer import Writer
from focus.tasks import Maze, Sudoku
from focus.tasks.maze import OPEN, PATH, START

TASKS = {"sudoku": Sudoku(box=2), "maze": Maze(size=6, min_path=6)}


def a_writer(name: str) -> tuple[Writer, np.ndarray, np.ndarray]:
    task = TASKS[name]
    config = SolverConfig(BackboneConfig("tiny-llama", rank=16, lora_dropout=0.0), answer="written")
    mode = task.generator_modes[0]
    torch.manual_seed(0)
    return Writer(task, config), *task.generate(3, 0, 4, mode)


@pytest.mark.parametrize("name", TASKS)
def test_the_loss_is_the_cross_entropy_of_the_completion(name):
    writer, questions, answers = a_writer(name)
    x, y = writer.task.unpack(writer.task.pack(questions, answers))
    prompt = [writer.codec.begin[0], *map(ord, writer.task.prompt().text(questions[1]))]
    prompt += map(ord, "\nAnswer:\n")
    target = [*map(ord, writer.task.text_target().text(answers[1])), writer.codec.end]
    with torch.no_grad():
        logits = (
            writer.language_model(input_ids=torch.tensor([prompt + target]))
            .logits[0]
            .log_softmax(-1)
        )
        expected = -np.mean([logits[len(prompt) - 1 + i, t].item() for i, t in enumerate(target)])
        assert writer.loss(x, y)[1].item() == pytest.approx(expected, abs=1e-4)


def test_a_writer_that_learned_its_puzzles_by_heart_is_scored_exact():
    writer, questions, answers = a_writer("sudoku")
    x, y = writer.task.unpack(writer.task.pack(questions, answers))
    for parameter in writer.language_model.parameters():
        parameter.requires_grad_(True)  # a tiny random model has no use for an adapter
    optimizer = torch.optim.AdamW(writer.parameters(), 3e-3, weight_decay=0.0)
    for _ in range(250):
        optimizer.zero_grad()
        writer.loss(x, y).mean().backward()
        optimizer.step()
    table = Table(questions, answers, np.arange(4), "test", {})
    right = evaluate(writer, table, [1])[0]
    assert right.exact.all()
    assert right.summary()["parsed"] == right.summary()["cell_accuracy"] == 1.0
    wrong = evaluate(writer, Table(questions, answers[::-1].copy(), np.arange(4), "test", {}), [1])
    assert not wrong[0].exact.any()


def test_what_the_parser_refuses_counts_as_wrong():
    writer, questions, answers = a_writer("maze")
    untrained = evaluate(writer, Table(questions, answers, np.arange(4), "test", {}), [1])[0]
    assert not untrained.exact.any()
    assert untrained.diagnostics["parsed"].sum() == 0
    assert (untrained.answers == questions).all()


def test_a_written_path_is_scored_like_a_decoded_one(monkeypatch):
    writer, questions, answers = a_writer("maze")
    text = writer.task.text_target().text
    path = np.flatnonzero(answers[2] == PATH)
    broken = answers[2].copy()
    broken[path[0]] = OPEN  # a gap
    written = [text(answers[0]), "no maze", text(broken), text(questions[3])]
    monkeypatch.setattr(writer, "write", lambda codes: written)
    found = evaluate(writer, Table(questions, answers, np.arange(4), "test", {}), [1])[0]
    scores = found.diagnostics
    assert found.exact.tolist() == [True, False, False, False]
    assert scores["parsed"].tolist() == [1, 0, 1, 1]
    assert scores["valid"].tolist() == scores["optimal"].tolist() == [1, 0, 0, 0]
    hits = len(path) - 1
    assert scores["path_f1"].tolist() == pytest.approx([1, 0, 2 * hits / (2 * hits + 1), 0])


def test_a_written_sudoku_must_keep_the_givens(monkeypatch):
    writer, questions, answers = a_writer("sudoku")
    text = writer.task.text_target().text
    others = np.roll(answers, 1, 0)
    monkeypatch.setattr(writer, "write", lambda codes: [text(answers[0]), *map(text, others[1:])])
    found = evaluate(writer, Table(questions, answers, np.arange(4), "test", {}), [1])[0]
    assert found.diagnostics["parsed"].all()
    assert found.diagnostics["valid"].tolist() == [1, 0, 0, 0]
    judged = writer.task.judge(questions, found.answers).valid
    assert judged.tolist() == [True, False, False, False]


def test_bad_puzzles_are_refused_before_anything_is_written(monkeypatch):
    writer, questions, answers = a_writer("maze")
    questions[2][np.flatnonzero(questions[2] == OPEN)[0]] = START
    monkeypatch.setattr(writer, "write", lambda codes: pytest.fail("it has begun"))
    with pytest.raises(UserError, match="maze 3 has 2 cells S"):
        evaluate(writer, Table(questions, answers, np.arange(4), "test", {}), [1])


@pytest.mark.parametrize("name", TASKS)
def test_what_is_written_is_the_models_own_greedy_completion(name):
    writer, questions, _ = a_writer(name)
    writer.eval()
    text = writer.task.prompt().text(questions[0]) + "\nAnswer:\n"
    ids = torch.tensor([[writer.codec.begin[0], *map(ord, text)]])
    theirs = writer.language_model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=0,
        max_new_tokens=writer.lengths[1], eos_token_id=writer.codec.end,
    )[0, ids.shape[1] :]  # fmt: skip
    theirs = [token for token in theirs.tolist() if token != writer.codec.end]
    assert writer.write(questions)[0] == writer.codec.decode(theirs)


def learns_after_writing(device: str) -> None:
    """Training goes on after a validation."""
    writer, questions, answers = a_writer("sudoku")
    writer.to(device)
    table = Table(questions, answers, np.arange(4), "test", {})
    assert evaluate(writer, table, [1])[0].exact.shape == (4,)
    x, y = writer.task.unpack(writer.task.pack(questions, answers).to(device))
    writer.loss(x, y).mean().backward()
    gradients = [weight.grad for weight in writer.parameters() if weight.requires_grad]
    assert any(gradient is not None and gradient.abs().sum() > 0 for gradient in gradients)


def test_a_writer_learns_after_it_has_written():
    learns_after_writing("cpu")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_writer_learns_after_it_has_written_on_a_gpu():
    """As many puzzles at a time as fit into its memory."""
    learns_after_writing("cuda:0")
