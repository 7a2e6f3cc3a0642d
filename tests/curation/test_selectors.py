"""What each selector chooses among the eligible candidates."""

import torch

from focus.curation.selectors import SELECTORS, Frontier, Permuted, Several, easiest, hardest

KEYS = torch.arange(6)
DEFECT = torch.tensor([
    [0.5, 0.1, -0.9, 0.2, 0.0, 0.3],
    [0.1, 0.5, 0.05, 0.1, 0.9, 0.2],
    [-0.2, -0.3, 0.4, 0.9, 0.8, 0.1],
])  # fmt: skip
ENERGY = torch.rand(3, 6)
ALL = torch.ones(3, 6, dtype=torch.bool)


def test_easiest_and_hardest_are_the_ends_of_the_defect():
    assert easiest(DEFECT, ENERGY, ALL, KEYS).tolist() == [2, 2, 0, 1, 0, 2]
    assert hardest(DEFECT, ENERGY, ALL, KEYS).tolist() == [0, 1, 2, 2, 1, 0]


def test_permuted_steps_are_those_of_the_frontier_dealt_out_anew():
    own = Frontier()(DEFECT, ENERGY, ALL, KEYS)
    orders = set()
    for seed in range(20):
        dealt = Permuted()(DEFECT, ENERGY, ALL, KEYS + 100 * seed)
        assert sorted(dealt.tolist()) == sorted(own.tolist())
        orders.add(tuple(dealt.tolist()))
    assert len(orders) > 5


def test_permuted_steps_stay_among_puzzles_that_have_candidates():
    eligible = ALL.clone()
    eligible[:, 2] = False  # solved: whatever it chooses is not used
    own = Frontier()(DEFECT, ENERGY, eligible, KEYS)
    others = [0, 1, 3, 4, 5]
    for seed in range(20):
        dealt = Permuted()(DEFECT, ENERGY, eligible, KEYS + 100 * seed)
        assert sorted(dealt[others].tolist()) == sorted(own[others].tolist())


def test_a_step_that_is_not_eligible_is_not_taken():
    eligible = ALL.clone()
    eligible[0, :3] = False
    eligible[2, 3:] = False
    for seed in range(20):
        dealt = Permuted()(DEFECT, ENERGY, eligible, KEYS + 100 * seed)
        assert eligible.gather(0, dealt[None]).all()


def test_several_selectors_choose_each_for_its_part():
    several = Several((easiest, hardest))(DEFECT, ENERGY, ALL, KEYS)
    assert several.tolist() == [2, 2, 0, 2, 1, 0]


def test_every_selector_chooses_an_eligible_candidate():
    eligible = torch.rand(3, 6, generator=torch.Generator().manual_seed(0)) < 0.6
    eligible[1] = True
    for make in SELECTORS.values():
        chosen = make(0.0)(DEFECT, ENERGY, eligible, KEYS)
        assert eligible.gather(0, chosen[None]).all()
