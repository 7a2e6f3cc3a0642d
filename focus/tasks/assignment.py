"""A family of tasks: every cell gets one of some classes, and cells of a group differ.

Sudoku is one (rows, columns and boxes hold each digit once). A new one says how many classes there
are and which cells form groups; rules of other kinds are added as pairs that exclude each other.
The rest follows: text, check, search, generator, tensors, energy. docs/examples holds two.

Codes: 0 blank, 1… the classes. The answer z holds a logit per cell and class; decoding is the most
likely class. The energy is appendix B.1 of the paper, there for Sudoku.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from focus.errors import GivenUpError, UserError
from focus.random import Stream, normal, order, uniform, uniforms
from focus.settings import Above, Share, Weight, check_ranges
from focus.tasks.assignment_rules import (
    TableName,
    all_conflicts,
    beyond_position,
    further_conflicts,
    group_count,
    group_numbers,
    search_table,
    table,
)
from focus.tasks.assignment_search import Search
from focus.tasks.base import (
    LOG_FLOOR,
    AnswerFeatures,
    Channel,
    Codes,
    Task,
    Verdict,
    first_reasons,
    masked_mean,
)
from focus.tasks.records import Context, Problem, Rows, Target, constant_when_compiled

_SYMBOLS = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_GIVEN_LOGIT = 8.0  # givens stand 16 above the other classes: V_allDiff can reach 0
_CHUNK = 4096  # rows that are judged at once: a bound on memory


@dataclass(frozen=True)
class AssignmentTarget(Target):
    """The class of each cell, counted from 0."""

    label: Int[Tensor, "batch tokens"]


@dataclass(frozen=True, kw_only=True)
class Assignment(Task):
    """A task whose answer is a class for every cell; puzzles have exactly one solution."""

    valid_is_correct = True
    patience = 50_000  # guesses of the search before it is given up

    lambda_ce: Weight = 1.0  # weight of the cross-entropy of the blanks (lambda_CE)
    lambda_hard: Weight = 0.25  # weight of the hard-cell term (lambda_hard)
    lambda_c: Weight = 0.20  # weight of the violated rules: V_allDiff and further ones (lambda_c)
    # share of the blanks that count as hard
    hard_fraction: Annotated[float, Share(above_zero=True)] = 0.25
    # hard clip of the class logits
    logit_bound: Annotated[float, Above(0)] = 20.0
    candidates: bool = True  # context holds the classes that the givens leave open (ours)
    # False, a control of ours: a language model alone tells the updater what is given
    givens_shown: bool = True
    # what the updater sees of the answer beside its probabilities (ours); raw logits run away
    answer_features: AnswerFeatures = "log-probabilities"
    # Times that a language model reads the grid. Once is half the work for it; cells are then read
    # before all of the puzzle has been seen, with a summary of the whole beside each.
    grids_in_prompt: int = 2

    def __post_init__(self):
        if self.classes > len(_SYMBOLS):
            raise UserError(f"{self.name} has {self.classes} classes, {len(_SYMBOLS)} at most")
        if self.grids_in_prompt not in (1, 2):
            raise UserError(f"task.grids-in-prompt is 1 or 2, not {self.grids_in_prompt}")
        check_ranges(self, "task")

    # ------------------------------------------------------------------ to write
    @property
    @abstractmethod
    def classes(self) -> int:
        """Classes that a cell can have."""

    @abstractmethod
    def groups(self) -> dict[str, np.ndarray]:
        """Relations by name: the group of each cell, (cells,) numbers from 0, -1 for none.

        Cells of one group have different classes.
        """

    def conflicts(self) -> np.ndarray | None:
        """Further rules: pairs that exclude each other, (cells, classes, cells, classes) bool."""
        return None

    # ------------------------------------------------------------ the rules as tables
    # A compiler takes what these return as constants: it cannot see through caches and NumPy.
    @constant_when_compiled
    def _table(self, name: TableName, device: torch.device) -> Tensor:
        return table(self, name, device)

    @constant_when_compiled
    def _cells(self) -> int:
        return group_numbers(self).shape[1]

    @constant_when_compiled
    def _group_count(self) -> int:
        return group_count(self)

    @constant_when_compiled
    def _has_further_rules(self) -> bool:
        return further_conflicts(self) is not None

    # ------------------------------------------------------------ sizes and text
    @property
    def cells(self) -> int:
        return self._cells()

    @property
    def channels(self) -> tuple[Channel, ...]:
        return (Channel("class", 0, self.classes, -self.logit_bound, self.logit_bound),)

    @property
    def question_symbols(self) -> dict[str, int]:
        return {".": 0, "0": 0, **self.answer_symbols}

    @property
    def answer_symbols(self) -> dict[str, int]:
        return {symbol: code for code, symbol in enumerate(_SYMBOLS[: self.classes], 1)}

    def check(self, question: Codes) -> None:
        """Refuse givens that exclude each other, naming the group or the cells."""
        contradiction = "the givens contradict each other:"
        for name, numbers in zip(self.relation_names, group_numbers(self), strict=True):
            for group in range(numbers.max() + 1):
                codes = question[(numbers == group) & (question > 0)]
                values, counts = np.unique(codes, return_counts=True)
                if (counts > 1).any():
                    symbol = _SYMBOLS[values[counts > 1][0] - 1]
                    raise UserError(f"{contradiction} {symbol} stands twice in {name} {group + 1}")
        given = np.flatnonzero(question)
        codes = question[given]
        clash = all_conflicts(self)[given[:, None], codes[:, None] - 1, given, codes - 1]
        if clash.any():
            one, other = np.argwhere(clash)[0]
            raise UserError(
                f"{contradiction} {_SYMBOLS[codes[one] - 1]} in cell {given[one] + 1} excludes "
                f"{_SYMBOLS[codes[other] - 1]} in cell {given[other] + 1}"
            )

    # ------------------------------------------------- puzzles on the host
    def search(
        self, questions: Codes, patience: int | None = None
    ) -> tuple[Codes, np.ndarray, np.ndarray]:
        """An answer to each question, how many there are, and the guesses it took to know.

        2 stands for several answers, -1 for a search that was given up after `patience` guesses.
        """
        answers = np.zeros_like(questions)
        counts, guesses = np.zeros((2, len(questions)), np.int64)
        for row, question in enumerate(questions):
            search = Search(self.classes, search_table(self), patience)
            try:
                solutions = search.solutions(question)
                counts[row] = len(solutions)
                answers[row] = solutions[0] if solutions else 0
            except GivenUpError:
                counts[row] = -1
            guesses[row] = search.guesses
        return answers, counts, guesses

    def solve(self, question: Codes) -> Codes:
        self.check(question)
        answers, counts, _ = self.search(question[None], self.patience)
        if counts[0] < 0:
            raise GivenUpError(
                f"the search was given up after {self.patience:,} guesses; add givens"
            )
        if counts[0] == 0:
            raise UserError(f"this {self.name.capitalize()} has no solution; check the givens")
        if counts[0] > 1:
            raise UserError(
                f"this {self.name.capitalize()} has several solutions; it needs more givens"
            )
        return answers[0]

    def judge(self, questions: Codes, answers: Codes) -> Verdict:
        keeps = ((questions == 0) | (questions == answers)).all(1)
        valid = np.zeros(len(questions), bool)
        complete = np.flatnonzero(((answers >= 1) & (answers <= self.classes)).all(1))
        for start in range(0, len(complete), _CHUNK):
            rows = complete[start : start + _CHUNK]
            x = self.problem(questions[rows])
            valid[rows] = self.obeys(self.answer_tokens(answers[rows], x), x).numpy()
        solutions, counts, _ = self.search(questions, self.patience)
        unique = counts == 1
        canonical = unique & (solutions == answers).all(1)
        problems = (
            (counts < 0, f"no solution was found with {self.patience:,} guesses"),
            (counts == 0, "the puzzle has no solution"),
            (counts > 1, "the puzzle has several solutions"),
            (~keeps, "the answer changes a given"),
            (~(valid & canonical), "the answer breaks the rules"),
        )
        return Verdict(valid, unique, canonical, first_reasons(problems))

    @property
    def generator_modes(self) -> tuple[str, ...]:
        return ("minimal", "eased")

    def generate(
        self, seed: int, first_unit: int, count: int, mode: str,
        seeds: Codes | None = None, like: Codes | None = None,
    ) -> tuple[Codes, Codes]:  # fmt: skip
        """A random answer each, from which givens are taken while it stays the only one.

        Eased puzzles get back a third of what was taken.
        """
        questions = np.zeros((count, self.cells), np.uint8)
        answers = questions.copy()
        search = Search(self.classes, search_table(self))
        for row in range(count):
            rng = np.random.default_rng([seed, first_unit + row])
            solutions = search.solutions(questions[row], 1, rng)
            if not solutions:
                raise UserError(f"no {self.name} of this size has a solution")
            answers[row] = solutions[0]
            questions[row] = search.thin(solutions[0], rng)
            if mode == "eased":
                given_back = rng.random(self.cells) < 1 / 3
                questions[row] = np.where(given_back, answers[row], questions[row])
        return questions, answers

    def rate(self, questions: Codes) -> np.ndarray:
        """Guesses of the search."""
        return self.search(questions)[2]

    def add_givens(self, question: Codes, answer: Codes, seed: int) -> Codes:
        """Gives a sixth of the cells more."""
        chosen = np.random.default_rng(seed).permutation(np.flatnonzero(question == 0))
        chosen = chosen[: self.cells // 6]
        easier = question.copy()
        easier[chosen] = answer[chosen]
        return easier

    # --------------------------------------------------- puzzles on the device
    def problem_of(self, codes: Int[Tensor, "batch cells"], cell: None = None) -> Problem:
        """Every cell is a token."""
        own = torch.arange(codes.shape[1], device=codes.device).expand_as(codes)
        return Problem(codes, own, torch.ones_like(codes, dtype=torch.bool))

    def unpack(self, rows: Rows) -> tuple[Problem, AssignmentTarget]:
        target = AssignmentTarget((rows.answer.long() - 1).clamp(min=0))
        return self.problem_of(rows.question.long()), target

    def with_hints(self, rows: Rows, keys: Int[Tensor, " batch"], most: int) -> Rows:
        """Up to so many blank cells of each puzzle revealed, different ones for each key."""
        blank = rows.question == 0
        number, score = uniforms(
            keys, ((Stream.HINTS, ()), (Stream.HINTED_CELLS, (blank.shape[1],)))
        )
        score = score.masked_fill(~blank, 2.0)
        rank = order(order(score).float())
        hinted = blank & (rank < (number * (most + 1)).long()[:, None])
        return replace(rows, question=torch.where(hinted, rows.answer, rows.question))

    @property
    def category_sizes(self) -> tuple[int, ...]:
        return (*(int(numbers.max()) + 1 for numbers in beyond_position(self)), 2)

    @property
    def context_bits(self) -> int:
        return self.classes

    def context(self, x: Problem) -> Context:
        """Groups that the position does not tell, the given class, or the classes left open."""
        position = torch.stack([x.cell // self.columns, x.cell % self.columns], -1)
        grid = x.grid if self.givens_shown else torch.zeros_like(x.grid)
        given = grid > 0
        bits = one_hot(grid, self.classes + 1)[..., 1:].float()
        if self.candidates:
            left = (self.excluded(bits) == 0).float()
            bits = torch.where(given[..., None], bits, left)
        numbers = self._table("categories", x.cell.device)[x.cell]
        return Context(position, torch.cat([numbers, given.long()[..., None]], -1), bits)

    @property
    def relation_names(self) -> tuple[str, ...]:
        return tuple(self.groups())

    def relations(self, x: Problem) -> Bool[Tensor, "shared relations tokens tokens"]:
        return self._table("relations", x.grid.device)

    def excluded(
        self, used: Float[Tensor, "*lead cells classes"]
    ) -> Float[Tensor, "*lead cells classes"]:
        """How often what is used in other cells excludes each class of each cell."""
        return _times(used, self._table("conflicts", used.device))

    # --------------------------------------------------------------- the answer
    def clamp(
        self, z: Float[Tensor, "batch tokens channels"], x: Problem
    ) -> Float[Tensor, "batch tokens channels"]:
        return self._with_givens(z, x) if self.givens_shown else z

    def _with_givens(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: Problem
    ) -> Float[Tensor, "*lead batch tokens channels"]:
        given = (one_hot((x.grid - 1).clamp(min=0), self.classes) * 2 - 1).to(z.dtype)
        return torch.where((x.grid > 0)[..., None], given * _GIVEN_LOGIT, z)

    def features(
        self, z: Float[Tensor, "batch tokens channels"], x: Problem
    ) -> Float[Tensor, "batch tokens features"]:
        probabilities = z.softmax(-1)
        raw = self.answer_features == "logits"
        logits = z if raw else z.log_softmax(-1).clamp(min=LOG_FLOOR)
        return torch.cat([probabilities, logits / 8], -1)

    @property
    def feature_width(self) -> int:
        return self.classes * 2

    def decode(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: Problem
    ) -> Int[Tensor, "*lead batch tokens"]:
        return (z if self.givens_shown else self._with_givens(z, x)).argmax(-1)

    def open_tokens(self, x: Problem) -> Bool[Tensor, "batch tokens"]:
        return x.grid == 0

    def cell_codes(
        self, answer: Int[Tensor, "batch tokens"], x: Problem
    ) -> Int[Tensor, "batch cells"]:
        return answer + 1

    def answer_tokens(self, codes: Codes, x: Problem) -> Int[Tensor, "batch tokens"]:
        return torch.as_tensor(codes, device=x.cell.device).long() - 1

    def reference(self, y: AssignmentTarget) -> Int[Tensor, "batch tokens"]:
        return y.label

    def solved_state(
        self, x: Problem, y: AssignmentTarget, sharpness: float = 8.0
    ) -> Float[Tensor, "batch tokens channels"]:
        return self.clamp((one_hot(y.label, self.classes) * 2 - 1).float() * sharpness, x)

    def corrupt(
        self, x: Problem, y: AssignmentTarget, keys: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch tokens channels"]:
        """10-60 % of the blanks get a random wrong class; unit noise on logits of +-4."""
        share = 0.1 + 0.5 * uniform(keys, Stream.CORRUPT_0, 1)
        wrong = (uniform(keys, Stream.CORRUPT_1, self.cells) < share) & (x.grid == 0)
        shift = 1 + (uniform(keys, Stream.CORRUPT_2, self.cells) * (self.classes - 1)).long()
        label = torch.where(wrong, (y.label + shift) % self.classes, y.label)
        noise = normal(keys, Stream.CORRUPT_3, self.cells, self.classes)
        return self.clamp((one_hot(label, self.classes) * 2 - 1).float() * 4 + noise, x)

    def obeys(self, answer: Int[Tensor, "batch tokens"], x: Problem) -> Bool[Tensor, " batch"]:
        """No used class is excluded by another cell, and the givens are kept."""
        used = one_hot(answer, self.classes).float()
        clashes = (self.excluded(used) > 0) & (used > 0)
        keeps = (x.grid == 0) | (answer + 1 == x.grid)
        return keeps.all(-1) & ~clashes.flatten(1).any(-1)

    # ----------------------------------------------------------------- learning
    def energy_terms(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: Problem, y: AssignmentTarget
    ) -> dict[str, Float[Tensor, "*lead batch"]]:
        if not self.givens_shown:
            z = self._with_givens(z, x)
        log_p = z.float().log_softmax(-1)
        target = y.label.expand(log_p.shape[:-1])[..., None]
        blank = x.grid == 0
        ce = -log_p.gather(-1, target)[..., 0] * blank
        count = blank.sum(-1)
        # The hardest cells: a fixed top-k that holds the largest share, cut per example.
        most = max(1, math.ceil(self.hard_fraction * ce.shape[-1]))
        hardest = ce.topk(most, dim=-1).values
        wanted = (count * self.hard_fraction).ceil().clamp(min=1)
        taken = torch.arange(most, device=z.device) < wanted[:, None]
        p = log_p.exp()
        rules = self._group_count() * self.classes
        terms = {
            "ce": self.lambda_ce * ce.sum(-1) / count.clamp(min=1),
            "hard": self.lambda_hard * masked_mean(hardest, taken),
            "all_different": self.lambda_c * self.group_violations(p) / rules,
        }
        if self._has_further_rules():  # the expected number of pairs that exclude each other
            pairs = (_times(p, self._table("further", z.device)) * p).sum((-2, -1)) / 2
            terms["conflicts"] = self.lambda_c * pairs / ce.shape[-1]
        return terms

    def group_violations(
        self, p: Float[Tensor, "*lead batch cells classes"]
    ) -> Float[Tensor, "*lead batch"]:
        """V_allDiff before its mean: squared excess of each class in each group, summed.

        A group with as many cells as classes holds each class once, so that too little counts as
        well as too much.
        """
        members = self._table("members", p.device)
        with torch.autocast(p.device.type, enabled=False):  # an energy is float32
            sums = torch.einsum("...nc,rng->...rgc", p, members)
        excess = sums - 1
        complete = (members.sum(1) == self.classes)[..., None]
        return (torch.where(complete, excess, excess.clamp(min=0)) ** 2).sum((-3, -2, -1))


def _times(
    values: Float[Tensor, "*lead cells classes"], matrix: Float[Tensor, "pairs pairs"]
) -> Float[Tensor, "*lead cells classes"]:
    """A matrix over (cell, class) pairs applied to a value for each."""
    with torch.autocast(values.device.type, enabled=False):
        return (values.flatten(-2) @ matrix).view_as(values)
