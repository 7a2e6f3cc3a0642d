"""Mathematical answers: equal ones are right, and no completion stops the others."""

import pytest

from focus.evaluation.transfer import BENCHMARKS, equality
from focus.evaluation.transfer.equality import judge_answer, judge_answers


@pytest.mark.parametrize(
    ("reference", "completion", "correct"),
    [
        (r"\frac{1}{2}", r"so \boxed{0.5}", True),
        ("70", r"The answer is \boxed{70}.", True),
        ("70", "it must be 71, hence 70", True),
        ("70", r"\boxed{71}", False),
        (r"x^2-1", r"\boxed{(x-1)(x+1)}", True),
        ("5", "", False),
        ("5", "no idea", False),
    ],
)
def test_verdicts(reference, completion, correct):
    assert judge_answer(rf"\boxed{{{reference}}}", completion).correct is correct


def test_a_completion_that_holds_a_worker_up_costs_only_itself():
    right = r"\boxed{2}"
    pairs = [(right, right)] * 6
    pairs[2] = (right, r"\boxed{9^{9^{9^{9^{9}}}}}")
    pairs[4] = (right, "(" * 20000)
    found = judge_answers(pairs, workers=2, seconds=8)
    assert [verdict.correct for verdict in found] == [True, True, False, True, False, True]


def test_wrong_neighbours_are_wrong_and_gold_is_right(data_folder):
    items = BENCHMARKS["math"].items(str(data_folder))[:60]
    right = judge_answers([(item.gold, item.gold) for item in items])
    assert all(verdict.correct for verdict in right)
    assert len(_off_by_one(items)) > 20
    assert not any(verdict.correct for verdict in judge_answers(_off_by_one(items)))


def _off_by_one(items):
    """Whole numbers plus one, which are other numbers."""
    whole = [item for item in items if item.reference.lstrip("-").isdecimal()]
    return [(item.gold, rf"\boxed{{{int(item.reference) + 1}}}") for item in whole]


@pytest.mark.long
def test_all_of_math_and_both_aimes(data_folder):
    for name, count in (("math", 5000), ("aime25", 30), ("aime26", 30)):
        items = BENCHMARKS[name].items(str(data_folder))
        found = judge_answers([(item.gold, item.gold) for item in items])
        assert sum(verdict.correct for verdict in found) == count
        assert not any(verdict.correct for verdict in judge_answers(_off_by_one(items)))


def test_workers_serve_the_next_call_unless_they_have_died():
    right = r"\boxed{2}"
    judge_answers([(right, right)], workers=1)
    (resting,) = equality._resting[-1:]
    judge_answers([(right, right)], workers=1)
    assert equality._resting[-1] is resting
    resting._process.kill()
    resting._process.join()
    assert judge_answers([(right, right)], workers=1)[0].correct
    assert equality._resting[-1] is not resting
