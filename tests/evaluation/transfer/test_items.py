"""Benchmarks read their items, ask for them, and refuse what is no item."""

import json

import pytest

from focus.errors import UserError
from focus.evaluation.transfer import BENCHMARKS, find_benchmarks
from focus.evaluation.transfer.cruxeval import extract_input, extract_output
from focus.evaluation.transfer.math import boxed

COUNTS = {
    "math": 5000, "math-hard": 1324, "cruxeval-o": 800, "cruxeval-i": 800, "aime25": 30,
    "aime26": 30,
}  # fmt: skip


def test_every_benchmark_has_all_its_items(data_folder):
    found = {name: len(b.items(str(data_folder))) for name, b in BENCHMARKS.items()}
    assert found == COUNTS


def test_a_prompt_holds_what_is_asked_and_not_the_answer(data_folder):
    for name, benchmark in BENCHMARKS.items():
        item = benchmark.items(str(data_folder))[0]
        prompt = benchmark.ask(item)
        hidden = {"cruxeval-o": "output", "cruxeval-i": "input"}.get(name)
        for field, value in item.fields.items():
            if field not in ("level", hidden):
                assert value in prompt
        if hidden:
            assert item.fields[hidden] not in prompt
            form = "[ANSWER]assert f({input}) == {output}[/ANSWER]"
            assert form.format(**{**item.fields, hidden: "..."}) in prompt
            assert item.gold == form.format(**item.fields)
        assert item.gold not in prompt


def test_code_with_braces_is_asked_for_as_it_is():
    benchmark = BENCHMARKS["cruxeval-o"]
    item = type("Item", (), {"fields": {"code": "f = '{input} {output}'", "input": "1"}})
    assert "f = '{input} {output}'" in benchmark.ask(item)


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        (r"so \boxed{\frac{1}{2}} it is", [r"\frac{1}{2}"]),
        (r"\boxed{-2} and \boxed{1}", ["-2", "1"]),
        (r"it is $\boxed 5$.", ["5"]),
        (r"\fbox{x^{2}}", ["x^{2}"]),
        (r"\boxed{never closed", []),
        ("none", []),
    ],
)
def test_boxed_answers_are_found(text, answers):
    assert boxed(text) == answers


@pytest.mark.parametrize(
    ("completion", "output", "call"),
    [
        ("so [ANSWER]4[/ANSWER]", "4", "4"),
        ("[ANSWER] f(1) == 2 [/ANSWER] then [ANSWER]3[/ANSWER]", "2", "f(1)"),
        ("[ANSWER]assert f([1]) == 2[/ANSWER]", "2", "f([1])"),
        ("[ANSWER]```python\nf('a')\n```[/ANSWER]", "f('a')", "f('a')"),
        ("[ANSWER]7 and no end", "7 and no end", "7 and no end"),
        ("[ANSWER][/ANSWER]", None, None),
        ("the answer is 4", None, None),
    ],
)
def test_cruxeval_answers_are_found_as_its_harness_does(completion, output, call):
    assert extract_output(completion) == output
    assert extract_input(completion) == call


@pytest.mark.parametrize(
    ("name", "path", "line", "message"),
    [
        ("math", "math/test.jsonl", '{"problem": "p", "level": "Level 1"}', "line 2.*'solution'"),
        ("math", "math/test.jsonl", '{"problem": "p", "level": 1, "solution": "s"}', "no boxed"),
        ("math", "math/test.jsonl", "{", "line 2 is damaged"),
        ("aime25", "aime/aime2025.jsonl", '{"problem": "p", "answer": 1000}', "0 to 999"),
        ("cruxeval-o", "cruxeval/cruxeval.jsonl", '["a"]', "JSON object"),
        ("cruxeval-i", "cruxeval/cruxeval.jsonl", '{"code": "c", "output": null}', "'output'"),
        ("cruxeval-o", "cruxeval/cruxeval.jsonl", '{"code": "c", "output": "f(1)"}', "no plain"),
    ],
)
def test_a_malformed_row_is_named(tmp_path, name, path, line, message):
    good = {
        "problem": "p", "level": "Level 1", "solution": r"\boxed{1}", "answer": 1, "code": "c",
        "input": "1", "output": "1",
    }  # fmt: skip
    file = tmp_path / path
    file.parent.mkdir()
    file.write_text(json.dumps(good) + "\n" + line + "\n")
    with pytest.raises(UserError, match=message):
        BENCHMARKS[name].items(str(tmp_path))


def test_missing_and_empty_benchmarks_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"no math/test.jsonl"):
        BENCHMARKS["math"].items(str(tmp_path))
    (tmp_path / "aime").mkdir()
    (tmp_path / "aime" / "aime2025.jsonl").write_text("")
    with pytest.raises(UserError, match="no items"):
        BENCHMARKS["aime25"].items(str(tmp_path))
    with pytest.raises(UserError, match="no benchmark 'mathh'"):
        find_benchmarks("math,mathh")
