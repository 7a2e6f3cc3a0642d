"""Generate a file of puzzles: in parallel, resumable, the same for any number of workers.

Work is cut into chunks of units; a unit's puzzle depends on (seed, unit) alone. Finished chunks
are kept in `OUT.parts/` until the file is complete, so that a killed run goes on where it was.
Puzzles are taken in unit order: the result does not depend on which chunk finished first.
"""

import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import MISSING, asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path

import numpy as np

from focus.data.distinct import PuzzleIndex
from focus.data.table import Table, write_table
from focus.errors import UserError
from focus.files import atomic_path, write_text
from focus.tasks.base import Codes, Task

_CHUNK = 50  # units
_MOST_BARREN = 50  # chunks in a row that bring nothing new before we give up


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
        return [task.name, asdict(task), self.seed, self.mode, _CHUNK, grown]


def generate_table(
    task: Task,
    order: GenerationSpec,
    parts: Path,
    progress: Callable[[int], None] = lambda done: None,
) -> Table:
    """Generate `order.count` puzzles, keeping finished chunks in the folder `parts`."""
    if order.count < 1:
        raise UserError(f"the number of puzzles must be at least 1, not {order.count}")
    if order.mode not in task.generator_modes:
        raise UserError(
            f"{task.name} has no generator mode {order.mode!r}; "
            f"it has {', '.join(task.generator_modes)}"
        )
    _claim(parts, task, order)
    index = PuzzleIndex(task)
    for questions in (*order.exclude, *([] if order.seeds is None else [order.seeds])):
        index.add(questions)
    taken: list[tuple[Codes, Codes]] = []
    done = barren = 0
    for questions, answers in _chunks(task, order, parts):
        fresh = index.add_unseen(questions)
        taken.append((questions[fresh], answers[fresh]))
        done += int(fresh.sum())
        progress(min(done, order.count))
        barren = 0 if fresh.any() else barren + 1
        if done >= order.count:
            break
        if barren == _MOST_BARREN:
            raise UserError(
                f"only {done} different puzzles found, {order.count} were asked for; "
                "try another seed, mode or size, or ask for fewer"
            )
    questions, answers = (
        np.concatenate(column)[: order.count] for column in zip(*taken, strict=True)
    )
    ratings = np.array([str(rating) for rating in task.rate(questions)], dtype=object)
    origin = f"{order.mode} generator, seed {order.seed}"
    return Table(questions, answers, np.arange(order.count), origin, {"rating": ratings})


def generate_file(
    task: Task,
    order: GenerationSpec,
    path: Path,
    progress: Callable[[int], None] = lambda done: None,
) -> Table:
    """Generate into a CSV file; its parts folder is removed once the file is whole."""
    if path.exists():
        raise UserError(f"{path} is there already; remove it, or choose another output")
    parts = path.with_name(path.name + ".parts")
    table = generate_table(task, order, parts, progress)
    write_table(path, table, task)
    shutil.rmtree(parts)
    return table


def _claim(parts: Path, task: Task, order: GenerationSpec) -> None:
    """Make the folder ours, or check that it belongs to the same order."""
    file, plan = parts / "plan.json", json.dumps(order.plan(task), sort_keys=True)
    if not file.is_file():
        write_text(file, plan)
        return
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        # Settings that the task did not have yet count as their defaults.
        usual = {f.name: f.default for f in fields(task) if f.default is not MISSING}
        kept[1] = {**usual, **kept[1]}
    except (ValueError, LookupError, TypeError):
        kept = None
    if json.dumps(kept, sort_keys=True) != plan:
        raise UserError(
            f"{parts} holds the parts of another order (other seed, mode or settings); "
            "remove it or choose another output"
        )


def _chunks(task: Task, order: GenerationSpec, parts: Path) -> Iterator[tuple[Codes, Codes]]:
    """The chunks in unit order, computed by a few threads ahead of the reader."""
    pool = ThreadPoolExecutor(order.workers)
    pending: list[Future] = []
    number = 0
    try:
        while True:
            while len(pending) < order.workers + 1:
                pending.append(pool.submit(_chunk, task, order, parts, number))
                number += 1
            yield pending.pop(0).result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _chunk(task: Task, order: GenerationSpec, parts: Path, number: int) -> tuple[Codes, Codes]:
    path = parts / f"{number:06d}.npz"
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as kept:
            return kept["questions"], kept["answers"]
    except FileNotFoundError:
        pass
    except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile):
        path.unlink()  # damaged: make it again
    questions, answers = task.generate(
        order.seed, number * _CHUNK, _CHUNK, order.mode, order.seeds, order.like
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
