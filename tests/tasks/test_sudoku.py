"""The Sudoku task against the definitions of the paper."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from focus.errors import UserError
from focus.tasks import Sudoku
from tests.tasks.samples import TASKS, batch, random_state

PUZZLE = "..83.461...3....54.6..15...15..36......4.1...3.4.8........5....8......7.6.....528"


def slow_energy(task: Sudoku, z: np.ndarray, clues: np.ndarray, digit: np.ndarray) -> float:
    """Appendix B.1, cell by cell."""
    side, box = task.side, task.box
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    losses = [-math.log(p[i, digit[i]]) for i in range(task.cells) if clues[i] == 0]
    hard = sorted(losses, reverse=True)[: max(1, math.ceil(task.hard_fraction * len(losses)))]
    groups = []
    for k in range(side):
        groups.append([k * side + c for c in range(side)])
        groups.append([r * side + k for r in range(side)])
        top, left = k // box * box, k % box * box
        groups.append([(top + r) * side + left + c for r in range(box) for c in range(box)])
    violation = sum(
        (sum(p[i, d] for i in group) - 1) ** 2 for group in groups for d in range(side)
    ) / (3 * side * side)
    return (
        task.lambda_ce * sum(losses) / len(losses)
        + task.lambda_hard * sum(hard) / len(hard)
        + task.lambda_c * violation
    )


@pytest.mark.parametrize("task", [TASKS["sudoku4"], TASKS["sudoku9"]])
@given(seed=st.integers(0, 2**31))
def test_energy_equals_the_definition(task, seed):
    x, y = batch(task, seed, count=2)
    z = random_state(task, x, seed)
    expected = [
        slow_energy(task, z[k].double().numpy(), x.grid[k].numpy(), y.label[k].numpy())
        for k in range(2)
    ]
    torch.testing.assert_close(
        task.energy(z, x, y), torch.tensor(expected, dtype=torch.float32), rtol=1e-4, atol=1e-5
    )


def test_without_the_givens_all_puzzles_look_alike_and_only_blanks_are_judged():
    hidden = Sudoku(box=2, givens_shown=False)
    x, y = batch(hidden, count=4)
    assert len(x.grid.unique(dim=0)) == 4
    z = random_state(hidden, x, 1)
    same = [hidden.context(x).bits, hidden.context(x).category.float(), hidden.initial(x)]
    assert all(torch.equal(part, part[:1].expand_as(part)) for part in same)
    assert torch.equal(hidden.clamp(z, x), z)  # the step that follows sees nothing of them
    shown = Sudoku(box=2)
    torch.testing.assert_close(hidden.energy(z, x, y), shown.energy(shown.clamp(z, x), x, y))
    blanks = shown.solved_state(x, y) * (x.grid == 0)[..., None]
    assert hidden.exact(blanks, x, y).all()
    assert not shown.exact(blanks, x, y).any()
    answer = hidden.decode(blanks, x)
    assert hidden.obeys(answer, x).all()


def test_candidates_are_the_digits_the_givens_leave_open():
    task = Sudoku()
    question = task.parse(PUZZLE)
    x, _ = task.unpack(task.pack(question[None], question[None]))
    bits = task.context(x).bits[0].numpy()
    grid = question.reshape(9, 9)
    for cell in range(81):
        r, c = divmod(cell, 9)
        box = grid[r // 3 * 3 : r // 3 * 3 + 3, c // 3 * 3 : c // 3 * 3 + 3]
        seen = {*grid[r], *grid[:, c], *box.reshape(-1)}
        given_digit = grid[r, c]
        expected = {given_digit} if given_digit else set(range(1, 10)) - seen
        assert set(np.flatnonzero(bits[cell]) + 1) == expected


def test_a_finished_grid_has_zero_violation_once_sharp():
    task = Sudoku()
    x, y = batch(task)
    terms = task.energy_terms(task.solved_state(x, y, 20.0), x, y)
    assert (terms["all_different"] < 1e-9).all()


def test_a_puzzle_without_blanks_has_zero_cross_entropy():
    task = Sudoku(box=2)
    _, answers = task.generate(0, 0, 1, "minimal")
    x, y = task.unpack(task.pack(answers, answers))
    terms = task.energy_terms(task.initial(x), x, y)
    assert terms["ce"] == 0
    assert terms["hard"] == 0


def test_eligibility_skips_whatever_the_rollout_solved():
    """Candidates (rows) of three puzzles; the middle one ends solved."""
    at = torch.tensor([[False, False, True], [False, True, False]])
    end = torch.tensor([False, True, False])
    eligible = Sudoku().eligible(at, at, end)
    assert eligible.tolist() == [[True, False, True], [True, False, True]]


def test_diagnostics_count_cells_and_rules():
    task = Sudoku()
    x, y = batch(task, count=2)
    answer = y.label.clone()
    answer[1, 0] = (answer[1, 0] + 1) % 9
    scores = task.diagnostics(answer, x, y)
    assert scores["cell_accuracy"].tolist() == pytest.approx([1.0, 80 / 81])
    assert scores["valid"].tolist() == [1.0, 0.0]


def test_rules_need_no_label_and_givens_must_stay():
    task = Sudoku(box=2)
    questions, answers = task.generate(3, 0, 1, "minimal")
    x = task.problem(questions)
    answer = task.answer_tokens(answers, x)
    other = (answer + 1) % 4  # obeys the rules of a grid, but changes every given
    blank = task.problem(np.zeros_like(questions))
    assert task.obeys(answer, x).item()
    assert not task.obeys(other, x).item()
    assert task.obeys(other, blank).item()


def test_the_frame_stands_between_the_boxes():
    task = Sudoku(box=2)
    question = task.parse("1...34....21...3")
    assert task.render(question) == "1 . | . .\n3 4 | . .\n----+----\n. . | 2 1\n. . | . 3"
    styled = "".join(
        f"<{text}>" if cell == 4 else text for text, cell in task.render_cells(question)
    )
    assert "\n<3> 4 |" in styled


def test_text_survives_a_round_trip():
    task = Sudoku()
    question = task.parse(PUZZLE)
    assert task.question_text(question) == PUZZLE
    assert (task.parse(task.render(question)) == question).all()
    assert (task.parse(PUZZLE.replace(".", "0")) == question).all()
    answer = task.solve(question)
    assert (task.parse_text_target(question, task.text_target().text(answer)) == answer).all()
    assert task.parse_text_target(question, "no idea") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has 0 characters, 81 are needed"),
        (PUZZLE[:-1], "has 80 characters, 81 are needed"),
        (PUZZLE[:-1] + "x", "'x' at position 81"),
        ("55" + "." * 79, "5 stands twice in row 1"),
        ("5" + "." * 8 + "5" + "." * 71, "5 stands twice in column 1"),
        ("5" + "." * 9 + "5" + "." * 70, "5 stands twice in box 1"),
    ],
)
def test_bad_puzzles_are_refused_with_a_reason(text, message):
    with pytest.raises(UserError, match=message):
        Sudoku().parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("." * 81, "several solutions"),
        ("12345678." + "." * 17 + "9" + "." * 54, "no solution"),
        (
            ".....5.8....6.1.43..........1.5........1.6...3.......553.....61........4.........",
            "given up after",
        ),
    ],
)
def test_puzzles_without_one_solution_are_refused(text, message):
    task = Sudoku()
    with pytest.raises(UserError, match=message):
        task.solve(task.parse(text))


def test_an_easier_puzzle_has_more_givens_and_the_same_answer():
    task = Sudoku()
    questions, answers = task.generate(0, 0, 1, "minimal")
    easier = task.add_givens(questions[0], answers[0], seed=1)
    assert (easier != questions[0]).sum() == 81 // 6
    assert (easier[questions[0] > 0] == questions[0][questions[0] > 0]).all()
    assert (task.solve(easier) == answers[0]).all()


def test_other_boxes_are_refused():
    with pytest.raises(UserError, match="2 or 3"):
        Sudoku(box=4)
