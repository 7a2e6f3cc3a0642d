"""Maze: find the canonical shortest path from S to G. Open cells are tokens, walls are not.

Grid codes: 0 wall, 1 open, 2 start, 3 goal; answers add 4 for a path cell. The answer z holds
six channels per token: the path logit, four parent logits in the order down, left, right, up,
and the distance from the start in units of 16 moves. The decoder walks from the goal to the
start along its best parents (appendix D.1 of the paper); the energy is appendix B.2.
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor
from torch.nn import functional

from focus.engines import maze_generator, maze_search
from focus.engines.maze_search import GOAL, OPEN, START, WALL
from focus.errors import UserError, counted
from focus.random import Stream, normal, uniform
from focus.settings import Above, AtLeast, Role, Weight, check_ranges
from focus.tasks import drawing
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
from focus.tasks.maze_tokens import (
    MazeProblem,
    MazeRows,
    MazeTarget,
    gather_neighbours,
    gather_vectors,
    is_route,
    maze_problem,
    open_cells,
    trace,
    unpack_mazes,
)
from focus.tasks.prompt import Cell, Prompt
from focus.tasks.records import Context, constant

PATH = 4  # answer code of a path cell
_FIXED_LOGIT = 8.0  # start and goal are path cells for sure, padding is not
_MASKED = -1e4  # score of a direction that leads into a wall
_LARGEST = 100  # cells in a row of a maze that a trained solver is given
_LARGEST_GENERATED = 255  # and of any maze


@dataclass(frozen=True)
class Maze(Task):
    """The Maze task."""

    name = "maze"
    dataset = "maze-hard"
    hub_dataset = "sapientinc/maze-30x30-hard-1k"
    padded = True

    size: int = 30  # cells of a side
    # pad open cells to this number; 0 = all cells of the grid
    max_tokens: Annotated[int, AtLeast(0)] = 0
    # generated mazes: least moves from start to goal; 0 = 109 at 30x30
    min_path: Annotated[int, AtLeast(0)] = 0
    wall_share: tuple[float, float] = (0.30, 0.46)  # generated mazes: range of the wall share
    # How z is read: canonical walks from the goal along parents, threshold marks likely path cells
    decoder: Annotated[Literal["canonical", "threshold"], Role.METHOD] = "canonical"
    lambda_dice: Weight = 0.40  # weight of the soft Dice loss (lambda_dice)
    lambda_rank: Weight = 0.04  # weight of V_rank (lambda_rank)
    lambda_dec: Weight = 0.10  # weight of V_dec (lambda_dec)
    # path and non-path cells compared by V_rank
    rank_cells: Annotated[int, AtLeast(1)] = 16
    rank_margin: Weight = 0.5  # probability margin of V_rank
    decoder_distance_weight: Weight = 0.35  # weight of |d_i - d_j - 1| in the decoder's score
    lambda_parent: Weight = 1.0  # task loss: parents of all reachable cells (ours)
    lambda_distance: Weight = 0.10  # task loss: distances, in units of 16 moves (ours)
    lambda_move: Weight = 0.05  # task loss: distance to the parent is one move (ours)
    # hard clip of path and parent logits
    logit_bound: Annotated[float, Above(0)] = 20.0
    # what the updater sees of the answer beside its probabilities (ours); raw logits run away
    answer_features: AnswerFeatures = "log-probabilities"

    def __post_init__(self):
        if not 2 <= self.size <= _LARGEST_GENERATED:
            raise UserError(f"a maze has 2 to {_LARGEST_GENERATED} cells in a row, not {self.size}")
        check_ranges(self, "task")
        if not 0 <= self.wall_share[0] <= self.wall_share[1] < 1:
            raise UserError("task.wall-share is a range of two shares from 0 to below 1")

    # ------------------------------------------------------------------ sizes
    @classmethod
    def of_side(cls, side: int | None) -> "Maze":
        return cls() if side is None else cls(size=side)

    def resized(self, side: int) -> "Maze":
        if side == self.size or side < 2:  # the reader says what is wrong with an empty one
            return self
        if side > _LARGEST:
            raise UserError(f"mazes have up to {_LARGEST} cells in a row, not {side}")
        return replace(self, size=side, max_tokens=0, min_path=0)

    @property
    def paper_sized(self) -> bool:
        return self.size == 30

    @property
    def cells(self) -> int:
        return self.size**2

    @property
    def tokens(self) -> int:
        return min(self.max_tokens or self.cells, self.cells)

    @property
    def channels(self) -> tuple[Channel, ...]:
        bound, farthest = self.logit_bound, max(20.0, self.cells / 32)
        return (
            Channel("path", 0, 1, -bound, bound),
            Channel("parent", 1, 4, -bound, bound),
            Channel("distance", 5, 1, -2.0, farthest, unit=16.0),
        )

    @property
    def doublings(self) -> int:
        """The decoder follows at most 2**doublings transitions: 256 at 30x30, more beyond."""
        return max(8, math.ceil(math.log2(self.cells * 256 / 900)))

    @property
    def least_moves(self) -> int:
        """Least path length of generated mazes; Maze-Hard has 109 at 30x30."""
        return self.min_path or round(109 * self.size / 30)

    # ------------------------------------------------------------------- text
    @property
    def question_symbols(self) -> dict[str, int]:
        return {"#": WALL, " ": OPEN, ".": OPEN, "S": START, "G": GOAL}

    @property
    def answer_symbols(self) -> dict[str, int]:
        return {**self.question_symbols, "o": PATH}

    def parse(self, text: str) -> Codes:
        """Lines of #, space or dot, S and G.

        Spaces missing at the end of a line are added, unless open cells are written as dots.
        """
        lines = text.strip("\r\n").splitlines()
        if not text.strip():
            raise UserError(f"the maze is empty; give {self.size} lines of #, space, S and G")
        if len(lines) > 1:
            if len(lines) != self.size:
                raise UserError(f"the maze has {len(lines)} lines, {self.size} are needed")
            for number, line in enumerate(lines, 1):
                if len(line) > self.size or ("." in text and len(line) < self.size):
                    raise UserError(
                        f"line {number} of the maze has {counted(len(line), 'character')}, "
                        f"{self.size} are needed: a maze is a square"
                    )
            lines = [line.ljust(self.size) for line in lines]
        question = self.encode_questions(["".join(lines)])[0]
        self.check(question)
        return question

    def draw(self, axis: Any, question: str, answer: str | None, target: str) -> None:
        drawing.draw_maze(axis, question, answer, target)

    def counted_cells(self, question: str) -> list[bool]:
        return [symbol != "#" for symbol in question]

    @property
    def page_view(self) -> dict[str, Any]:
        return {**super().page_view, "view": "maze", "blank": " ", "symbols": "#SG"}

    def prompt(self) -> Prompt:
        parts: list[str | Cell] = ["Find the shortest path from S to G. # marks a wall.\n"]
        for cell in range(self.cells):
            parts.append(Cell(cell))
            if cell % self.size == self.size - 1:
                parts.append("\n")
        return Prompt(tuple(parts), ("#", ".", "S", "G"))

    def text_target(self) -> Prompt:
        cells, symbols = super().text_target().parts, super().text_target().symbols
        parts: list[str | Cell] = []
        for start in range(0, self.cells, self.size):
            parts += [*cells[start : start + self.size], "\n"]
        return Prompt(tuple(parts[:-1]), symbols)

    def parse_text_target(self, question: Codes, text: str) -> Codes | None:
        answer = super().parse_text_target(question, text.strip().replace("\n", ""))
        if answer is None or (np.where(answer == PATH, OPEN, answer) != question).any():
            return None
        return answer

    # ------------------------------------------------- puzzles on the host
    def check(self, question: Codes) -> None:
        for code, symbol in ((START, "S"), (GOAL, "G")):
            count = int((question == code).sum())
            if count != 1:
                raise UserError(f"the maze has {count} cells {symbol}, exactly one is needed")

    def check_rows(self, questions: Codes) -> None:
        for code, symbol in ((START, "S"), (GOAL, "G")):
            counts = (questions == code).sum(1)
            if (counts != 1).any():
                row = int((counts != 1).argmax())
                raise UserError(
                    f"maze {row + 1:,} has {counts[row]} cells {symbol}, exactly one is needed"
                )
        reached = maze_search.search_many(questions, self.size)[2].any(1)
        if not reached.all():
            row = int(reached.argmin())
            raise UserError(f"maze {row + 1:,}: the goal G cannot be reached from the start S")

    def _mark(self, questions: Codes, paths: np.ndarray) -> Codes:
        return np.where(paths & (questions == OPEN), PATH, questions).astype(np.uint8)

    def solve(self, question: Codes) -> Codes:
        self.check(question)
        _, _, paths, _ = maze_search.search_many(question[None], self.size)
        if not paths.any():
            raise UserError("the goal G cannot be reached from the start S")
        return self._mark(question[None], paths)[0]

    def judge(self, questions: Codes, answers: Codes) -> Verdict:
        ends = ((questions == START).sum(1) == 1) & ((questions == GOAL).sum(1) == 1)
        whole = np.where(ends[:, None], questions, 0)
        whole[~ends, 0], whole[~ends, 1] = START, GOAL
        _, distances, paths, counts = maze_search.search_many(whole, self.size)
        reachable = ends & paths.any(1)
        keeps = (np.where(answers == PATH, OPEN, answers) == questions).all(1)
        marked = (answers == PATH) | (questions == START) | (questions == GOAL)
        valid = reachable & keeps & self._is_shortest(marked, distances, paths)
        canonical = reachable & (self._mark(questions, paths) == answers).all(1)
        problems = (
            (~ends, "the maze needs exactly one S and one G"),
            (~reachable, "the goal cannot be reached"),
            (~keeps, "the answer changes the maze"),
            (~valid, "the answer is no shortest path"),
            (~canonical, "the answer is a shortest path, but not the canonical one"),
        )
        return Verdict(valid, reachable & (counts == 1), canonical, first_reasons(problems))

    def _is_shortest(
        self, marked: np.ndarray, distances: np.ndarray, paths: np.ndarray
    ) -> np.ndarray:
        """One marked cell at every distance up to the goal's, each next to the one before."""
        length = paths.sum(1) - 1
        rows, cells = np.nonzero(marked)
        by_distance = np.full((len(marked), self.cells), -1)
        distance = distances[rows, cells]
        inside = distance >= 0
        by_distance[rows[inside], distance[inside]] = cells[inside]
        apart = np.abs(np.diff(by_distance, axis=1))
        side_by_side = (apart == self.size) | (
            (apart == 1) & (by_distance[:, 1:] // self.size == by_distance[:, :-1] // self.size)
        )
        needed = np.arange(self.cells - 1) < length[:, None]
        placed = (by_distance[:, :-1] >= 0) & (by_distance[:, 1:] >= 0) & side_by_side
        return (placed | ~needed).all(1) & (marked.sum(1) == length + 1)

    def fingerprint(self, questions: Codes) -> np.ndarray:
        variants = maze_search.dihedral(questions, self.size).reshape(-1, self.cells)
        return super().fingerprint(variants).reshape(-1, 8).min(1)

    def equivalent(self, first: Codes, second: Codes) -> bool:
        return bool((maze_search.dihedral(first[None], self.size)[0] == second).all(1).any())

    @property
    def generator_settings(self) -> dict[str, Any]:
        return {"size": self.size, "moves": self.least_moves, "walls": list(self.wall_share)}

    @property
    def generator_modes(self) -> tuple[str, ...]:
        return ("distant", "farthest")

    def generate(
        self, seed: int, first_unit: int, count: int, mode: str,
        seeds: Codes | None = None, like: Codes | None = None,
    ) -> tuple[Codes, Codes]:  # fmt: skip
        if self.least_moves >= self.cells * (1 - self.wall_share[0]):
            raise UserError(
                f"a {self.size}x{self.size} maze has no room for a path of {self.least_moves} "
                "moves: take a larger one, or a smaller task.min-path"
            )
        mazes = maze_generator.generate_mazes(
            self.size, seed, first_unit, count, self.least_moves, self.wall_share,
            farthest=mode == "farthest",
        )  # fmt: skip
        mazes = mazes[(mazes == START).any(1)]
        if not len(mazes):
            return mazes, mazes
        return mazes, self._mark(mazes, maze_search.search_many(mazes, self.size)[2])

    def rate(self, questions: Codes) -> np.ndarray:
        """Moves of the shortest path."""
        return maze_search.search_many(questions, self.size)[2].sum(1) - 1

    def pack(self, questions: Codes, answers: Codes, augment: bool = False) -> MazeRows:
        """Search every maze (and its symmetries): labels come from BFS, never from symmetry.

        Of the eight symmetries only the left-right flip mostly keeps the canonical path,
        because ties are broken by a fixed order of directions.
        """
        self._check_tokens(questions)
        variants = maze_search.dihedral(questions, self.size) if augment else questions[:, None]
        flat = np.ascontiguousarray(variants).reshape(-1, self.cells)
        codes = maze_search.search_many(flat, self.size)[0]
        goal = (flat == GOAL).argmax(1).reshape(variants.shape[:2])
        return MazeRows(
            torch.from_numpy(codes.reshape(variants.shape)), torch.from_numpy(goal.astype(np.int32))
        )

    def problem(self, questions: Codes) -> MazeProblem:
        self._check_tokens(questions)
        codes = torch.from_numpy(np.array(questions, np.int64))
        return self.problem_of(codes, open_cells(codes != WALL, self.tokens))

    def problem_of(
        self, codes: Int[Tensor, "batch cells"], cell: Int[Tensor, "batch tokens"]
    ) -> MazeProblem:
        start, goal = ((codes == code).byte().argmax(1, keepdim=True) for code in (START, GOAL))
        return maze_problem(codes != WALL, start, goal, self.size, cell)

    def token_cells(self, codes: Int[Tensor, "batch cells"]) -> Int[Tensor, "batch tokens"]:
        is_wall = codes == WALL
        order = torch.arange(self.cells, device=codes.device) + is_wall * self.cells
        return order.argsort(1)[:, : (~is_wall).sum(1).max().item()]

    def _check_tokens(self, questions: Codes) -> None:
        most = int((questions != WALL).sum(1).max(initial=0))
        if most > self.tokens:
            raise UserError(
                f"a maze has {most} open cells, more than its {self.tokens} tokens; a solver "
                f"trained with --task.max-tokens {self.cells} takes any maze"
            )

    # --------------------------------------------------- puzzles on the device
    def augment(self, rows: MazeRows, keys: Int[Tensor, " batch"]) -> MazeRows:
        every, chosen = _chosen(rows.code.shape[1], keys)
        return MazeRows(rows.code[every, chosen][:, None], rows.goal[every, chosen][:, None])

    def variants(self, rows: MazeRows) -> list[MazeRows]:
        numbers = range(rows.code.shape[1])
        return [MazeRows(rows.code[:, n : n + 1], rows.goal[:, n : n + 1]) for n in numbers]

    def augment_soft_targets(
        self, soft_targets: UInt8[Tensor, "batch variants steps tokens classes"],
        keys: Int[Tensor, " batch"],
    ) -> UInt8[Tensor, "batch steps tokens classes"]:  # fmt: skip
        return soft_targets[_chosen(soft_targets.shape[1], keys)]

    def unpack(self, rows: MazeRows) -> tuple[MazeProblem, MazeTarget]:
        return unpack_mazes(rows, self.size, self.tokens)

    @property
    def category_sizes(self) -> tuple[int, ...]:
        return (4,)

    @property
    def context_bits(self) -> int:
        return 4

    def context(self, x: MazeProblem) -> Context:
        position = torch.stack([x.cell // self.size, x.cell % self.size], -1)
        return Context(position, x.kind[..., None], x.traversable.float())

    @property
    def relation_names(self) -> tuple[str, ...]:
        return ("neighbour", "row", "column")

    def relations(self, x: MazeProblem) -> Bool[Tensor, "shared relations tokens tokens"]:
        row, column = x.cell // self.size, x.cell % self.size
        down = (row[:, :, None] - row[:, None, :]).abs()
        right = (column[:, :, None] - column[:, None, :]).abs()
        both = x.mask[:, :, None] & x.mask[:, None, :]
        return torch.stack([down + right == 1, down == 0, right == 0], 1) & both[:, None]

    @property
    def message_slots(self) -> int:
        return 4

    def messages(
        self, h: Float[Tensor, "batch tokens width"], x: MazeProblem
    ) -> tuple[Float[Tensor, "batch tokens slots width"], Bool[Tensor, "batch tokens slots"]]:
        """The neighbours themselves, in the order of the directions."""
        return gather_vectors(h, x), x.traversable

    # --------------------------------------------------------------- the answer
    def answer_only(self) -> "Maze":
        """Path cells by threshold: parents and distances are neither learned nor read."""
        return replace(self, decoder="threshold")

    def clamp(
        self, z: Float[Tensor, "batch tokens channels"], x: MazeProblem
    ) -> Float[Tensor, "batch tokens channels"]:
        """The ends are on the path, padding is not; no parent in a wall; the start is at 0.

        An updater that sees log-probabilities keeps parent logits relative to the likeliest
        parent: two that rise together would else meet at the bound, where nothing tells them apart.
        """
        path = torch.where(x.mask, _FIXED_LOGIT, -_FIXED_LOGIT).to(z.dtype)
        path = torch.where(x.free, z[..., 0], path)
        parent = z[..., 1:5].masked_fill(~x.traversable, -self.logit_bound)
        if self.answer_features == "log-probabilities":
            relative = (parent - parent.amax(-1, keepdim=True)).clamp(min=-self.logit_bound)
            parent = relative.masked_fill(~x.traversable, -self.logit_bound)
        at_zero = (x.kind == START) | ~x.mask
        distance = z[..., 5].masked_fill(at_zero, 0.0)
        return torch.cat([path[..., None], parent, distance[..., None]], -1)

    def features(
        self, z: Float[Tensor, "batch tokens channels"], x: MazeProblem
    ) -> Float[Tensor, "batch tokens features"]:
        """Path and parent probabilities, distance, and the slope of distance to neighbours."""
        moves, parent = self._moves(z), self._parent_log_p(z, x)
        slope = (moves[..., None] - gather_neighbours(moves, x)) / 2
        parts = [
            z[..., :1].sigmoid(),
            parent.exp() * x.traversable,
            moves[..., None] / 64,
            slope.clamp(-3, 3) * x.traversable,
        ]
        if self.answer_features == "logits":
            parts += [z[..., :1] / 8, z[..., 1:5] * x.traversable / 8]
        else:
            path = z[..., :1].clamp(LOG_FLOOR, -LOG_FLOOR)  # log-odds
            parts += [path / 8, parent.clamp(min=LOG_FLOOR) * x.traversable / 8]
        return torch.cat([part.to(z.dtype) for part in parts], -1)

    @property
    def feature_width(self) -> int:
        return 15

    def _moves(self, z: Float[Tensor, "*lead channels"]) -> Float[Tensor, "*lead"]:
        """Predicted distance from the start, in moves."""
        return z[..., 5].float() * self.channels[2].unit

    def _parent_log_p(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: MazeProblem
    ) -> Float[Tensor, "*lead batch tokens 4"]:
        return z[..., 1:5].float().masked_fill(~x.traversable, _MASKED).log_softmax(-1)

    def decoder_scores(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: MazeProblem
    ) -> Float[Tensor, "*lead batch tokens 4"]:
        """log p_parent(j|i) - 0.35 |d_i - d_j - 1| for each direction; very low into walls."""
        moves = self._moves(z)
        there = gather_neighbours(moves, x)
        gap = (moves[..., None] - there - 1).abs()
        scores = self._parent_log_p(z, x) - self.decoder_distance_weight * gap
        return scores.masked_fill(~x.traversable, _MASKED)

    def decode(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: MazeProblem
    ) -> Int[Tensor, "*lead batch tokens"]:
        """1 on the path. The walk stops at the start or in a loop; a failed one stays partial."""
        if self.decoder == "threshold":
            return ((z[..., 0] > 0) & x.mask).long()
        direction = self.decoder_scores(z, x).argmax(-1)  # first in order on exact ties
        neighbour = x.neighbour.expand(*direction.shape, 4)
        successor = neighbour.gather(-1, direction[..., None])[..., 0]
        own = torch.arange(z.shape[-2], device=z.device)
        stay = (x.kind == START) | ~x.traversable.any(-1)
        successor = torch.where(stay, own, successor)
        goal = x.goal.expand(successor.shape[:-1])
        return trace(successor, goal, self.doublings)[0].long()

    def class_logits(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: MazeProblem
    ) -> Float[Tensor, "*lead batch tokens classes"]:
        """Off the path, or on it."""
        return torch.stack([torch.zeros_like(z[..., 0]), z[..., 0]], -1)

    def open_tokens(self, x: MazeProblem) -> Bool[Tensor, "batch tokens"]:
        return x.free

    def cell_codes(
        self, answer: Int[Tensor, "batch tokens"], x: MazeProblem
    ) -> Int[Tensor, "batch cells"]:
        marked = torch.where((answer > 0) & x.free, PATH, x.kind)
        # Padding tokens point to walls: writing their code 0 changes nothing.
        return x.grid.scatter(1, x.cell, marked)

    def answer_tokens(self, codes: Codes, x: MazeProblem) -> Int[Tensor, "batch tokens"]:
        of_token = torch.as_tensor(codes, device=x.cell.device).long().gather(1, x.cell)
        return ((of_token == PATH) | (x.mask & ~x.free)).long()

    def reference(self, y: MazeTarget) -> Int[Tensor, "batch tokens"]:
        return y.path.long()

    def obeys(self, answer: Int[Tensor, "batch tokens"], x: MazeProblem) -> Bool[Tensor, " batch"]:
        """Whether the marked cells are a route from start to goal, of any length."""
        return is_route((answer > 0) & x.mask, x)

    def exact(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: MazeProblem, y: MazeTarget
    ) -> Bool[Tensor, "*lead batch"]:
        """Decides without walking: the walk is right if every path cell picks its parent."""
        if self.decoder == "threshold":
            return super().exact(z, x, y)
        right = self.decoder_scores(z, x).argmax(-1) == y.parent
        length = y.distance.gather(1, x.goal[:, None])[:, 0]
        return (right | ~(y.path & y.has_parent)).all(-1) & (length <= 2**self.doublings)

    def solved_state(
        self, x: MazeProblem, y: MazeTarget, sharpness: float = 8.0
    ) -> Float[Tensor, "batch tokens channels"]:
        path = (y.path.float() * 2 - 1) * sharpness
        parent = (functional.one_hot(y.parent, 4).float() * 2 - 1) * sharpness
        distance = y.distance.float() / self.channels[2].unit
        return self.clamp(torch.cat([path[..., None], parent, distance[..., None]], -1), x)

    def corrupt(
        self, x: MazeProblem, y: MazeTarget, keys: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch tokens channels"]:
        """Drop a path segment, splice in a detour, flip 2-5 % of the cells, add noise."""
        length = y.distance.gather(1, x.goal[:, None]).float()
        first = uniform(keys, Stream.CORRUPT_0, 1) * length
        dropped = y.path & (y.distance >= first)
        dropped &= y.distance < first + (0.1 + 0.3 * uniform(keys, Stream.CORRUPT_1, 1)) * length
        # The detour: a random reachable cell and the last 24 moves of the way to it.
        pick = (uniform(keys, Stream.CORRUPT_2, self.tokens) * y.has_parent).argmax(-1)
        way, _ = trace(y.parent_token, pick, math.ceil(math.log2(self.tokens)))
        detour = way & (y.distance > y.distance.gather(1, pick[:, None]) - 24)
        flipped = uniform(keys, Stream.CORRUPT_3, self.tokens) < 0.02 + 0.03 * uniform(
            keys, Stream.CORRUPT_4, 1
        )
        path = ((y.path & ~dropped) | detour) ^ flipped
        wrong_parent = torch.where(
            dropped | flipped, (uniform(keys, Stream.CORRUPT_5, self.tokens) * 4).long(), y.parent
        )
        z = torch.cat(
            [
                (path.float() * 8 - 4)[..., None],
                functional.one_hot(wrong_parent, 4).float() * 8 - 4,
                (y.distance.float() / self.channels[2].unit)[..., None],
            ],
            -1,
        )
        scale = constant((1.0, 1.0, 1.0, 1.0, 1.0, 0.1), z.device)
        return self.clamp(z + normal(keys, Stream.CORRUPT_6, self.tokens, self.width) * scale, x)

    # ----------------------------------------------------------------- learning
    def energy_terms(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: MazeProblem, y: MazeTarget
    ) -> dict[str, Float[Tensor, "*lead batch"]]:
        logit = z[..., 0].float()
        p, on_path, free = logit.sigmoid(), y.path & x.free, x.free
        ce = functional.binary_cross_entropy_with_logits(
            logit, y.path.float().expand_as(logit), reduction="none"
        )
        overlap = (p * on_path).sum(-1)
        dice = 1 - (2 * overlap + 1) / ((p * free).sum(-1) + on_path.sum(-1) + 1)
        terms = {
            "ce": masked_mean(ce, free),
            "dice": self.lambda_dice * dice,
            "rank": self.lambda_rank * self._rank_violation(p, on_path, free & ~y.path),
        }
        if self.decoder == "canonical":
            terms["decoder"] = self.lambda_dec * self._decoder_cross_entropy(z, x, y)
        return terms

    def _rank_violation(
        self,
        p: Float[Tensor, "*lead tokens"],
        on_path: Bool[Tensor, "batch tokens"],
        off_path: Bool[Tensor, "batch tokens"],
    ) -> Float[Tensor, "*lead"]:
        """V_rank: the least likely path cells should beat the likeliest others by a margin."""
        count = min(self.rank_cells, self.tokens)
        number = torch.arange(count, device=p.device)
        lowest = -(-p).masked_fill(~on_path, -2.0).topk(count, -1).values
        highest = p.masked_fill(~off_path, -1.0).topk(count, -1).values
        pairs = (number < on_path.sum(-1, keepdim=True))[..., :, None]
        pairs = pairs & (number < off_path.sum(-1, keepdim=True))[..., None, :]
        hinge = (self.rank_margin - lowest[..., :, None] + highest[..., None, :]).clamp(min=0)
        return masked_mean(hinge.flatten(-2), pairs.flatten(-2))

    def _decoder_cross_entropy(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: MazeProblem, y: MazeTarget
    ) -> Float[Tensor, "*lead batch"]:
        """V_dec: cross-entropy of the decoder's own scores against the true parent."""
        log_p = self.decoder_scores(z, x).log_softmax(-1)
        return masked_mean(_pick(-log_p, y.parent), y.path & y.has_parent)

    def step_loss(
        self, z: Float[Tensor, "*lead batch tokens channels"], x: MazeProblem, y: MazeTarget
    ) -> Float[Tensor, "*lead batch"]:
        """The energy, plus parents and distances of all reachable cells.

        A decoder by threshold has no use for those two, and learns the path's cells alone.
        """
        if self.decoder == "threshold":
            return self.energy(z, x, y)
        parent = masked_mean(_pick(-self._parent_log_p(z, x), y.parent), y.has_parent)
        distance, moves = z[..., 5].float(), self._moves(z)
        target = (y.distance.float() / self.channels[2].unit).expand_as(distance)
        far = functional.smooth_l1_loss(distance, target, reduction="none")
        there = _pick(gather_neighbours(moves, x), y.parent)
        move = functional.smooth_l1_loss(moves - there, torch.ones_like(moves), reduction="none")
        return (
            self.energy(z, x, y)
            + self.lambda_parent * parent
            + self.lambda_distance * masked_mean(far, y.has_parent)
            + self.lambda_move * masked_mean(move, y.has_parent)
        )

    def eligible(
        self,
        exact_at: Bool[Tensor, "candidates batch"],
        exact_after: Bool[Tensor, "candidates batch"],
        exact_end: Bool[Tensor, " batch"],
    ) -> Bool[Tensor, "candidates batch"]:
        """Not solved yet, or solved and lost again within the h steps."""
        return ~exact_at | ~exact_after

    def diagnostics(
        self, answer: Int[Tensor, "batch tokens"], x: MazeProblem, y: MazeTarget
    ) -> dict[str, Float[Tensor, " batch"]]:
        """Cell accuracy over non-wall cells, path validity and optimality, F1 without ends."""
        marked, valid = (answer > 0) & x.mask, self.obeys(answer, x)
        moves = marked.sum(-1) - 1
        optimal = valid & (moves == y.distance.gather(1, x.goal[:, None])[:, 0])
        ours, theirs = marked & x.free, y.path & x.free
        hits = (ours & theirs).sum(-1)
        f1 = 2 * hits / (ours.sum(-1) + theirs.sum(-1)).clamp(min=1)
        return {
            "cell_accuracy": masked_mean((marked == y.path).float(), x.mask),
            "valid": valid.float(),
            "optimal": optimal.float(),
            "path_f1": f1,
        }


def _chosen(variants: int, keys: Int[Tensor, " batch"]) -> tuple[Tensor, Tensor]:
    """Each example, and which of the stored symmetries it gets."""
    return torch.arange(len(keys), device=keys.device), (
        uniform(keys, Stream.SYMMETRY) * variants
    ).long()


def _pick(
    values: Float[Tensor, "*lead tokens four"], direction: Int[Tensor, "batch tokens"]
) -> Float[Tensor, "*lead tokens"]:
    """The value in a given direction."""
    return values.gather(-1, direction.expand(values.shape[:-1])[..., None])[..., 0]
