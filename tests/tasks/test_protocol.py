"""What holds for every task."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from focus.random import example_keys
from focus.tasks import Maze
from focus.tasks.base import Task, step_weights
from tests.tasks.samples import TASKS, batch, random_state, rows

every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
seeds = st.integers(0, 2**31)


def test_a_task_needs_to_write_few_members():
    assert len(Task.__abstractmethods__) <= 15


@every_task
@given(seed=seeds)
def test_the_solved_state_decodes_to_the_answer(task, seed):
    x, y = batch(task, seed)
    z = task.solved_state(x, y)
    assert (task.decode(z, x) == task.reference(y)).all()
    assert task.exact(z, x, y).all()


@every_task
@given(seed=seeds)
def test_clamp_is_idempotent_and_leaves_the_rest_alone(task, seed):
    x, _ = batch(task, seed)
    z = random_state(task, x, seed)
    once = task.clamp(z, x)
    assert torch.equal(task.clamp(once, x), once)
    open_tokens = task.open_tokens(x)
    channels = slice(None) if task.name == "sudoku" else slice(0, 1)
    assert torch.equal(once[open_tokens][:, channels], z[open_tokens][:, channels])


@every_task
@given(seed=seeds)
def test_energy_vanishes_on_the_solution_as_logits_sharpen(task, seed):
    x, y = batch(task, seed)
    sharpnesses = (2.0, 5.0, 10.0, 20.0)
    states = [task.solved_state(x, y, sharpness) for sharpness in sharpnesses]
    energies = torch.stack([task.energy(z, x, y) for z in states])
    assert (energies[1:] <= energies[:-1] + 1e-9).all()
    assert (energies[-1] < 1e-5).all()
    assert (energies >= 0).all()


@every_task
@given(seed=seeds)
def test_energy_is_bounded_away_from_zero_on_every_wrong_answer(task, seed):
    """One cell decoded wrongly costs at least ln 2 in a mean over at most `tokens` cells."""
    x, y = batch(task, seed)
    z = random_state(task, x, seed)
    wrong = ~task.exact(z, x, y)
    bound = 0.1 * 0.693 / task.tokens
    assert (task.energy(z, x, y)[wrong] > bound).all()
    # A sharp state with a single wrong cell, the hardest case.
    z = task.solved_state(x, y, 20.0)
    blank = (x.grid == 0 if task.name == "sudoku" else y.path & y.has_parent).byte().argmax(1)
    every = torch.arange(len(z))
    channels = slice(None) if task.name == "sudoku" else slice(1, 5)
    z[every, blank, channels] = -z[every, blank, channels]
    z = task.clamp(z, x)
    broken = ~task.exact(z, x, y)
    assert (task.energy(z, x, y)[broken] > bound).all()


@every_task
@given(seed=seeds)
def test_a_batch_gives_what_each_puzzle_gives_alone(task, seed):
    stored = rows(task, seed, 5, augment=True)
    keys = example_keys(seed, 3, torch.arange(5))
    x, y = task.unpack(task.augment(stored, keys))
    z = random_state(task, x, seed)
    values = {
        "energy": task.energy(z, x, y),
        "loss": task.step_loss(z, x, y),
        "exact": task.exact(z, x, y),
        "decode": task.decode(z, x),
        "corrupt": task.corrupt(x, y, keys),
        "features": task.features(z, x),
        **task.diagnostics(task.decode(z, x), x, y),
    }
    for row in range(5):
        one = slice(row, row + 1)
        alone_x, alone_y = task.unpack(task.augment(stored[one], keys[one]))
        assert torch.equal(alone_x.grid, x.grid[one])
        alone = {
            "energy": task.energy(z[one], alone_x, alone_y),
            "loss": task.step_loss(z[one], alone_x, alone_y),
            "exact": task.exact(z[one], alone_x, alone_y),
            "decode": task.decode(z[one], alone_x),
            "corrupt": task.corrupt(alone_x, alone_y, keys[one]),
            "features": task.features(z[one], alone_x),
            **task.diagnostics(task.decode(z[one], alone_x), alone_x, alone_y),
        }
        for name, value in alone.items():
            torch.testing.assert_close(value, values[name][one], msg=name)


@every_task
@given(seed=seeds)
def test_symmetries_keep_puzzles_valid_and_unique(task, seed):
    questions, answers = task.generate(seed, 0, 6, task.generator_modes[0])
    stored = task.pack(questions, answers, augment=True)
    x, y = task.unpack(task.augment(stored, example_keys(seed, 0, torch.arange(6))))
    codes = x.grid.numpy().astype("uint8")
    verdict = task.judge(codes, task.answer_codes(task.reference(y), x))
    assert verdict.valid.all()
    assert verdict.canonical.all()
    if task.cells != 16:
        assert all(task.equivalent(a, b) for a, b in zip(questions, codes, strict=True))
    assert (codes != questions).any()


@every_task
@given(seed=seeds)
def test_x_of_a_question_needs_no_answer(task, seed):
    questions, answers = task.generate(seed, 0, 3, task.generator_modes[0])
    x, _ = task.unpack(task.pack(questions, answers))
    for name, tensor in vars(task.problem(questions)).items():
        assert tensor.dtype == getattr(x, name).dtype
        assert torch.equal(tensor, getattr(x, name))


@every_task
@given(seed=seeds)
def test_correct_answers_obey_the_rules_and_most_states_do_not(task, seed):
    questions, answers = task.generate(seed, 0, 4, task.generator_modes[0])
    x = task.problem(questions)
    assert task.obeys(task.answer_tokens(answers, x), x).all()
    assert not task.obeys(task.decode(random_state(task, x, seed), x), x).all()


@every_task
def test_the_diagnostic_valid_is_what_obeys_says(task):
    x, y = batch(task)
    for z in (task.solved_state(x, y), task.initial(x), random_state(task, x, 0)):
        answer = task.decode(z, x)
        valid = task.diagnostics(answer, x, y)["valid"]
        assert torch.equal(valid, task.obeys(answer, x).float())


@every_task
def test_what_is_printed_says_which_cell_it_shows(task):
    questions, answers = task.generate(0, 0, 1, task.generator_modes[0])
    for codes, line in (
        ((questions[0],), task.question_text(questions[0])),
        ((questions[0], answers[0]), task.answer_text(answers[0])),
    ):
        pieces = task.render_cells(*codes)
        assert "".join(text for text, _ in pieces) == task.render(*codes)
        shown = {cell: text for text, cell in pieces if cell is not None}
        assert list(shown) == list(range(task.cells))
        assert "".join(shown.values()) == line


def test_only_mazes_have_more_than_their_answer_to_learn():
    for task in (TASKS["sudoku4"], TASKS["sudoku9"]):
        assert task.answer_only() is task
    for task in (TASKS["maze6"], TASKS["maze10"]):
        assert task.answer_only() == replace(task, decoder="threshold")
        assert task.answer_only().answer_only() == task.answer_only()


def test_only_full_sizes_are_those_of_the_paper():
    assert [task.paper_sized for task in TASKS.values()] == [False, True, False, False]
    assert Maze().paper_sized


@every_task
def test_a_picture_counts_the_cells_that_can_be_wrong(task):
    questions, _ = task.generate(0, 0, 1, task.generator_modes[0])
    counted = task.counted_cells(task.question_text(questions[0]))
    x = task.problem(questions)
    assert sum(counted) == x.mask.sum()
    view = task.page_view
    assert view["side"] * view["rows"] == task.cells
    assert (view["view"], view["box"]) == (
        ("cells", task.box) if task.name == "sudoku" else ("maze", 0)
    )
    question = task.question_text(questions[0])
    assert set(question) <= {view["blank"], *view["symbols"]}
    assert view["blank"] in question


def test_importing_tasks_loads_no_plotting():
    """Drawing does, when something is drawn."""
    code = "import sys, focus.tasks; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@every_task
def test_symmetries_that_keep_the_answer_have_an_inverse(task):
    questions, answers = task.generate(0, 0, 3, task.generator_modes[0])
    keys = example_keys(1, 1, torch.arange(3))
    assert task.symmetries_keep_answer == (task.name == "sudoku")
    if not task.symmetries_keep_answer:
        with pytest.raises(NotImplementedError):
            task.transform(questions, keys)
        return
    moved = task.transform(questions, keys), task.transform(answers, keys)
    assert task.judge(*moved).canonical.all()
    assert (task.inverse_transform(moved[0], keys) == questions).all()


@every_task
def test_cell_codes_lead_back_to_the_decoded_answer(task):
    x, y = batch(task)
    assert torch.equal(
        task.answer_tokens(task.answer_codes(task.reference(y), x), x), task.reference(y)
    )
    codes = task.answer_codes(task.decode(random_state(task, x, 0), x), x)
    assert (task.answer_codes(task.answer_tokens(codes, x), x) == codes).all()


@every_task
def test_extra_leading_axes_are_steps(task):
    x, y = batch(task)
    z = torch.stack([random_state(task, x, step) for step in range(6)])
    nested = z.reshape(2, 3, *z.shape[1:])
    for function in (task.energy, task.step_loss, task.exact):
        flat = torch.stack([function(state, x, y) for state in z])
        torch.testing.assert_close(function(nested, x, y).reshape(6, -1), flat)
    decoded = torch.stack([task.decode(state, x) for state in z])
    assert torch.equal(task.decode(nested, x).reshape(decoded.shape), decoded)


@every_task
def test_loss_weighs_the_steps(task):
    x, y = batch(task)
    z = torch.stack([random_state(task, x, step) for step in range(4)])
    steps = task.step_loss(z, x, y)
    torch.testing.assert_close(task.loss(z, x, y, "final"), steps[-1])
    torch.testing.assert_close(task.loss(z, x, y, "uniform"), steps.mean(0))
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4])
    torch.testing.assert_close(task.loss(z, x, y, "linear"), (steps * weights[:, None]).sum(0))
    assert step_weights(7, "linear", z.device).sum() == pytest.approx(1)


@every_task
def test_energies_are_float32_whatever_the_state_is(task):
    x, y = batch(task)
    z = random_state(task, x, 0).bfloat16()
    assert task.energy(z, x, y).dtype == torch.float32
    assert task.step_loss(z, x, y).dtype == torch.float32
    assert task.clamp(z, x).dtype == torch.bfloat16


@every_task
def test_the_initial_state_and_the_context_know_nothing_of_the_answer(task):
    """Exchanging the labels, not the puzzle, changes neither."""
    stored = rows(task, 5, 4)
    x, _ = task.unpack(stored)
    if task.name == "maze":
        labels = stored.code.clone()
        labels[labels < 5] = 0
        other = type(stored)(labels, stored.goal)
    else:
        other = type(stored)(stored.question, torch.zeros_like(stored.answer))
    hidden, _ = task.unpack(other)
    assert torch.equal(task.initial(hidden), task.initial(x))
    for seen, again in zip(
        vars(task.context(x)).values(), vars(task.context(hidden)).values(), strict=True
    ):
        assert torch.equal(seen, again)


@every_task
def test_sizes_are_what_the_task_says(task):
    x, _ = batch(task)
    z = task.initial(x)
    assert z.shape == (4, task.tokens, task.width)
    assert task.features(z, x).shape[-1] == task.feature_width
    assert task.features(z, x).abs().max() < 30
    context = task.context(x)
    assert context.category.shape[-1] == len(task.category_sizes)
    assert (context.category < torch.tensor(task.category_sizes)).all()
    assert task.relations(x).shape[1] == len(task.relation_names)
    assert sum(channel.width for channel in task.channels) == z.shape[-1]


@every_task
def test_messages_have_the_shape_that_the_task_says(task):
    x, _ = batch(task)
    heard, present = task.messages(torch.randn(4, task.tokens, 6), x)
    assert heard.shape == (4, task.tokens, task.message_slots, 6)
    absent = ~present.expand(heard.shape[:-1])
    assert not heard[absent].any()


@every_task
@given(seed=seeds)
def test_corruption_is_near_the_answer_but_rarely_it(task, seed):
    x, y = batch(task, seed, count=16)
    z = task.corrupt(x, y, example_keys(seed, 1, torch.arange(16)))
    assert torch.equal(task.clamp(z, x), z)
    assert task.exact(z, x, y).float().mean() <= 0.75  # small mazes are easy to keep
    accuracy = task.diagnostics(task.decode(z, x), x, y)["cell_accuracy"].mean()
    if task.name == "maze":  # a wrong parent cuts the walk short: look at the path cells
        accuracy = (((z[..., 0] > 0) == y.path) & x.mask).sum() / x.mask.sum()
    assert 0.4 < accuracy < 0.99


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@every_task
def test_cpu_and_gpu_agree(task):
    stored = rows(task, 1, 8, augment=True)
    keys = example_keys(1, 2, torch.arange(8))
    results = []
    for device in ("cpu", "cuda"):
        x, y = task.unpack(task.augment(stored.to(device), keys.to(device)))
        z = random_state(task, x.to("cpu"), 0).to(device)
        results.append(
            [
                x.grid, task.decode(z, x), task.exact(z, x, y), task.energy(z, x, y),
                task.step_loss(z, x, y), task.features(z, x), task.corrupt(x, y, keys.to(device)),
                *task.diagnostics(task.decode(z, x), x, y).values(),
            ]
        )  # fmt: skip
    for on_cpu, on_gpu in zip(*results, strict=True):
        torch.testing.assert_close(on_cpu, on_gpu.cpu(), rtol=1e-4, atol=1e-5)
