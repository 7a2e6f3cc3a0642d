"""Generate a file of puzzles: in parallel, resumable, the same for any number of workers.

Work is cut into chunks of units; a unit's puzzle depends on (seed, unit) alone. Finished chunks
are kept in `OUT.parts/` until the file is complete, so that a killed run goes on where it was.
Puzzles are taken in the order of their units, whichever chunk was finished first.
"""

import json
import shutil
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from focus.data.distinct import PuzzleIndex
from focus.data.table import LARGEST_FILE, Table, write_table
from focus.errors import UserError
from focus.files import atomic_path, only_one, write_text
from focus.settings import check_seed
from focus.tasks.base import Codes, Task

_CHUNK = 50  # units
_OTHER_COLUMNS = 16  # bytes of a row beside question and answer
_WINDOW = 50  # chunks, of whose puzzles at least
_FEWEST_NEW = 0.01  # of them must be new: a generator that has run dry would go on for ever


@dataclass(frozen=True)
class GenerationSpec:
    """What to generate."""

    count: int
    seed: int
    mode: str
    workers: int = 1
    seeds: Codes | None = None  # puzzles to grow from
    like: Codes | None = None  # puzzles whose ratings are wanted; None = those of the seeds
    exclude: tuple[Codes, ...] = ()  # nothing equivalent to these

    def plan(self, task: Task) -> list:
        """What a kept chunk depends on: a resumed run must agree in it."""
        grown = [
            "" if codes is None else sha256(codes.tobytes()).hexdigest()
            for codes in (self.seeds, self.like)
        ]
        return [task.name, task.generator_settings, self.seed, self.mode, _CHUNK, grown]


def generate_table(
    task: Task,
    spec: GenerationSpec,
    parts: Path,
    progress: Callable[[int], None] = lambda done: None,
) -> Table:
    """Generate `spec.count` puzzles, keeping finished chunks in the folder `parts`."""
    _check(task, spec)
    _claim(parts, task, spec)
    index = PuzzleIndex(task)
    for questions in (*spec.exclude, *([] if spec.seeds is None else [spec.seeds])):
        index.add(questions)
    taken: list[tuple[Codes, Codes]] = []
    done, recent = 0, deque[tuple[int, int]](maxlen=_WINDOW)
    for questions, answers in _chunks(task, spec, parts):
        fresh = index.add_unseen(questions)
        taken.append((questions[fresh], answers[fresh]))
        done += int(fresh.sum())
        progress(min(done, spec.count))
        recent.append((int(fresh.sum()), len(fresh)))
        if done >= spec.count:
            break
        new, made = map(sum, zip(*recent, strict=True))
        if len(recent) == _WINDOW and new <= _FEWEST_NEW * made:
            raise UserError(
                f"the generator runs dry at {done:,} different puzzles, {spec.count:,} were asked "
                "for; try another seed, mode or size, or ask for fewer"
            )
    questions, answers = (
        np.concatenate(column)[: spec.count] for column in zip(*taken, strict=True)
    )
    ratings = np.array([str(rating) for rating in task.rate(questions)], dtype=object)
    origin = f"{spec.mode} generator, seed {spec.seed}"
    return Table(questions, answers, np.arange(spec.count), origin, {"rating": ratings})


def generate_file(
    task: Task,
    spec: GenerationSpec,
    path: Path,
    progress: Callable[[int], None] = lambda done: None,
) -> Table:
    """Generate into a CSV file; its parts folder is removed once the file is whole."""
    if path.exists():
        raise UserError(f"{path} is there already; remove it, or choose another output")
    _check(task, spec)
    parts = path.with_name(path.name + ".parts")
    with only_one(parts):
        try:
            table = generate_table(task, spec, parts, progress)
            write_table(path, table, task)
        finally:
            if path.exists() or not any(parts.glob("*.npz")):
                shutil.rmtree(parts)
    return table


def _check(task: Task, spec: GenerationSpec) -> None:
    most = LARGEST_FILE // (2 * task.cells + _OTHER_COLUMNS)
    if not 1 <= spec.count <= most:
        raise UserError(
            f"the number of puzzles is from 1 to {most:,} (what one file holds at this size), "
            f"not {spec.count}"
        )
    check_seed(spec.seed)
    if spec.mode not in task.generator_modes:
        raise UserError(
            f"{task.name} has no generator mode {spec.mode!r}; "
            f"it has {', '.join(task.generator_modes)}"
        )


def _claim(parts: Path, task: Task, spec: GenerationSpec) -> None:
    """Make the folder ours, or check that it belongs to the same spec."""
    file, plan = parts / "plan.json", json.dumps(spec.plan(task), sort_keys=True)
    if not file.is_file():
        write_text(file, plan)
        return
    try:
        stored_plan = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        stored_plan = None
    if json.dumps(stored_plan, sort_keys=True) != plan:
        raise UserError(
            f"{parts} holds the parts of another generation (other seed, mode or settings); "
            "remove it or choose another output"
        )


def _chunks(task: Task, spec: GenerationSpec, parts: Path) -> Iterator[tuple[Codes, Codes]]:
    """The chunks in unit order, computed by a few threads ahead of the reader."""
    pool = ThreadPoolExecutor(spec.workers)
    pending: list[Future] = []
    number = 0
    try:
        while True:
            while len(pending) < spec.workers + 1:
                pending.append(pool.submit(_chunk, task, spec, parts, number))
                number += 1
            yield pending.pop(0).result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _chunk(task: Task, spec: GenerationSpec, parts: Path, number: int) -> tuple[Codes, Codes]:
    path = parts / f"{number:06d}.npz"
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            questions, answers = arrays["questions"], arrays["answers"]
        if (
            questions.shape == answers.shape == (len(questions), task.cells)
            and questions.dtype == answers.dtype == np.uint8
        ):
            return questions, answers
    except FileNotFoundError:
        pass
    except (ValueError, LookupError, EOFError, OSError, zipfile.BadZipFile, zlib.error):
        pass  # damaged: it is made again
    questions, answers = task.generate(
        spec.seed, number * _CHUNK, _CHUNK, spec.mode, spec.seeds, spec.like
    )
    with atomic_path(path) as temporary, open(temporary, "wb") as target:
        np.savez(target, questions=questions, answers=answers)
    return questions, answers


def ks_distance(first: np.ndarray, second: np.ndarray) -> float:
    """Kolmogorov-Smirnov distance of two samples: the largest gap of their distributions."""
    places = np.union1d(first, second)
    below_first = np.searchsorted(np.sort(first), places, side="right") / len(first)
    below_second = np.searchsorted(np.sort(second), places, side="right") / len(second)
    return float(np.abs(below_first - below_second).max())
