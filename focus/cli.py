"""The command line: one table from command to function.

Exit codes: 0 done; 2 the input is wrong, one line on standard error says what; 1 our fault;
130 stopped by Ctrl-C.
"""

import contextlib
import functools
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from focus.commands.dispatch import run_command
from focus.errors import UserError, counted, did_you_mean
from focus.trust import FLAG, remote_code

_STOPPED = 130  # exit code after Ctrl-C, as shells have it

# Where each command lives, and the first line of its help. A command is imported when it is run:
# `focus --help` loads none of them.
COMMANDS: dict[str, tuple[str, str]] = {
    "solve": (
        "focus.commands.solve:solve",
        "Solve one puzzle and watch its repair.",
    ),
    "serve": (
        "focus.commands.serve:serve",
        "Enter a puzzle in the browser, watch its repair, compare two checkpoints.",
    ),
    "train": (
        "focus.commands.train:train",
        "Train a solver by a recipe, in a folder that can be resumed.",
    ),
    "eval": (
        "focus.commands.evaluate:eval_",
        "Exact rate of a checkpoint, with intervals, at one or more numbers of steps.",
    ),
    "diagnose": (
        "focus.commands.diagnose:diagnose_",
        "Find what goes wrong along a rollout: drift, runaway logits, solved puzzles lost again.",
    ),
    "transfer": (
        "focus.commands.transfer:transfer",
        "Accuracy of a language model on mathematics and code, with and without an adapter.",
    ),
    "report": (
        "focus.commands.report:report",
        "Build the paper's tables and figures, and our own, from evaluated runs.",
    ),
    "reproduce": (
        "focus.commands.reproduce:reproduce",
        "Make the runs of a table or of the figures, and report on them.",
    ),
    "data show": (
        "focus.commands.data:show",
        "Print one puzzle and its answer.",
    ),
    "data prepare": (
        "focus.commands.data:prepare",
        "Write train, validation and test puzzles as files, with the ids of the rows drawn.",
    ),
    "data generate": (
        "focus.commands.data:generate",
        "Generate puzzles into a CSV file. A killed run goes on where it was.",
    ),
    "data audit": (
        "focus.commands.data:audit",
        "Check every row of a data folder or file, and find duplicates and leaks between splits.",
    ),
    "backbone install": (
        "focus.commands.backbone:install",
        "Get a language model, check it by its hash and convert it, once.",
    ),
    "backbone list": (
        "focus.commands.backbone:list_",
        "List the language models known by name.",
    ),
    "export onnx": (
        "focus.commands.export:onnx",
        "Write a solver as ONNX graphs: its start, a step, the decoder, and the whole of it.",
    ),
    "export page": (
        "focus.commands.export:page",
        "Write a folder for any static host that solves puzzles in the visitor's browser.",
    ),
    "bench train": (
        "focus.commands.bench:train",
        "Measure updates/s of a recipe: focus bench train TASK[/BACKBONE][/METHOD] [flags].",
    ),
    "bench solve": (
        "focus.commands.bench:solve",
        "Measure how fast a checkpoint solves puzzles.",
    ),
    "bench select": (
        "focus.commands.bench:select",
        "Measure what state selection costs: focus bench select TASK[/BACKBONE] [flags].",
    ),
}

# Commands whose flags depend on their first word: what makes the function for it.
SIGNATURES = {
    "train": "focus.commands.train:train_signature",
    "bench train": "focus.commands.bench:train_signature",
    "bench select": "focus.commands.bench:select_signature",
}


