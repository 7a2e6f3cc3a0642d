"""Randomness is a function of its keys."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from focus.random import example_keys, normal, order, stratified, uniform, uniforms


@given(seed=st.integers(0, 2**31), update=st.integers(0, 10**6))
def test_an_example_draws_the_same_in_any_batch(seed, update):
    whole = example_keys(seed, update, torch.arange(8))
    part = example_keys(seed, torch.tensor(update), torch.tensor([5, 2]))
    assert torch.equal(whole[[5, 2]], part)
    assert torch.equal(uniform(whole, 3, 4)[[5, 2]], uniform(part, 3, 4))


def test_draws_look_uniform_and_independent():
    keys = example_keys(1, 2, torch.arange(4000))
    draws = uniform(keys, 0, 16)
    assert draws.min() >= 0
    assert draws.max() < 1
    assert (draws.mean(0) - 0.5).abs().max() < 4 * (1 / 12 / 4000) ** 0.5
    counts = torch.histc(draws, 64, 0, 1)
    expected = draws.numel() / 64
    assert ((counts - expected) ** 2 / expected).sum() < 120  # chi-squared, 63 degrees
    assert torch.corrcoef(draws.T).fill_diagonal_(0).abs().max() < 0.08
    for other in (uniform(keys, 1, 16), uniform(example_keys(1, 3, torch.arange(4000)), 0, 16)):
        together = torch.corrcoef(torch.stack([draws.flatten(), other.flatten()]))[0, 1]
        assert together.abs() < 0.02


def test_every_permutation_is_as_likely():
    keys = example_keys(3, 0, torch.arange(6000))
    orders = order(uniform(keys, 2, 3))
    codes = orders[:, 0] * 9 + orders[:, 1] * 3 + orders[:, 2]
    counts = codes.unique(return_counts=True)[1]
    assert len(counts) == 6
    assert (counts - 1000).abs().max() < 4 * 1000**0.5


def test_normal_draws_have_unit_variance():
    draws = normal(example_keys(0, 0, torch.arange(1000)), 0, 50)
    assert abs(draws.mean()) < 0.02
    assert abs(draws.std() - 1) < 0.02
    assert draws.isfinite().all()


def test_streams_drawn_at_once_are_those_drawn_one_by_one():
    keys = example_keys(5, 3, torch.arange(7))
    draws = ((4, (3,)), (0, ()), (9, (2, 5)))
    for numbers, (stream, shape) in zip(uniforms(keys, draws), draws, strict=True):
        assert torch.equal(numbers, uniform(keys, stream, *shape))


@given(update=st.integers(0, 10**6), count=st.integers(1, 40), begin=st.floats(0, 0.5))
def test_stratified_numbers_fill_every_part_evenly(update, count, begin):
    numbers = stratified(torch.tensor(update), torch.arange(count), count)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    inside = ((numbers >= begin) & (numbers < begin + 0.3)).sum()
    assert abs(inside - 0.3 * count) <= 1 + 1e-6


def test_a_stratified_number_is_uniform_over_the_updates():
    numbers = torch.stack([stratified(u, torch.arange(3), 16)[1] for u in range(1000)])
    counts = torch.histc(numbers, 10, 0, 1)
    assert (counts - 100).abs().max() <= 3
