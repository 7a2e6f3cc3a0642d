"""A command takes the threads that idle cores can carry, and no more."""

import os

import pytest
import torch

from focus.cli import main
from focus.commands import threads

SOLVE = ["solve", "--example", "easy", "--checkpoint", "sudoku-none", "--steps", "1"]


@pytest.fixture
def chosen(monkeypatch, tmp_path) -> list[int]:
    """Numbers of threads that were chosen, on a machine with eight cores of which five are busy."""
    numbers: list[int] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(threads, "_ALL", 8)
    monkeypatch.setattr(torch, "set_num_threads", numbers.append)
    monkeypatch.setattr(threads, "_LOADS", tmp_path / "loadavg")
    (tmp_path / "loadavg").write_text("0.10 4.20 9.00 6/321 4242\n")  # this process among them
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return numbers


def test_a_command_takes_the_cores_that_are_idle(chosen, capsys):
    assert main(SOLVE) == 0
    assert chosen == [3]


def test_what_runs_on_cores_of_others_costs_nothing(chosen, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    threads.use_idle_cores()
    assert chosen == [8]


def test_more_threads_are_taken_again_when_cores_are_idle_again(chosen, tmp_path):
    threads.use_idle_cores()
    (tmp_path / "loadavg").write_text("0.10 4.20 9.00 1/321 4242\n")
    threads.use_idle_cores()
    assert chosen == [3, 8]


def test_training_keeps_its_number(chosen, tmp_path, capsys):
    few = ["--optimizer.updates", "1", "--optimizer.batch", "4", "--eval-rows", "2"]
    words = ["train", "mini-sudoku", *few, "--data", "generated", "--out", str(tmp_path / "run")]
    assert main(words) == 0
    assert chosen == []


def test_a_number_that_the_user_has_set_is_kept(chosen, capsys, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert main(SOLVE) == 0
    assert chosen == []


def test_one_thread_is_left_where_all_cores_are_busy(chosen, tmp_path):
    (tmp_path / "loadavg").write_text("0.10 4.20 9.00 99/321 4242\n")
    threads.use_idle_cores()
    assert chosen == [1]


@pytest.mark.parametrize("text", [None, "", "not a load", "0.1 0.2 0.3 x/9 1"])
def test_where_the_running_threads_are_not_told_the_load_of_the_last_minute_counts(
    chosen, tmp_path, monkeypatch, text
):
    loads = tmp_path / "loadavg"
    loads.unlink() if text is None else loads.write_text(text)
    monkeypatch.setattr(os, "getloadavg", lambda: (5.6, 1.0, 1.0))
    threads.use_idle_cores()
    assert chosen == [2]