def function_of(place: str) -> Callable[..., Any]:
    """The function that `module:name` means."""
    module, name = place.split(":")
    return getattr(import_module(module), name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    remote_code.set(FLAG in words)
    words = [word for word in words if word != FLAG]
    name = next((c for c in COMMANDS if words[: len(c.split())] == c.split()), None)
    if name is None:
        return _no_command(words)
    run_command.set(main)
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
    except (MemoryError, RuntimeError) as error:
        full = any(words in str(error) for words in ("allocate memory", "out of memory"))
        if isinstance(error, RuntimeError) and not full:
            raise
        print(
            f"focus {name}: this takes more memory than there is; choose smaller sizes",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print(f"focus {name}: stopped", file=sys.stderr, flush=True)
        return _STOPPED
    except BrokenPipeError:
        # The reader (head, a pager) has seen enough; keep the interpreter from complaining.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parse(name: str, words: Sequence[str]) -> Callable[[], None]:
    """Turn words into a call to make later. tyro's error box becomes one line."""
    import tyro  # a quarter of a second, which a list of commands need not take

    about = name
    if name in SIGNATURES and words[:1] not in (["--help"], ["-h"]):
        about = " ".join([name, *words[:1]])
        function, words = function_of(SIGNATURES[name])(words)
    else:
        function = function_of(COMMANDS[name][0])

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
        raise UserError(
            f"{_explain(captured.getvalue(), words)} (see focus {about} --help)"
        ) from stop


# What tyro's error box says, without its frame, and how we say it.
_MISSING = r"Missing from [^:]*: (\S+) (.*?)\.? \(required\)"
_BAD_VALUE = r"Error parsing (--\S+): .* Argument helptext: --\S+ (\[[A-Z\[\]. ]+\]|\S+)"
_BAD_CHOICE = r"invalid choice .* for argument '(--\S+)'\. Expected one of \((.*?),?\)"
_NO_VALUE = r"Missing value for argument '(--\S+)'\. Expected (\d+)"
_UNKNOWN = r"Unrecognized options: (.*?)(?: Perhaps| For full|$)"
_KINDS = {"INT": "a whole number", "FLOAT": "a number"}


def _explain(box: str, words: Sequence[str]) -> str:
    """What is wrong with the words of a command, in one line, from tyro's error box."""
    text = " ".join(re.sub(r"[─│╭╮╰╯]|^[|+]|[|+]$|-{5,}", " ", box, flags=re.MULTILINE).split())
    if found := re.search(_MISSING, text):
        return f"{found[1]} is missing: {found[2]}"
    if found := re.search(_BAD_VALUE, text):
        kind = found[2].removeprefix("{None}|")
        return f"{found[1]} takes {_KINDS.get(kind, kind)}, not {_value(found[1], words)!r}"
    if found := re.search(_BAD_CHOICE, text):
        choices = found[2].replace("'", "")
        return f"{found[1]} is one of {choices}, not {_value(found[1], words)!r}"
    if found := re.search(_NO_VALUE, text):
        return f"{found[1]} needs {counted(int(found[2]), 'value')}"
    near = re.search(r"Perhaps you meant: (--[\w.-]+)", text)
    found = re.search(_UNKNOWN, text)
    unknown = (
        f"unknown arguments: {found[1]}" if found else text.partition(" For full")[0].rstrip(".")
    )
    return f"{unknown}; did you mean {near[1]}?" if near else unknown


def _value(flag: str, words: Sequence[str]) -> str:
    """What stands behind a flag on the command line."""
    place = next(i for i, word in enumerate(words) if word.split("=")[0].replace("_", "-") == flag)
    if "=" in words[place]:
        return words[place].split("=", 1)[1]
    rest = [word.startswith("--") for word in words[place + 1 :]]
    end = place + 1 + (rest.index(True) if True in rest else len(rest))
    return " ".join(words[place + 1 : end])


def _no_command(words: Sequence[str]) -> int:
    """Help, version, or a word that is no command."""
    if words and words[0] == "--version":
        import focus

        print(f"focus {focus.__version__}")
        return 0
    wants_help = not words or words[0] in ("-h", "--help", "help")
    groups = {command.split()[0] for command in COMMANDS}
    inside = [c for c in COMMANDS if words and c.split()[0] == words[0] and words[0] in groups]
    if not wants_help and not (inside and set(words[1:]) <= {"-h", "--help"}):
        near, asked = ", ".join(inside or COMMANDS), " ".join(words[: 2 if inside else 1])
        meant = did_you_mean(asked, inside or COMMANDS)
        said = " ".join(words[:2])
        print(f"focus: no command {said!r}; commands: {near}{meant}", file=sys.stderr)
        return 2
    print("usage: focus COMMAND [flags]; focus COMMAND --help explains a command")
    print("try:   focus solve --example extreme --checkpoint sudoku-none --watch")
    print(f"{FLAG}, with any command, runs Python code that a language model comes with\n")
    width = max(len(command) for command in COMMANDS)
    for command in inside or COMMANDS:
        print(f"  {command:<{width}}  {COMMANDS[command][1]}")
    return 0


def entry() -> None:
    """The console script."""
    code = main()
    if code == _STOPPED or os.environ.get("WORLD_SIZE", "1") != "1":
        # At once: taking an interpreter with PyTorch down lasts another second, and a thread of
        # several processes' connections that aborts meanwhile would make a finished run a failed
        # one. What is on the disk is whole at any time.
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    print("focus: run `python -m focus`, not `python -m focus.cli`", file=sys.stderr)
    sys.exit(2)
