"""Sudoku: 81 cells (16 for boxes of 2), a logit per digit and cell, givens clamped.

Grid codes: 0 blank, 1… digits. The answer z holds `side` digit logits per cell; decoding is the
most likely digit. The energy is appendix B.1 of the paper.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from focus.engines import sudoku_equivalence, sudoku_generator, sudoku_solver
from focus.errors import GivenUpError, UserError
from focus.random import normal, order, uniform, uniforms
from focus.tasks.base import Channel, Codes, Task, Verdict, masked_mean
from focus.tasks.prompt import Cell, Prompt
from focus.tasks.records import Context, Problem, Rows, Target

_WALK = 10  # puzzles grown one from the other in the neighbourhood mode
_PATIENCE = 500_000  # guesses, under a second; the worst of Sudoku-Extreme takes 2,423
_GIVEN_LOGIT = 8.0  # givens stand 16 above the other digits: V_allDiff can reach 0


@dataclass(frozen=True)
class SudokuTarget(Target):
    """The digit of each cell, counted from 0."""

    digit: Int[Tensor, "batch tokens"]


@lru_cache(maxsize=2)
def _bands(box: int, seeds: bytes, like: bytes | None) -> sudoku_generator.SeedBands:
    """Seed puzzles by rating; cached, because every chunk of a generation run needs them."""

    def puzzles(codes: bytes) -> Codes:
        return np.frombuffer(codes, np.uint8).reshape(-1, box**4)

    wanted = None if like is None else puzzles(like)
    return sudoku_generator.SeedBands.of(puzzles(seeds), box, bands=9, like=wanted)


@dataclass(frozen=True)
class Sudoku(Task):
    """The Sudoku task."""

    name = "sudoku"
    dataset = "sudoku-extreme"
    hub_dataset = "sapientinc/sudoku-extreme"
    validation_from = "test"
    can_turn = True
    rules_tell = True

    box: int = 3  # side of a box: 3 for 9x9, 2 for 4x4
    lambda_ce: float = 1.0  # weight of the cross-entropy of the blanks (lambda_CE)
    lambda_hard: float = 0.25  # weight of the hard-cell term (lambda_hard)
    lambda_c: float = 0.20  # weight of V_allDiff (lambda_c)
    hard_fraction: float = 0.25  # share of the blanks that count as hard
    logit_bound: float = 20.0  # hard clip of the digit logits
    candidates: bool = True  # context holds the digits that the givens leave open (ours)
    logit_features: bool = True  # features hold scaled logits beside the probabilities (ours)
    # Times that a language model reads the grid. Once is twice as fast; cells are then read before
    # all of the puzzle has been seen, with a summary of the whole beside each.
    grids_in_prompt: int = 2

    def __post_init__(self):
        if self.box not in (2, 3):
            raise UserError(f"sudoku boxes have side 2 or 3, not {self.box}")
        if self.grids_in_prompt not in (1, 2):
            raise UserError(f"task.grids-in-prompt is 1 or 2, not {self.grids_in_prompt}")

    # ------------------------------------------------------------------ sizes
    @classmethod
    def of_side(cls, side: int | None) -> "Sudoku":
        if side not in (None, 4, 9):
            raise UserError(f"a Sudoku has 9 or 4 cells in a row, not {side}")
        return cls(box=2 if side == 4 else 3)

    @property
    def side(self) -> int:
        """Digits, and cells of a row."""
        return self.box**2

    @property
    def cells(self) -> int:
        return self.box**4

    @property
    def tokens(self) -> int:
        return self.cells

    @property
    def channels(self) -> tuple[Channel, ...]:
        return (Channel("digit", 0, self.side, -self.logit_bound, self.logit_bound),)

    # ------------------------------------------------------------------- text
    @property
    def question_symbols(self) -> dict[str, int]:
        return {".": 0, "0": 0, **self.answer_symbols}

    @property
    def answer_symbols(self) -> dict[str, int]:
        return {str(digit): digit for digit in range(1, self.side + 1)}

    def parse(self, text: str) -> Codes:
        """Digits and dots, on one line or drawn as a grid with | + and lines of dashes."""
        lines = [line for line in text.splitlines() if line.strip(" \t|+-")]
        return super().parse("".join(lines).replace("|", "").replace("+", ""))

    def render(self, question: Codes, answer: Codes | None = None) -> str:
        digits = (question if answer is None else answer).reshape(self.side, self.side)
        rule = "+".join(["-" * (2 * self.box + 1)] * self.box)[1:-1]
        lines = []
        for r, row in enumerate(digits):
            if r and r % self.box == 0:
                lines.append(rule)
            groups = row.reshape(self.box, self.box)
            lines.append(" | ".join(" ".join(str(d) if d else "." for d in g) for g in groups))
        return "\n".join(lines)

    def prompt(self) -> Prompt:
        # Short, because a language model spends as much on a word as on a cell.
        grid = [Cell(cell) for cell in range(self.cells)]
        again = grid if self.grids_in_prompt == 2 else []
        parts: list[str | Cell] = ["Sudoku:", *grid, "\n", *again]
        return Prompt(tuple(parts), tuple(str(d) for d in range(self.side + 1)))

    # ------------------------------------------------- puzzles on the host
    def check(self, question: Codes) -> None:
        """Refuse two equal givens in one row, column or box, naming them."""
        units = sudoku_solver.geometry(self.box).units
        names = ("row", "column", "box")
        for number, unit in enumerate(units):
            given = question[unit][question[unit] > 0]
            values, counts = np.unique(given, return_counts=True)
            if (counts > 1).any():
                where = f"{names[number // self.side]} {number % self.side + 1}"
                raise UserError(
                    f"the givens contradict each other: {values[counts > 1][0]} stands "
                    f"twice in {where}"
                )

    def solve(self, question: Codes) -> Codes:
        self.check(question)
        answers, found, _ = sudoku_solver.solve_many(question[None], self.box, _PATIENCE)
        if found[0] < 0:
            raise GivenUpError(f"the search was given up after {_PATIENCE:,} guesses; add givens")
        if found[0] == 0:
            raise UserError("this Sudoku has no solution; check the givens")
        if found[0] > 1:
            raise UserError("this Sudoku has several solutions; it needs more givens")
        return answers[0]

    def judge(self, questions: Codes, answers: Codes) -> Verdict:
        units = sudoku_solver.geometry(self.box).units
        complete = np.sort(answers[:, units], axis=2) == np.arange(1, self.side + 1)
        keeps = ((questions == 0) | (questions == answers)).all(1)
        valid = complete.all((1, 2)) & keeps
        solutions, found, _ = sudoku_solver.solve_many(questions, self.box, _PATIENCE)
        unique = found == 1
        canonical = unique & (solutions == answers).all(1)
        problems = {}
        for row in np.flatnonzero(~(valid & unique & canonical)):
            if found[row] < 0:
                problems[int(row)] = f"no solution was found with {_PATIENCE:,} guesses"
            elif found[row] == 0:
                problems[int(row)] = "the puzzle has no solution"
            elif found[row] > 1:
                problems[int(row)] = "the puzzle has several solutions"
            elif not keeps[row]:
                problems[int(row)] = "the answer changes a given"
            else:
                problems[int(row)] = "the answer breaks the rules"
        return Verdict(valid, unique, canonical, problems)

    def fingerprint(self, questions: Codes) -> np.ndarray:
        if self.box == 2:
            return super().fingerprint(questions)
        return sudoku_equivalence.invariant_hashes(questions, self.box)

    def equivalent(self, first: Codes, second: Codes) -> bool:
        """Up to symmetry; 4x4 puzzles, which have 288 grids in all, only when equal."""
        if self.box == 2:
            return super().equivalent(first, second)
        return sudoku_equivalence.equivalent(first, second, self.box)

    @property
    def generator_modes(self) -> tuple[str, ...]:
        return ("minimal", "unbiased", "neighbourhood")

    def generate(
        self, seed: int, first_unit: int, count: int, mode: str,
        seeds: Codes | None = None, like: Codes | None = None,
    ) -> tuple[Codes, Codes]:  # fmt: skip
        if mode == "neighbourhood":
            if seeds is None or not len(seeds):
                raise UserError("the neighbourhood mode needs puzzles to start from")
            bands = _bands(self.box, seeds.tobytes(), None if like is None else like.tobytes())
            questions, ratings = sudoku_generator.neighbourhood(
                self.box, seed, first_unit, count, bands, length=_WALK
            )
            questions = questions[ratings >= 0]
        else:
            questions = sudoku_generator.thinned(
                self.box, seed, first_unit, count, unbiased=mode == "unbiased"
            )
        return questions, sudoku_solver.solve_many(questions, self.box)[0]

    def rate(self, questions: Codes) -> np.ndarray:
        return sudoku_solver.solve_many(questions, self.box)[2]

    def turn(self, codes: Codes, keys: Int[Tensor, " rows"]) -> Codes:
        return _moved(torch.from_numpy(codes), *self._symmetry(keys)).numpy()

    def turn_back(self, codes: Codes, keys: Int[Tensor, " rows"]) -> Codes:
        source, digits = self._symmetry(keys)
        return _moved(torch.from_numpy(codes), source.argsort(1), digits.argsort(1)).numpy()

    # --------------------------------------------------- puzzles on the device
    def augment(self, rows: Rows, keys: Int[Tensor, " batch"]) -> Rows:
        source, digits = self._symmetry(keys)
        return rows.map(lambda codes: _moved(codes, source, digits))

    def _symmetry(
        self, keys: Int[Tensor, " batch"]
    ) -> tuple[Int[Tensor, "batch cells"], Int[Tensor, "batch codes"]]:
        """Where each cell comes from, and what each code becomes."""
        side, box, batch = self.side, self.box, len(keys)
        of_digits, bands, lines, stacks, columns, of_turn = uniforms(
            keys,
            ((0, (side,)), (1, (box,)), (2, (box, box)), (3, (box,)), (4, (box, box)), (5, ())),
        )
        digits = order(of_digits) + 1
        digits = torch.cat([torch.zeros_like(digits[:, :1]), digits], 1)
        large, small = order(torch.stack([bands, stacks])), order(torch.stack([lines, columns]))
        rows_from, columns_from = (large[..., None] * box + small).reshape(2, batch, side)
        source = rows_from[:, :, None] * side + columns_from[:, None, :]
        turn = of_turn < 0.5
        source = torch.where(turn[:, None, None], source.transpose(1, 2), source)
        return source.reshape(batch, self.cells), digits

    def augment_opinions(
        self, opinions: UInt8[Tensor, "batch variants steps tokens classes"],
        keys: Int[Tensor, " batch"],
    ) -> UInt8[Tensor, "batch steps tokens classes"]:  # fmt: skip
        source, digits = self._symmetry(keys)
        at = source[:, None, :, None].expand(-1, opinions.shape[2], -1, self.side)
        moved = opinions[:, 0].gather(2, at)
        becomes = (digits[:, 1:] - 1)[:, None, None].expand_as(moved)
        return torch.zeros_like(moved).scatter(3, becomes, moved)

    def unpack(self, rows: Rows) -> tuple[Problem, SudokuTarget]:
        clues = rows.question.long()
        cell = torch.arange(self.cells, device=clues.device).expand_as(clues)
        problem = Problem(clues, cell, torch.ones_like(clues, dtype=torch.bool))
        return problem, SudokuTarget((rows.answer.long() - 1).clamp(min=0))

    @property
    def category_sizes(self) -> tuple[int, ...]:
        return (self.side, 2)

    @property
    def context_bits(self) -> int:
        return self.side

    def context(self, x: Problem) -> Context:
        row, column = x.cell // self.side, x.cell % self.side
        box = row // self.box * self.box + column // self.box
        given = x.grid > 0
        one_hot = torch.nn.functional.one_hot(x.grid, self.side + 1)[..., 1:]
        bits = one_hot.float()
        if self.candidates:
            seen = self._unit_sums(bits)
            left = ((seen[0] + seen[1] + seen[2]) == 0).float()
            bits = torch.where(given[..., None], bits, left)
        return Context(torch.stack([row, column], -1), torch.stack([box, given.long()], -1), bits)

    def _unit_sums(self, values: Float[Tensor, "*lead cells digits"]) -> tuple[Tensor, ...]:
        """Each cell's row, column and box sums of a value per cell and digit."""
        box, side = self.box, self.side
        grid = values.unflatten(-2, (box, box, box, box))  # band, row, stack, column
        sums = grid.sum((-3, -2), keepdim=True), grid.sum((-5, -4), keepdim=True)
        boxes = grid.sum((-4, -2), keepdim=True)
        shape = (*values.shape[:-2], box, box, box, box, side)
        return tuple(s.expand(shape).reshape(values.shape) for s in (*sums, boxes))

    @property
    def relation_names(self) -> tuple[str, ...]:
        return ("row", "column", "box")

    def relations(self, x: Problem) -> Bool[Tensor, "shared relations tokens tokens"]:
        return _relations(self.box, x.grid.device)

    def members(self, x: Problem) -> Float[Tensor, "relations tokens groups"]:
        return _members(self.box, x.grid.device)

    def messages(
        self, h: Float[Tensor, "batch tokens width"], x: Problem
    ) -> tuple[Float[Tensor, "batch tokens slots width"], None]:
        """The means over row, column and box, as sums of a reshaped grid."""
        grid = h.unflatten(1, (self.box,) * 4)
        units = [grid.sum(axes, keepdim=True) for axes in ((3, 4), (1, 2), (2, 4))]
        others = [((unit - grid) / (self.side - 1)).flatten(1, 4) for unit in units]
        return torch.stack(others, 2), None

    # --------------------------------------------------------------- the answer
    def initial(self, x: Problem) -> Float[Tensor, "batch tokens channels"]:
        blank = torch.zeros(*x.grid.shape, self.side, device=x.grid.device)
        return self.clamp(blank, x)

    def clamp(
        self, z: Float[Tensor, "batch tokens channels"], x: Problem
    ) -> Float[Tensor, "batch tokens channels"]:
        one_hot = torch.nn.functional.one_hot((x.grid - 1).clamp(min=0), self.side)
        given = (one_hot * 2 - 1).to(z.dtype) * _GIVEN_LOGIT
        return torch.where((x.grid > 0)[..., None], given, z)

    def features(
        self, z: Float[Tensor, "batch tokens channels"], x: Problem
    ) -> Float[Tensor, "batch tokens features"]:
        probabilities = z.softmax(-1)
        if not self.logit_features:
            return probabilities
        return torch.cat([probabilities, z / 8], -1)

    @property
    def feature_width(self) -> int:
        return self.side * (2 if self.logit_features else 1)

    def decode(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: Problem
    ) -> Int[Tensor, "*lead batch tokens"]:
        return z.argmax(-1)

    def open_tokens(self, x: Problem) -> Bool[Tensor, "batch tokens"]:
        return x.grid == 0

    def answer_codes(self, answer: Int[Tensor, "batch tokens"], x: Problem) -> Codes:
        return (answer + 1).cpu().numpy().astype(np.uint8)

    def answer_tokens(self, codes: Codes, x: Problem) -> Int[Tensor, "batch tokens"]:
        return torch.as_tensor(codes, device=x.cell.device).long() - 1

    def reference(self, y: SudokuTarget) -> Int[Tensor, "batch tokens"]:
        return y.digit

    def solved_state(
        self, x: Problem, y: SudokuTarget, sharpness: float = 8.0
    ) -> Float[Tensor, "batch tokens channels"]:
        one_hot = torch.nn.functional.one_hot(y.digit, self.side)
        return self.clamp((one_hot * 2 - 1).float() * sharpness, x)

    def corrupt(
        self, x: Problem, y: SudokuTarget, keys: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch tokens channels"]:
        """10-60 % of the blanks get a random wrong digit; unit noise on logits of +-4."""
        share = 0.1 + 0.5 * uniform(keys, 10, 1)
        wrong = uniform(keys, 11, self.cells) < share
        shift = 1 + (uniform(keys, 12, self.cells) * (self.side - 1)).long()
        digit = torch.where(wrong, (y.digit + shift) % self.side, y.digit)
        one_hot = torch.nn.functional.one_hot(digit, self.side)
        noise = normal(keys, 13, self.cells, self.side)
        return self.clamp((one_hot * 2 - 1).float() * 4 + noise, x)

    # ----------------------------------------------------------------- learning
    def energy_terms(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: Problem, y: SudokuTarget
    ) -> dict[str, Float[Tensor, "*lead batch"]]:
        log_p = z.float().log_softmax(-1)
        target = y.digit.expand(log_p.shape[:-1])[..., None]
        blank = x.grid == 0
        ce = -log_p.gather(-1, target)[..., 0] * blank
        count = blank.sum(-1)
        # The hardest cells: a fixed top-k that holds the largest share, cut per example.
        most = max(1, math.ceil(self.hard_fraction * self.cells))
        hardest = ce.topk(most, dim=-1).values
        wanted = (count * self.hard_fraction).ceil().clamp(min=1)
        taken = torch.arange(most, device=z.device) < wanted[:, None]
        p = log_p.exp().unflatten(-2, (self.box,) * 4)
        rows, columns = p.sum((-3, -2)), p.sum((-5, -4))
        boxes = p.sum((-4, -2))
        violation = sum(((s - 1) ** 2).sum((-3, -2, -1)) for s in (rows, columns, boxes))
        return {
            "ce": self.lambda_ce * ce.sum(-1) / count.clamp(min=1),
            "hard": self.lambda_hard * masked_mean(hardest, taken),
            "all_different": self.lambda_c * violation / (3 * self.side * self.side),
        }

    def diagnostics(
        self, answer: Int[Tensor, "batch tokens"], x: Problem, y: SudokuTarget
    ) -> dict[str, Float[Tensor, " batch"]]:
        """Cell accuracy over all cells, and whether rules are obeyed and givens kept."""
        used = torch.nn.functional.one_hot(answer, self.side).float()
        once = torch.stack(self._unit_sums(used)).eq(1) | (used == 0)
        keeps = (x.grid == 0) | (answer + 1 == x.grid)
        return {
            "cell_accuracy": (answer == y.digit).float().mean(-1),
            "valid": (once.all(0).all(-1) & keeps).all(-1).float(),
        }


def _moved(
    codes: UInt8[Tensor, "batch cells"], source: Int[Tensor, "batch cells"],
    digits: Int[Tensor, "batch codes"],
) -> UInt8[Tensor, "batch cells"]:  # fmt: skip
    """Codes taken from where each cell comes from, as what each becomes."""
    return digits.gather(1, codes.long().gather(1, source)).to(codes.dtype)


@lru_cache
def _members(box: int, device: torch.device) -> Float[Tensor, "relations tokens groups"]:
    """Row, column and box of each cell as one-hot numbers."""
    units = sudoku_solver.geometry(box).unit_of.astype(np.int64).T
    numbers = torch.from_numpy(units - units.min(1, keepdims=True))
    return torch.nn.functional.one_hot(numbers, box * box).float().to(device)


@lru_cache
def _relations(box: int, device: torch.device) -> Bool[Tensor, "shared relations tokens tokens"]:
    """Same row, same column, same box."""
    members = _members(box, device)
    return (members @ members.mT > 0)[None]
