"""Defect, selection and replay on constructed trajectories and on a real solver."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from focus.curation.algorithm import SelfTrajectory, replay_loss
from focus.curation.config import CurationConfig, Stage
from focus.curation.defect import contraction_defect, defect_penalty
from focus.curation.selectors import Frontier, any_eligible, highest_energy
from focus.model.backbone import BackboneConfig
from focus.model.base import SolverConfig
from focus.model.recurrence import Conditioning
from focus.model.solver import Solver, Trajectory
from focus.model.state import State
from focus.model.updater import Updater, UpdaterConfig
from focus.random import example_keys
from focus.tasks import Maze, Sudoku
from tests.curation.samples import minibatch
from tests.tasks.samples import batch

RHO, EPSILON = 0.985, 0.05
KEYS = example_keys(0, 0, torch.arange(4))
STAGE = Stage(8, 4)


def test_the_defect_is_the_equation():
    before, after = torch.tensor([1.0, 0.3]), torch.tensor([0.5, 0.3])
    expected = [math.log((a + 0.05) / (0.985**4 * (b + 0.05))) for b, a in ((1.0, 0.5), (0.3, 0.3))]
    assert contraction_defect(before, after, 4, RHO, EPSILON).tolist() == pytest.approx(expected)


@pytest.mark.parametrize(("h", "stuck"), [(4, 0.0604), (8, 0.1209)])
def test_a_stuck_state_beats_one_that_improves_by_more_than_its_mirror(h, stuck):
    """D = -h ln rho for a state at rest; 11 % / 22 % improvement lies as far on the other side."""
    at_rest = contraction_defect(torch.tensor(1.0), torch.tensor(1.0), h, RHO, EPSILON)
    assert at_rest.item() == pytest.approx(stuck, abs=1e-4)
    mirror = 1 - math.exp(2 * h * math.log(RHO))
    assert mirror == pytest.approx(0.114 if h == 4 else 0.215, abs=1e-3)
    for improvement, winner in ((mirror + 0.01, 0), (mirror - 0.01, 1)):
        after = (1.0 + EPSILON) * (1 - improvement) - EPSILON
        moved = contraction_defect(torch.tensor(1.0), torch.tensor(after), h, RHO, EPSILON)
        defects = torch.stack([at_rest, moved])[:, None]
        chosen = Frontier()(defects, defects, torch.ones(2, 1, dtype=torch.bool), KEYS[:1])
        assert chosen.item() == winner


def test_the_telescoping_identity_holds_over_windows():
    """log(E_B + eps) = log(E_0 + eps) + B h log rho + sum of D, and the bound that follows."""
    energies = torch.tensor([2.0, 1.4, 1.5, 0.7, 0.2])
    h = 8
    D = contraction_defect(energies[:-1], energies[1:], h, RHO, EPSILON)
    identity = (energies[0] + EPSILON).log() + 4 * h * math.log(RHO) + D.sum()
    assert identity.item() == pytest.approx((energies[-1] + EPSILON).log().item(), abs=1e-5)
    bound = (energies[0] + EPSILON) * RHO ** (4 * h) * D.clamp(min=0).sum().exp()
    assert energies[-1] + EPSILON <= bound


def test_the_penalty_is_one_sided():
    assert defect_penalty(torch.tensor([-1.0, 0.0, 0.5]), 0.0).tolist() == [0.0, 0.0, 0.25]
    assert defect_penalty(torch.tensor([0.5]), 0.2).item() == pytest.approx(0.09)


TRAJECTORIES = {  # energies at t = 0, 4, 8, 12, 16
    "stuck": [1.0, 1.0, 1.0, 1.0, 1.0],
    "slow": [1.0, 0.95, 0.90, 0.86, 0.82],
    "fast": [2.0, 1.0, 0.4, 0.1, 0.01],
    "regressing": [0.5, 0.7, 1.0, 1.4, 2.0],
    "late": [2.0, 1.0, 0.5, 0.47, 0.46],
}


@pytest.mark.parametrize(
    ("name", "frontier", "hardest"),
    [("stuck", 0, 0), ("slow", 1, 0), ("fast", 0, 0), ("regressing", 0, 3), ("late", 2, 0)],
)
def test_selectors_on_typical_trajectories(name, frontier, hardest):
    energy = torch.tensor(TRAJECTORIES[name])
    D = contraction_defect(energy[:-1], energy[1:], 4, RHO, EPSILON)[:, None]
    eligible = torch.ones(4, 1, dtype=torch.bool)
    distance = D.abs()
    assert distance[frontier] == distance.min()
    assert Frontier()(D, energy[:-1, None], eligible, KEYS[:1]).item() == frontier
    assert highest_energy(D, energy[:-1, None], eligible, KEYS[:1]).item() == hardest


def test_ties_go_to_the_smallest_t_and_ineligible_candidates_are_never_chosen():
    D = torch.tensor([[0.3], [-0.1], [0.1], [0.0]])
    energy = torch.tensor([[1.0], [2.0], [2.0], [2.0]])
    eligible = torch.tensor([[True], [True], [True], [False]])
    assert Frontier()(D, energy, eligible, KEYS[:1]).item() == 1
    assert highest_energy(D, energy, eligible, KEYS[:1]).item() == 1
    keys = example_keys(5, 0, torch.arange(600))
    draws = any_eligible(D.expand(4, 600), energy.expand(4, 600), eligible.expand(4, 600), keys)
    counts = torch.bincount(draws, minlength=4)
    assert counts[3] == 0
    assert (counts[:3] > 150).all()


def test_gamma_moves_the_frontier():
    D = torch.tensor([[0.0], [0.5]])
    eligible = torch.ones(2, 1, dtype=torch.bool)
    assert Frontier(gamma=0.4)(D, D, eligible, KEYS[:1]).item() == 1


class Nothing(Conditioning):
    """What a scripted rollout is conditioned on."""

    def detach(self):
        return self

    def __getitem__(self, rows):
        return self


class Scripted(Solver):
    """A solver whose rollout visits given answers; memory holds the step number."""

    def __init__(self, task, x, answers):
        torch.nn.Module.__init__(self)
        self.task, self.energy, self.loss = task, task.energy, task.loss
        self.answers, self.x = answers, x
        self.updater = SimpleNamespace(initial=lambda x: self.state(0))

    def state(self, step):
        return State(self.answers[step], {"memory": torch.full((len(self.x.cell), 1), float(step))})

    def roll(self, state, conditioning, x, steps, keep=()):
        kept = {t: self.state(t) for t in keep}
        return Trajectory(torch.stack(self.answers[1 : steps + 1]), self.state(steps), kept)


def scripted_selection(task, curves, K_p, h, candidates, restore=True, **settings):
    """Select on trajectories given, per example, as sharpness of the solved state over steps."""
    x, y = batch(task, count=len(curves))
    solved, unsolved = task.solved_state(x, y, 1.0), task.initial(x)
    answers = []
    for step in range(K_p + 1):
        level = torch.tensor([curve(step) for curve in curves])[:, None, None]
        z = torch.where(level > 0, solved * level, unsolved)
        answers.append(task.clamp(z, x))
    solver = Scripted(task, x, answers)
    config = CurationConfig(candidates=candidates, restore_memory=restore, **settings)
    keys = example_keys(0, 0, torch.arange(len(curves)))
    choose = SelfTrajectory(Frontier(), config)
    return choose(solver, minibatch(x, y, keys), Nothing(), Stage(K_p, h))


def test_sudoku_never_replays_what_the_rollout_solved():
    curves = [lambda t: 0.0, lambda t: 0.5 * t]  # stuck; solved from the first step on
    chosen = scripted_selection(Sudoku(box=2), curves, 16, 4, (0, 2, 4, 8, 12))
    assert chosen.from_candidates.tolist() == [True, False]
    assert chosen.scores.defect[0].item() == pytest.approx(-4 * math.log(RHO), abs=1e-5)
    assert chosen.scores.step[0] == 0


def test_maze_replays_exact_states_that_are_lost_again():
    task = Maze(size=6, min_path=6)
    keeps, loses = (lambda t: 8.0), (lambda t: 8.0 if t < 8 else 0.0)
    chosen = scripted_selection(task, [keeps, loses], 16, 4, (0, 2, 4, 6, 8, 10, 12))
    assert chosen.from_candidates.tolist() == [False, True]
    # Exact at 4 and 6 and lost at 8 and 10, or not exact from 8 on; 8 and later are stuck.
    assert chosen.scores.step[1] >= 4


def test_the_complete_state_is_restored_or_only_the_answer():
    curves = [lambda t: 0.05 * t]
    for restore in (True, False):
        chosen = scripted_selection(Maze(size=6, min_path=6), curves, 8, 4, (4,), restore)
        assert chosen.scores.step.tolist() == [4]
        assert chosen.state.u["memory"].item() == (4.0 if restore else 0.0)


def small_solver(task, backbone="none", dropout=0.0):
    torch.manual_seed(0)
    config = SolverConfig(
        BackboneConfig(backbone, rank=4, lora_dropout=0.0),
        UpdaterConfig(width=32, heads=4, dropout=dropout),
    )
    solver = Solver(task, config)
    torch.nn.init.normal_(solver.updater.head.weight, std=0.2)
    return solver


def select(solver, x, y, conditioning, config):
    choose = SelfTrajectory(Frontier(), config)
    return choose(solver, minibatch(x, y, KEYS), conditioning, STAGE)


def replay(solver, x, y, conditioning, selection, config):
    return replay_loss(
        solver, minibatch(x, y, KEYS), conditioning, selection, STAGE, config, config.beta
    )


@pytest.mark.parametrize("backbone", ["tiny-llama", "tiny-qwen3"])
@pytest.mark.parametrize("task", [Sudoku(box=2), Maze(size=6, min_path=6)])
def test_gradients_reach_all_parts_from_base_and_replay_and_not_the_saved_state(task, backbone):
    solver = small_solver(task, backbone)
    # LoRA's B starts at zero, and with it the gradient of A: look at a model that has moved.
    for name, parameter in solver.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    x, y = batch(task)
    conditioning = solver.encode(x)
    config = CurationConfig(candidates=(0, 2, 4))
    selection = select(solver, x, y, conditioning, config)
    assert not selection.state.z.requires_grad
    assert not selection.state.u["memory"].requires_grad
    rolled = solver.roll(solver.updater.initial(x), conditioning, x, 3).answers
    parts = {
        "base": task.loss(rolled, x, y).sum(),
        "replay": replay(solver, x, y, conditioning, selection, config).sum(),
    }
    assert selection.from_candidates.any()
    for name, loss in parts.items():
        solver.zero_grad()
        loss.backward(retain_graph=True)
        theta = solver.updater.head.weight.grad.abs().sum()
        psi = solver.backbone.readout.weight.grad.abs().sum()
        phi = [p.grad.abs().sum() for n, p in solver.named_parameters() if "lora_" in n]
        assert theta > 0, name
        assert psi > 0, name
        assert all(g > 0 for g in phi), name
        frozen = [p for n, p in solver.named_parameters() if not p.requires_grad]
        assert frozen
        assert all(p.grad is None for p in frozen)


@pytest.mark.parametrize("task", [Sudoku(box=2), Maze(size=6, min_path=6)])
def test_sharing_the_encoding_gives_the_gradient_of_encoding_twice(task):
    solver = small_solver(task, "tiny-llama")
    x, y = batch(task)
    config = CurationConfig(candidates=(0, 2, 4))
    gradients = []
    for shared in (True, False):
        solver.zero_grad()
        first = solver.encode(x)
        second = first if shared else solver.encode(x)
        selection = select(solver, x, y, first, config)
        answers = solver.roll(solver.updater.initial(x), first, x, 3).answers
        loss = task.loss(answers, x, y) + replay(solver, x, y, second, selection, config)
        loss.sum().backward()
        gradients.append([p.grad.clone() for p in solver.parameters() if p.grad is not None])
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)


def test_examples_without_a_candidate_add_no_replay_loss():
    task = Sudoku(box=2)
    solver = small_solver(task)
    x, y = batch(task)
    conditioning = solver.encode(x)
    config = CurationConfig(candidates=(0, 2, 4))
    selection = select(solver, x, y, conditioning, config)
    none = replace(selection, from_candidates=torch.zeros(4, dtype=torch.bool))
    assert replay(solver, x, y, conditioning, none, config).tolist() == [0.0] * 4


def test_a_solved_rollout_is_replayed_from_its_exact_end_with_the_task_loss_alone():
    task = Sudoku(box=2)
    x, y = batch(task)
    solved = task.solved_state(x, y)

    class Solving(Updater):
        """Two of four puzzles are solved at the last step; the others never."""

        def __init__(self):
            torch.nn.Module.__init__(self)

        def forward(self, state, conditioning, x):
            step = state.u["step"] + 1
            ends = (step == 8) & (torch.arange(4) < 2)[:, None]
            return State(torch.where(ends[..., None], solved, state.z), {"step": step})

        def initial(self, x):
            return State(task.initial(x), {"step": torch.zeros(4, 1)})

    solver = small_solver(task)
    conditioning, solver.updater = solver.encode(x), Solving()
    config = CurationConfig(candidates=(0, 2, 4), replay_solved=True)
    selection = select(solver, x, y, conditioning, config)
    assert selection.solved.tolist() == [True, True, False, False]
    assert selection.from_candidates.tolist() == [False, False, True, True]
    assert torch.equal(selection.state.z[:2], solved[:2])
    assert selection.state.u["step"][:, 0].tolist()[:2] == [8, 8]
    loss = replay(solver, x, y, conditioning, selection, config)
    rest = task.loss(solved[None].expand(4, -1, -1, -1), x, y)
    torch.testing.assert_close(loss[:2], rest[:2])
    without = replace(config, replay_solved=False)
    selection = select(solver, x, y, conditioning, without)
    assert replay(solver, x, y, conditioning, selection, without)[:2].tolist() == [0, 0]


def test_half_of_the_solved_mazes_which_all_have_a_candidate_are_replayed_as_solved():
    curves = [lambda t: 1.0 * t] * 20
    chosen = scripted_selection(
        Maze(size=6, min_path=6), curves, 8, 4, (0, 2, 4), replay_solved=True
    )
    assert 4 <= chosen.solved.sum() <= 16
    assert torch.equal(chosen.from_candidates, ~chosen.solved)
    assert torch.equal(chosen.state.u["memory"][:, 0] == 8, chosen.solved)
