"""Dropout by a hash: the right share, scaled, independent of place and seed."""

import pytest
import torch

from focus.model.dropout import draw_seeds, hashed_dropout

ONES = torch.ones(1000, 1000)
SEEDS = torch.tensor([5, 6, -3], dtype=torch.int32)


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_a_share_is_dropped_and_the_rest_scaled_up(share):
    found = hashed_dropout(ONES, share, SEEDS[0])
    assert float((found == 0).float().mean()) == pytest.approx(share, abs=0.003)
    assert float(found.mean()) == pytest.approx(1.0, abs=0.003)
    assert found.unique().tolist() == pytest.approx([0.0, 1 / (1 - share)])


def test_one_seed_is_one_mask_and_others_are_independent():
    first, again, second, third = (
        hashed_dropout(ONES, 0.1, SEEDS[n]) == 0 for n in (0, 0, 1, 2)
    )  # fmt: skip
    assert torch.equal(first, again)
    for one, two in ((first, second), (first, third), (second, third)):
        assert float((one & two).float().mean()) == pytest.approx(0.01, abs=0.001)


def test_neighbours_are_independent():
    dropped = hashed_dropout(ONES, 0.1, SEEDS[0]) == 0
    for one, two in ((dropped[1:], dropped[:-1]), (dropped[:, 1:], dropped[:, :-1])):
        assert float((one & two).float().mean()) == pytest.approx(0.01, abs=0.001)


def test_the_precision_stays():
    assert hashed_dropout(ONES.bfloat16(), 0.1, SEEDS[0]).dtype == torch.bfloat16


def test_seeds_follow_the_generator():
    device = torch.device("cpu")
    torch.manual_seed(1)
    first, second = draw_seeds(4, device), draw_seeds(4, device)
    torch.manual_seed(1)
    assert torch.equal(draw_seeds(4, device), first)
    assert not torch.equal(first, second)
