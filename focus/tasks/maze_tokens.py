"""How mazes become tensors: open cells as tokens, the search tree as labels, routes as pointers.

Directions are numbered down, left, right, up, so that the opposite of d is 3 - d.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor
from torch.nn import functional

from focus.engines.maze_search import BLOCKED, GOAL, OPEN, ROOT, START, UNREACHABLE
from focus.tasks.records import Problem, Target, TensorRecord

_MOVES = ((1, 0), (0, -1), (0, 1), (-1, 0))


@dataclass(frozen=True)
class MazeRows(TensorRecord):
    """Search results (codes of `focus.engines.maze_search`) of one or all eight symmetries."""

    code: UInt8[Tensor, "rows variants cells"]
    goal: Int[Tensor, "rows variants"]


@dataclass(frozen=True)
class MazeProblem(Problem):
    """x of a maze."""

    kind: Int[Tensor, "batch tokens"]  # 0 padding, 1 open, 2 start, 3 goal
    start: Int[Tensor, " batch"]  # token of the start
    goal: Int[Tensor, " batch"]  # token of the goal
    neighbour: Int[Tensor, "batch tokens 4"]  # token in each direction, 0 where there is none
    traversable: Bool[Tensor, "batch tokens 4"]

    @property
    def free(self) -> Bool[Tensor, "batch tokens"]:
        """Tokens whose membership of the path is open: all but the two ends."""
        return self.kind == OPEN


@dataclass(frozen=True)
class MazeTarget(Target):
    """The canonical path, and the search tree behind it."""

    path: Bool[Tensor, "batch tokens"]
    parent: Int[Tensor, "batch tokens"]  # direction of the parent
    parent_token: Int[Tensor, "batch tokens"]  # itself where there is no parent
    has_parent: Bool[Tensor, "batch tokens"]  # reachable, and not the start
    distance: Int[Tensor, "batch tokens"]  # moves from the start, 0 where unreachable


def opposite(device: torch.device) -> Int[Tensor, " 4"]:
    """The direction back from the neighbour in each direction."""
    return 3 - torch.arange(4, device=device)


class _GatherNeighbours(torch.autograd.Function):
    """Read the neighbours' values; the gradient is read the same way, so no scatter is needed."""

    @staticmethod
    def forward(ctx, values, index, present):
        ctx.save_for_backward(index, present)
        return _read(values, index) * present

    @staticmethod
    def backward(ctx, grad):
        index, present = ctx.saved_tensors
        # What token i gave to its neighbour j comes back from the opposite direction of j.
        flat = (grad * present).flatten(-2)
        return (_read(flat, index * 4 + opposite(index.device)) * present).sum(-1), None, None


def _read(values: Tensor, index: Tensor) -> Tensor:
    """values (*lead, batch, tokens) at index (batch, tokens, 4)."""
    index = index.expand(*values.shape[:-1], *index.shape[-2:])
    return values.gather(-1, index.flatten(-2)).unflatten(-1, index.shape[-2:])


def gather_neighbours(
    values: Float[Tensor, "*lead tokens"], x: MazeProblem
) -> Float[Tensor, "*lead tokens 4"]:
    """Each token's view of a scalar at its neighbours, 0 where there is none."""
    return _GatherNeighbours.apply(values, x.neighbour, x.traversable)


class _GatherVectors(torch.autograd.Function):
    """The same for vectors."""

    @staticmethod
    def forward(ctx, values, index, present):
        ctx.save_for_backward(index, present)
        return _rows(values, index) * present[..., None].to(values.dtype)

    @staticmethod
    def backward(ctx, grad):
        index, present = ctx.saved_tensors
        given = _rows(grad.flatten(1, 2), index * 4 + opposite(index.device))
        return (given * present[..., None].to(grad.dtype)).sum(2), None, None


def _rows(values: Tensor, index: Tensor) -> Tensor:
    """values (batch, rows, width) at index (batch, tokens, 4)."""
    batch, rows = values.shape[:2]
    first = torch.arange(batch, device=values.device)[:, None, None] * rows
    return values.flatten(0, 1)[index + first]


def gather_vectors(
    values: Float[Tensor, "batch tokens width"], x: MazeProblem
) -> Float[Tensor, "batch tokens 4 width"]:
    """Each token's view of the vectors at its neighbours, 0 where there is none."""
    return _GatherVectors.apply(values, x.neighbour, x.traversable)


def trace(
    successor: Int[Tensor, "*lead nodes"], first: Int[Tensor, "*lead"], doublings: int
) -> tuple[Bool[Tensor, "*lead nodes"], Int[Tensor, "*lead"]]:
    """Follow pointers for 2**doublings moves at once: the nodes visited, and the last one.

    Pointer doubling: after k rounds `jump` moves 2**k ahead and `visited` holds the first 2**k
    nodes, so the loop is over the logarithm of the path length.
    """
    visited = torch.zeros_like(successor).scatter(-1, first[..., None], 1)
    jump = successor
    for _ in range(doublings):
        visited = visited.scatter_add(-1, jump, visited).clamp(max=1)
        jump = jump.gather(-1, jump)
    last = jump.gather(-1, first[..., None])
    return visited.scatter(-1, last, 1).bool(), last[..., 0]


