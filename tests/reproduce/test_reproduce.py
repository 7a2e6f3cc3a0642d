"""Plans: commands that can be typed, run once, and go on after a failure."""

from dataclasses import replace
from pathlib import Path

import pytest

from focus.cli import _parse, main
from focus.commands.reproduce import duration
from focus.errors import UserError
from focus.files import write_text
from focus.reproduce import plan
from focus.reproduce.launch import (
    _in_the_queue,
    _ticket,
    open_jobs,
    run_here,
    run_job,
    run_on_slurm,
)
from focus.reproduce.plan import NEEDS, SCALES, Job, make_plan


@pytest.mark.parametrize("scale", SCALES)
def test_every_command_of_every_plan_can_be_typed(scale, tmp_path):
    jobs = make_plan("all", scale, tmp_path, data=str(tmp_path), allow_code=True)
    assert len({job.name for job in jobs}) == len(jobs)
    assert len({job.stamp for job in jobs}) == len(jobs)
    for job in jobs:
        for words in job.commands:
            run = _parse(words[0], words[1:])
            if words[0] == "train":
                is_trm = words[1].startswith("trm-")
                method = "trm" if is_trm else words[1].split("/")[2]
                assert run.keywords["config"].method == method


@pytest.mark.parametrize("scale", SCALES)
def test_jobs_come_after_what_they_need(scale):
    jobs = make_plan("all", scale, Path("out"))
    place = {job.name: number for number, job in enumerate(jobs)}
    for job in jobs:
        assert all(place[name] < place[job.name] for name in job.after)


def test_a_plan_holds_what_its_table_shows():
    names = {job.name for job in make_plan("curation", "full", Path("out"))}
    assert names == {"maze-teacher"} | {
        f"{task}-{backbone}-{method}-{seed}"
        for task in ("sudoku", "maze")
        for backbone in ("none", "qwen3-1.7b")
        for method in ("random", "energy-hard", "fixed-mix", "focus")
        for seed in (42, 43, 44)
    }
    names = {job.name for job in make_plan("source", "full", Path("out"))}
    assert {"maze-teacher", "maze-qwen3-1.7b-base-42", "maze-qwen3-1.7b-focus-42"} <= names
    whole = {job.name for job in make_plan("all", "full", Path("out"))}
    for target in NEEDS:
        assert {job.name for job in make_plan(target, "full", Path("out"))} <= whole


def test_every_full_run_that_curates_states_has_a_teacher_of_its_own_puzzles():
    jobs = {job.name: job for job in make_plan("all", "full", Path("out"))}
    taught = 0
    for name, job in jobs.items():
        words = job.commands[0]
        if words[0] != "train" or words[1].startswith("trm-"):
            continue
        config = _parse("train", words[1:]).keywords["config"]
        curates = config.step_weights != "final"
        is_maze = config.task.name == "maze"
        teacher = str(Path("out/runs/maze-teacher")) if is_maze else "sudoku-teacher"
        assert config.teacher.checkpoint == (teacher if curates else ""), name
        assert ("maze-teacher" in job.after) == (curates and is_maze)
        taught += curates
    assert taught > 40
    trained = _parse("train", jobs["maze-teacher"].commands[0][1:]).keywords["config"]
    student = _parse("train", jobs["maze-none-focus-42"].commands[0][1:]).keywords["config"]
    for setting in ("data", "corpus", "more_data"):
        assert getattr(trained, setting) == getattr(student, setting)


def test_a_trm_is_trained_in_one_process(tmp_path, monkeypatch):
    called: list = []
    monkeypatch.setattr("subprocess.run", lambda *words: pytest.fail("torchrun was called"))
    job = _job(tmp_path, "teacher", "train", "trm-mini-maze")
    run_job(job, lambda words: called.append(words) or 0, gpus=2)
    assert called == [("train", "trm-mini-maze")]


