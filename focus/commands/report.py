"""`focus report`: tables and figures from stored runs."""

from pathlib import Path
from typing import Annotated

import tyro

from focus.errors import UserError
from focus.files import write_text
from focus.report.comparable import letter_settings
from focus.report.runs import Evaluated, Transferred, find_results


def report(
    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    out: str = "runs-out/report",
) -> None:
    """Build the paper's tables and figures, and our own, from evaluated runs.

    Tables as Markdown, LaTeX and CSV, figures as PDF, PNG and SVG. Small puzzles go to a part of
    their own. What has not been run is a gap in a table or named as missing, never a made-up cell.

    Args:
        runs: folders that hold evaluations (focus eval RUN --out RUN/eval) and comparisons
            (focus transfer ... --out DIR), at any depth.
        out: folder of the report; report.md in it shows everything.
    """
    if not runs:
        raise UserError("name the folders of evaluated runs: focus report runs-out --out DIR")
    evaluated, transferred = find_results([Path(run) for run in runs])
    large = [run for run in evaluated if run.full]
    small = [run for run in evaluated if not run.full]
    if large or not small:
        _write(Path(out), large, transferred, "Report")
        transferred = []
    if small:
        _write(Path(out) / "mini", small, transferred, "Report: small puzzles")


def _write(folder: Path, runs: list[Evaluated], transferred: list[Transferred], title: str) -> None:
    from focus.report.figures import all_figures  # matplotlib takes its time
    from focus.report.tables import all_tables

    runs, settings = letter_settings(runs)
    tables = all_tables(runs, transferred)
    for table in tables:
        table.write(folder / "tables")
    made, missing = all_figures(runs, folder / "figures")
    empty = [table.name for table in tables if table.empty and table.name != "prompt-only"]
    text = [f"# {title}", "", f"From {len(runs)} evaluations.", ""]
    if empty or missing:
        text += [f"Not run yet: {', '.join([*empty, *missing])}.", ""]
    if settings:
        text += ["Runs of several settings, which are not compared with each other:", ""]
        text += [*(f"- {line}" for line in settings), ""]
    text += [table.markdown() for table in tables]
    for name, caption in made.items():
        text += [f"![{caption}](figures/{name}.png)\n", f"*{caption}*\n"]
    write_text(folder / "report.md", "\n".join(text))
    print(f"{folder / 'report.md'}: {len(tables)} tables, {len(made)} figures")
    if empty or missing:
        print(f"  without a run of ours: {', '.join([*empty, *missing])}")
