"""A repair as values says what the solver, the task and the curation say."""

import itertools
import json

import numpy as np
import pytest
import torch

from focus.curation.algorithm import SelfTrajectory
from focus.curation.config import Stage
from focus.curation.selectors import Frontier
from focus.data.examples import LEVELS, example
from focus.errors import UserError
from focus.model.backbone import BackboneConfig
from focus.model.base import SolverConfig
from focus.model.trm import TRMConfig
from focus.model.writer import Writer
from focus.tasks import Maze, Sudoku
from focus.web import repair as repair_module
from focus.web.page import script_json, standalone
from focus.web.repair import NamedSolver, name_solvers, show_repairs
from tests.curation.samples import minibatch
from tests.web.samples import untrained


@pytest.fixture(scope="module", params=["sudoku", "maze"])
def named(request) -> NamedSolver:
    return untrained(request.param)


@pytest.fixture(scope="module")
def question(named):
    return example(named.solver.task, "medium", 3)


@pytest.fixture(scope="module")
def shown(named, question):
    return show_repairs([named], question, 20)


def test_frames_end_in_the_answer_of_the_solver(named, question, shown):
    task, repair = named.solver.task, shown["repairs"][0]
    frames = repair["frames"]
    assert [frame["step"] for frame in frames] == list(range(21))
    assert frames[0]["answer"] == shown["puzzle"] == task.question_text(question)
    for steps in (1, 7, 20):
        alone = named.solver.answer(question[None], steps)
        assert frames[steps]["answer"] == task.answer_text(alone[0])
        verdict = task.judge(question[None], alone)
        assert frames[steps]["valid"] == bool(verdict.valid[0])
    assert repair["answer"] == frames[-1]["answer"]
    for before, frame in itertools.pairwise(frames):
        pairs = zip(before["answer"], frame["answer"], strict=True)
        differing = [cell for cell, (one, other) in enumerate(pairs) if one != other]
        assert frame["changed"] == differing
        assert len(frame["confidence"]) == task.cells
    assert json.loads(json.dumps(shown)) == shown


def test_energy_defect_and_frontier_are_those_of_training(named, question, shown):
    solver, task, repair = named.solver, named.solver.task, shown["repairs"][0]
    answer = task.solve(question)
    assert shown["solution"] == task.answer_text(answer)
    x, y = task.unpack(task.pack(question[None], answer[None]))
    h, config = named.config.replay.stages[-1][2], named.config.curation
    keys = torch.zeros(1, dtype=torch.long)
    with torch.no_grad():
        conditioning = solver.encode(x)
        z = solver.roll(solver.updater.initial(x), conditioning, x, 20).answers
        choose = SelfTrajectory(Frontier(config.gamma), config)
        chosen = choose(solver, minibatch(x, y, keys), conditioning, Stage(20, h))
        scores = task.diagnostics(task.decode(z[-1], x), x, y)
    assert repair["energy"][1:] == pytest.approx(task.energy(z, x, y)[:, 0].tolist(), abs=1e-4)
    assert len(repair["defect"]) == 21 - h
    assert bool(chosen.from_candidates[0]), "an untrained solver solves nothing"
    assert repair["frontier"] == {"step": int(chosen.scores.step[0]), "replayed": True}
    assert repair["defect"][int(chosen.scores.step[0])] == pytest.approx(
        float(chosen.scores.defect[0]), abs=1e-4
    )
    accuracy = float(scores["cell_accuracy"][0])
    assert repair["frames"][-1]["accuracy"] == pytest.approx(accuracy, abs=1e-4)


def test_a_solved_repair_is_told_from_the_step_since_when_it_stays_solved(monkeypatch):
    named = untrained("sudoku")
    task = named.solver.task
    question = task.parse("1...34....21...3")
    answer = task.solve(question)
    x, y = task.unpack(task.pack(question[None], answer[None]))
    right, wrong = task.solved_state(x, y), task.initial(x)
    states = iter([wrong, right, wrong, right, right, right, right, right])

    def scripted(state, conditioning, x):
        return type(state)(next(states), state.u)

    monkeypatch.setattr(named.solver.updater, "forward", scripted)
    (repair,) = show_repairs([named], question, 8)["repairs"]
    assert repair["solved_at"] == 4
    assert [frame["valid"] for frame in repair["frames"]] == [0, 0, 1, 0, 1, 1, 1, 1, 1]
    assert repair["frontier"]["replayed"] is False


def test_long_repairs_are_thinned_and_keep_both_ends(named, question, monkeypatch):
    monkeypatch.setattr(repair_module, "MOST_FRAMES", 10)
    (repair,) = show_repairs([named], question, 30)["repairs"]
    steps = [frame["step"] for frame in repair["frames"]]
    assert len(steps) == 10
    assert (steps[0], steps[-1]) == (0, 30)
    assert len(repair["energy"]) == 31


def test_a_puzzle_without_one_answer_has_no_energy():
    named = untrained("sudoku")
    shown = show_repairs([named], np.zeros(16, np.uint8), 3)
    assert shown["solution"] is None
    assert "several solutions" in shown["note"]
    assert shown["repairs"][0]["energy"] is None
    assert shown["repairs"][0]["frames"][-1]["accuracy"] is None
    walled = untrained("maze")
    maze = walled.solver.task.parse("S#    ##" + " " * 27 + "G")
    assert "cannot be reached" in show_repairs([walled], maze, 3)["note"]


def test_a_trm_is_shown_and_two_kinds_are_not_compared():
    trm = untrained("sudoku", answer="trm", trm=TRMConfig(width=32, heads=2, outer=1, inner=1))
    question = trm.solver.task.parse("1...34....21...3")
    (repair,) = show_repairs([trm], question, 6)["repairs"]
    assert len(repair["energy"]) == 7
    with pytest.raises(UserError, match="different puzzles"):
        show_repairs([trm, untrained("maze")], question, 2)


def test_what_writes_its_answer_is_refused_and_names_are_told_apart():
    named = untrained("sudoku")
    model = Writer(Sudoku(box=2), SolverConfig(BackboneConfig("tiny-llama"), answer="written"))
    with pytest.raises(UserError, match="writes its answer"):
        NamedSolver.of("direct", model, named.config)
    words = ["runs/one/best", "runs/two", "elsewhere/one"]
    solvers = name_solvers([(word, named.solver, named.config) for word in words])
    assert [solver.name for solver in solvers] == ["one", "two", "one (2)"]


@pytest.mark.parametrize(
    "task", [Sudoku(), Sudoku(box=2), Maze(size=10)], ids=("9x9", "4x4", "maze")
)
def test_examples_are_repeatable_puzzles_with_an_answer(task):
    costs = []
    for level in LEVELS:
        question = example(task, level, 5)
        assert (question == example(task, level, 5)).all()
        task.solve(question)
        costs.append(task.rate(question[None])[0])
    assert costs[0] <= costs[-1]
    with pytest.raises(UserError, match="the levels are"):
        example(task, "silly", 5)


def test_the_stored_page_holds_everything_and_no_address(shown):
    page = standalone(shown)
    assert "http:" not in page
    assert "https:" not in page
    assert "src=" not in page
    assert page.count("</script>") == 2
    evil = {"checkpoint": "</script><script>alert(1)</script>&<!--"}
    text = script_json(evil)
    assert not set("<>&") & set(text)
    assert json.loads(text) == evil
