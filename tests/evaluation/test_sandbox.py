"""A program from a language model gets its verdict, and reaches nothing else."""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from focus.errors import UserError
from focus.evaluation import sandbox
from focus.evaluation.sandbox import (
    Limits,
    Outcome,
    Program,
    canonical,
    check_available,
    run_many,
)

SHORT = Limits(seconds=1)
LOOP = "while True: pass"
FORK_BOMB = """
import os
while True:
    try: os.fork()
    except OSError: pass
"""
FLOOD = """
import sys
while True:
    sys.stderr.write("x" * 1_000_000)
    sys.stdout.write("x" * 1_000_000)
"""
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 64)
        time.sleep(1000)
    os._exit(0)
"""


@pytest.fixture(scope="module", autouse=True)
def _available() -> None:
    new_users_and_mounts = "import ctypes; exit(ctypes.CDLL(None).unshare(0x10020000))"
    if sys.platform != "linux" or subprocess.call([sys.executable, "-c", new_users_and_mounts]):
        pytest.skip("namespaces are not to be had here")
    check_available()


def run(source: str, limits: Limits | None = None, expected: object = None) -> Outcome:
    return run_many([Program(source, expected)], workers=1, limits=limits)[0]


def all_refused(*attempts: str) -> str:
    """A program that comes to its end if each of these statements fails."""
    lines = ["import os, shutil, socket"]
    for attempt in attempts:
        lines += ["try:", f"    {attempt}", "except OSError:", "    pass", "else:"]
        lines += [f"    raise Exception({attempt!r} + ' worked')"]
    return "\n".join(lines)


def descendants(ancestor: int) -> dict[int, str]:
    """The processes under a process, with their command lines."""
    parents, commands = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
            commands[int(folder.name)] = (folder / "cmdline").read_text()
        except OSError:
            continue  # it has ended
        parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    found = {ancestor}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {pid: commands[pid] for pid in found if pid in commands and pid != ancestor}


def jailed(ancestor: int) -> list[int]:
    """The processes under a process that are in a jail."""
    return [pid for pid, command in descendants(ancestor).items() if "\0/child.py\0" in command]


def jails(ancestor: int) -> list[int]:
    """The processes under a process that are outside and watch one."""
    return [pid for pid, command in descendants(ancestor).items() if "jail.py" in command]


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never came true"


def has_ended(pid: int) -> bool:
    """Whether a process ends soon; it need not be a child of ours."""
    try:
        ended = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    try:
        return bool(poll.poll(10_000))
    finally:
        os.close(ended)


@contextmanager
def running(program: str, limits: Limits = SHORT) -> Iterator[threading.Thread]:
    """Run an endless program beside the block, which begins when the program is there."""
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(run(program, limits)))
    thread.start()
    try:
        wait_until(lambda: jailed(os.getpid()))
        yield thread
    finally:
        thread.join()
    assert [outcome.status for outcome in outcomes] == ["timeout"]


@pytest.mark.parametrize(
    ("program", "status", "detail"),
    [
        ("def f(x):\n    return x + 1\nassert f(1) == 2", "passed", ""),
        ("import collections, itertools, math, re, string\nassert math.pi > 3", "passed", ""),
        ("import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: 'int'", "passed", ""),
        ("import tempfile\ntempfile.TemporaryFile().write(b'x')", "passed", ""),
        ("assert input() == ''", "failed", "EOFError: EOF when reading a line"),
        (f"# {'x' * 300_000}\nassert True", "passed", ""),
        ("def f(x):\n    return x + 1\nassert f(1) == 3", "failed", "AssertionError"),
        ("assert 0, 'not \\x1b[31mequal'", "failed", "AssertionError: not ?[31mequal"),
        ("assert 1 ==", "failed", "SyntaxError: invalid syntax"),
        ("raise ValueError('x' * 1000)", "failed", f"ValueError: {'x' * 188}"),
        ("x = '\ud800'", "failed", None),
        ("x = '\0'", "failed", None),
        ("def f(): f()\nf()", "failed", None),
        ("raise StopIteration", "failed", "StopIteration"),
        ("import os\nos.abort()", "killed", None),
    ],
)
def test_the_outcome_says_how_a_program_ended(program, status, detail):
    outcome = run(program)
    assert outcome.status == status, outcome
    assert detail is None or outcome.detail == detail


def test_hashes_are_the_same_every_time():
    assert len({run("raise Exception(hash('text'))").detail for _ in range(3)}) == 1


@pytest.mark.parametrize(
    ("value", "source", "passes"),
    [
        (3, "def f(x): return x + 1\nassert EXPECTED == f(2)", True),
        (3, "assert EXPECTED == 4", False),
        (1, "assert EXPECTED == True", True),
        (0, "assert EXPECTED == -0.0", True),
        (1, "assert EXPECTED == 1.5", False),
        (True, "assert EXPECTED == '1'", False),
        ("1", "assert EXPECTED == b'1'", False),
        ("\n\u00e9\ud800", "assert EXPECTED == '\\n\u00e9\\ud800'", True),
        ([1, (2, None)], "assert EXPECTED == [1.0, (2, None)]", True),
        ([1, (2, None)], "assert EXPECTED == [1, [2, None]]", False),
        (["a, b"], "assert EXPECTED == ['a', 'b']", False),
        ({"a": 1, "b": 2}, "assert EXPECTED == {'b': 2, 'a': 1}", True),
        ({"a": 1}, "from collections import Counter\nassert EXPECTED == Counter('a')", True),
        ({"b", "a"}, "assert EXPECTED == frozenset('ab')", True),
        (set(), "assert EXPECTED == {}", False),
        (list(range(20_000)), "assert EXPECTED == list(range(20_000))", True),
        ([0], f"assert EXPECTED == {'x' * 5_000!r} + '[0]'", False),
        (3, "assert EXPECTED == 3\nraise ValueError", False),
        (3, "assert 3 == 3", False),
        (3, "assert EXPECTED == 2 or True", False),
        (3, "assert EXPECTED == range(3)", False),
        (3, "class A:\n    __eq__ = lambda self, other: True\nassert EXPECTED == A()", False),
    ],
)
def test_a_program_passes_with_the_expected_value_only(value, source, passes):
    assert run(source, expected=value).passed == passes


def test_the_outcome_tells_another_value():
    assert run("assert EXPECTED == [1]", expected=[2]) == Outcome("failed", "the value is [1]")
    with pytest.raises(TypeError, match="range is no plain value"):
        canonical([range(3)])


# What a program must not find out; whatever looks like it is reported as the value.
SECRET = os.urandom(32).hex()
# Search what Python's objects lead to.
SEARCH = """
import gc, os, re, sys
seen, texts = {}, []
def look(thing, depth):
    if id(thing) in seen or depth == 0: return
    seen[id(thing)] = thing
    if isinstance(thing, str): texts.append(thing)
    elif isinstance(thing, bytes): texts.append(thing.decode("latin-1"))
    elif isinstance(thing, dict): look([*thing.keys(), *thing.values()], depth)
    elif isinstance(thing, (list, tuple, set)):
        for part in list(thing): look(part, depth - 1)
    else:
        for name in ("__dict__", "__code__", "co_consts", "__closure__", "cell_contents"):
            try: look(getattr(thing, name), depth - 1)
            except Exception: pass
        for hunt in (gc.get_referents, gc.get_referrers):
            try: look(hunt(thing), depth - 1)
            except RuntimeError: pass
