"""The solver as users call it: text in, text out."""

from pathlib import Path

import numpy as np
import pytest
import torch

from focus.errors import UserError
from focus.model.base import SolverConfig
from focus.model.recurrence import Rollout
from focus.model.solver import Solver
from focus.model.trm import TRMConfig
from focus.model.updater import UpdaterConfig
from focus.tasks import Maze, Sudoku

PUZZLE = "1...34....21...3"
SMALL = UpdaterConfig(width=32)


def a_solver(task=None, **settings) -> Solver:
    torch.manual_seed(0)
    solver = Solver(task or Sudoku(box=2), SolverConfig(updater=SMALL, **settings))
    for name in ("head", "hop_head"):
        if hasattr(solver.updater, name):
            torch.nn.init.normal_(getattr(solver.updater, name).weight, std=0.5)
    return solver


def test_a_puzzle_gives_its_answer_and_a_list_gives_a_list():
    solver = a_solver()
    answer = solver.solve(PUZZLE, steps=3)
    assert isinstance(answer, str)
    assert len(answer) == 16
    assert all(given in (".", digit) for given, digit in zip(PUZZLE, answer, strict=True))
    drawn = "1 . | . .\n3 4 | . .\n----+----\n. . | 2 1\n. . | . 3"
    assert solver.solve([PUZZLE, drawn], steps=3) == [answer, answer]
    assert solver.solve([], steps=3) == []
    codes = solver.task.parse(PUZZLE)[None]
    assert solver.task.answer_text(solver.answer(codes, 3)[0]) == answer


def test_what_is_no_puzzle_is_refused():
    with pytest.raises(UserError, match="has 3 characters, 16 are needed"):
        a_solver().solve("1..")
    with pytest.raises(UserError, match="contradict"):
        a_solver().solve("11..............")


def test_a_checkpoint_knows_its_own_number_of_steps():
    solver = Solver.from_pretrained("sudoku-none")
    assert solver.default_steps == 128
    puzzle = "..9748...7.........2.1.9.....7...24..64.1.59..98...3.....8.3.2.........6...2759.."
    answer = solver.solve(puzzle)
    assert solver.task.judge(*(solver.task.parse(text)[None] for text in (puzzle, answer))).valid
    assert a_solver().default_steps == 16


def test_a_trajectory_is_the_rollout_step_by_step():
    solver = a_solver()
    correct = solver.task.answer_text(solver.task.solve(solver.task.parse(PUZZLE)))
    revisions = list(solver.trajectory(PUZZLE, steps=5, answers=correct))
    assert [revision.step for revision in revisions] == [0, 1, 2, 3, 4, 5]
    for steps in (1, 5):
        assert revisions[steps].answer == solver.solve(PUZZLE, steps=steps)
    questions = solver.task.parse(PUZZLE)[None]
    for revision in revisions:
        answer = solver.task.encode_answers([revision.answer])
        assert revision.valid == bool(solver.task.judge(questions, answer).valid[0])
        assert 1 / 4 <= revision.confidence <= 1
        assert revision.energy > 0
    pairs = list(solver.trajectory([PUZZLE, PUZZLE], steps=2))
    assert [[one.answer for one in pair] for pair in pairs] == [
        [r.answer] * 2 for r in revisions[:3]
    ]
    assert pairs[0][0].energy is None


@pytest.mark.parametrize("mixer", ["updater", "mlp", "attention"])
def test_a_rollout_that_drops_puzzles_goes_on_with_the_others_unchanged(mixer):
    task = Maze(size=6, min_path=6, max_tokens=36) if mixer == "attention" else Sudoku(box=2)
    trm = TRMConfig(32, heads=2, mixer="attention" if mixer == "attention" else "mlp", inner=1)
    solver = a_solver(task, trm=trm, answer="revised" if mixer == "updater" else "trm").eval()
    questions, _ = task.generate(3, 0, 6, task.generator_modes[0])
    x = task.problem(questions[:4])
    with torch.no_grad():
        whole, part = solver.rollout(x), solver.rollout(x)
        next(whole), next(part)
        rows = torch.tensor([True, False, True, True])
        part.keep(rows)
        for _ in range(2):
            expected, reached = next(whole), next(part)
            for name, tensor in reached.tensors().items():
                torch.testing.assert_close(tensor, expected.tensors()[name][rows])
    assert isinstance(part, Rollout)


def test_the_hub_s_keywords_reach_the_hub(monkeypatch, tmp_path):
    import huggingface_hub

    asked = {}

    def download(name, **keywords):
        asked[name] = keywords
        return str(tmp_path / "here")

    a_solver().save_pretrained(tmp_path / "here")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    solver = Solver.from_pretrained(
        "someone/solver", revision="v1", token="secret", cache_dir=Path("cache"),
        local_files_only=True,
    )  # fmt: skip
    assert asked == {
        "someone/solver": {
            "revision": "v1", "token": "secret", "cache_dir": Path("cache"),
            "local_files_only": True,
        }
    }  # fmt: skip
    assert np.array_equal(solver.solve(PUZZLE, 2), a_solver().solve(PUZZLE, 2))


def test_a_push_says_what_it_is(monkeypatch):
    import huggingface_hub

    calls = []

    class Api:
        def __init__(self, token=None):
            calls.append(("token", token))

        def create_repo(self, repository, private, exist_ok):
            calls.append(("create", repository, private))

        def upload_folder(self, repo_id, folder_path, commit_message, revision):
            files = sorted(path.name for path in Path(folder_path).iterdir())
            calls.append(("upload", repo_id, commit_message, revision, files))
            return "https://hub/someone/solver"

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    address = a_solver().push_to_hub(
        "someone/solver", private=False, commit_message="first", revision="main", token="secret"
    )
    assert address == "https://hub/someone/solver"
    assert calls[:2] == [("token", "secret"), ("create", "someone/solver", False)]
    assert calls[2][:4] == ("upload", "someone/solver", "first", "main")
    assert "updater.safetensors" in calls[2][4]
