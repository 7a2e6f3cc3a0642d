"""Build a jail of Linux namespaces for a program, run it there, and tell how it ended.

The middle of the processes that sandbox.py describes, in an interpreter of its own with the
standard library alone. It reads requests from standard input, which stays open as long as the
caller lives, and writes outcomes to standard output.
"""

import ctypes
import errno
import marshal
import os
import resource
import select
import struct
import sys
import time

NOBODY = 65534
SIGKILL = 9
NULL, ERRORS, REPORT, FIRST_FREE = 1, 2, 3, 4
CHUNK = 2**16
DETAIL_CHARACTERS = 200

# <sched.h>: mount, uts, ipc, user, pid and network namespaces; for the filter also cgroup and time.
NEW_NAMESPACES = 0x00020000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
ANY_NAMESPACE = NEW_NAMESPACES | 0x02000000 | 0x00000080
# <sys/mount.h>
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
MNT_DETACH = 2
READ_ONLY_NOSUID_NODEV = 1 | 2 | 4
AT_FDCWD, AT_RECURSIVE, MOUNT_SETATTR = -100, 0x8000, 442
# <sys/prctl.h>
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 22, 24, 38

# Calls that a program has no use for and that reach past its namespaces and limits, with their
# numbers on each machine. Some sockets (AF_VSOCK) know no namespace; the last five give memory
# that RLIMIT_AS does not count.
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
REFUSED = {
    "socket": (41, 198),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_by_handle_at": (304, 265),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "personality": (135, 92),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "memfd_create": (319, 279),
}
CLONE, PRCTL = (56, 220), (157, 167)
# Newer calls (io_uring, clone3, the new ways to mount) do not exist for the program; libraries know
# how to live on an older kernel. The bound also shuts out the second call table of x86-64.
# Without close_range, glibc's way to start a process would look for /proc.
FIRST_NEWER_CALL, CLOSE_RANGE = 424, 436

libc = ctypes.CDLL(None, use_errno=True)
libc.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]
libc.syscall.restype = ctypes.c_long


def machine_index() -> int:
    """Which of the machines this is."""
    return list(MACHINES).index(os.uname().machine)


def checked(what: str, result: int) -> None:
    """Raise the error of a C call that failed."""
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def control(option: int, first: int = 0, second: object = None) -> None:
    """Call prctl."""
    zero = ctypes.c_ulong(0)
    result = libc.prctl(option, ctypes.c_ulong(first), second or zero, zero, zero)
    checked(f"prctl {option}", result)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Call mount."""
    words = [word.encode() if word else None for word in (source, target, kind, data)]
    checked(f"mount {target}", libc.mount(*words[:3], flags, words[3]))


def enter_namespaces() -> None:
    """Leave the host's users, processes, mounts, network and IPC for new ones.

    Only a process that stayed outside may name several users; a child does it, told over a pipe.
    """
    read_end, tell = os.pipe()
    if (mapper := os.fork()) == 0:
        os.close(tell)
        try:
            if os.read(read_end, 1):
                name_users(os.getppid())
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or errno.EIO)
    os.close(read_end)
    checked("new namespaces", libc.unshare(NEW_NAMESPACES))
    os.write(tell, b".")
    if number := os.waitstatus_to_exitcode(os.waitpid(mapper, 0)[1]):
        raise OSError(number, f"users of the namespace: {os.strerror(abs(number))}")


def name_users(pid: int) -> None:
    """Write which users exist in a new namespace: nobody; and, where we are root, root.

    Limits do not bind the host's root, so that root's programs run as the host's nobody. Where
    root is not the host's (a container that knows one user) nobody is another name for it.
    """

    def write(name: str, text: str) -> None:
        with open(f"/proc/{pid}/{name}", "w") as stream:
            stream.write(text)

    if os.geteuid() == 0:
        try:
            write("uid_map", f"0 0 1\n{NOBODY} {NOBODY} 1")
            write("gid_map", f"0 0 1\n{NOBODY} {NOBODY} 1")
            return
        except OSError:
            pass
    write("setgroups", "deny")
    write("uid_map", f"{NOBODY} {os.geteuid()} 1")
    write("gid_map", f"{NOBODY} {os.getegid()} 1")


def build_root(paths: list[str], child: str, file_bytes: int) -> None:
    """Make a read-only root of a few of the host's folders and one small writable folder, /tmp."""
    with open(child, "rb") as stream:
        source = stream.read()
    os.umask(0o022)  # nobody must be able to read what we make, whatever the caller's habits
    mount("", "/", "", MS_REC | MS_PRIVATE)
    # Any folder that hides none of the paths will do; this one is there on every Linux.
    root = "/proc"
    mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    with open(f"{root}/child.py", "wb") as stream:
        stream.write(source)
    shown: list[str] = []
    for path in sorted(paths):
        if not os.path.lexists(path) or any(path.startswith(f"{folder}/") for folder in shown):
            continue
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        if os.path.islink(path):
            os.symlink(os.readlink(path), root + path)
            continue
        if os.path.isdir(path):
            os.makedirs(root + path, exist_ok=True)
        else:
            open(root + path, "x").close()
        mount(path, root + path, "", MS_BIND | MS_REC)
        shown.append(path)
    os.mkdir(f"{root}/tmp")
    os.mkdir(f"{root}/old")
    pivot_root = REFUSED["pivot_root"][machine_index()]
    checked("pivot_root", libc.syscall(pivot_root, root.encode(), f"{root}/old".encode()))
    os.chdir("/")
    checked("umount", libc.umount2(b"/old", MNT_DETACH))
    os.rmdir("/old")
    attributes = struct.pack("4Q", READ_ONLY_NOSUID_NODEV, 0, 0, 0)
    where = (ctypes.c_long(AT_FDCWD), b"/", ctypes.c_ulong(AT_RECURSIVE))
    size = ctypes.c_ulong(len(attributes))
    checked("read-only mounts", libc.syscall(MOUNT_SETATTR, *where, attributes, size))
    limits = f"size={file_bytes},nr_inodes=256,mode=700,uid={NOBODY},gid={NOBODY}"
    mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, limits)
    checked("sethostname", libc.sethostname(b"sandbox", 7))


