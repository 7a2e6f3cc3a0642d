"""The puzzles of a run on its device: what it learns from, and what it is validated with."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from focus.data.corpus import build_corpus
from focus.data.sources import further_tables, open_source
from focus.data.splits import Splits, make_splits
from focus.tasks.records import TensorRecord
from focus.training.config import RunConfig
from focus.training.objectives.distillation import Distillation
from focus.training.soft_targets import WITHOUT_TEACHER, check_teacher, soft_targets

Progress = Callable[[str, int, int], None]  # what is made, how much is done, of how much


@dataclass(frozen=True)
class TrainingPuzzles:
    """Packed puzzles and a teacher's soft targets of them, shared by runs with the same data."""

    splits: Splits
    rows: TensorRecord  # on the device; the first `own_rows` come from the training split
    own_rows: int
    distillation: Distillation | None


def load_puzzles(
    config: RunConfig, device: str, progress: Progress = lambda what, done, total: None
) -> TrainingPuzzles:
    """Read, generate and pack what a config asks for."""
    if config.teacher.checkpoint:
        check_teacher(config.task, config.teacher)  # now, not after puzzles were generated
    task, source = config.task, open_source(config.data or None)
    splits = make_splits(source, task)
    own = build_corpus(task, splits, config.corpus, partial(progress, "synthetic puzzles"))
    held_out = splits.validation, splits.test
    tables = [own, *further_tables(source, task, config.more_data, held_out)]
    questions = np.concatenate([table.questions for table in tables])
    task.check_rows(questions)
    answers = np.concatenate([table.answers for table in tables])
    rows = task.pack(questions, answers, config.augment)
    distillation = None
    if config.teacher.checkpoint:
        slow = f" (slow on a CPU; {WITHOUT_TEACHER})" * (device == "cpu")
        tell = partial(progress, f"soft targets{slow}")
        targets = soft_targets(task, rows, config.teacher, device, tell)
        distillation = Distillation(task, config.teacher.temperature, config.augment, targets)
    return TrainingPuzzles(splits, rows.to(device), len(own), distillation)