def open_cells(is_open: Bool[Tensor, "batch cells"], tokens: int) -> Int[Tensor, "batch tokens"]:
    """The open cells in reading order, padded to `tokens` with walls."""
    return torch.argsort(is_open.logical_not().byte(), dim=1, stable=True)[:, :tokens]


def maze_problem(
    is_open: Bool[Tensor, "batch cells"],
    start_cell: Int[Tensor, "batch 1"],
    goal_cell: Int[Tensor, "batch 1"],
    size: int,
    cell: Int[Tensor, "batch tokens"],
) -> MazeProblem:
    """x of mazes, whose tokens stand for the cells of `open_cells`."""
    number = torch.arange(cell.shape[1], device=cell.device).expand_as(cell)
    mask = number < is_open.sum(1, keepdim=True)
    # The inverse map: token of a cell.
    token_of = torch.zeros_like(is_open, dtype=torch.long).scatter(1, cell, number)
    start, goal = token_of.gather(1, start_cell), token_of.gather(1, goal_cell)
    kind = mask.long().scatter(1, start, START).scatter(1, goal, GOAL)
    row, column = cell // size, cell % size
    neighbour, traversable = [], []
    for down, right in _MOVES:
        r, c = row + down, column + right
        inside = (r >= 0) & (r < size) & (c >= 0) & (c < size) & mask
        other = r.clamp(0, size - 1) * size + c.clamp(0, size - 1)
        passable = inside & is_open.gather(1, other)
        neighbour.append(token_of.gather(1, other) * passable)
        traversable.append(passable)
    grid = is_open.long().scatter(1, start_cell, START).scatter(1, goal_cell, GOAL)
    return MazeProblem(
        grid, cell, mask, kind, start[:, 0], goal[:, 0],
        torch.stack(neighbour, -1), torch.stack(traversable, -1),
    )  # fmt: skip


def unpack_mazes(rows: MazeRows, size: int, tokens: int) -> tuple[MazeProblem, MazeTarget]:
    """x and y* of stored mazes."""
    code = rows.code[:, 0].long()
    start_cell = (code == ROOT).byte().argmax(1, keepdim=True)
    is_open = code != BLOCKED
    cell = open_cells(is_open, tokens)
    x = maze_problem(is_open, start_cell, rows.goal[:, :1].long(), size, cell)
    return x, _target(code.gather(1, x.cell), x)


def _target(code: Int[Tensor, "batch tokens"], x: MazeProblem) -> MazeTarget:
    """Parents, distances and the path from the search codes of the tokens."""
    tokens = code.shape[1]
    doublings = math.ceil(math.log2(tokens))
    has_parent = (code < UNREACHABLE) & x.mask
    parent = torch.where(has_parent, code, 0)
    own = torch.arange(tokens, device=code.device).expand_as(code)
    pointed = x.neighbour.gather(-1, parent[..., None])[..., 0]
    parent_token = torch.where(has_parent, pointed, own)
    # Pointer doubling turns "one move to the parent" into the distance from the start.
    distance, jump = has_parent.long(), parent_token
    for _ in range(doublings):
        distance = distance + distance.gather(1, jump)
        jump = jump.gather(1, jump)
    path, _ = trace(parent_token, x.goal, doublings)
    return MazeTarget(path, parent, parent_token, has_parent, distance)


def is_route(marked: Bool[Tensor, "batch tokens"], x: MazeProblem) -> Bool[Tensor, " batch"]:
    """Whether the marked cells are one unbranched route between start and goal.

    Ends have one marked neighbour, other cells two: that leaves a route from start to goal
    and perhaps rings apart from it. Following the route edge by edge excludes the rings.
    """
    tokens = marked.shape[1]
    linked = gather_neighbours(marked.float(), x).bool()  # batch, tokens, 4
    degree = linked.sum(-1)
    ends = (x.kind == START) | (x.kind == GOAL)
    regular = ((degree == torch.where(ends, 1, 2)) | ~marked).all(-1)
    # Edge (i, s) leads from i to its neighbour j; from there on to the link that is not back.
    onward = linked[torch.arange(marked.shape[0], device=marked.device)[:, None, None], x.neighbour]
    back = functional.one_hot(opposite(marked.device), 4).bool()
    onward = onward & ~back
    edge = x.neighbour * 4 + onward.byte().argmax(-1)
    own = torch.arange(tokens * 4, device=edge.device).view(tokens, 4)
    edge = torch.where(onward.any(-1), edge, own).flatten(1)
    first = x.start * 4 + linked.gather(1, x.start[:, None, None].expand(-1, 1, 4))[
        :, 0
    ].byte().argmax(-1)
    followed, _ = trace(edge, first, math.ceil(math.log2(x.grid.shape[1])))
    both_ends = (marked | ~ends).all(-1)
    return regular & both_ends & (followed.sum(-1) == marked.sum(-1) - 1)
