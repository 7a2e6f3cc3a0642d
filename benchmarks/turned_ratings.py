"""Are neighbourhood Sudokus as hard as the test set's, however they are turned?

    FOCUS_DATA=DIR python -m benchmarks.turned_ratings         # a minute on two cores

A rating (guesses of our solver) depends on the orientation of a puzzle. This averages it over six
random symmetries of 2,000 generated and 2,000 test puzzles and prints both distances.
"""

import json
import os
import tempfile
from pathlib import Path

import numpy as np
import torch

from focus.data.generation import Order, generate_table, ks_distance
from focus.data.sources import open_source
from focus.random import example_keys
from focus.tasks import Sudoku

TURNS, COUNT = 6, 2000


def turned_ratings(task: Sudoku, questions: np.ndarray) -> np.ndarray:
    rows = task.pack(questions, questions)
    example = torch.arange(len(questions))
    turned = [task.augment(rows, example_keys(0, turn, example)) for turn in range(TURNS)]
    return np.mean([task.rate(one.question.numpy()) for one in turned], axis=0)


def main() -> None:
    task, source = Sudoku(), open_source(None)
    like = source.load(task, "train").questions
    pool = np.concatenate([like, source.load(task, "extra").questions])
    test = source.load(task, "test").questions[:COUNT]
    with tempfile.TemporaryDirectory() as folder:
        order = Order(COUNT, 3, "neighbourhood", os.cpu_count() or 1, pool, like)
        grown = generate_table(task, order, Path(folder, "parts")).questions
    ours, theirs = turned_ratings(task, grown), turned_ratings(task, test)
    result = {
        "ks_distance_as_stored": round(ks_distance(task.rate(grown), task.rate(test)), 3),
        "ks_distance_turned": round(ks_distance(ours, theirs), 3),
        "median_turned_generated": round(float(np.median(ours))),
        "median_turned_test": round(float(np.median(theirs))),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
