"""The Maze task against the definitions of the paper."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from focus.engines import maze_search
from focus.engines.maze_search import GOAL, OPEN, START, WALL
from focus.errors import UserError
from focus.tasks import Maze
from focus.tasks.maze_tokens import gather_neighbours, gather_vectors, is_route, opposite
from tests.tasks.samples import TASKS, batch, random_state

mazes = pytest.mark.parametrize("task", [TASKS["maze6"], TASKS["maze10"]])
seeds = st.integers(0, 2**31)


def slow_scores(task: Maze, z: np.ndarray, x, token: int) -> list[float]:
    """log p_parent(j|i) - 0.35 |d_i - d_j - 1| over the traversable neighbours of a token."""
    logits = [z[token, 1 + d] for d in range(4) if x.traversable[0, token, d]]
    total = math.log(sum(math.exp(v) for v in logits)) if logits else 0.0
    scores = []
    for d in range(4):
        if not x.traversable[0, token, d]:
            scores.append(-math.inf)
            continue
        other = int(x.neighbour[0, token, d])
        gap = abs(16 * z[token, 5] - 16 * z[other, 5] - 1)
        scores.append(z[token, 1 + d] - total - 0.35 * gap)
    return scores


def slow_decode(task: Maze, z: np.ndarray, x) -> set[int]:
    """Walk from the goal, at most 256 transitions, stop at the start or at a loop."""
    token, visited = int(x.goal[0]), {int(x.goal[0])}
    for _ in range(2**task.doublings):
        scores = slow_scores(task, z, x, token)
        if token == int(x.start[0]) or max(scores) == -math.inf:
            break
        token = int(x.neighbour[0, token, scores.index(max(scores))])
        if token in visited:
            break
        visited.add(token)
    return visited


@mazes
@given(seed=seeds)
def test_decoder_walks_as_defined(task, seed):
    x, _ = batch(task, seed, count=1)
    z = random_state(task, x, seed)
    decoded = set(torch.nonzero(task.decode(z, x)[0]).flatten().tolist())
    assert decoded == slow_decode(task, z[0].double().numpy(), x)


@mazes
@given(seed=seeds, flips=st.integers(0, 3))
def test_the_parallel_exactness_check_equals_decoding(task, seed, flips):
    x, y = batch(task, seed, count=6)
    z = task.solved_state(x, y)
    noise = random_state(task, x, seed)
    chosen = torch.rand(6, task.tokens, generator=torch.Generator().manual_seed(seed))
    z = torch.where((chosen < 0.05 * flips)[..., None], noise, z)
    walked = (task.decode(z, x) == task.reference(y)).all(-1)
    assert torch.equal(task.exact(z, x, y), walked)


def test_ties_go_to_the_first_direction():
    task = Maze(size=3, min_path=2)
    question = np.array([[1, 1, 1], [1, START, 1], [1, 1, GOAL]], np.uint8).reshape(1, 9)
    x, _ = task.unpack(task.pack(question, question))
    z = task.initial(x)  # all logits and distances equal
    middle = 4
    scores = task.decoder_scores(z, x)[0, middle]
    assert scores.argmax() == 0  # down
    assert (scores == scores[0]).all()


def slow_energy(task: Maze, z: np.ndarray, x, y) -> float:
    """Appendix B.2, token by token, for a batch of one."""
    free = [t for t in range(task.tokens) if x.free[0, t]]
    p = {t: 1 / (1 + math.exp(-z[t, 0])) for t in free}
    path = {t for t in range(task.tokens) if y.path[0, t]}
    ce = sum(-math.log(p[t] if t in path else 1 - p[t]) for t in free) / len(free)
    inside = sum(p[t] for t in free if t in path)
    on = sum(1 for t in free if t in path)
    dice = 1 - (2 * inside + 1) / (sum(p.values()) + on + 1)
    lowest = sorted(p[t] for t in free if t in path)[:16]
    highest = sorted((p[t] for t in free if t not in path), reverse=True)[:16]
    hinges = [max(0.0, 0.5 - a + b) for a in lowest for b in highest]
    rank = sum(hinges) / max(1, len(hinges))
    walk = [t for t in path if y.has_parent[0, t]]
    dec = 0.0
    for t in walk:
        scores = slow_scores(task, z, x, t)
        total = math.log(sum(math.exp(s) for s in scores if s > -math.inf))
        dec += total - scores[int(y.parent[0, t])]
    dec /= len(walk)
    return ce + 0.40 * dice + 0.04 * rank + 0.10 * dec


@mazes
@given(seed=seeds)
def test_energy_equals_the_definition(task, seed):
    x, y = batch(task, seed, count=1)
    z = random_state(task, x, seed)
    expected = slow_energy(task, z[0].double().numpy(), x, y)
    assert task.energy(z, x, y).item() == pytest.approx(expected, rel=1e-4, abs=1e-5)


@mazes
@given(seed=seeds, sharpness=st.floats(0.1, 8))
def test_the_decoder_term_agrees_with_the_decoder(task, seed, sharpness):
    """Below ln 2 over the path length every parent is the decoder's choice, and conversely."""
    x, y = batch(task, seed, count=8)
    z = task.clamp(task.solved_state(x, y, sharpness) + random_state(task, x, seed, 0.5), x)
    per_example = task.energy_terms(z, x, y)["decoder"] / task.lambda_dec
    moves = (y.path & y.has_parent).sum(-1)
    exact = task.exact(z, x, y)
    assert exact[per_example * moves < math.log(2)].all()
    assert (per_example[~exact] >= math.log(2) / moves[~exact]).all()


