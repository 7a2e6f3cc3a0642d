"""Run programs that a language model wrote, and say which of them give the expected value.

Nothing of them is trusted. Each program has three processes:

    this one -> jail.py, outside -> child.py, process 1 of its own namespaces

The jail makes new user, process, network, mount, IPC and host name namespaces with a read-only root
of the Python installation and system libraries, and a small writable /tmp; the child in it is
nobody, without capabilities, under limits and a filter of system calls. No /proc, no /dev, no
network, no environment. When it ends, its time is over or this process dies, the kernel ends
whatever it has started.

The jail alone decides what has passed, and the expected value never leaves it. A program compares
with the name EXPECTED (`assert EXPECTED == f(3)`), which in the child is equal to everything; after
the program's last line, the child reports what was compared. Leaving early is no pass, whatever the
exit code.

Promised: a program reaches nothing outside, it ends in time, and it passes only if its processes
report the expected value, which they are not given. Not promised: how they came by it. The child is
in the hands of the program, which can report what it likes: one that knows the expected value
passes, computed or not. Where none is expected, a pass is no more than the program's own claim that
it came to its end.
"""

import contextlib
import functools
import marshal
import os
import platform
import select
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, Self, cast, get_args

from focus.errors import UserError
from focus.evaluation.sandbox.child import canonical

FOLDER = Path(__file__).parent
MACHINES = ("x86_64", "aarch64")
# How long the jail itself may take to build and to clear away on a machine under load.
GRACE_SECONDS = 60

Status = Literal["passed", "failed", "timeout", "killed"]


@dataclass(frozen=True)
class Limits:
    """What one program may use. All processes together may use `processes * memory`."""

    seconds: float = 3.0  # of wall-clock time
    memory: int = 512 * 2**20  # bytes of address space of each process
    processes: int = 8  # and threads
    file_bytes: int = 2**20  # in all files together
    output_bytes: int = 64 * 2**10  # of standard error that are kept; the rest is forgotten


@dataclass(frozen=True)
class Program:
    """Python source and the plain value that it should compare with EXPECTED (None: nothing)."""

    source: str
    expected: object = None


@dataclass(frozen=True)
class Outcome:
    """How a program ended, and the last line of its error."""

    status: Status
    detail: str = ""

    @property
    def passed(self) -> bool:
        return self.status == "passed"


@functools.cache
def check_available() -> None:
    """Raise a UserError where programs cannot be contained."""
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        here = f"{platform.system()} on {platform.machine()}"
        raise UserError(f"programs run in a sandbox of Linux on x86-64 or arm64, not {here}")
    limits = Limits(seconds=20)
    with _Jail() as jail:
        outcome = jail.run(Program(PROBE.format(processes=limits.processes)), limits)
    if not outcome.passed:
        raise UserError(_unavailable(f"{outcome.status}: {outcome.detail}"))


# Forks must come to an end: the limit on processes is the one that a kernel may not keep.
PROBE = """
import os, time
assert os.getpid() == 1 and os.getuid() != 0, "the program is not in namespaces"
children = 0
try:
    while children < {processes}:
        if os.fork() == 0:
            time.sleep(60)
        children += 1
except BlockingIOError:
    pass
assert children < {processes}, "processes are not limited"
"""


def run_many(
    programs: Sequence[Program],
    workers: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
    limits: Limits | None = None,
) -> list[Outcome]:
    """Run programs, several at once (by default one for each core); outcomes in their order.

    A program passes if it comes to its end without an error, with what is expected.
    `progress` is called in this thread with the number of programs that have ended.
    """
    check_available()
    workers = workers or os.cpu_count() or 1
    idle: SimpleQueue[_Jail] = SimpleQueue()

    def run_one(program: Program) -> Outcome:
        jail = idle.get()
        try:
            return jail.run(program, limits or Limits())
        finally:
            idle.put(jail)

    with contextlib.ExitStack() as stack:
        jails = [stack.enter_context(_Jail()) for _ in range(workers)]
        for jail in jails:
            idle.put(jail)
        pool = ThreadPoolExecutor(workers)
        try:
            futures = [pool.submit(run_one, program) for program in programs]
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                progress(done)
        except BaseException:
            for jail in jails:
                jail.process.kill()  # do not wait for programs that nobody waits for
            raise
        finally:
            pool.shutdown(cancel_futures=True)
    return [future.result() for future in futures]


class _Jail:
    """A process that puts programs, one after another, each into new namespaces."""

    def __init__(self) -> None:
        self.python = os.path.realpath(sys.executable)
        # A fresh interpreter, not a fork: this process may have threads and a GPU. Its standard
        # input stays open until we leave or die; it then kills the program.
        self.process = subprocess.Popen(
            [self.python, "-I", "-S", str(FOLDER / "jail.py")],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"LANG": "C.UTF-8"},
            cwd="/",
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self.process:
            pass  # closes the pipes and waits

    def run(self, program: Program, limits: Limits) -> Outcome:
        """Run one program in new namespaces."""
        request = {
            "source": program.source,
            "expected": canonical(program.expected),
            "limits": asdict(limits),
            "python": self.python,
            "paths": _visible_paths(self.python),
            "child": str(FOLDER / "child.py"),
        }
        answer = self._ask(marshal.dumps(request), limits.seconds + GRACE_SECONDS)
        status, _, detail = _printable(answer).partition(" ")
        if status not in get_args(Status):
            raise UserError(_unavailable(detail if status == "broken" else answer))
        if status == "killed":
            detail = signal.strsignal(int(detail)) or detail
        if status == "timeout":
            detail = f"longer than {limits.seconds:g} s"
        return Outcome(cast(Status, status), detail)

    def _ask(self, request: bytes, seconds: float) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        rest = memoryview(request)
        with contextlib.suppress(BrokenPipeError):  # what it said last is in the other pipe
            while rest:
                rest = rest[os.write(self.process.stdin.fileno(), rest) :]
        poll = select.poll()
        poll.register(self.process.stdout, select.POLLIN)
        if not poll.poll(seconds * 1000):
            self.process.kill()
            return "it does not answer"
        return self.process.stdout.read(2**16).decode("utf-8", "replace").strip() or "it died"


def _visible_paths(python: str) -> list[str]:
    """What a program sees of the host: system libraries and this Python's own."""
    prefixes = (Path("/"), Path("/usr"), Path(python).parents[1])
    libraries = [str(prefix / lib) for prefix in prefixes for lib in ("lib", "lib64")]
    modules = os.path.realpath(sysconfig.get_path("stdlib"))
    return [python, modules, *libraries, "/etc/ld.so.cache"]


def _printable(text: str) -> str:
    """Text without what a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _unavailable(why: str) -> str:
    return (
        f"programs run only in a sandbox, which this machine does not give ({_printable(why)}): "
        "use Linux 5.14 or later with user namespaces (docker: --security-opt seccomp=unconfined "
        "--security-opt apparmor=unconfined; Ubuntu: "
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0)"
    )
