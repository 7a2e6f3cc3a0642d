"""Is a mathematical answer right? math-verify in worker processes, each answer with a time limit.

math-verify times itself out with signals, which need a main thread, and an expression such as
9^9^9^9 can hold an interpreter beyond any signal: so workers are processes that can be ended, with
a limit on their memory, and one that is lost is replaced.
"""

import contextlib
import logging
import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait

_SECONDS = 20.0  # for one answer, beyond math-verify's own limits
_MEMORY = 4 << 30
_START = 120.0  # seconds that a worker may take to load sympy on a busy machine


@dataclass(frozen=True)
class Judged:
    """A verdict."""

    extracted: str | None
    correct: bool
    why: str = ""


def judge_answers(
    pairs: Sequence[tuple[str, str]],
    workers: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
    seconds: float = _SECONDS,
) -> list[Judged]:
    """Verdicts on (reference solution, completion), in order."""
    results: list[Judged | None] = [None] * len(pairs)
    waiting = iter(range(len(pairs)))
    pool: list[_Worker] = []
    count = min(len(pairs), workers or os.cpu_count() or 1)
    try:
        pool = [_take_worker() for _ in range(count)]
        for worker in pool:
            worker.give(next(waiting), pairs)
        done = 0
        while done < len(pairs):
            busy = [worker for worker in pool if worker.task is not None]
            wait([worker.pipe for worker in busy], timeout=0.2)
            for worker in busy:
                verdict = worker.verdict(seconds)
                if verdict is None:
                    continue
                assert worker.task is not None
                results[worker.task], done = verdict, done + 1
                progress(done)
                worker.give(next(waiting, None), pairs)
    finally:
        for worker in pool:
            if worker.task is None:
                _resting.append(worker)
            else:  # an error or Ctrl-C came in between
                worker.end()
    return [verdict for verdict in results if verdict is not None]


class _Worker:
    """A process that judges one answer at a time."""

    def __init__(self):
        self.task: int | None = None
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._ready = False
        self._since = time.monotonic()

    def give(self, task: int | None, pairs: Sequence[tuple[str, str]]) -> None:
        """Begin a task; None = nothing left."""
        self.task = task
        if task is not None:
            self._since = time.monotonic()
            with contextlib.suppress(OSError):  # it has died; `verdict` will see that
                self.pipe.send(pairs[task])

    def verdict(self, seconds: float) -> Judged | None:
        """The verdict if there is one; a process that is lost or late is replaced."""
        try:
            while self.pipe.poll():
                message = self.pipe.recv()
                if message == "ready":
                    self._ready, self._since = True, time.monotonic()
                else:
                    return message
        except (EOFError, OSError):
            return self._replace("the checker died")
        if time.monotonic() - self._since > (seconds if self._ready else _START):
            return self._replace("the checker took too long")
        return None

    def _replace(self, why: str) -> Judged:
        self.end()
        self._start()
        return Judged(None, False, why)

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return self._process.is_alive()

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self.pipe.close()


_resting: list[_Worker] = []  # for the next call, since loading sympy takes seconds


def _take_worker() -> _Worker:
    """One that rests and is alive, or a new one."""
    while _resting:
        worker = _resting.pop()
        if worker.alive:
            return worker
        worker.end()
    return _Worker()


def _serve(pipe: Connection) -> None:
    """The life of a worker."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    from math_verify import parse, verify  # noqa: F401  (the slow import, before the clock runs)

    logging.getLogger("math_verify").setLevel(logging.ERROR)  # a verdict says what went wrong
    pipe.send("ready")
    while True:
        try:
            reference, completion = pipe.recv()
        except EOFError:
            return
        pipe.send(judge_answer(reference, completion))


def judge_answer(reference: str, completion: str) -> Judged:
    """The verdict on one completion; math-verify reads both sides."""
    from math_verify import parse, verify

    try:
        right, parsed = parse(reference), parse(completion)
        if not parsed:
            return Judged(None, False, "no answer found")
        extracted = str(parsed[-1])[:200]
        if verify(right, parsed):
            return Judged(extracted, True)
        return Judged(extracted, False, "not equal to the reference")
    except (Exception, MemoryError) as error:
        return Judged(None, False, f"the checker failed: {type(error).__name__}")
