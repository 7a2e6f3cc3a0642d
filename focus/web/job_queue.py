"""One worker thread and a short queue before it: who comes when it is full is told to wait."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

Result = TypeVar("Result")


class BusyError(Exception):
    """The queue is full."""


class OutOfTimeError(Exception):
    """The work took longer than it may."""


class JobQueue:
    """Runs one job at a time; at most `places` jobs run or wait."""

    def __init__(self, places: int, seconds: float):
        self.seconds = seconds
        self.free = places
        self._counting = threading.Lock()
        self._closing = threading.Event()
        # One thread of arithmetic: a single puzzle is too small to share between cores, and
        # threads that wait for each other are many times slower on a busy machine.
        self._worker = ThreadPoolExecutor(1, "solve", torch.set_num_threads, (1,))

    def submit(self, job: Callable[[Callable[[], None]], Result]) -> "Future[Result]":
        """Queue `job(check)`; it calls `check` now and then, which raises when time is up."""
        with self._counting:
            if not self.free:
                raise BusyError
            future = self._worker.submit(self._run, job)
            self.free -= 1
        future.add_done_callback(self._leave)
        return future

    def _leave(self, future: "Future[Result]") -> None:
        with self._counting:
            self.free += 1

    def _run(self, job: Callable[[Callable[[], None]], Result]) -> Result:
        end = time.monotonic() + self.seconds

        def check() -> None:
            if self._closing.is_set() or time.monotonic() >= end:
                raise OutOfTimeError

        check()
        return job(check)

    def close(self) -> None:
        """Take no more jobs, drop those that wait, end the running one at its next check."""
        self._closing.set()
        self._worker.shutdown(wait=False, cancel_futures=True)
