"""Run the jobs of a plan: here, one after the other, or through Slurm."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from focus.errors import UserError
from focus.files import write_text
from focus.reproduce.plan import Command, Job

_LOOK_EVERY = 1.0  # seconds between two looks at submitted jobs
INTERRUPTED = 130  # exit code of a command that Ctrl-C ended
RunCommand = Callable[[Command], int]  # runs the words of a `focus` command; its exit code


def open_jobs(jobs: Sequence[Job]) -> list[Job]:
    """Those that are not done."""
    return [job for job in jobs if not job.done]


def run_job(job: Job, run_command: RunCommand, gpus: int = 1) -> None:
    """All commands of a job; several GPUs share a training, but not that of a TRM."""
    for words in job.commands:
        if gpus > 1 and words[0] == "train" and not words[1].startswith("trm-"):
            torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone")
            call = (*torchrun, f"--nproc-per-node={gpus}", "-m", "focus", *words)
            code = subprocess.run(call).returncode
        else:
            code = run_command(words)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if code:
            raise RuntimeError(f"focus {words[0]} ended with code {code}")
    job.finish()


def run_here(jobs: Sequence[Job], run_command: RunCommand, say: Callable[[str], None]) -> list[str]:
    """One after the other; names of those that failed, or that needed one that did."""
    failed: list[str] = []
    waiting = open_jobs(jobs)
    for number, job in enumerate(waiting, 1):
        if missing := [name for name in job.after if name in failed]:
            failed.append(job.name)
            say(f"[{number}/{len(waiting)}] {job.name}: left out, it needs {', '.join(missing)}")
            continue
        start = time.monotonic()
        try:
            run_job(job, run_command)
            said = f"{time.monotonic() - start:.0f} s"
        except Exception as error:  # the other jobs of a long campaign go on
            failed.append(job.name)
            said = f"failed: {type(error).__name__}: {error}"
        say(f"[{number}/{len(waiting)}] {job.name}: {said}")
    return failed


def run_on_slurm(
    jobs: Sequence[Job], run_command: RunCommand, folder: Path, say: Callable[[str], None],
    hours: float = 24.0, gpus: int = 1, partition: str = "", cluster: str | None = None,
) -> list[str]:  # fmt: skip
    """Submit every job and wait; `cluster="local"` runs them as processes of this machine.

    A job that an earlier call has submitted and that is still in the queue is waited for.
    """
    try:
        import submitit
    except ImportError as error:
        raise UserError(
            "the Slurm launcher needs an extra: pip install '.[slurm]' in the checkout"
        ) from error
    if cluster is None and shutil.which("sbatch") is None:
        raise UserError(
            "there is no Slurm here (no sbatch on the path); --launcher local runs here"
        )
    executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
    executor.update_parameters(
        timeout_min=round(60 * hours), gpus_per_node=gpus if cluster is None else None,
        **({"slurm_partition": partition} if partition else {}),
    )  # fmt: skip
    failed: list[str] = []
    waiting = open_jobs(jobs)
    handed: dict[Job, Any] = {}
    while waiting or handed:
        unfinished = {job.name for job in (*waiting, *handed)}
        for job in [job for job in waiting if not unfinished & set(job.after)]:
            waiting.remove(job)
            if any(name in failed for name in job.after):
                failed.append(job.name)
                say(f"{job.name}: left out, it needs a job that failed")
                continue
            handle = None if cluster else _in_the_queue(submitit.SlurmJob, folder, job)
            said = "still in the queue as" if handle else "submitted as"
            handed[job] = handle = handle or executor.submit(run_job, job, run_command, gpus)
            write_text(_ticket(folder, job), f"{handle.job_id}\n")
            say(f"{job.name}: {said} {handle.job_id}")
        for job in [job for job, handle in handed.items() if handle.done()]:
            handle = handed.pop(job)
            broken = handle.exception()
            if broken is None:
                say(f"{job.name}: done")
                continue
            failed.append(job.name)
            reason = (str(broken).strip().splitlines() or [type(broken).__name__])[-1]
            say(f"{job.name}: failed ({reason}); its log: {handle.paths.stderr}")
        time.sleep(_LOOK_EVERY if handed else 0)
    return failed


def _ticket(folder: Path, job: Job) -> Path:
    """The file that holds the number of a submitted job."""
    return folder / "tickets" / job.name


def _in_the_queue(kind: Any, folder: Path, job: Job) -> Any:
    """The handle of a job that was submitted before and has not ended; else None."""
    ticket = _ticket(folder, job)
    if not ticket.is_file():
        return None
    handle = kind(folder, ticket.read_text(encoding="utf-8").strip())
    return None if handle.done(force_check=True) else handle
