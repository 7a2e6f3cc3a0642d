"""The family of tasks that give every cell a class, against Sudoku's own engines."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from focus.errors import UserError
from focus.random import example_keys
from focus.tasks import Sudoku
from focus.tasks.assignment import Assignment
from focus.tasks.records import Rows
from tests.tasks.samples import batch, random_state

seeds = st.integers(0, 2**31)


@dataclass(frozen=True)
class PlainSudoku(Assignment):
    """Sudoku with nothing but what the family provides."""

    name = "sudoku"

    box: int = 2

    @property
    def classes(self) -> int:
        return self.box**2

    def groups(self) -> dict[str, np.ndarray]:
        return Sudoku(box=self.box).groups()


@dataclass(frozen=True)
class Pairs(Assignment):
    """Three cells of three classes: the first two differ, and the last is larger than both."""

    name = "pairs"

    @property
    def classes(self) -> int:
        return 3

    def groups(self) -> dict[str, np.ndarray]:
        return {"pair": np.array([0, 0, -1])}

    def conflicts(self) -> np.ndarray:
        table = np.zeros((3, 3, 3, 3), bool)
        number = np.arange(3)
        table[:2, :, 2, :] = number[:, None] >= number  # stated one way round only
        return table


def test_the_generic_search_agrees_with_the_compiled_one():
    task, plain = Sudoku(box=2), PlainSudoku()
    questions, answers = task.generate(0, 0, 40, "minimal")
    rng = np.random.default_rng(0)
    several = np.where(rng.random(questions.shape) < 0.2, 0, questions).astype(np.uint8)
    wrong = questions.copy()
    wrong[:, 0] = answers[:, 0] % 4 + 1
    for rows in (questions, several, wrong):
        ours, theirs = plain.search(rows), task.search(rows)
        assert (ours[1] == theirs[1]).all()
        unique = theirs[1] == 1
        assert (ours[0][unique] == theirs[0][unique]).all()
    assert {0, 1, 2} == {*task.search(several)[1].tolist(), *task.search(wrong)[1].tolist()}
    assert (plain.solve(questions[0]) == answers[0]).all()


def test_generic_puzzles_are_unique_minimal_and_a_function_of_seed_and_unit():
    task, plain = Sudoku(box=2), PlainSudoku()
    questions, answers = plain.generate(5, 0, 20, "minimal")
    verdict = task.judge(questions, answers)
    assert verdict.valid.all()
    assert verdict.unique.all()
    assert verdict.canonical.all()
    for cell in np.flatnonzero(questions[0]):
        fewer = questions[0].copy()
        fewer[cell] = 0
        assert task.search(fewer[None])[1] == 2
    part = plain.generate(5, 7, 3, "minimal")
    assert (part[0] == questions[7:10]).all()
    assert (part[1] == answers[7:10]).all()
    assert len(np.unique(answers, axis=0)) > 10


def test_eased_puzzles_have_more_givens_and_the_same_answer():
    plain = PlainSudoku()
    (minimal, answers), (eased, again) = (
        plain.generate(5, 0, 20, mode) for mode in plain.generator_modes
    )
    assert (again == answers).all()
    assert (eased[minimal > 0] == minimal[minimal > 0]).all()
    assert 0.2 < ((eased > 0) & (minimal == 0)).sum() / (minimal == 0).sum() < 0.45
    assert plain.judge(eased, answers).canonical.all()


def test_hints_reveal_blanks_different_ones_for_each_key():
    task, keys = Sudoku(), example_keys(1, 2, torch.arange(300))
    questions, answers = task.generate(1, 0, 3, "minimal")
    rows = Rows(
        torch.from_numpy(questions).repeat(100, 1), torch.from_numpy(answers).repeat(100, 1)
    )
    hinted = task.with_hints(rows, keys, 4)
    given, more = rows.question > 0, hinted.question > 0
    assert torch.equal(hinted.answer, rows.answer)
    assert torch.equal(hinted.question[given], rows.question[given])
    assert torch.equal(hinted.question[more], rows.answer[more])
    counts = (more & ~given).sum(1)
    assert sorted(counts.unique().tolist()) == [0, 1, 2, 3, 4]
    assert counts.float().mean().item() == pytest.approx(2, abs=0.25)
    assert len(hinted.question[::3].unique(dim=0)) > 60
    assert torch.equal(task.with_hints(rows, keys, 4).question, hinted.question)


def test_nine_by_nine_is_solved_by_the_generic_search_too():
    questions, answers = Sudoku().generate(1, 0, 2, "minimal")
    assert (PlainSudoku(box=3).search(questions)[0] == answers).all()


@pytest.mark.parametrize("box", [2, 3])
def test_fast_sums_equal_the_generic_ones(box):
    task, plain = Sudoku(box=box), PlainSudoku(box=box)
    x, y = batch(task, 4)
    z = random_state(task, x, 0)
    for name, term in plain.energy_terms(z, x, y).items():
        torch.testing.assert_close(task.energy_terms(z, x, y)[name], term)
    for name, value in vars(task.context(x)).items():
        assert torch.equal(getattr(plain.context(x), name), value)
    used = torch.nn.functional.one_hot(z.argmax(-1), box**2).float()
    # A cell of the same row and the same box counts twice in fast sums: what counts is whether.
    assert torch.equal(plain.excluded(used) > 0, task.excluded(used) > 0)
    assert torch.equal(plain.obeys(y.label, x), task.obeys(y.label, x))
    keys = example_keys(0, 0, torch.arange(4))
    assert torch.equal(plain.corrupt(x, y, keys), task.corrupt(x, y, keys))
    assert plain.category_sizes == task.category_sizes == (box**2, 2)
    assert torch.equal(plain.relations(x), task.relations(x))


@given(seed=seeds)
def test_verdicts_of_wrong_rows_agree_with_sudokus(seed):
    task, plain = Sudoku(box=2), PlainSudoku()
    questions, answers = task.generate(seed, 0, 8, "minimal")
    rng = np.random.default_rng(seed)
    answers = np.where(rng.random(answers.shape) < 0.05, 1, answers).astype(np.uint8)
    answers[0, 0] = 0
    ours, theirs = plain.judge(questions, answers), task.judge(questions, answers)
    assert ours.problems == theirs.problems
    assert (ours.valid == theirs.valid).all()
    assert not ours.valid[0]


def test_a_search_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr(PlainSudoku, "patience", 3)
    task = PlainSudoku(box=3)
    blank = np.zeros(81, np.uint8)
    with pytest.raises(UserError, match="given up after 3 guesses; add givens"):
        task.solve(blank)
    assert task.judge(blank[None], blank[None]).problems == {
        0: "no solution was found with 3 guesses"
    }


def test_cells_outside_all_groups_and_further_rules():
    """1 2 3 and 2 1 3 are all the answers, whichever way round a rule is stated."""
    task = Pairs()
    assert task.search(np.zeros((1, 3), np.uint8))[1] == 2
    assert task.solve(task.parse("1..")).tolist() == [1, 2, 3]
    x = task.problem(np.zeros((27, 3), np.uint8))
    every = torch.cartesian_prod(*[torch.arange(3)] * 3)
    assert every[task.obeys(every, x)].tolist() == [[0, 1, 2], [1, 0, 2]]
    with pytest.raises(UserError, match="3 in cell 1 excludes 2 in cell 3"):
        task.parse("3.2")
    with pytest.raises(UserError, match="1 stands twice in pair 1"):
        task.parse("11.")
    with pytest.raises(UserError, match="Pairs has several solutions"):
        task.solve(task.parse("..3"))
    questions, answers = task.generate(0, 0, 4, "minimal")
    x, y = task.unpack(task.pack(questions, answers))
    assert (task.energy(task.solved_state(x, y, 20.0), x, y) < 1e-6).all()
    assert (task.energy_terms(task.initial(x), x, y)["conflicts"] > 0).all()
    assert task.context(x).category[..., 0].tolist() == [[1, 1, 0]] * 4  # 0: in no group
    heard, present = task.messages(torch.randn(4, 3, 5), x)
    assert present.expand(4, 3, 1)[0, :, 0].tolist() == [True, True, False]
    assert heard.shape == (4, 3, 1, 5)


def test_rules_that_leave_no_answer_are_said_to():
    @dataclass(frozen=True)
    class Crowded(Pairs):
        def groups(self) -> dict[str, np.ndarray]:
            return {"all": np.zeros(4, int)}

        def conflicts(self) -> None:
            return None

    with pytest.raises(UserError, match="no pairs of this size has a solution"):
        Crowded().generate(0, 0, 1, "minimal")


def test_groups_smaller_than_the_classes_may_leave_classes_out():
    """All-different is then about too much of a class, never about too little."""

    @dataclass(frozen=True)
    class Two(Pairs):
        def groups(self) -> dict[str, np.ndarray]:
            return {"pair": np.array([0, 0])}

        def conflicts(self) -> None:
            return None

    task = Two()
    p = torch.nn.functional.one_hot(torch.tensor([[0, 2], [1, 1]]), 3).float()
    assert task.group_violations(p).tolist() == [0.0, 1.0]


COMPILE = """
import torch
from focus.tasks import Sudoku
from queens import Queens

for task in (Sudoku(box=2), Queens()):
    x, y = task.unpack(task.pack(*task.generate(0, 0, 2, "minimal")))
    z, h = task.initial(x), torch.randn(2, task.tokens, 4)
    for function in (lambda: task.energy(z, x, y), lambda: task.messages(h, x)[0]):
        traced = torch.compile(function, backend="eager", fullgraph=True)
        assert torch.equal(traced(), function())
"""


def test_the_compiler_sees_energies_and_messages_whole():
    """On a GPU both are compiled; tables made by NumPy would break the graph.

    In a process of its own, without the run-time checks of shapes.
    """
    root = Path(__file__).parents[2]
    subprocess.run(
        [sys.executable, "-W", "error", "-c", COMPILE], check=True, cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root}:{root / 'docs' / 'examples'}"},
    )  # fmt: skip