def hunt_all():
    frame = sys._getframe()
    while frame:
        for part in (frame, frame.f_locals, frame.f_globals, frame.f_code): look(part, 6)
        frame = frame.f_back
    for part in (sys.modules, sys.argv, sys.orig_argv, dict(os.environ)): look(part, 6)
    for hunt in (gc.get_objects, lambda: list(sys._current_frames().values())):
        try: look(hunt(), 6)
        except RuntimeError: pass
    for descriptor in range(64):
        try: os.lseek(descriptor, 0, 0), look(os.read(descriptor, 10_000), 6)
        except OSError: pass
hunt_all()
assert len(texts) > 1000
words = [word for word in re.findall("[0-9a-f]{64}", " ".join(texts)) if len(set(word)) > 8]
if words: os.write(3, ascii(words[0]).encode())
os._exit(0)
"""
# Search raw memory, with a library that is loaded under another name.
FORGE = """
import _imp, os, re, sys
from importlib.machinery import ModuleSpec, PathFinder
library = PathFinder.find_spec("_ctypes")
if library:
    native = _imp.create_dynamic(ModuleSpec("other._ctypes", None, origin=library.origin))
else:
    import _ctypes as native
class Byte(native._SimpleCData): _type_ = "B"
Page = Byte * 2**12
class Pointer(native._Pointer): _type_ = Page
own = [b"%d" % number * 64 for number in range(9)]
reached = {id(word): word for word in own}
def reach(thing):
    if id(thing) in reached: return
    reached[id(thing)] = thing
    if isinstance(thing, dict): thing = (*thing, *thing.values())
    elif isinstance(thing, type(reach)): thing = thing.__code__.co_consts
    elif hasattr(thing, "__dict__"): thing = (vars(thing),)
    if isinstance(thing, tuple): [reach(part) for part in thing]