def limit(limits: dict[str, float]) -> None:
    """Set what one process may use; never more than it might before."""
    for kind, most in (
        (resource.RLIMIT_CPU, int(limits["seconds"]) + 1),
        (resource.RLIMIT_AS, int(limits["memory"])),
        (resource.RLIMIT_NPROC, int(limits["processes"])),
        (resource.RLIMIT_FSIZE, int(limits["file_bytes"])),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_STACK, 8 * 2**20),
        (resource.RLIMIT_MEMLOCK, 0),
        # 1 also keeps a crash from the host's crash reporter, which 0 does not.
        (resource.RLIMIT_CORE, 1),
    ):
        before = resource.getrlimit(kind)[1]
        bound = most if before == resource.RLIM_INFINITY else min(most, before)
        resource.setrlimit(kind, (bound, bound))


def drop_privileges() -> None:
    """Become nobody, without capabilities and without a way to get any."""
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) == -1:
            break
    if os.getuid() == 0:
        os.setgroups([])  # others cannot leave their groups; no file that these open is in sight
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)
    checked("capset", libc.capset(header, nothing))
    control(PR_SET_NO_NEW_PRIVS, 1)


def call_filter() -> bytes:
    """A seccomp filter that refuses the calls named above, and further namespaces to clone."""
    machine, index = MACHINES[os.uname().machine], machine_index()
    load, equal, at_least, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
    kill, allow, fail = 0x80000000, 0x7FFF0000, 0x00050000
    number_at, machine_at, argument_at = 0, 4, 16

    def refuse_if(test: int, value: int, call: int) -> list[tuple[int, int, int, int]]:
        """Refuse a call whose first argument passes a test."""
        judged = [(load, 0, 0, argument_at), (test, 0, 1, value), (give, 0, 0, fail | errno.EPERM)]
        return [(equal, 0, 4, call), *judged, (give, 0, 0, allow)]

    steps = [(load, 0, 0, machine_at), (equal, 1, 0, machine), (give, 0, 0, kill)]
    steps += [(load, 0, 0, number_at), (equal, 0, 1, CLOSE_RANGE), (give, 0, 0, allow)]
    steps += [(at_least, 0, 1, FIRST_NEWER_CALL), (give, 0, 0, fail | errno.ENOSYS)]
    for call in REFUSED.values():
        steps += [(equal, 0, 1, call[index]), (give, 0, 0, fail | errno.EPERM)]
    steps += refuse_if(any_bit, ANY_NAMESPACE, CLONE[index])
    steps += refuse_if(equal, PR_SET_PDEATHSIG, PRCTL[index])
    steps += [(give, 0, 0, allow)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def install_filter() -> None:
    """Put the filter on; it stays on, also over fork and exec."""
    filter_bytes = call_filter()
    buffer = ctypes.create_string_buffer(filter_bytes, len(filter_bytes))
    program = struct.pack("HxxxxxxQ", len(filter_bytes) // 8, ctypes.addressof(buffer))
    control(PR_SET_SECCOMP, 2, program)


def become_child(request: dict, trouble: bytes, descriptors: list[int]) -> None:
    """As process 1 of the namespaces: give everything up and start the program. Never returns.

    What goes wrong is reported after the word `trouble`, which the program never gets to know.
    """
    try:
        # Its own session: a signal to its process group must not reach ours.
        os.setsid()
        for target, descriptor in enumerate(descriptors):
            os.dup2(descriptor, target)
        os.closerange(FIRST_FREE, 2**20)
        os.chdir("/tmp")
        os.umask(0o077)
        drop_privileges()
        limit(request["limits"])
        control(PR_SET_PDEATHSIG, SIGKILL)
        parent = select.poll()
        parent.register(ERRORS, 0)
        if parent.poll(0):
            os._exit(1)  # the parent died before we asked to be told
        install_filter()
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
        python = request["python"]
        os.execve(python, [python, "-P", "-s", "-S", "-B", "/child.py"], environment)
    except BaseException as error:
        os.write(REPORT, trouble + str(error).encode())
    os._exit(1)


class Tail:
    """The end of what comes through a pipe; the rest is read and forgotten."""

    def __init__(self, descriptor: int, most: int) -> None:
        self.descriptor, self.most, self.text = descriptor, most, b""

    def read(self) -> bool:
        """Read what is there, waiting for something; false at the end."""
        part = os.read(self.descriptor, CHUNK)
        self.text = (self.text + part)[-self.most :]
        return bool(part)


def watch(pid: int, tails: list[Tail], seconds: float) -> bool:
    """Read the pipes until the program ends, our caller is gone or the time is over (false)."""
    caller, ended = 0, os.pidfd_open(pid)
    poll = select.poll()
    poll.register(caller, 0)
    for descriptor in (ended, *(tail.descriptor for tail in tails)):
        poll.register(descriptor, select.POLLIN)
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        ready = [descriptor for descriptor, _ in poll.poll(left * 1000)]
        if ended in ready or caller in ready:
            return True
        for tail in tails:
            if tail.descriptor in ready and not tail.read():
                poll.unregister(tail.descriptor)
    return False


def run(request: dict) -> tuple[str, str]:
    """Run the request's program in a jail; how it ended, in a word, and what is known of it."""
    limits = request["limits"]
    trouble = os.urandom(32).hex().encode()
    # The numbers rise in this order and start at 3, so that the child can move them down to 0.
    source = os.memfd_create("program")
    null = os.open("/dev/null", os.O_RDWR)
    (errors, errors_in), (report, report_in) = os.pipe(), os.pipe()
    with open(source, "wb", closefd=False) as stream:
        stream.write(request["source"].encode("utf-8", "surrogatepass"))
    os.lseek(source, 0, os.SEEK_SET)
    enter_namespaces()
    control(PR_SET_PDEATHSIG, SIGKILL)
    build_root(request["paths"], request["child"], limits["file_bytes"])
    if (pid := os.fork()) == 0:
        become_child(request, trouble, [source, null, errors_in, report_in])
    for descriptor in (source, errors_in, report_in):
        os.close(descriptor)
    # One byte more than expected shows a report that is longer.
    report_bytes = max(2**12, len(request["expected"]) + 1)
    tails = [Tail(errors, limits["output_bytes"]), Tail(report, report_bytes)]
    in_time = watch(pid, tails, limits["seconds"])
    # Process 1 takes all others with it, and is gone only when they are.
    os.kill(pid, SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for tail in tails:
        while tail.read():
            pass
    complaint, reported = (tail.text.decode("utf-8", "replace") for tail in tails)
    if reported.startswith(trouble.decode()):
        return "broken", reported[len(trouble) :]
    return judge(reported, request["expected"], code, in_time, complaint.strip())


def judge(
    reported: str, expected: str, code: int, in_time: bool, complaint: str
) -> tuple[str, str]:
    """The outcome of a program from its value, its exit code, its time and what it wrote last."""
    if reported == expected and code == 0:
        return "passed", ""
    if not in_time:
        return "timeout", ""
    if code < 0:
        return "killed", str(-code)
    if code == 0 and reported:
        return "failed", f"the value is {reported}"
    if code == 0 or not complaint:
        return "failed", f"left before its end with exit code {code}"
    return "failed", complaint.splitlines()[-1]


def answer(request: dict) -> None:
    """Write the outcome of a request as one line, at once, and leave."""
    try:
        status, detail = run(request)
    except OSError as error:
        status, detail = "broken", error.strerror or str(error)
    os.write(1, f"{status} {detail[:DETAIL_CHARACTERS]}".encode())
    os._exit(0)


def main() -> None:
    """Answer requests until standard input ends; a process of its own enters each jail."""
    control(PR_SET_PDEATHSIG, SIGKILL)
    while True:
        try:
            request = marshal.load(sys.stdin.buffer)
        except EOFError:
            return
        if (runner := os.fork()) == 0:
            answer(request)
        if code := os.waitstatus_to_exitcode(os.waitpid(runner, 0)[1]):
            os.write(1, f"broken the jail died with exit code {code}".encode())


if __name__ == "__main__":
    main()