@mazes
@given(seed=seeds)
def test_labels_are_the_search_tree(task, seed):
    x, y = batch(task, seed)
    step = y.distance - y.distance.gather(1, y.parent_token)
    assert (step[y.has_parent] == 1).all()
    assert (y.distance.gather(1, x.start[:, None]) == 0).all()
    length = y.distance.gather(1, x.goal[:, None])[:, 0]
    assert torch.equal(y.path.sum(1) - 1, length)
    assert (length >= task.min_path).all()


def test_routes_exclude_branches_gaps_and_rings():
    task = Maze(size=6, min_path=2)
    grid = np.full((6, 6), OPEN, np.uint8)
    grid[0, 0], grid[0, 3] = START, GOAL
    question = grid.reshape(1, 36)
    x, _ = task.unpack(task.pack(question, question))

    def route(*cells):
        marked = torch.zeros(1, 36, dtype=torch.bool)
        marked[0, [r * 6 + c for r, c in cells]] = True
        return bool(is_route(marked, x))

    straight = [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert route(*straight)
    assert route((0, 0), (1, 0), (1, 1), (1, 2), (1, 3), (0, 3))
    assert not route(*straight[:-1])
    assert not route((0, 0), (0, 1), (0, 3))
    assert not route(*straight, (1, 1))
    ring = [(3, 3), (3, 4), (4, 3), (4, 4)]
    assert not route(*straight, *ring)


def test_diagnostics_of_a_detour():
    task = Maze(size=6, min_path=2)
    grid = np.full((6, 6), OPEN, np.uint8)
    grid[0, 0], grid[0, 3] = START, GOAL
    question = grid.reshape(1, 36)
    x, y = task.unpack(task.pack(question, question))
    detour = torch.zeros(1, 36, dtype=torch.long)
    detour[0, [0, 6, 7, 8, 9, 3]] = 1
    assert task.obeys(detour, task.problem(question)).item()
    scores = task.diagnostics(detour, x, y)
    assert scores["valid"] == 1
    assert scores["optimal"] == 0
    assert scores["path_f1"] == 0
    assert scores["cell_accuracy"].item() == pytest.approx(30 / 36)


def test_the_threshold_decoder_reads_path_cells():
    task = Maze(size=6, min_path=6, decoder="threshold")
    x, y = batch(task)
    z = task.solved_state(x, y)
    assert task.exact(z, x, y).all()
    flipped = z.clone()
    cell = (~y.path & x.mask)[0].byte().argmax()
    flipped[0, cell, 0] = 3.0
    assert task.exact(flipped, x, y).tolist() == [False, True, True, True]


def test_what_a_threshold_reads_is_all_that_is_learned_for_it():
    """Parents and distances are the canonical decoder's."""
    for decoder, learns in (("threshold", False), ("canonical", True)):
        task = Maze(size=6, min_path=6, decoder=decoder)
        x, y = batch(task)
        z = random_state(task, x, 0)[None].requires_grad_()
        (gradient,) = torch.autograd.grad(task.loss(z, x, y).sum(), z)
        assert gradient[..., 0].any()
        assert bool(gradient[..., 1:].any()) is learns
        assert ("decoder" in task.energy_terms(z, x, y)) is learns


def test_more_tokens_than_cells_are_no_more_than_cells():
    task = Maze(size=6, min_path=6, max_tokens=90)
    assert task.tokens == 36
    x, y = batch(task)
    assert task.exact(task.solved_state(x, y), x, y).all()


def test_eligibility_keeps_exact_states_that_are_lost_again():
    at = torch.tensor([[False], [True], [True], [False]])
    after = torch.tensor([[False], [True], [False], [True]])
    eligible = Maze().eligible(at, after, torch.tensor([True]))
    assert eligible[:, 0].tolist() == [True, False, True, True]


def test_the_walk_limit_grows_with_the_grid():
    assert [2 ** Maze(size=n).doublings for n in (10, 30, 40, 60)] == [256, 256, 512, 1024]


def test_all_1000_mazes_decode_in_one_batch(real_mazes):
    task = Maze(max_tokens=656)
    x, y = task.unpack(task.pack(real_mazes.questions, real_mazes.answers))
    decoded = task.decode(task.solved_state(x, y), x)
    assert (task.answer_codes(decoded, x) == real_mazes.answers).all()
    scores = task.diagnostics(decoded, x, y)
    assert all((score == 1).all() for score in scores.values())


def test_of_the_symmetries_only_the_flip_mostly_keeps_the_label(real_mazes):
    """The reason why labels are searched anew after a symmetry."""
    questions = maze_search.dihedral(real_mazes.questions, 30)
    answers = maze_search.dihedral(real_mazes.answers, 30)
    verdicts = [Maze().judge(questions[:, k], answers[:, k]) for k in range(8)]
    unchanged = [float(verdict.canonical.mean()) for verdict in verdicts]
    assert unchanged[0] == 1
    assert 0.9 < unchanged[4] < 1  # left-right flip
    assert max(unchanged[1:4] + unchanged[5:]) < 0.01  # one maze in a thousand, under one rotation
    assert all(verdict.valid.all() for verdict in verdicts)  # still shortest paths


def test_a_goal_out_of_reach_is_refused():
    task = Maze(size=6, min_path=6)
    questions, _ = task.generate(0, 0, 3, "distant")
    task.check_rows(questions)
    goal = int((questions[1] == GOAL).argmax())
    row, column = divmod(goal, 6)
    for cell in range(36):
        if abs(cell // 6 - row) + abs(cell % 6 - column) == 1:
            questions[1][cell] = WALL
    with pytest.raises(UserError, match="maze 2: the goal G cannot be reached"):
        task.check_rows(questions)


def test_too_many_open_cells_are_refused():
    task = Maze(size=6, min_path=6, max_tokens=5)
    questions, answers = task.generate(0, 0, 1, "distant")
    for call in (lambda: task.pack(questions, answers), lambda: task.problem(questions)):
        with pytest.raises(UserError, match=r"27 open cells, .*5 tokens; .* --task"):
            call()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("S G\n   ", "has 2 lines, 3 are needed"),
        ("S G \n   \n   ", "line 1 of the maze has 4 characters"),
        ("S G\n x \n   ", "'x' at position 5"),
        ("  G\n   \n   ", "has 0 cells S"),
        ("S G\n G \n   ", "has 2 cells G"),
    ],
)
def test_bad_mazes_are_refused_with_a_reason(text, message):
    with pytest.raises(UserError, match=message):
        Maze(size=3).parse(text)


