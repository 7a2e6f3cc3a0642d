"""A task of your own in one file: complete a Latin square.

Every row and every column holds each of the digits 1 to 5 once. The file is all there is to it;
an entry point makes it known (docs/tutorials/add-a-task.md).
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from focus.errors import UserError
from focus.random import uniform
from focus.tasks.base import Channel, Codes, Task, Verdict, masked_mean
from focus.tasks.prompt import Cell, Prompt
from focus.tasks.records import Context, Problem, Rows, Target


@dataclass(frozen=True)
class LatinTarget(Target):
    """The digit of each cell, counted from 0."""

    digit: Int[Tensor, "batch tokens"]


def solutions(square: np.ndarray, limit: int = 2) -> list[np.ndarray]:
    """Up to `limit` completions of a (side, side) square, by plain backtracking."""
    blanks = np.argwhere(square == 0)
    if not len(blanks):
        return [square.copy()]
    r, c = blanks[0]
    found: list[np.ndarray] = []
    for digit in set(range(1, len(square) + 1)) - {*square[r].tolist(), *square[:, c].tolist()}:
        square[r, c] = digit
        found += solutions(square, limit - len(found))
        if len(found) >= limit:
            break
    square[r, c] = 0
    return found


@dataclass(frozen=True)
class LatinSquares(Task):
    """Latin squares of a given side."""

    name = "latin"
    dataset = "latin-squares"

    side: int = 5  # cells of a row, and digits
    lambda_different: float = 0.2  # weight of the violation of rows and columns

    # ------------------------------------------------------------------ sizes
    @classmethod
    def of_side(cls, side: int | None) -> "LatinSquares":
        if side is not None and not 2 <= side <= 9:
            raise UserError(f"a Latin square has 2 to 9 cells in a row, not {side}")
        return cls() if side is None else cls(side=side)

    @property
    def cells(self) -> int:
        return self.side**2

    @property
    def tokens(self) -> int:
        return self.cells

    @property
    def channels(self) -> tuple[Channel, ...]:
        return (Channel("digit", 0, self.side, -20.0, 20.0),)

    # ------------------------------------------------------------------- text
    @property
    def question_symbols(self) -> dict[str, int]:
        return {".": 0, **self.answer_symbols}

    @property
    def answer_symbols(self) -> dict[str, int]:
        return {str(digit): digit for digit in range(1, self.side + 1)}

    def check(self, question: Codes) -> None:
        square = question.reshape(self.side, self.side)
        for name, lines in (("row", square), ("column", square.T)):
            for number, line in enumerate(lines, 1):
                given = line[line > 0]
                if len(np.unique(given)) < len(given):
                    raise UserError(f"{name} {number} has a digit twice")

    def prompt(self) -> Prompt:
        grid = [Cell(cell) for cell in range(self.cells)]
        return Prompt(
            ("Complete this Latin square.\n", *grid, "\nAgain:\n", *grid),
            tuple(str(digit) for digit in range(self.side + 1)),
        )

    # ------------------------------------------------- puzzles on the host
    def solve(self, question: Codes) -> Codes:
        self.check(question)
        found = solutions(question.reshape(self.side, self.side).copy())
        if len(found) != 1:
            raise UserError(f"this Latin square has {'several' if found else 'no'} solutions")
        return found[0].reshape(-1)

    def judge(self, questions: Codes, answers: Codes) -> Verdict:
        squares = answers.reshape(-1, self.side, self.side)
        digits = np.arange(1, self.side + 1)
        valid = (np.sort(squares, 1) == digits[:, None]).all((1, 2))
        valid &= (np.sort(squares, 2) == digits).all((1, 2))
        valid &= ((questions == 0) | (questions == answers)).all(1)
        found = [solutions(q.reshape(self.side, self.side).copy()) for q in questions]
        unique = np.array([len(squares) == 1 for squares in found])
        problems = {int(row): "no unique solution" for row in np.flatnonzero(~(valid & unique))}
        return Verdict(valid, unique, valid & unique, problems)

    @property
    def generator_modes(self) -> tuple[str, ...]:
        return ("minimal",)

    def generate(
        self, seed: int, first_unit: int, count: int, mode: str,
        seeds: Codes | None = None, like: Codes | None = None,
    ) -> tuple[Codes, Codes]:  # fmt: skip
        questions = np.zeros((count, self.cells), np.uint8)
        answers = questions.copy()
        for row in range(count):
            rng = np.random.default_rng([seed, first_unit + row])
            cycle = (np.arange(self.side)[:, None] + np.arange(self.side)) % self.side + 1
            square = cycle[rng.permutation(self.side)][:, rng.permutation(self.side)]
            square = (rng.permutation(self.side) + 1)[square - 1]
            answers[row] = questions[row] = square.reshape(-1)
            for cell in rng.permutation(self.cells):
                kept, questions[row, cell] = questions[row, cell], 0
                if len(solutions(questions[row].reshape(self.side, self.side).copy())) > 1:
                    questions[row, cell] = kept
        return questions, answers

    def rate(self, questions: Codes) -> np.ndarray:
        return (questions == 0).sum(1)

    # --------------------------------------------------- puzzles on the device
    def unpack(self, rows: Rows) -> tuple[Problem, LatinTarget]:
        clues = rows.question.long()
        cell = torch.arange(self.cells, device=clues.device).expand_as(clues)
        problem = Problem(clues, cell, torch.ones_like(clues, dtype=torch.bool))
        return problem, LatinTarget((rows.answer.long() - 1).clamp(min=0))

    @property
    def category_sizes(self) -> tuple[int, ...]:
        return (2,)

    @property
    def context_bits(self) -> int:
        return self.side

    def context(self, x: Problem) -> Context:
        position = torch.stack([x.cell // self.side, x.cell % self.side], -1)
        bits = one_hot(x.grid, self.side + 1)[..., 1:].float()
        return Context(position, (x.grid > 0).long()[..., None], bits)

    @property
    def relation_names(self) -> tuple[str, ...]:
        return ("row", "column")

    def relations(self, x: Problem) -> Bool[Tensor, "shared relations tokens tokens"]:
        cell = torch.arange(self.cells, device=x.grid.device)
        lines = torch.stack([cell // self.side, cell % self.side])
        return (lines[:, :, None] == lines[:, None, :])[None]

    # --------------------------------------------------------------- the answer
    def initial(self, x: Problem) -> Float[Tensor, "batch tokens channels"]:
        return self.clamp(torch.zeros(*x.grid.shape, self.side, device=x.grid.device), x)

    def clamp(
        self, z: Float[Tensor, "batch tokens channels"], x: Problem
    ) -> Float[Tensor, "batch tokens channels"]:
        given = (one_hot((x.grid - 1).clamp(min=0), self.side) * 16 - 8).to(z.dtype)
        return torch.where((x.grid > 0)[..., None], given, z)

    def features(
        self, z: Float[Tensor, "batch tokens channels"], x: Problem
    ) -> Float[Tensor, "batch tokens features"]:
        return z.softmax(-1)

    @property
    def feature_width(self) -> int:
        return self.side

    def decode(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: Problem
    ) -> Int[Tensor, "*lead batch tokens"]:
        return z.argmax(-1)

    def answer_codes(self, answer: Int[Tensor, "batch tokens"], x: Problem) -> Codes:
        return (answer + 1).cpu().numpy().astype(np.uint8)

    def answer_tokens(self, codes: Codes, x: Problem) -> Int[Tensor, "batch tokens"]:
        return torch.as_tensor(codes, device=x.cell.device).long() - 1

    def reference(self, y: LatinTarget) -> Int[Tensor, "batch tokens"]:
        return y.digit

    def solved_state(
        self, x: Problem, y: LatinTarget, sharpness: float = 8.0
    ) -> Float[Tensor, "batch tokens channels"]:
        return self.clamp((one_hot(y.digit, self.side) * 2.0 - 1) * sharpness, x)

    def corrupt(
        self, x: Problem, y: LatinTarget, keys: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch tokens channels"]:
        wrong = uniform(keys, 10, self.cells) < 0.3
        shift = 1 + (uniform(keys, 11, self.cells) * (self.side - 1)).long()
        digit = torch.where(wrong, (y.digit + shift) % self.side, y.digit)
        return self.clamp(one_hot(digit, self.side) * 8.0 - 4, x)

    # ----------------------------------------------------------------- learning
    def energy_terms(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: Problem, y: LatinTarget
    ) -> dict[str, Float[Tensor, "*lead batch"]]:
        log_p = z.float().log_softmax(-1)
        ce = -log_p.gather(-1, y.digit.expand(log_p.shape[:-1])[..., None])[..., 0]
        grid = log_p.exp().unflatten(-2, (self.side, self.side))
        lines = torch.cat([grid.sum(-2), grid.sum(-3)], -2)
        return {
            "ce": masked_mean(ce, x.grid == 0),
            "different": self.lambda_different * ((lines - 1) ** 2).mean((-2, -1)),
        }

    def diagnostics(
        self, answer: Int[Tensor, "batch tokens"], x: Problem, y: LatinTarget
    ) -> dict[str, Float[Tensor, " batch"]]:
        return {"cell_accuracy": (answer == y.digit).float().mean(-1)}