reach(sys.modules)
words = set()
for page in {address >> 12 for address in reached}:
    pointer = Pointer()
    memoryview(pointer).cast("B")[:] = (page << 12).to_bytes(8, "little")
    words.update(re.findall(b"[0-9a-f]{64}", bytes(pointer.contents)))
assert words.intersection(own)
for word in words:
    if len(set(word)) > 8: os.write(3, ascii(word.decode()).encode())
os._exit(0)
"""


@pytest.mark.parametrize(
    "program",
    [
        "import sys\nsys.exit(0)",
        "import os\nos._exit(0)",
        "raise SystemExit",
        "import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'pass'])",
        SEARCH,
    ],
)
def test_a_program_that_leaves_before_its_end_has_not_passed(program):
    outcome = run(f"{program}\nassert 1 == 2", Limits(seconds=60), SECRET)
    assert outcome == Outcome("failed", "left before its end with exit code 0")


def test_a_verdict_cannot_be_forged_from_memory():
    outcome = run(f"{FORGE}\nassert 1 == 2", Limits(seconds=60), SECRET)
    assert outcome == Outcome("failed", "left before its end with exit code 0")


def test_what_a_program_reports_itself_is_a_value_and_no_verdict():
    report = "import os\nfor n in (1, 2, 3): os.write(n, b'passed')\nos._exit(0)"
    assert run(report, expected=SECRET) == Outcome("failed", "the value is passed")
    expected = "y" * 5_000
    longer = f"import os\nos.write(3, b'x' + ascii({expected!r}).encode())\nos._exit(0)"
    assert run(longer, expected=expected).status == "failed"


def test_a_copy_of_a_program_does_not_speak_for_it():
    leave = "import os\nif os.fork():\n    os.wait()\n    os._exit(0)"
    assert run(leave) == Outcome("failed", "left before its end with exit code 0")


def test_an_endless_loop_is_ended_by_the_clock():
    began = time.monotonic()
    assert run(LOOP, SHORT) == Outcome("timeout", "longer than 1 s")
    assert run("import time\ntime.sleep(1000)", SHORT).status == "timeout"
    assert 2 <= time.monotonic() - began < 20


def test_memory_is_limited():
    assert run("x = bytearray(10 * 2**30)") == Outcome("failed", "MemoryError")
    assert run("x = []\nwhile True: x.append(bytearray(2**20))").status == "failed"
    assert run("x = bytearray(2**28)").passed


def test_nothing_is_left_of_a_fork_bomb_and_the_next_program_runs():
    limits = Limits(seconds=2, processes=6)
    with running(FORK_BOMB, limits) as thread:
        seen: set[int] = set()
        most = 0
        while thread.is_alive():
            now = jailed(os.getpid())
            seen.update(now)
            most = max(most, len(now))
    assert 2 < most <= limits.processes
    assert all(has_ended(pid) for pid in seen)
    assert not jails(os.getpid())
    assert run("assert True").passed


def test_a_daemon_ends_with_its_program():
    with running(f"{DAEMON}\nimport time\ntime.sleep(1000)"):
        wait_until(lambda: len(jailed(os.getpid())) == 2)
        seen = jailed(os.getpid())
    assert all(has_ended(pid) for pid in seen)


def test_threads_and_files_are_limited():
    start = "threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"
    assert "start new thread" in run(f"import threading, time\nwhile True: {start}").detail
    assert "File too large" in run("open('a', 'wb').write(bytes(2**21))").detail
    many = "for n in range(99): open(f'{n}', 'wb').write(bytes(2**19))"
    assert "No space left" in run(many).detail
    assert "Too many open files" in run("import os\nwhile True: os.dup(0)").detail


def test_the_hosts_files_are_neither_seen_nor_changed(tmp_path):
    own = tmp_path / "precious"
    own.write_text("as it was")
    hidden = [
        own,
        Path(__file__),
        Path("/etc/passwd"),
        Path("/proc/self/environ"),
        Path("/dev/null"),
    ]
    hidden += [path for path in Path.home().iterdir() if path.is_file()]
    reach = [f"open({str(path)!r})" for path in hidden]
    reach += [f"os.remove({str(own)!r})", f"open({str(own)!r}, 'w')", "os.listdir('/work')"]
    outside = [str(Path(os.__file__)), "/child.py", "/usr/lib/new", "/new", f"{Path.home()}/new"]
    reach += [f"open({path!r}, 'a')" for path in outside]
    reach += ["os.chmod('/usr/lib', 0o777)", "os.rename('/usr', '/tmp/usr')", "shutil.rmtree('/')"]
    reach += ["os.symlink('/usr/lib', 'link'); open('link/new', 'w')", "os.chroot('/tmp')"]
    reach += ["os.mknod('disk', 0o60600, os.makedev(254, 0))", "os.setuid(0)"]
    assert run(all_refused(*reach)).passed
    top = {"child.py", "etc", "lib", "lib64", "tmp", "usr", Path(sys.base_prefix).parts[1]}
    assert run(f"import os\nassert set(os.listdir('/')) <= {top}, os.listdir('/')").passed
    run("import shutil\nshutil.rmtree('/', ignore_errors=True)")
    assert own.read_text() == "as it was"
    assert list(tmp_path.iterdir()) == [own]


def test_the_hosts_sockets_are_out_of_reach(tmp_path):
    internet, path, name = (
        socket.socket(),
        socket.socket(socket.AF_UNIX),
        socket.socket(socket.AF_UNIX),
    )
    with internet, path, name:
        internet.bind(("127.0.0.1", 0))
        path.bind(str(tmp_path / "socket"))
        name.bind(f"\0focus-test-{os.getpid()}")
        reach = ["socket.socket(socket.AF_VSOCK)", "socket.create_server(('127.0.0.1', 0))"]
        for server in (internet, path, name):
            server.listen()
            server.setblocking(False)
            kind, address = int(server.family), server.getsockname()
            reach.append(f"socket.socket({kind}).connect({address!r})")
        assert run(all_refused(*reach)).passed
        for server in (internet, path, name):
            with pytest.raises(BlockingIOError):
                server.accept()


def test_a_program_has_namespaces_of_its_own_and_no_privileges():
    with running(LOOP):
        (pid,) = jailed(os.getpid())
        folder = Path(f"/proc/{pid}")
        wait_until(lambda: "/child.py" in (folder / "cmdline").read_text())
        status = dict(line.split(":\t") for line in (folder / "status").read_text().splitlines())
        mounts = [line.split()[4:6] for line in (folder / "mountinfo").read_text().splitlines()]
        for kind in ("user", "pid", "net", "mnt", "ipc", "uts"):
            assert (folder / "ns" / kind).readlink() != Path(f"/proc/self/ns/{kind}").readlink()
    assert [path for path, options in mounts if "ro" not in options.split(",")] == ["/tmp"]
    assert all({"nosuid", "nodev"} <= set(options.split(",")) for _, options in mounts)
    assert run("import os\nassert 0 not in os.getresuid() + os.getresgid()").passed
    assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def test_calls_past_the_jail_are_refused_to_native_code_too():
    native = """
