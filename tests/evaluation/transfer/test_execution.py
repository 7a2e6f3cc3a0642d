"""CruxEval by execution: references pass, answers that execution shows to be wrong do not."""

import pytest

from focus.errors import UserError
from focus.evaluation import sandbox
from focus.evaluation.transfer import BENCHMARKS
from focus.evaluation.transfer.benchmark import Benchmark
from focus.evaluation.transfer.items import Item
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


def _official(code: str, output: str, prediction: str) -> bool:
    """The verdict of the official evaluator, for predictions that may run here."""
    try:
        exec(f"{code}\nassert {output} == {prediction}", {})
    except Exception:
        return False
    return True


@pytest.mark.parametrize("output", ["4", "(4, 5)"])
def test_the_verdict_is_that_of_the_official_assertion(output):
    code = "def f(x):\n    return x * 2"
    item = Item("one", {"code": code, "input": "1 + 1", "output": output}, output, "")
    predictions = [
        "4", "4.0", "'4'", "[4]", "(4, 5)", "[4, 5]", "4, 5", "4, as 2 * 2", "2 + 2", "f(2)",
        "not 4", "4  # four", "4 if f(2) else 5", "5 if f(2) else 4", "4 < 5", "4 > 5", "4 and 0",
        "0 and 4", "4\nraise ValueError", "4\nx = 3", "x := 4", "four", "exit()",
    ]  # fmt: skip
    expected = [_official(code, output, p) for p in predictions[:-1]] + [False]
    assert _verdicts(BENCHMARKS["cruxeval-o"], [item] * len(predictions), predictions) == expected
    for forged in ("5 or True", "type('', (), {'__eq__': lambda *_: True})()"):
        assert _official(code, output, forged)
        assert _verdicts(BENCHMARKS["cruxeval-o"], [item], [forged]) == [False]


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
