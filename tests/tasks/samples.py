"""Batches to test with: generated puzzles of small and full size."""

import torch

from focus.tasks import Maze, Sudoku, Task
from focus.tasks.prompt import tokenize_prompt

TASKS = {
    "sudoku4": Sudoku(box=2),
    "sudoku9": Sudoku(),
    "maze6": Maze(size=6, min_path=6),
    "maze10": Maze(size=10, min_path=15, max_tokens=92),
}


def rows(task: Task, seed: int, count: int, augment: bool = False):
    questions, answers = task.generate(seed, 0, count, task.generator_modes[0])
    assert len(questions) == count
    return task.pack(questions, answers, augment)


def batch(task: Task, seed: int = 0, count: int = 4):
    return task.unpack(rows(task, seed, count))


def random_state(task: Task, x, seed: int, scale: float = 4.0):
    """An arbitrary z inside the bounds, clamped as an update would leave it."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(*x.cell.shape, task.width, generator=generator) * scale
    low, high = task.bounds(z.device)
    return task.clamp(z.clamp(low, high), x)


def check_prompt(task: Task, encode, decode, begin=()) -> None:
    """Every cell is the one token of its symbol, and the ids read back as the prompt's text."""
    tokens = tokenize_prompt(task.prompt(), encode, begin, decode)
    question = task.generate(1, 0, 1, task.generator_modes[0])[0]
    ids = tokens.ids(torch.as_tensor(question).long())[0]
    read = [decode([i]) for i in ids[tokens.readout].tolist()]
    assert read == [task.prompt().symbols[code] for code in question[0]]
    assert decode(ids.tolist()[len(begin) :]) == task.prompt().text(question[0])
