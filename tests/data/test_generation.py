"""Generation is resumable and does not depend on the number of workers."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np
import pytest

from focus.data.generation import GenerationSpec, generate_file, generate_table, ks_distance
from focus.data.table import read_table
from focus.errors import UserError
from focus.files import only_one
from focus.tasks import Maze, Sudoku


def test_the_file_is_the_same_for_any_number_of_workers(tmp_path):
    task = Sudoku()
    for workers in (1, 3):
        generate_file(task, GenerationSpec(250, 4, "minimal", workers), tmp_path / f"{workers}.csv")
    first = (tmp_path / "1.csv").read_bytes()
    assert first == (tmp_path / "3.csv").read_bytes()
    table = read_table(tmp_path / "1.csv", task)
    assert task.judge(table.questions, table.answers).canonical.all()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1.csv", "3.csv"]


def test_puzzles_equivalent_to_excluded_ones_are_left_out(tmp_path):
    task = Maze(size=6, min_path=6)
    whole = generate_table(task, GenerationSpec(100, 1, "distant"), tmp_path / "a")
    flipped = np.ascontiguousarray(
        whole.questions[:30].reshape(-1, 6, 6)[:, :, ::-1].reshape(-1, 36)
    )
    spec = GenerationSpec(70, 1, "distant", exclude=(flipped,))
    rest = generate_table(task, spec, tmp_path / "b")
    assert (rest.questions == whole.questions[30:]).all()


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    """kill -9 in the middle; the parts that were finished are used as they are."""
    out = tmp_path / "killed.csv"
    command = [
        sys.executable, "-m", "focus", "data", "generate", "--task", "sudoku", "--seed", "2",
        "--mode", "minimal", "--count", "1500", "--workers", "1", "--out", str(out),
    ]  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if k != "FOCUS_DATA"}
    run = subprocess.Popen(command, env=environment)
    parts = tmp_path / "killed.csv.parts"
    while len(list(parts.glob("0*.npz"))) < 3:
        assert run.poll() is None, "finished before it could be killed"
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert not out.exists()
    kept = {p.name: p.stat().st_mtime_ns for p in parts.glob("0*.npz")}
    # A truncated part, as a crash of the machine could leave it, is made again.
    victim = sorted(parts.glob("0*.npz"))[1]
    victim.write_bytes(victim.read_bytes()[:50])
    seen = []
    task, spec = Sudoku(), GenerationSpec(1500, 2, "minimal", 2)
    resumed = generate_table(task, spec, parts, seen.append)
    now = {p.name: p.stat().st_mtime_ns for p in parts.glob("0*.npz")}
    assert [n for n in kept if now[n] != kept[n]] == [victim.name]
    fresh = generate_table(task, spec, tmp_path / "fresh")
    assert (resumed.questions == fresh.questions).all()
    assert seen[-1] == 1500


def test_parts_of_another_generation_are_not_mixed_in(tmp_path):
    generate_table(Sudoku(box=2), GenerationSpec(10, 1, "minimal"), tmp_path / "parts")
    with pytest.raises(UserError, match="parts of another generation"):
        generate_table(Sudoku(box=2), GenerationSpec(10, 2, "minimal"), tmp_path / "parts")
    for damaged in ("", "{}", "[1, 2]"):
        (tmp_path / "parts" / "plan.json").write_text(damaged)
        with pytest.raises(UserError, match="parts of another generation"):
            generate_table(Sudoku(box=2), GenerationSpec(10, 1, "minimal"), tmp_path / "parts")


def test_parts_are_gone_on_with_whatever_the_settings_of_training(tmp_path):
    spec = GenerationSpec(10, 1, "minimal")
    first = generate_table(Sudoku(box=2), spec, tmp_path / "parts")
    again = generate_table(Sudoku(box=2, answer_features="logits"), spec, tmp_path / "parts")
    assert (first.questions == again.questions).all()
    with pytest.raises(UserError, match="another generation"):
        generate_table(Sudoku(box=3), spec, tmp_path / "parts")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (GenerationSpec(0, 1, "minimal"), "from 1 to"),
        (
            GenerationSpec(5, 1, "hard"),
            "no generator mode 'hard'; it has minimal, unbiased, neighbourhood",
        ),
        (GenerationSpec(5, 1, "neighbourhood"), "needs puzzles to start from"),
    ],
)
def test_impossible_specs_are_refused(tmp_path, spec, message):
    with pytest.raises(UserError, match=message):
        generate_table(Sudoku(), spec, tmp_path / "parts")


def test_running_dry_is_said(tmp_path):
    with pytest.raises(UserError, match="runs dry at"):
        generate_table(
            Maze(size=3, min_path=6), GenerationSpec(3000, 0, "distant"), tmp_path / "parts"
        )


def test_ks_distance_of_known_samples():
    assert ks_distance(np.array([1, 2, 3]), np.array([1, 2, 3])) == 0
    assert ks_distance(np.array([0, 0]), np.array([5, 6])) == 1
    assert ks_distance(np.arange(100), np.arange(100) + 10) == pytest.approx(0.1)


@pytest.mark.long
def test_fifty_thousand_neighbours_match_the_test_distribution(data_folder, tmp_path):
    task = Sudoku()
    seeds = read_table(data_folder / "sudoku-extreme" / "train.csv.gz", task).questions
    test = read_table(data_folder / "sudoku-extreme" / "test.csv.gz", task).questions
    extra = read_table(data_folder / "sudoku-extreme" / "extra.csv.gz", task).questions
    pool = np.concatenate([seeds, extra])
    spec = GenerationSpec(50_000, 1, "neighbourhood", os.cpu_count() or 1, pool, seeds, (test,))
    table = generate_table(task, spec, tmp_path / "parts")
    ratings = table.columns["rating"].astype(int)
    assert ks_distance(ratings, task.rate(test)) <= 0.1


def test_two_generations_do_not_write_one_file(tmp_path):
    spec = GenerationSpec(4, 0, "minimal")
    with only_one(tmp_path / "out.csv.parts"), pytest.raises(UserError, match="another process"):
        generate_file(Sudoku(box=2), spec, tmp_path / "out.csv")


def test_a_generator_that_runs_dry_says_so(tmp_path):
    """Some new puzzle in nearly every chunk is not enough."""

    @dataclass(frozen=True)
    class Few(Sudoku):
        def generate(self, seed, first_unit, count, mode, seeds=None, like=None):
            questions, answers = super().generate(seed, 0, 20, mode)
            if first_unit % 400 == 0:  # a new one now and then
                questions, answers = super().generate(seed, 1000 + first_unit, 1, mode)
            return np.repeat(questions, 5, 0), np.repeat(answers, 5, 0)

    with pytest.raises(UserError, match="runs dry at"):
        generate_file(Few(box=2), GenerationSpec(500, 0, "minimal"), tmp_path / "out.csv")
