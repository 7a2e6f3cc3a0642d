"""What a task is: the one interface between puzzles and everything else.

A task is a frozen dataclass; its fields are its settings. One file defines one task:
`focus/tasks/sudoku.py` and `focus/tasks/maze.py` here, a file of yours through the entry point
group `focus.tasks` (see docs/tutorials/add-a-task.md). A task that gives every cell a class under
all-different rules starts from `focus.tasks.assignment.Assignment`, which writes most of it.

Shapes: `batch` puzzles, `tokens` updater tokens each, `channels` numbers per token in the answer
z. Energies, losses and scores accept extra leading axes on z (steps, candidates) and are float32
per example, whatever the dtype of z. Nothing on tensors loops over examples or cells.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from focus.errors import UserError, counted
from focus.random import Stream, normal, uniform
from focus.tasks import drawing
from focus.tasks.prompt import Cell, Prompt
from focus.tasks.records import Context, Problem, Rows, Target, TensorRecord, constant

Codes = np.ndarray  # (cells,) or (rows, cells) uint8: one code per cell


@dataclass(frozen=True)
class Channel:
    """A named slice of the answer z, with the bounds that every update keeps."""

    name: str
    start: int
    width: int
    low: float
    high: float
    unit: float = 1.0  # what 1.0 in z stands for, for instance 16 moves

    @property
    def slice(self) -> slice:
        """Where the channel lies on the last axis of z."""
        return slice(self.start, self.start + self.width)


@dataclass(frozen=True)
class Verdict:
    """What an audit finds about rows of data; one boolean per row."""

    valid: np.ndarray  # obeys the rules, and the answer solves the question
    unique: np.ndarray  # Sudoku: one solution. Maze: one shortest path
    canonical: np.ndarray  # the answer is *the* reference answer
    problems: dict[int, str]  # row -> what is wrong with it


StepWeights = Literal["linear", "uniform", "final"]
# What an updater sees of an answer beside its probabilities. A constant added to all logits of a
# cell changes no probability and no loss, so that it drifts over a rollout: an updater that sees
# it has a clock, and fails on rollouts longer than those it learned from (docs/LOG.md).
AnswerFeatures = Literal["log-probabilities", "logits"]
LOG_FLOOR = -8.0  # of log-probabilities among the features: below it a class counts as excluded


def step_weights(steps: int, kind: StepWeights, device: torch.device) -> Float[Tensor, " {steps}"]:
    """Weights over the steps of a rollout that sum to 1."""
    if kind == "final":
        weights = torch.zeros(steps, device=device)
        weights[-1] = 1.0
        return weights
    weights = torch.ones(steps, device=device)
    if kind == "linear":
        weights = torch.arange(1, steps + 1, device=device, dtype=torch.float32)
    return weights / weights.sum()


def weigh_steps(
    per_step: Float[Tensor, "steps batch"], kind: StepWeights
) -> Float[Tensor, " batch"]:
    """The weighted sum over the steps of a rollout."""
    weights = step_weights(len(per_step), kind, per_step.device)
    return (per_step * weights[:, None]).sum(0)


@dataclass(frozen=True)
class Task(ABC):
    """The protocol. Subclasses are frozen dataclasses of settings.

    The first part is what a task must write; all that follows has a default.
    """

    name = ""  # the name on the command line
    dataset = ""  # the folder that holds its data
    hub_dataset = ""  # its public data set
    validation_from = "train"  # the split that validation puzzles are taken from
    padded = False  # whether some tokens can be padding
    grids_in_prompt = 2  # times that a language model reads the cells: see `Prompt` for why twice
    valid_is_correct = False  # whether an answer that obeys the rules is the right one

    # ------------------------------------------------- to write: what a puzzle is
    @property
    @abstractmethod
    def cells(self) -> int:
        """Cells of the printed puzzle."""

    @property
    @abstractmethod
    def channels(self) -> tuple[Channel, ...]:
        """The slices of z."""

    @property
    @abstractmethod
    def question_symbols(self) -> dict[str, int]:
        """Characters of a question and their codes; the first of a code is how it is written."""

    @property
    @abstractmethod
    def answer_symbols(self) -> dict[str, int]:
        """Characters of an answer and their codes."""

    @abstractmethod
    def solve(self, question: Codes) -> Codes:
        """The reference answer by search; raises `UserError` when there is not exactly one."""

    @abstractmethod
    def generate(
        self, seed: int, first_unit: int, count: int, mode: str,
        seeds: Codes | None = None, like: Codes | None = None,
    ) -> tuple[Codes, Codes]:  # fmt: skip
        """Questions and answers of units `first_unit`…, a function of (seed, unit) alone.

        A unit may bring no puzzle, or several. Modes that grow new puzzles from given ones start
        from `seeds` and aim at the ratings of `like` (default: those of the seeds).
        """

    # ------------------------------------------- to write: puzzles and answers as tensors
    @abstractmethod
    def unpack(self, rows: TensorRecord) -> tuple[Problem, Target]:
        """x and y* of stored rows."""

    @abstractmethod
    def clamp(
        self, z: Float[Tensor, "batch tokens channels"], x: Problem
    ) -> Float[Tensor, "batch tokens channels"]:
        """Put back what the puzzle fixes; applied after every update."""

    @abstractmethod
    def decode(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: Problem
    ) -> Int[Tensor, "*lead batch tokens"]:
        """g_x: the answer that z states, a code per token."""

    @abstractmethod
    def cell_codes(
        self, answer: Int[Tensor, "batch tokens"], x: Problem
    ) -> Int[Tensor, "batch cells"]:
        """A decoded answer as cell codes."""

    @abstractmethod
    def obeys(self, answer: Int[Tensor, "batch tokens"], x: Problem) -> Bool[Tensor, " batch"]:
        """Whether a decoded answer obeys the puzzle's rules; needs no label."""

    @abstractmethod
    def reference(self, y: Target) -> Int[Tensor, "batch tokens"]:
        """The correct answer in the form of `decode`."""

    @abstractmethod
    def solved_state(
        self, x: Problem, y: Target, sharpness: float = 8.0
    ) -> Float[Tensor, "batch tokens channels"]:
        """The z that states the correct answer, with logits of +-`sharpness`."""

    @abstractmethod
    def energy_terms(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: Problem, y: Target
    ) -> dict[str, Float[Tensor, "*lead batch"]]:
        """The weighted terms of E_x, by name; one is called `ce`."""

    # ------------------------------------------------------------------ sizes
    @classmethod
    def of_side(cls, side: int | None) -> "Task":
        """The task with `side` cells in a row; None for its usual size."""
        if side is None:
            return cls()
        if all(field.name != "side" for field in fields(cls)):
            raise UserError(f"{cls.name} puzzles have one size")
        return cls(side=side)  # type: ignore[call-arg]

    def resized(self, side: int) -> "Task":
        """The task at another size, if the weights of a solver fit all sizes; else unchanged."""
        return self

    @property
    def paper_sized(self) -> bool:
        """Whether these are the puzzles of the paper."""
        return False

    @property
    def columns(self) -> int:
        """Cells in a printed row: those of a square, or else all of them."""
        side = math.isqrt(self.cells)
        return side if side**2 == self.cells else self.cells

    @property
    def tokens(self) -> int:
        """Tokens the updater sees (padded to this number)."""
        return self.cells

    @property
    def width(self) -> int:
        """Number of channels of z."""
        return sum(channel.width for channel in self.channels)

    def bounds(self, device: torch.device) -> tuple[Float[Tensor, " c"], Float[Tensor, " c"]]:
        """Lowest and highest value of each channel."""
        low = [c.low for c in self.channels for _ in range(c.width)]
        high = [c.high for c in self.channels for _ in range(c.width)]
        return constant(tuple(low), device), constant(tuple(high), device)

    # ------------------------------------------------------- text and pictures
    def encode_questions(self, texts: Sequence[str]) -> Codes:
        """Questions on one line each, all at once; raises `RowError` for a bad one."""
        return encode_text(texts, self.cells, self.question_symbols, f"the {self.name}")

    def encode_answers(self, texts: Sequence[str]) -> Codes:
        """Answers on one line each, all at once; raises `RowError` for a bad one."""
        return encode_text(texts, self.cells, self.answer_symbols, "the answer")

    def question_text(self, question: Codes) -> str:
        """The question on one line, as data files hold it."""
        return decode_text(question, self.question_symbols)

    def answer_text(self, answer: Codes) -> str:
        """The answer on one line, as data files hold it."""
        return decode_text(answer, self.answer_symbols)

    def parse(self, text: str) -> Codes:
        """One puzzle as people type it; raises `UserError` when it is not one."""
        question = self.encode_questions(["".join(text.split())])[0]
        self.check(question)
        return question

    def check(self, question: Codes) -> None:  # noqa: B027, a task need not know of any
        """Raise `UserError` for a puzzle that contradicts the rules at sight."""

    def render_cells(
        self, question: Codes, answer: Codes | None = None
    ) -> list[tuple[str, int | None]]:
        """What `render` prints, in pieces: text, and the cell it shows (None: a frame or space)."""
        line = self.question_text(question) if answer is None else self.answer_text(answer)
        pieces: list[tuple[str, int | None]] = []
        for cell, symbol in enumerate(line):
            if cell and cell % self.columns == 0:
                pieces.append(("\n", None))
            pieces.append((symbol, cell))
        return pieces

    def render(self, question: Codes, answer: Codes | None = None) -> str:
        """The puzzle, or its answer, as lines of text."""
        return "".join(text for text, _ in self.render_cells(question, answer))

    def draw(self, axis: Any, question: str, answer: str | None, target: str) -> None:
        """Draw an answer into a matplotlib axis, compared with the target; None: the question."""
        drawing.draw_text(axis, self.columns, question, answer, target)

    def counted_cells(self, question: str) -> list[bool]:
        """Which cells count in the share of right cells under a picture."""
        return [True] * len(question)

    @property
    def page_view(self) -> dict[str, Any]:
        """What the web page needs to draw and to enter a puzzle.

        `view`: "cells", a character in each cell; "text", the lines of `render_cells`, for a task
        that prints itself in its own way; "maze". `blank` is what stands in an open cell of the
        question, the character of code 0; `symbols` are the others. `box`: cells of a box.
        """
        symbols = self.question_symbols
        written = {symbols[symbol]: symbol for symbol in reversed(symbols)}
        own = type(self).render_cells is not Task.render_cells
        blank = written.get(0, " ")
        return {
            "view": "text" if own else "cells",
            "side": self.columns,
            "rows": math.ceil(self.cells / self.columns),
            "box": 0,
            "blank": blank,
            "symbols": "".join(written[code] for code in sorted(written) if written[code] != blank),
        }

    def prompt(self) -> Prompt:
        """The prompt with its cells; short, because a word costs as much as a cell."""
        grid = [Cell(cell) for cell in range(self.cells)]
        again = grid * (self.grids_in_prompt - 1)
        return Prompt((f"{self.name.capitalize()}:", *grid, "\n", *again), self._symbols())

    def text_target(self) -> Prompt:
        """The answer as a language model writes it: what Direct SFT learns."""
        return Prompt(tuple(Cell(cell) for cell in range(self.cells)), self._symbols())

    def _symbols(self) -> tuple[str, ...]:
        """The character of every code; of several the last, as a language model reads it."""
        characters = {**self.question_symbols, **self.answer_symbols}
        by_code = {code: character for character, code in characters.items()}
        return tuple(by_code[code] for code in range(len(by_code)))

    def parse_text_target(self, question: Codes, text: str) -> Codes | None:
        """The answer that a completion states, or None when it is malformed (strict)."""
        try:
            return self.encode_answers([text.strip()])[0]
        except UserError:
            return None

    # ------------------------------------------------- puzzles on the host
    def check_rows(self, questions: Codes) -> None:  # noqa: B027, a task need not know of any
        """Refuse rows that are no puzzles, before a run or an evaluation; names the first."""

    def judge(self, questions: Codes, answers: Codes) -> Verdict:
        """Check rows of data against the rules: by default, against the answers of `solve`."""
        unique = np.zeros(len(questions), bool)
        canonical = unique.copy()
        problems = {}
        for row, (question, answer) in enumerate(zip(questions, answers, strict=True)):
            try:
                canonical[row] = (self.solve(question) == answer).all()
                unique[row] = True
            except UserError as error:
                problems[row] = str(error)
                continue
            if not canonical[row]:
                problems[row] = "the answer is not the solution"
        return Verdict(canonical, unique, canonical, problems)

    def rate(self, questions: Codes) -> np.ndarray:
        """How hard each puzzle is for our own search; by default all alike. (rows,) int64."""
        return np.zeros(len(questions), np.int64)

    def add_givens(self, question: Codes, answer: Codes, seed: int) -> Codes:
        """An easier puzzle with the same answer; the same one where a task has nothing to add."""
        return question

    @property
    def generator_settings(self) -> dict[str, Any]:
        """The settings that generated puzzles depend on."""
        return {"cells": self.cells}

    @property
    def generator_modes(self) -> tuple[str, ...]:
        """Ways to generate puzzles; the first is the default."""
        return ("default",)

    def fingerprint(self, questions: Codes) -> np.ndarray:
        """Equal for equivalent puzzles; different puzzles may share one. (rows,) uint64."""
        weights = np.random.default_rng(0).integers(1, 2**63, self.cells, dtype=np.uint64)
        return ((questions.astype(np.uint64) + 1) * weights).sum(-1, dtype=np.uint64)

    def equivalent(self, first: Codes, second: Codes) -> bool:
        """Whether two puzzles count as the same one when data sets are kept apart. Exact.

        Equal puzzles only, unless a task knows its symmetries.
        """
        return bool((first == second).all())

    def transform(self, codes: Codes, keys: Int[Tensor, " rows"]) -> Codes:
        """Questions or answers under random symmetries, one for each key.

        Written, with its inverse, by tasks whose symmetries turn the answer of a puzzle into the
        answer of the transformed one.
        """
        raise NotImplementedError(f"{self.name} has no symmetries that keep the answer")

    def inverse_transform(self, codes: Codes, keys: Int[Tensor, " rows"]) -> Codes:
        """The inverse of `transform`."""
        raise NotImplementedError(f"{self.name} has no symmetries that keep the answer")

    @property
    def symmetries_keep_answer(self) -> bool:
        """Whether a puzzle can be tried again under symmetries: the task has a `transform`."""
        return type(self).transform is not Task.transform

    def pack(self, questions: Codes, answers: Codes, augment: bool = False) -> TensorRecord:
        """Rows for storage on a device; `augment` adds what the method of that name needs."""
        return Rows(
            torch.from_numpy(np.array(questions, np.uint8)),
            torch.from_numpy(np.array(answers, np.uint8)),
        )

    def problem(self, questions: Codes) -> Problem:
        """x of questions (rows, cells), without any answer; on the CPU."""
        return self.unpack(self.pack(questions, np.zeros_like(questions)))[0]

    def problem_of(
        self, codes: Int[Tensor, "batch cells"], cell: Int[Tensor, "batch tokens"] | None = None
    ) -> Problem:
        """`problem` of codes that are a tensor already, nothing checked: what an export traces.

        `cell` are the cells that tokens stand for, where a task says them (`token_cells`).
        """
        return self.unpack(Rows(codes.byte(), torch.zeros_like(codes).byte()))[0]

    def token_cells(self, codes: Int[Tensor, "batch cells"]) -> Int[Tensor, "batch tokens"] | None:
        """The cells that tokens stand for, with no more padding than the batch needs.

        None where every cell is a token.
        """
        return None

    # --------------------------------------------------- puzzles on the device
    def augment(self, rows: TensorRecord, keys: Int[Tensor, " batch"]) -> TensorRecord:
        """A random symmetry of every puzzle, labels included; the identity if there is none."""
        return rows

    def variants(self, rows: TensorRecord) -> Sequence[TensorRecord]:
        """The stored symmetries of packed puzzles, each as rows without augmentation."""
        return [rows]

    def augment_soft_targets(
        self, soft_targets: UInt8[Tensor, "batch variants steps tokens classes"],
        keys: Int[Tensor, " batch"],
    ) -> UInt8[Tensor, "batch steps tokens classes"]:  # fmt: skip
        """A teacher's soft targets under the symmetries that `augment` draws with the same keys."""
        return soft_targets[:, 0]

    @property
    def category_sizes(self) -> tuple[int, ...]:
        """Number of classes of each category of the context."""
        return (max(self.question_symbols.values()) + 1,)

    @property
    def context_bits(self) -> int:
        """Number of 0/1 inputs of the context."""
        return 1

    def context(self, x: Problem) -> Context:
        """c_x: by default what stands in the cell, and whether its answer is open."""
        position = torch.stack([x.cell // self.columns, x.cell % self.columns], -1)
        code = x.grid.gather(1, x.cell)[..., None]
        return Context(position, code, self.open_tokens(x)[..., None].float())

    @property
    def relation_names(self) -> tuple[str, ...]:
        """Names of the relations between tokens."""
        return ("row", "column")

    def relations(self, x: Problem) -> Bool[Tensor, "shared relations tokens tokens"]:
        """Which tokens are related; the first axis is 1 where puzzles share it."""
        lines = torch.stack([x.cell // self.columns, x.cell % self.columns], 1)
        both = x.mask[:, None, :, None] & x.mask[:, None, None, :]
        return (lines[..., :, None] == lines[..., None, :]) & both

    @property
    def message_slots(self) -> int:
        """How many messages a token hears in a hop."""
        return len(self.relation_names)

    def messages(
        self, h: Float[Tensor, "batch tokens width"], x: Problem
    ) -> tuple[Float[Tensor, "batch tokens slots width"], Bool[Tensor, "shared tokens slots"]]:
        """What each token hears of h, and which messages there are.

        By default a message for each relation: the mean of h over the other related tokens.
        """
        related = self.relations(x)
        itself = torch.eye(h.shape[1], dtype=torch.bool, device=h.device)
        related = (related & ~itself).to(h.dtype)
        count = related.sum(-1, keepdim=True)
        share = related / count.clamp(min=1)
        heard = torch.einsum("brij,bjc->birc", share.expand(len(h), -1, -1, -1), h)
        return heard, (count[..., 0] > 0).transpose(1, 2)

    # --------------------------------------------------------------- the answer
    def answer_only(self) -> "Task":
        """The task decoded from its answer alone, without auxiliary targets."""
        return self

    def initial(self, x: Problem) -> Float[Tensor, "batch tokens channels"]:
        """z of s_0: knows the puzzle, nothing of the answer."""
        return self.clamp(torch.zeros(*x.cell.shape, self.width, device=x.cell.device), x)

    @property
    def feature_width(self) -> int:
        """Width of `features`."""
        return self.width

    def features(
        self, z: Float[Tensor, "batch tokens channels"], x: Problem
    ) -> Float[Tensor, "batch tokens features"]:
        """What the updater reads of z; bounded. By default the probabilities of each channel."""
        logits = [z[..., channel.slice] for channel in self.channels]
        return torch.cat([v.softmax(-1) if v.shape[-1] > 1 else v.sigmoid() for v in logits], -1)

    def class_logits(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: Problem
    ) -> Float[Tensor, "*lead batch tokens classes"]:
        """Logits of what a state holds of each token, for a student to learn from."""
        return z

    def open_tokens(self, x: Problem) -> Bool[Tensor, "batch tokens"]:
        """Tokens whose answer the puzzle does not give."""
        return x.mask

    def answer_codes(self, answer: Int[Tensor, "batch tokens"], x: Problem) -> Codes:
        """`cell_codes` on the host, for rendering."""
        return self.cell_codes(answer, x).cpu().numpy().astype(np.uint8)

    def answer_tokens(self, codes: Codes, x: Problem) -> Int[Tensor, "batch tokens"] | None:
        """Cell codes, as a language model writes them, in the form of `decode`.

        Where a task does not say, what was written has no diagnostics.
        """
        return None

    def exact(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: Problem, y: Target
    ) -> Bool[Tensor, "*lead batch"]:
        """Whether the decoded answer is the correct one in every cell."""
        return (self.decode(z, x) == self.reference(y)).all(-1)

    def corrupt(
        self, x: Problem, y: Target, keys: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch tokens channels"]:
        """A controlled corruption of the solved state (Fixed Mix): 10-60 % of the tokens noise."""
        share = 0.1 + 0.5 * uniform(keys, Stream.CORRUPT_0, 1)
        noisy = uniform(keys, Stream.CORRUPT_1, self.tokens) < share
        noise = normal(keys, Stream.CORRUPT_2, self.tokens, self.width) * 4
        low, high = self.bounds(noise.device)
        z = torch.where(noisy[..., None], noise.clamp(low, high), self.solved_state(x, y, 4.0))
        return self.clamp(z, x)

    # ----------------------------------------------------------------- learning
    def energy(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: Problem, y: Target
    ) -> Float[Tensor, "*lead batch"]:
        """E_x(z) >= 0."""
        return torch.stack(list(self.energy_terms(z, x, y).values())).sum(0)

    def step_loss(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: Problem, y: Target
    ) -> Float[Tensor, "*lead batch"]:
        """Task loss of single states; the energy unless a task adds to it."""
        return self.energy(z, x, y)

    def loss(
        self,
        z: Float[Tensor, "steps batch tokens channels"],
        x: Problem,
        y: Target,
        weights: StepWeights = "linear",
    ) -> Float[Tensor, " batch"]:
        """L_task over the steps of a rollout."""
        if weights == "final":
            return self.step_loss(z[-1], x, y)
        return weigh_steps(self.step_loss(z, x, y), weights)

    def cross_entropy(
        self,
        z: Float[Tensor, "steps batch tokens channels"],
        x: Problem,
        y: Target,
        weights: StepWeights = "linear",
    ) -> Float[Tensor, " batch"]:
        """The energy's term `ce` alone over the steps of a rollout: what a published TRM learns."""
        return weigh_steps(self.energy_terms(z, x, y)["ce"], weights)

    def eligible(
        self,
        exact_at: Bool[Tensor, "candidates batch"],
        exact_after: Bool[Tensor, "candidates batch"],
        exact_end: Bool[Tensor, " batch"],
    ) -> Bool[Tensor, "candidates batch"]:
        """C_x: which candidates may be replayed, from exactness at t, t + h and K_p.

        All of them, unless the rollout already ends in the solution.
        """
        return (~exact_end).expand_as(exact_at)

    def diagnostics(
        self, answer: Int[Tensor, "batch tokens"], x: Problem, y: Target
    ) -> dict[str, Float[Tensor, " batch"]]:
        """Scores beside exactness, by name: the share of right cells, and whether rules hold."""
        return {
            "cell_accuracy": masked_mean((answer == self.reference(y)).float(), x.mask),
            "valid": self.obeys(answer, x).float(),
        }


class RowError(UserError):
    """A string of a data file that is no puzzle, with its row."""

    def __init__(self, row: int, message: str):
        super().__init__(message)
        self.row = row


def encode_text(texts: Sequence[str], length: int, symbols: dict[str, int], what: str) -> Codes:
    """Strings of `length` characters to codes (rows, length), all at once."""
    for row, text in enumerate(texts):
        if len(text) != length:
            raise RowError(
                row, f"{what} has {counted(len(text), 'character')}, {length} are needed"
            )
    table = np.full(256, 255, np.uint8)
    for symbol, code in symbols.items():
        table[ord(symbol)] = code
    raw = np.frombuffer("".join(texts).encode("latin-1", "replace"), np.uint8)
    codes = table[raw].reshape(len(texts), length)
    if (codes == 255).any():
        row, place = np.argwhere(codes == 255)[0]
        allowed = "".join(symbols)
        raise RowError(
            int(row),
            f"{what} has {texts[row][place]!r} at position {place + 1}; "
            f"only the characters {allowed!r} may stand there",
        )
    return codes


def decode_text(codes: Codes, symbols: dict[str, int]) -> str:
    """Codes to text; where several characters have one code, the first is written."""
    written = {code: symbol for symbol, code in reversed(symbols.items())}
    return "".join(written[int(code)] for code in codes)


def first_reasons(reasons: Sequence[tuple[np.ndarray, str]]) -> dict[int, str]:
    """The first reason that holds for each row for which one does."""
    holds = np.stack([rows for rows, _ in reasons])
    first = holds.argmax(0).tolist()
    return {row: reasons[first[row]][1] for row in np.flatnonzero(holds.any(0)).tolist()}


def masked_mean(
    values: Float[Tensor, "*lead tokens"], mask: Bool[Tensor, "*shape tokens"]
) -> Float[Tensor, "*lead"]:
    """Mean over the tokens where `mask` holds; 0 where it holds nowhere."""
    weights = mask.float()
    return (values * weights).sum(-1) / weights.sum(-1).clamp(min=1)
