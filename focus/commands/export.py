"""`focus export`: solvers for elsewhere, as ONNX graphs or as a page that needs no server."""

import importlib.util
from pathlib import Path
from typing import Annotated

import tyro

from focus.commands.evaluate import CheckpointWord, load_checkpoint
from focus.commands.output import print_json
from focus.errors import UserError
from focus.folders import check_replaceable


def onnx(checkpoint: CheckpointWord, out: str = "onnx-out", json: bool = False) -> None:
    """Write a solver as ONNX graphs: its start, a step, the decoder, and the whole of it.

    Args:
        checkpoint: a released name, a checkpoint folder, a run's folder (its best checkpoint),
            or a hub id. With a language model there is no whole: the model stays outside.
        out: folder to write; a new or empty one, or an earlier export.
        json: print one JSON object instead: the files and their bytes.
    """
    folder = Path(out)
    _check(folder)
    from focus.export.onnx import write_graphs
    from focus.web.repair import name_solvers

    (named,) = name_solvers([(checkpoint, *load_checkpoint(checkpoint, None))])
    files = write_graphs(named.solver, named.name, folder)
    sizes = {str(file): file.stat().st_size for file in files}
    if json:
        print_json({"files": sizes})
        return
    for name, size in sizes.items():
        print(f"{name} ({size / 1e6:.1f} MB)")


def page(
    folder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    checkpoint: tuple[str, ...] = (), runtime: str | None = None, json: bool = False,
) -> None:  # fmt: skip
    """Write a folder for any static host that solves puzzles in the visitor's browser.

    Args:
        folder: folder to write; a new or empty one, or an earlier export.
        checkpoint: solvers without a language model; default sudoku-none and maze-none.
        runtime: onnxruntime-web, as the .tgz of npm pack or its folder; default from the npm
            registry, once.
        json: print one JSON object instead: folder, bytes, and bytes when compressed.
    """
    target = Path(folder)
    _check(target)
    from focus.export.page import check_solver, write_page
    from focus.export.runtime import find_runtime
    from focus.web.repair import name_solvers

    names = checkpoint or ("sudoku-none", "maze-none")
    solvers = name_solvers([(name, *load_checkpoint(name, None)) for name in names])
    for named in solvers:
        check_solver(named)

    def say(text: str) -> None:
        if not json:
            print(text)

    whole, compressed = write_page(solvers, target, find_runtime(runtime, say), say)
    if json:
        print_json({"folder": folder, "bytes": whole, "compressed": compressed})
        return
    print(f"{target}: {whole / 1e6:.1f} MB, {compressed / 1e6:.1f} MB compressed")
    print(f"to look at it: python3 -m http.server --directory {target}")


def _check(folder: Path) -> None:
    """Find out before minutes of work whether its result can be written."""
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"this needs the package {' and '.join(missing)}: pip install 'focus-solver[export]'"
        )
    check_replaceable(folder)
