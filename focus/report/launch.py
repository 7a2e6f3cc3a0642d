"""Run the jobs of a plan: here, one after the other, or through Slurm."""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from focus.errors import UserError
from focus.report.plan import Job


def open_jobs(jobs: Sequence[Job]) -> list[Job]:
    """Those that are not done."""
    return [job for job in jobs if not job.done.exists()]


def run_job(job: Job, gpus: int = 1) -> None:
    """All commands of a job; several GPUs share a training."""
    from focus.cli import main

    for words in job.commands:
        if gpus > 1 and words[0] == "train":
            torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone")
            call = (*torchrun, f"--nproc-per-node={gpus}", "-m", "focus.cli", *words)
            code = subprocess.run(call).returncode
        else:
            code = main(words)
        if code:
            raise RuntimeError(f"focus {words[0]} ended with code {code}")


def run_here(jobs: Sequence[Job], say: Callable[[str], None]) -> list[str]:
    """One after the other; names of those that failed, or that needed one that did."""
    failed: list[str] = []
    waiting = open_jobs(jobs)
    for number, job in enumerate(waiting, 1):
        if any(name in failed for name in job.after):
            failed.append(job.name)
            continue
        start = time.monotonic()
        try:
            run_job(job)
            said = f"{time.monotonic() - start:.0f} s"
        except Exception as error:  # the other jobs of a long campaign go on
            failed.append(job.name)
            said = f"failed: {type(error).__name__}: {error}"
        say(f"[{number}/{len(waiting)}] {job.name}: {said}")
    return failed


def run_on_slurm(
    jobs: Sequence[Job], folder: Path, say: Callable[[str], None], hours: float = 24.0,
    gpus: int = 1, partition: str = "", cluster: str | None = None,
) -> list[str]:  # fmt: skip
    """Submit every job and wait; `cluster="local"` runs them as processes of this machine."""
    try:
        import submitit
    except ImportError as error:
        raise UserError(
            "the Slurm launcher needs an extra: pip install focus-solver[slurm]"
        ) from error
    executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
    executor.update_parameters(
        timeout_min=round(60 * hours), gpus_per_node=gpus if cluster is None else None,
        **({"slurm_partition": partition} if partition else {}),
    )  # fmt: skip
    failed: list[str] = []
    waiting = open_jobs(jobs)
    # What others need comes first; a second wave uses their results.
    for wave in ([job for job in waiting if not job.after], [job for job in waiting if job.after]):
        ready = [job for job in wave if not any(name in failed for name in job.after)]
        failed += [job.name for job in wave if job not in ready]
        handed = [(job, executor.submit(run_job, job, gpus)) for job in ready]
        for job, handle in handed:
            say(f"{job.name}: submitted as {handle.job_id}")
        for job, handle in handed:
            broken = handle.exception() is not None
            failed += [job.name] if broken else []
            say(f"{job.name}: {'failed' if broken else 'done'}")
    return failed
