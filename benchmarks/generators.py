"""How fast puzzles are generated, and how like the real ones they are.

    FOCUS_DATA=DIR python -m benchmarks.generators [--json]

Neighbourhood Sudokus a second on all cores (with the time 50,000 would take and their
Kolmogorov-Smirnov distance to the test set's ratings), minimal Sudokus against py-sudoku's
generator, and Maze-Hard-like mazes a second on one core against the same generator written with
a plain Python search, with wall share and path length beside the real set's.
"""

import argparse
import json
import os
import random
import tempfile
import time
from collections import deque
from pathlib import Path

import numpy as np

from focus.data.generation import GenerationSpec, generate_table, ks_distance
from focus.data.sources import Folder, open_source
from focus.tasks import Maze, Sudoku


def python_maze(rng: random.Random, size: int = 30, least: int = 109) -> None:
    """One maze with the farthest goal, by double sweep in plain Python."""
    while True:
        share = rng.uniform(0.30, 0.46)
        walls = [rng.random() < share for _ in range(size * size)]

        def sweep(start, walls=walls):
            distance, queue, last = {start: 0}, deque([start]), start
            while queue:
                last = queue.popleft()
                r, c = divmod(last, size)
                for rr, cc in ((r + 1, c), (r, c - 1), (r, c + 1), (r - 1, c)):
                    cell = rr * size + cc
                    inside = 0 <= rr < size and 0 <= cc < size
                    if inside and not walls[cell] and cell not in distance:
                        distance[cell] = distance[last] + 1
                        queue.append(cell)
            return last, distance[last]

        start = rng.randrange(size * size)
        if walls[start]:
            continue
        end, depth = sweep(start)
        if 2 * depth >= least and sweep(end)[1] >= least:
            return


def sudokus(seconds: float) -> dict:
    task, source, result = Sudoku(), open_source(None), {}
    from sudoku import Sudoku as PySudoku

    start, made = time.perf_counter(), 0
    while time.perf_counter() - start < seconds / 4:
        PySudoku(3, seed=made).difficulty(0.6)
        made += 1
    rival = made / (time.perf_counter() - start)
    task.generate(0, 0, 1, "minimal")
    start = time.perf_counter()
    task.generate(0, 0, 1000, "minimal")
    result["minimal_per_second_a_core"] = round(1000 / (time.perf_counter() - start))
    result["minimal_over_py_sudoku"] = round(result["minimal_per_second_a_core"] / rival, 2)
    if isinstance(source, Folder):
        like = source.load(task, "train").questions
        seeds = np.concatenate([like, source.load(task, "extra").questions])
        test = source.load(task, "test").questions
        workers = os.cpu_count() or 1
        task.generate(0, 0, 1, "neighbourhood", seeds, like)
        count = max(500, int(40 * workers * seconds))
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            spec = GenerationSpec(count, 1, "neighbourhood", workers, seeds, like)
            table = generate_table(task, spec, Path(folder, "parts"))
            taken = time.perf_counter() - start
        result["neighbourhood_per_second"] = round(count / taken, 1)
        result["neighbourhood_workers"] = workers
        ratings = table.columns["rating"].astype(int)
        result["ks_distance_to_test"] = round(ks_distance(ratings, task.rate(test)), 3)
    return result


def mazes(seconds: float) -> dict:
    task, source, result = Maze(), open_source(None), {}
    task.generate(0, 0, 1, "distant")
    for mode in task.generator_modes:
        start, made = time.perf_counter(), 0
        while time.perf_counter() - start < seconds / 2:
            questions, _ = task.generate(made, 0, 200, mode)
            made += len(questions)
        result[f"{mode}_per_second_a_core"] = round(made / (time.perf_counter() - start))
        result[f"{mode}_wall_share"] = round(float((questions == 0).mean()), 3)
        result[f"{mode}_median_moves"] = int(np.median(task.rate(questions)))
    rng, start, made = random.Random(0), time.perf_counter(), 0
    while time.perf_counter() - start < seconds / 2:
        python_maze(rng)
        made += 1
    rival = made / (time.perf_counter() - start)
    result["farthest_over_plain_python"] = round(result["farthest_per_second_a_core"] / rival)
    if isinstance(source, Folder):
        real = source.load(task, "test").questions
        result["real_wall_share"] = round(float((real == 0).mean()), 3)
        result["real_median_moves"] = int(np.median(task.rate(real)))
        many, _ = task.generate(9, 0, 1000, "distant")
        result["ks_distance_of_moves"] = round(ks_distance(task.rate(many), task.rate(real)), 3)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=20, help="time per measurement")
    arguments = parser.parse_args()
    result = {"sudoku": sudokus(arguments.seconds), "maze": mazes(arguments.seconds)}
    if arguments.json:
        print(json.dumps(result))
        return
    for name, values in result.items():
        print(name)
        for key, value in values.items():
            print(f"  {key.replace('_', ' ')}: {value}")


if __name__ == "__main__":
    main()