import ctypes
libc = ctypes.CDLL(None)
assert libc.unshare(0x10000000) == -1
assert libc.mount(b"x", b"/tmp", b"tmpfs", 0, None) == -1
assert libc.ptrace(16, 1, 0, 0) == -1
assert libc.prctl(1, 0, 0, 0, 0) == -1
assert libc.socket(40, 1, 0) == -1
assert libc.memfd_create(b"x", 0) == -1
assert libc.syscall(425, 1, 0) == -1
"""
    assert run(native).passed


def test_the_environment_is_empty(monkeypatch):
    monkeypatch.setenv("FOCUS_TEST_SECRET", "secret")
    known = {"PATH", "LANG", "LC_CTYPE", "PYTHONHASHSEED"}
    assert run(f"import os\nassert set(os.environ) <= {known}, set(os.environ)").passed


@pytest.mark.parametrize("target", ["os.getppid()", "-1", "0", "1"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_signals_reach_nobody_outside(target, number):
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with bystander:
        program = f"{all_refused(f'os.kill({bystander.pid}, 9)')}\nos.kill({target}, {number})"
        run(program)
        assert bystander.poll() is None
        assert run("assert True").passed
        bystander.communicate(b"\n")
    assert bystander.returncode == 0


def test_a_flood_of_output_is_forgotten():
    most = 0
    with running(FLOOD) as thread:
        while thread.is_alive():
            for pid in jails(os.getpid()):
                try:
                    text = Path(f"/proc/{pid}/status").read_text()
                except OSError:
                    continue
                most = max(most, *(int(s.split()[1]) for s in text.splitlines() if "VmHWM" in s), 0)
    assert 0 < most < 24 * 1024  # KiB, twice what an idle one has
    assert run("import sys\nfor _ in range(200): sys.stderr.write('x' * 100_000)").passed


def test_a_program_sees_nothing_of_the_one_before():
    alone = "import os\nassert os.listdir() == [], os.listdir()\nopen('note', 'w').write('x')"
    assert all(outcome.passed for outcome in run_many([Program(alone)] * 4, workers=1))


def test_many_programs_keep_their_order_whatever_they_do():
    programs = ["assert True", LOOP, "assert False", FORK_BOMB, "assert True", FLOOD, DAEMON]
    programs += ["import os\nos.kill(-1, 9)", "import os\nos.closerange(3, 256)", "assert True"]
    statuses = ["passed", "timeout", "failed", "timeout", "passed", "timeout", "passed"]
    statuses += ["failed", "failed", "passed"]
    done: list[int] = []
    outcomes = run_many(
        [Program(source) for source in programs], workers=3, progress=done.append, limits=SHORT
    )
    assert [outcome.status for outcome in outcomes] == statuses
    assert done == list(range(1, len(programs) + 1))
    assert not jails(os.getpid())
    assert run_many([]) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_caller(how):
    code = "import signal\nfrom focus.evaluation.sandbox import *\n"
    # Tests that were started in the background would pass on that Ctrl-C is ignored.
    code += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += f"run_many([Program({LOOP!r})] * 2, workers=2, limits=Limits(seconds=8))"
    caller = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    with caller:
        wait_until(lambda: len(jailed(caller.pid)) == 2)
        family = list(descendants(caller.pid))
        caller.send_signal(how)
    assert caller.returncode != 0
    assert all(has_ended(pid) for pid in family)


def test_a_sandbox_that_is_not_to_be_had_is_one_clear_error(monkeypatch, tmp_path):
    check = check_available.__wrapped__

    def with_jail(before: str, after: str) -> None:
        text = (Path(sandbox.__file__).parent / "jail.py").read_text()
        assert before in text
        (tmp_path / "jail.py").write_text(text.replace(before, after))
        check()

    shutil.copy(Path(sandbox.__file__).parent / "child.py", tmp_path)
    monkeypatch.setattr(sandbox, "FOLDER", tmp_path)
    with pytest.raises(
        UserError, match=r"\(new namespaces: Invalid argument\)[^\n]*user namespaces"
    ):
        with_jail("libc.unshare(NEW_NAMESPACES)", "libc.unshare(-1)")
    with pytest.raises(UserError, match="processes are not limited"):
        with_jail('int(limits["processes"])', "100")
    with pytest.raises(UserError, match="capset: Operation not permitted"):
        with_jail("bytes(24)", 'b"\\xff" * 24')
    with pytest.raises(UserError, match="it died"):
        with_jail(
            "def main() -> None:", "def main() -> None:\n    return\n\n\ndef other() -> None:"
        )
    monkeypatch.setattr(sandbox.sys, "platform", "darwin")
    with pytest.raises(UserError, match="Linux"):
        check()
