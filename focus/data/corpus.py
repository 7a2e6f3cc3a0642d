"""The puzzles that a run learns from, made of a training split.

The paper trains on 707 source puzzles under 100 symmetries each (71,407 examples with the sources
themselves) and 50,000 synthetic puzzles. Which sources, which symmetries and which synthetic
puzzles follows from one published seed. Synthetic puzzles are generated once and cached.
"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch

from focus.data.generation import GenerationSpec, generate_file
from focus.data.splits import PAPER_SEED, Splits
from focus.data.table import Table, read_table
from focus.errors import UserError
from focus.folders import cache_folder
from focus.random import example_keys
from focus.settings import AtLeast, Settings
from focus.tasks.base import Task

_MOST_ROWS = 20_000_000  # of stored symmetries: 3 GB of Sudokus


@dataclass(frozen=True)
class CorpusConfig(Settings, section="corpus"):
    """What is made of the training split; as it is by default."""

    # training puzzles that are used, drawn by the seed; 0 = all (707)
    sources: Annotated[int, AtLeast(0)] = 0
    # symmetries of each that are stored beside it; 0 = none (100)
    symmetries: Annotated[int, AtLeast(0, 10_000)] = 0
    # generated puzzles beside them, none equivalent to a held-out one; 0 = none (50,000)
    synthetic: Annotated[int, AtLeast(0, 10_000_000)] = 0
    mode: str = ""  # how they are generated; "" = grown from the sources, where the task can
    seed: Annotated[int, AtLeast(0)] = PAPER_SEED  # of all three draws


def build_corpus(
    task: Task, splits: Splits, config: CorpusConfig,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Table:  # fmt: skip
    """The training table of a run.

    `progress` is told how many puzzles are generated, of how many.
    """
    sources = _drawn(splits.train, config)
    tables = [sources, *_transformed(task, sources, config)]
    if config.synthetic:
        tables.append(_synthetic(task, sources, splits, config, progress))
    if len(tables) == 1:
        return sources
    questions, answers = (
        np.concatenate([getattr(table, name) for table in tables])
        for name in ("questions", "answers")
    )
    return Table(questions, answers, np.arange(len(questions)), f"corpus of {sources.origin}")


def _drawn(train: Table, config: CorpusConfig) -> Table:
    if not config.sources:
        return train
    if len(train) < config.sources:
        raise UserError(
            f"corpus.sources: {config.sources:,} training puzzles are wanted, {train.origin} has "
            f"{len(train):,}; give another --data, or --corpus.sources 0 for all of them"
        )
    chosen = np.random.default_rng(config.seed).choice(len(train), config.sources, replace=False)
    return train[np.sort(chosen)]


def _transformed(task: Task, sources: Table, config: CorpusConfig) -> list[Table]:
    """A table for each of the stored symmetries."""
    if config.symmetries and not task.symmetries_keep_answer:
        raise UserError(f"corpus.symmetries: those of a {task.name} change its answer; set 0")
    if len(sources) * config.symmetries > _MOST_ROWS:
        raise UserError(
            f"corpus.symmetries: {config.symmetries:,} of each of {len(sources):,} puzzles are "
            f"more than the {_MOST_ROWS:,} that are stored; --augment True draws them in training"
        )
    row, tables = torch.arange(len(sources)), []
    for number in range(1, config.symmetries + 1):
        keys = example_keys(config.seed, number, row)
        questions, answers = (
            task.transform(codes, keys) for codes in (sources.questions, sources.answers)
        )
        tables.append(Table(questions, answers, sources.ids, sources.origin))
    return tables


def _synthetic(
    task: Task, sources: Table, splits: Splits, config: CorpusConfig,
    progress: Callable[[int, int], None],
) -> Table:  # fmt: skip
    """Generated puzzles, from the cache where they are there."""
    grows = "neighbourhood" in task.generator_modes
    mode = config.mode or ("neighbourhood" if grows else task.generator_modes[0])
    seeds = sources.questions if mode == "neighbourhood" else None
    held_out = splits.validation.questions, splits.test.questions
    spec = GenerationSpec(
        config.synthetic, config.seed, mode, os.cpu_count() or 1, seeds, seeds, held_out
    )
    name = hashlib.sha256(json.dumps([spec.plan(task), config.synthetic]).encode())
    for questions in held_out:
        name.update(questions.tobytes())
    path = cache_folder() / "puzzles" / f"{task.name}-{name.hexdigest()[:16]}.csv.gz"
    if path.is_file():
        return read_table(path, task)
    return generate_file(task, spec, path, lambda done: progress(done, config.synthetic))
