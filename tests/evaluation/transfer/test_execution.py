"""CruxEval by execution: references pass, answers that execution shows to be wrong do not."""

import pytest

from focus.errors import UserError
from focus.evaluation import sandbox
from focus.evaluation.transfer import BENCHMARKS
from focus.evaluation.transfer.benchmark import Benchmark
from focus.evaluation.transfer.run import by_execution

NAMES = ("cruxeval-o", "cruxeval-i")


@pytest.fixture(autouse=True, scope="module")
def _sandboxed():
    try:
        sandbox.check_available()
    except UserError as error:
        pytest.skip(str(error))


def _verdicts(benchmark: Benchmark, items, answers) -> list[bool]:
    texts = [f"So it is [ANSWER]{answer}[/ANSWER]." for answer in answers]
    return [right for _, right, _ in by_execution(benchmark, items, texts, lambda done: None)]


@pytest.mark.parametrize("name", NAMES)
def test_right_wrong_and_none(data_folder, name):
    benchmark = BENCHMARKS[name]
    items = benchmark.items(str(data_folder))[:4]
    call = f"f({items[1].fields['input']})"
    answers = [items[0].reference, call if name == "cruxeval-o" else "1", "while True", "1 / 0"]
    assert _verdicts(benchmark, items, answers) == [True, False, False, False]
    found = by_execution(benchmark, items[:1], ["I do not know."], lambda done: None)
    assert found == [(None, False, "no answer found")]


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_all_references_pass(data_folder, name):
    benchmark = BENCHMARKS[name]
    items = benchmark.items(str(data_folder))
    assert all(_verdicts(benchmark, items, [item.reference for item in items]))


@pytest.mark.long
def test_all_wrong_answers_fail(data_folder):
    outputs, inputs = (BENCHMARKS[name] for name in NAMES)
    items = outputs.items(str(data_folder))
    # A list that holds the value is not the value.
    assert not any(_verdicts(outputs, items, [f"[{item.reference}]" for item in items]))
    # A call without arguments is wrong unless running the benchmark's own code shows otherwise.
    items = inputs.items(str(data_folder))
    known = []
    for item in items:
        space: dict = {}
        exec(item.fields["code"], space)
        try:
            known.append(space["f"]() == eval(item.fields["output"]))
        except TypeError:
            known.append(False)
    assert _verdicts(inputs, items, ["f()"] * len(items)) == known
    assert sum(known) < 5
