"""The command line: one table from command to function.

Exit codes: 0 done; 2 the input is wrong, one line on standard error says what; 1 our fault.
"""

import contextlib
import functools
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version

import tyro

from focus.commands import (
    backbone,
    bench,
    data,
    evaluate,
    report,
    reproduce,
    serve,
    solve,
    train,
    transfer,
)
from focus.errors import UserError

COMMANDS: dict[str, Callable[..., None]] = {
    "solve": solve.solve,
    "serve": serve.serve,
    "train": train.train,
    "teach": train.teach,
    "eval": evaluate.eval_,
    "transfer": transfer.transfer,
    "report": report.report,
    "reproduce": reproduce.reproduce,
    "data show": data.show,
    "data prepare": data.prepare,
    "data generate": data.generate,
    "data audit": data.audit,
    "backbone install": backbone.install,
    "backbone list": backbone.list_,
    "bench train": bench.train,
    "bench solve": bench.solve,
    "bench select": bench.select,
}


# Commands whose flags depend on their first word.
SIGNATURES = {
    "train": train.train_signature,
    "teach": train.teach_signature,
    "bench train": bench.train_signature,
    "bench select": bench.select_signature,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    name = next((c for c in COMMANDS if words[: len(c.split())] == c.split()), None)
    if name is None:
        return _no_command(words)
    try:
        run = _parse(name, words[len(name.split()) :])
        run()
        return 0
    except UserError as error:
        print(f"focus {name}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except SystemExit as stop:
        if isinstance(stop.code, str):  # our fault, said in one line
            print(stop.code, file=sys.stderr)
            return 1
        return int(stop.code or 0)  # --help
    except KeyboardInterrupt:
        print(f"focus {name}: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (head, a pager) has seen enough; keep the interpreter from complaining.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parse(name: str, words: Sequence[str]) -> Callable[[], None]:
    """Turn words into a call to make later. tyro's error box becomes one line."""
    function, about = COMMANDS[name], name
    if name in SIGNATURES and words[:1] not in (["--help"], ["-h"]):
        about = " ".join([name, *words[:1]])
        function, words = SIGNATURES[name](words)

    @functools.wraps(function)
    def bind(*args, **kwargs) -> Callable[[], None]:
        return functools.partial(function, *args, **kwargs)

    captured = io.StringIO()
    try:
        with contextlib.redirect_stderr(captured):
            return tyro.cli(
                bind,
                args=list(words),
                prog=f"focus {name}",
                config=(tyro.conf.FlagCreatePairsOff,),
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        box = captured.getvalue()
        near = re.search(r"Perhaps you meant:[^-]*(--[\w.-]+)", box)
        meant = f"; did you mean {near[1]}?" if near else ""
        raise UserError(f"{_first_message(box)}{meant} (see focus {about} --help)") from stop


def _first_message(box: str) -> str:
    """The text of the first section of tyro's error box."""
    words: list[str] = []
    for line in box.splitlines():
        text = line.strip("│ \t")
        if text.startswith("╭") or not text:
            continue
        if text[0] in "─╰":
            break
        words += text.split()
    return " ".join(words).rstrip(".")


def _no_command(words: Sequence[str]) -> int:
    """Help, version, or a word that is no command."""
    if words and words[0] == "--version":
        print(f"focus {version('focus-solver')}")
        return 0
    asked = not words or words[0] in ("-h", "--help", "help")
    groups = {command.split()[0] for command in COMMANDS}
    inside = [c for c in COMMANDS if words and c.split()[0] == words[0] and words[0] in groups]
    if not asked and not (inside and set(words[1:]) <= {"-h", "--help"}):
        near = ", ".join(inside or COMMANDS)
        print(f"focus: no command {' '.join(words[:2])!r}; commands: {near}", file=sys.stderr)
        return 2
    print("usage: focus COMMAND [flags]; focus COMMAND --help explains one\n")
    width = max(len(command) for command in COMMANDS)
    for command in inside or COMMANDS:
        summary = (COMMANDS[command].__doc__ or "").splitlines()[0]
        print(f"  {command:<{width}}  {summary}")
    return 0


def entry() -> None:
    """The console script."""
    sys.exit(main())


if __name__ == "__main__":
    entry()
