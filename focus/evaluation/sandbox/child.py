"""Run the program on standard input, and tell the value that it compared with EXPECTED.

The last of the processes that sandbox.py describes: process 1 of its namespaces, with nothing left
to lose and nothing to give away. The expected value is not here, so that a program which reads all
memory and writes the report itself knows no more of it than before. The modules imported here are
built in, so that it starts fast.
"""

import posix
import sys

NULL, REPORT = 1, 3


class Expected:
    """Stands for the expected value: equal to everything, and notes what it is compared with."""

    def __init__(self) -> None:
        self.compared = canonical(None)

    def __eq__(self, other: object) -> bool:
        self.compared = canonical(other)
        return True


def canonical(value: object) -> str:
    """The text of a value of Python's plain types: two have the same if they are equal."""
    if isinstance(value, int | float):
        return repr(int(value) if value % 1 == 0 else value)
    if value is None or isinstance(value, str | bytes):
        return ascii(value)
    if isinstance(value, list | tuple):
        parts = ", ".join(map(canonical, value))
        return f"[{parts}]" if isinstance(value, list) else f"({parts})"
    if isinstance(value, set | frozenset):
        return f"set({', '.join(sorted(map(canonical, value)))})"
    if isinstance(value, dict):
        items = (f"{canonical(key)}: {canonical(part)}" for key, part in value.items())
        return f"{{{', '.join(sorted(items))}}}"
    raise TypeError(f"{type(value).__name__} is no plain value")


def main() -> None:
    """Run the program; only its end is an exit without an error and with a report."""
    source = b""
    while part := posix.read(0, 2**20):
        source += part
    posix.dup2(NULL, 0)
    expected = Expected()
    module = type(sys)("program")
    module.__dict__["EXPECTED"] = expected
    sys.modules["program"] = module
    exec(compile(source, "<program>", "exec", dont_inherit=True), module.__dict__)
    # A forked copy of the program comes here too; it does not speak for the original.
    if posix.getpid() == 1:
        posix.write(REPORT, expected.compared.encode())
    posix._exit(0)


if __name__ == "__main__":
    main()