def test_a_dry_run_does_nothing(tmp_path, capsys):
    assert main(["reproduce", "all", "--dry-run", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "# sudoku-none-focus-1: 12 s\n" in said
    assert said.splitlines()[-1].endswith(" min on two cores")
    assert not (tmp_path / "out").exists()
    assert [duration(hours) for hours in (0.001, 0.3, 1.0, 1234.5)] == [
        "4 s", "18 min", "1.0 h", "1,234.5 h",
    ]  # fmt: skip


def _job(folder: Path, name: str, *words: str, after: tuple[str, ...] = ()) -> Job:
    return Job(name, (words,), folder / name, 0.0, after)


def test_a_failure_is_named_and_the_others_go_on(tmp_path):
    done = _job(tmp_path, "done", "eval", "/nowhere")
    done.finish()
    jobs = [
        done,
        _job(tmp_path, "bad", "eval", "/nowhere"),
        _job(tmp_path, "needs-bad", "backbone", "list", after=("bad",)),
        _job(tmp_path, "good", "backbone", "list"),
    ]
    said: list[str] = []
    assert run_here(jobs, main, said.append) == ["bad", "needs-bad"]
    assert [line.split()[1] for line in said] == ["bad:", "needs-bad:", "good:"]
    assert "left out, it needs bad" in said[1]


def test_a_job_with_other_flags_is_another_job(tmp_path):
    """After a run without CruxEval a call with it has something to do."""
    for job in make_plan("transfer", "mini", tmp_path):
        job.finish()
    assert not open_jobs(make_plan("transfer", "mini", tmp_path))
    (more,) = open_jobs(make_plan("transfer", "mini", tmp_path, allow_code=True))
    assert more.name == "transfer-tiny-llama"


def test_where_everything_fails_the_failures_are_named(tmp_path, capsys):
    words = ["reproduce", "depth", "--data", "/nonexistent", "--out", str(tmp_path / "out")]
    assert main(words) == 1
    assert "8 jobs failed: sudoku-none-focus-1" in capsys.readouterr().err


def test_slurm_jobs_run_through_submitits_local_executor(tmp_path):
    pytest.importorskip("submitit")
    jobs = [
        _job(tmp_path, "bad", "eval", "/nowhere"),
        _job(tmp_path, "needs-bad", "backbone", "list", after=("bad",)),
        _job(tmp_path, "good", "backbone", "list"),
        _job(tmp_path, "needs-good", "backbone", "list", after=("good",)),
    ]
    said: list[str] = []
    failed = run_on_slurm(jobs, main, tmp_path / "slurm", said.append, 0.1, cluster="local")
    assert sorted(failed) == ["bad", "needs-bad"]
    assert [job.done for job in jobs] == [False, False, True, True]
    begun = next(n for n, line in enumerate(said) if line.startswith("needs-good: submitted"))
    assert "good: done" in said[:begun]


def test_a_slurm_job_with_several_gpus_is_a_torchrun_job(tmp_path):
    pytest.importorskip("submitit")
    small = "--optimizer.updates 2 --optimizer.batch 4 --eval-every 2 --eval-rows 4"
    words = ("train", "mini-sudoku", *small.split(), "--out", str(tmp_path / "run"))
    said: list[str] = []
    job = _job(tmp_path, "two", *words)
    assert not run_on_slurm([job], main, tmp_path / "slurm", said.append, 0.1, 2, cluster="local")
    assert said[-1] == "two: done"
    assert (tmp_path / "run" / "best").is_dir()


def test_a_job_that_is_still_in_the_queue_is_waited_for(tmp_path):
    class Queued:
        def __init__(self, folder, number):
            self.job_id = number

        def done(self, force_check):
            return self.job_id == "7"

    job = _job(tmp_path, "one", "backbone", "list")
    assert _in_the_queue(Queued, tmp_path, job) is None
    for number, waits in (("7", False), ("8", True)):
        write_text(_ticket(tmp_path, job), f"{number}\n")
        assert (_in_the_queue(Queued, tmp_path, job) is not None) == waits


def test_runs_are_made_once_and_reported(tmp_path, monkeypatch, capsys):
    small = ("--optimizer.updates", "2", "--eval-every", "2", "--eval-rows", "8")
    scale = replace(
        SCALES["mini"], recipes={"sudoku": "mini-sudoku"}, flags={"sudoku": small},
        test=("--limit", "8"),
    )  # fmt: skip
    monkeypatch.setitem(plan.SCALES, "mini", scale)
    words = ["reproduce", "depth", "--out", str(tmp_path)]
    assert main(words) == 0
    assert (tmp_path / "report" / "mini" / "tables" / "depth.csv").exists()
    assert not open_jobs(make_plan("depth", "mini", tmp_path))
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()}
    capsys.readouterr()
    assert main(words) == 0
    assert "all 4 jobs are done" in capsys.readouterr().out
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()} == before


def test_what_cannot_be_reproduced_is_said(tmp_path, capsys):
    with pytest.raises(UserError, match="there is no 'table-9'"):
        make_plan("table-9", "mini", tmp_path)
    assert main(["reproduce", "all", "--gpus", "0", "--out", str(tmp_path)]) == 2
    assert "--gpus" in capsys.readouterr().err


def test_ctrl_c_ends_the_plan_and_not_only_a_job(tmp_path):
    ran = []

    def interrupted(words):
        ran.append(words)
        return 130

    jobs = [_job(tmp_path, name, "train", name) for name in ("one", "two")]
    with pytest.raises(KeyboardInterrupt):
        run_here(jobs, interrupted, lambda text: None)
    assert ran == [("train", "one")]


def test_without_slurm_nothing_is_started(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="there is no Slurm here"):
        run_on_slurm([_job(tmp_path, "one", "train")], main, tmp_path / "slurm", print)


@pytest.mark.parametrize("hours", ["nan", "inf", "0"])
def test_hours_are_a_number(hours, capsys):
    assert main(["reproduce", "depth", "--hours", hours]) == 2
    assert "--hours one above 0" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_to_is_said_once(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["reproduce", "depth", "--out", str(tmp_path / "file" / "out")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
