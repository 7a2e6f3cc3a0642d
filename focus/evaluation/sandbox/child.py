"""Run the program on standard input, and say with a secret word that it came to its end.

The last of the processes that sandbox.py describes: process 1 of its namespaces, with nothing left
to lose. Standard input holds the word, a line end and the program. Whoever can write the word has
passed, so that a program must not find it: only objects of the C stack hold it, which no frame,
module or argument list leads to, and the ways around that (the garbage collector's lists, raw
memory) are refused. The modules imported here are built in, so that it starts fast.
"""

import posix
import sys
from _operator import call

NULL, REPORT = 1, 3


def prepare() -> "map[None]":
    """The program, then the word: two calls that an iterator in C makes one after the other."""
    text = b""
    while part := posix.read(0, 2**20):
        text += part
    posix.dup2(NULL, 0)
    word, _, source = text.partition(b"\n")

    def refuse(event: str, arguments: tuple[object, ...]) -> None:
        if event.startswith(("ctypes.", "gc.get_", "sys._current_")):
            raise RuntimeError(f"{event} is not to be had here")
        if event == "import" and (
            type(arguments[0]) is not str
            or arguments[0].startswith(("_ctypes", "_interp", "_test", "_xx"))
        ):
            raise ImportError(f"{arguments[0]} is not to be had here")

    def finish(report: int, word: bytes) -> None:
        # A forked copy of the program comes here too; it does not speak for the original.
        if posix.getpid() == 1:
            posix.write(report, word)
        posix._exit(0)

    program = compile(source, "<program>", "exec", dont_inherit=True)
    module = type(sys)("program")
    sys.modules["program"] = module
    sys.addaudithook(refuse)
    calls = ((exec, finish), (program, REPORT), (module.__dict__, word))
    return map(call, *calls)  # type: ignore[arg-type]


if __name__ == "__main__":
    any(prepare())
