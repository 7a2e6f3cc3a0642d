"""Puzzles to try, made by the built-in generators: no benchmark data is shown."""

import numpy as np

from focus.errors import UserError
from focus.settings import check_seed
from focus.tasks.base import Codes, Task

LEVELS = ("easy", "medium", "hard", "extreme")
_DRAWN = 64  # puzzles that a level is chosen from


def check_example(level: str, seed: int) -> None:
    """Refuse a level or a seed that there is not."""
    if level not in LEVELS:
        raise UserError(f"the levels are {', '.join(LEVELS)}, not {level!r}")
    check_seed(seed)


def example(task: Task, level: str, seed: int) -> Codes:
    """A puzzle of a level; the same seed gives the same puzzle.

    Levels are ranks among generated puzzles by what they cost our own search; of equal ones
    those with fewer givens count as harder. An easy Sudoku also tells a sixth of its cells.
    """
    check_example(level, seed)
    questions, answers = task.generate(seed, 0, _DRAWN, task.generator_modes[0])
    if not len(questions):
        raise UserError(f"the generator found no {task.name} of this size; try another seed")
    blanks = (questions != answers).sum(1)
    order = np.lexsort((blanks, task.rate(questions)))
    place = {"easy": 0.0, "medium": 0.4, "hard": 0.85, "extreme": 1.0}[level]
    row = order[round(place * (len(order) - 1))]
    if level == "easy":
        return task.add_givens(questions[row], answers[row], seed)
    return questions[row].copy()
