"""`focus reproduce`: one command for each table and figure."""

import math
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from focus.commands.dispatch import run_command
from focus.commands.report import report
from focus.errors import UserError
from focus.files import check_writable
from focus.reproduce.launch import open_jobs, run_here, run_on_slurm
from focus.reproduce.plan import Job, make_plan


def reproduce(
    target: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TARGET")],
    scale: Literal["mini", "full"] = "mini",
    out: str | None = None, data: str | None = None, dry_run: bool = False,
    allow_code: bool = False, launcher: Literal["local", "slurm"] = "local", gpus: int = 1,
    hours: float = 24.0, partition: str = "",
) -> None:  # fmt: skip
    """Make the runs of a table or of the figures, and report on them.

    What is done already is kept; a run that was stopped goes on; one that fails is named and the
    others go on.

    Args:
        target: source, curation, ablations, baselines, depth, seeds, controls, transfer, aime,
            figures, or all.
        scale: mini (small puzzles, two cores, minutes) or full (the paper's settings, GPUs).
        out: folder of runs and report; default runs-out/reproduce-SCALE.
        data: source of puzzles and benchmarks; default as in focus train and focus transfer.
        dry_run: print the plan and how long it takes (one large GPU at scale full, two cores at
            scale mini), and do nothing.
        allow_code: run CruxEval's programs in the sandbox.
        launcher: local, or slurm (each run a job; pip install '.[slurm]').
        gpus: GPUs of a Slurm job.
        hours: time limit of a Slurm job.
        partition: Slurm partition.
    """
    if gpus < 1 or not 0 < hours < math.inf:
        raise UserError("--gpus takes a number from 1, --hours one above 0")
    folder = Path(out or f"runs-out/reproduce-{scale}")
    jobs = make_plan(target, scale, folder, data, allow_code)
    if dry_run:
        _show(jobs, "one large GPU" if scale == "full" else "two cores")
        return
    waiting = open_jobs(jobs)
    if not waiting and any((folder / "report").rglob("report.md")):
        print(f"all {len(jobs)} jobs are done; the report is in {folder / 'report'}")
        return

    check_writable(folder)

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    if launcher == "local":
        failed = run_here(jobs, run_command.get(), say)
    else:
        failed = run_on_slurm(
            jobs, run_command.get(), folder / "slurm", say, hours, gpus, partition
        )
    try:
        report((str(folder),), str(folder / "report"))
    except UserError:
        if not failed:  # where everything failed there is nothing to report on
            raise
    if failed:
        raise SystemExit(f"focus reproduce: {len(failed)} jobs failed: {', '.join(failed)}")


def _show(jobs: list[Job], machine: str) -> None:
    waiting = {job.name for job in open_jobs(jobs)}
    for job in jobs:
        print(f"# {job.name}: {duration(job.hours) if job.name in waiting else 'done'}")
        for words in job.commands:
            print(f"focus {' '.join(words)}")
    total = sum(job.hours for job in jobs if job.name in waiting)
    print(f"# {len(waiting)} of {len(jobs)} jobs to do, about {duration(total)} on {machine}")


def duration(hours: float) -> str:
    """A time in the unit that suits it."""
    if hours >= 1:
        return f"{hours:,.1f} h"
    return f"{hours * 60:.0f} min" if hours >= 1 / 60 else f"{hours * 3600:.0f} s"
