"""Evaluation, solving, and their commands, on a trained run."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from focus.cli import main
from focus.data.sources import Generated, open_source
from focus.data.splits import make_splits
from focus.data.table import Table, read_table, write_table
from focus.evaluation.puzzles import evaluate
from focus.evaluation.statistics import mcnemar, paired_difference, wilson_interval
from focus.model.checkpoint import load_model
from focus.tasks import Maze
from focus.training.config import read_config
from focus.training.loop import Trainer
from tests.training.samples import tiny_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    Trainer(tiny_run("sudoku", updates=4), folder).run()
    return folder


def test_several_k_in_one_rollout_equal_separate_ones(run):
    solver, config = load_model(run), read_config(run / "config.json")
    table = make_splits(open_source(config.data), config.task).validation[:30]
    together = evaluate(solver, table, [4, 2], batch=7)
    assert [result.steps for result in together] == [2, 4]
    for result in together:
        (alone,) = evaluate(solver, table, [result.steps], batch=30)
        assert (alone.answers == result.answers).all()
        assert (alone.exact == (alone.answers == table.answers).all(1)).all()
        assert (solver.answer(table.questions, result.steps) == result.answers).all()


def test_a_loaded_checkpoint_repeats_its_validation(run):
    solver, config = load_model(run), read_config(run / "config.json")
    table = make_splits(open_source(config.data), config.task).validation[: config.eval_rows]
    notes = json.loads((run / "best" / "notes.json").read_text())
    (result,) = evaluate(solver, table, [config.eval_steps])
    assert result.summary() == notes["validation"]


def test_eval_prints_json_and_stores_predictions(run, tmp_path, capsys):
    out = tmp_path / "eval"
    words = ["eval", str(run), "--split", "test", "--steps", "2,4", "--limit", "25", "--json"]
    assert main([*words, "--out", str(out)]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [r["steps"] for r in results] == [2, 4]
    assert all(r["low"] <= r["exact"] <= r["high"] and r["n"] == 25 for r in results)
    lines = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
    assert len(lines) == 50
    exact = np.mean([line["exact"] for line in lines if line["steps"] == 4])
    assert exact == pytest.approx(results[1]["exact"])


def test_a_refused_completion_is_stored_as_the_question(tmp_path):
    folder = tmp_path / "base"
    Trainer(tiny_run("sudoku", "tiny-llama", method="base"), folder).run()
    assert main(["eval", str(folder), "--limit", "3", "--out", str(tmp_path / "eval")]) == 0
    answers, puzzles = (
        [json.loads(line) for line in (tmp_path / "eval" / name).read_text().splitlines()]
        for name in ("predictions.jsonl", "puzzles.jsonl")
    )
    assert [line["answer"] for line in answers] == [line["question"] for line in puzzles]
    assert not any(line["exact"] for line in answers)


def test_a_file_is_evaluated_whole_and_the_task_is_checked(run, tmp_path, capsys):
    task = read_config(run / "config.json").task
    questions, answers = task.generate(77, 0, 30, "minimal")
    write_table(tmp_path / "mine.csv", Table(questions, answers, np.arange(30), "mine", {}), task)
    words = ["eval", str(run), "--data", str(tmp_path / "mine.csv"), "--steps", "2", "--json"]
    assert main([*words, "--task", "sudoku"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["results"][0]["n"], told["split"]) == (30, "all")
    assert main([*words, "--task", "maze"]) == 2
    assert "solves sudoku, not maze" in capsys.readouterr().err


def test_of_the_file_that_was_trained_on_the_held_out_part_is_evaluated(tmp_path, capsys):
    config = tiny_run("sudoku", updates=1)
    file = tmp_path / "mine.csv"
    write_table(file, Generated(train=50, test=1).load(config.task, "train"), config.task)
    Trainer(replace(config, data=str(file)), tmp_path / "run").run()
    for words in ([], ["--data", str(file)]):
        assert main(["eval", str(tmp_path / "run"), *words, "--steps", "1", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["results"][0]["n"], told["split"]) == (5, "test")


def test_a_file_of_further_training_puzzles_is_not_held_out(tmp_path, capsys):
    config, file = tiny_run("sudoku", updates=1), tmp_path / "more.csv"
    write_table(file, Generated(seed=5, train=9, test=1).load(config.task, "train"), config.task)
    config = replace(config, data="generated", more_data=(str(file),))
    Trainer(config, tmp_path / "run").run()
    assert main(["eval", str(tmp_path / "run"), "--data", str(file), "--steps", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["split"] == "train"


def test_answers_are_not_written_over_a_run(run, tmp_path, capsys):
    before = (run / "config.json").read_bytes()
    for folder in (run, run / "best"):
        assert main(["eval", str(run), "--limit", "2", "--out", str(folder)]) == 2
        assert "holds a run or a checkpoint" in capsys.readouterr().err
    assert (run / "config.json").read_bytes() == before
    (tmp_path / "file").touch()
    assert main(["eval", str(run), "--limit", "2", "--out", str(tmp_path / "file")]) == 2
    assert "cannot write to" in capsys.readouterr().err


def test_solve_takes_an_argument_a_file_or_standard_input(run, tmp_path, capsys, monkeypatch):
    puzzle = "1...34....21...3"
    file = tmp_path / "puzzle.txt"
    file.write_text("1. ..\n34..\n..21\n...3\n")
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO(puzzle))
    answers = []
    for word in (puzzle, str(file), "-"):
        assert main(["solve", word, "--checkpoint", str(run), "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1] == answers[2]
    assert set(answers[0]) == {"answer", "valid", "steps"}
    assert answers[0]["answer"][0] == "1"
    assert main(["solve", puzzle, "--checkpoint", str(run), "--watch", "--steps", "2"]) == 0
    assert "step 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("1...34....21...3".encode("utf-16"), "is not UTF-8 text"),
        (b"question,answer\n1...34....21...3,1234341243212143\n", "is a CSV of puzzles"),
    ],
)
def test_a_file_that_holds_no_puzzle_is_told_from_one(run, tmp_path, capsys, content, why):
    file = tmp_path / "puzzle.txt"
    file.write_bytes(content)
    assert main(["solve", str(file), "--checkpoint", str(run)]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["S#\n#G", "--checkpoint", "maze-none"], "the goal G cannot be reached"),
        (["." * 81, "--checkpoint", "sudoku-none"], "this Sudoku has several solutions"),
    ],
)
def test_a_puzzle_without_one_answer_is_refused(words, why, capsys):
    assert main(["solve", *words]) == 2
    assert why in capsys.readouterr().err


def test_a_puzzle_that_search_gives_up_on_is_tried(capsys):
    puzzle = ".....5.8....6.1.43..........1.5........1.6...3.......553.....61........4........."
    assert main(["solve", puzzle, "--checkpoint", "sudoku-none", "--steps", "2"]) == 0
    assert "not solved in 2 steps" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["solve", "12", "--checkpoint", "{run}"], "has 2 characters, 16 are needed"),
        (["solve", "11..............", "--checkpoint", "{run}"], "1 stands twice in row 1"),
        (["solve", "1", "--checkpoint", "nowhere"], "no such checkpoint: nowhere"),
        (["solve", "1", "--checkpoint", "{run}", "--task", "maze"], "solves sudoku, not maze"),
        (["eval", "nowhere"], "no such checkpoint"),
        (["eval", "{run}", "--steps", "two"], "--steps takes numbers"),
        (["eval", "{run}", "--limit", "0"], "--limit takes a number from 1"),
        (["eval", "{run}", "--split", "secret"], "train, validation and test"),
        (["train", "mini-sudoku", "--out", "{run}"], "add --resume to go on"),
        (["train", "mini-sudoku", "--optimizer.batch", "7", "--optimizer.accumulate", "2"],
         "must be a multiple"),
    ],
)  # fmt: skip
def test_bad_input_gives_one_line_and_code_2(run, words, message, capsys):
    assert main([word.format(run=run) for word in words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert not captured.out


def test_wilson_interval_of_known_rates():
    assert wilson_interval(644, 1000) == pytest.approx((0.6138, 0.6731), abs=1e-3)
    assert wilson_interval(0, 30)[0] == wilson_interval(0, 1000)[0] == 0
    assert wilson_interval(30, 30)[1] == 1
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_mcnemar_of_known_counts():
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(5, 5) == 1.0
    assert mcnemar(1, 9) == pytest.approx(2 * (1 + 10) / 1024)


def test_mazes_of_another_size_than_those_of_training(tmp_path, capsys):
    """The weights fit any size; a file or a maze brings its own."""
    words = "train mini-maze --optimizer.updates 2 --optimizer.batch 4 --eval-rows 4"
    words += " --eval-every 2 --save-every 2 --out"
    assert main([*words.split(), str(tmp_path / "run")]) == 0
    file = str(tmp_path / "larger.csv")
    words = ["data", "generate", "--task", "maze", "--side", "13", "--count", "5", "--out", file]
    assert main(words) == 0
    capsys.readouterr()
    assert main(["eval", str(tmp_path / "run"), "--data", file, "--steps", "2", "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["n"] == 5
    task = Maze(size=13)
    question = read_table(Path(file), task).questions[0]
    (tmp_path / "maze.txt").write_text(task.render(question))
    words = ["solve", str(tmp_path / "maze.txt"), "--checkpoint", str(tmp_path / "run"), "--json"]
    assert main(words) == 0
    assert len(json.loads(capsys.readouterr().out)["answer"]) == 169
    assert load_model(tmp_path / "run").task.size == 10
    (tmp_path / "maze.txt").write_text("#\n" * 5000)
    assert main(words) == 2
    assert "up to 100 cells in a row, not 5000" in capsys.readouterr().err


def test_an_example_is_made_in_place_of_a_puzzle(run, capsys):
    words = ["solve", "--checkpoint", str(run), "--json"]
    assert main([*words, "--example", "easy", "--seed", "3"]) == 0
    assert len(json.loads(capsys.readouterr().out)["answer"]) == 16
    for wrong in (
        ["1...", "--example", "easy"],
        ["--example", "silly"],
        ["--example", "easy", "--seed", "-5"],
    ):
        assert main([*words, *wrong]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_paired_difference_counts_only_what_changed():
    before, after = np.array([1, 1, 0, 0] * 25, bool), np.array([1, 0, 1, 1] * 25, bool)
    gain, low, high = paired_difference(after, before)
    assert gain == pytest.approx(0.25)
    # Two in four won, one lost: the variance of the change is 0.75 - 0.25**2.
    assert high - gain == pytest.approx(1.959964 * (0.6875 / 100) ** 0.5)
    assert gain - low == pytest.approx(high - gain)
    assert paired_difference(after, after) == (0, 0, 0)