def test_an_unreachable_goal_is_refused():
    task = Maze(size=3)
    with pytest.raises(UserError, match="cannot be reached"):
        task.solve(task.parse("S# \n## \n  G"))


def test_a_path_longer_than_the_maze_is_not_searched_for():
    with pytest.raises(UserError, match="a 3x3 maze has no room for a path of 9 moves"):
        Maze(size=3, min_path=9).generate(0, 0, 1, "distant")


def test_text_survives_a_round_trip():
    task = Maze(size=10, min_path=15)
    questions, answers = task.generate(3, 0, 1, "farthest")
    question, answer = questions[0], answers[0]
    assert (task.parse(task.render(question)) == question).all()
    assert (task.parse(task.question_text(question)) == question).all()
    target = task.text_target().text(answer)
    assert (task.parse_text_target(question, target) == answer).all()
    assert task.parse_text_target(question, target.replace("S", "o")) is None


def test_neighbours_point_back_and_agree_with_the_relations():
    task = TASKS["maze6"]
    x, _ = batch(task)
    own = torch.arange(task.tokens)[None, :, None].expand_as(x.neighbour)
    flat = (x.neighbour * 4 + opposite(x.neighbour.device)).flatten(1)
    back = x.neighbour.flatten(1).gather(1, flat).reshape_as(own)
    assert torch.equal(back[x.traversable], own[x.traversable])
    pointed = (x.neighbour[..., None] == torch.arange(task.tokens)) & x.traversable[..., None]
    assert torch.equal(pointed.any(2), task.relations(x)[:, 0])


@pytest.mark.parametrize("gather", [gather_neighbours, gather_vectors])
def test_gradient_of_gathering_equals_autograd_of_plain_indexing(gather):
    task = TASKS["maze6"]
    x, _ = batch(task)
    vectors = gather is gather_vectors
    values = torch.randn(4, task.tokens, *((5,) if vectors else ()), requires_grad=True)
    present = x.traversable[..., None] if vectors else x.traversable
    plain = values[torch.arange(4)[:, None, None], x.neighbour] * present
    weights = torch.randn_like(plain)
    ours, expected = (
        torch.autograd.grad((gathered * weights).sum(), values)[0]
        for gathered in (gather(values, x), plain)
    )
    torch.testing.assert_close(gather(values, x), plain)
    torch.testing.assert_close(ours, expected)
