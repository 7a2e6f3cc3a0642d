"""CruxEval: predict a function's output (O), or arguments that give an output (I)."""

import ast
from functools import partial

from focus.errors import UserError
from focus.evaluation.sandbox import Program, canonical
from focus.evaluation.transfer.benchmark import Benchmark, read_prompt
from focus.evaluation.transfer.items import Item, distinct, from_hub, read_rows, take

_FENCE = "```"


def _load(predicted: str, data: str | None) -> list[Item]:
    items = []
    hub = partial(from_hub, "cruxeval-org/cruxeval", "test")
    for number, (where, row) in enumerate(read_rows(data, "cruxeval/cruxeval.jsonl", hub)):
        code, output = take(row, where, "code", "output")
        _check_literal(output, where)
        given = str(row["input"]) if row.get("input") == "" else take(row, where, "input")[0]
        answer = output if predicted == "output" else f"f({given})"
        fields = {"code": code, "input": given, "output": output}
        gold = f"[ANSWER]assert f({given}) == {output}[/ANSWER]"
        items.append(Item(str(row.get("id", f"sample_{number}")), fields, answer, gold))
    return distinct(items, "cruxeval")


def _check_literal(output: str, where: str) -> None:
    try:
        canonical(ast.literal_eval(output))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise UserError(f"{where}: the output {output!r:.40} is no plain Python literal") from error


def _answer(completion: str) -> str | None:
    """The text between the tags, without a code fence."""
    _, tag, rest = completion.partition("[ANSWER]")
    if not tag:
        return None
    text = rest.partition("[/ANSWER]")[0].strip()
    if text.startswith(_FENCE):
        text = text.removeprefix(_FENCE).removeprefix("python").partition(_FENCE)[0].strip()
    return text or None


def extract_output(completion: str) -> str | None:
    """The predicted value: of an assertion, its right side."""
    text = _answer(completion)
    if text and "==" in text:
        text = text.split("==")[1].strip()
    return text or None


def extract_input(completion: str) -> str | None:
    """The predicted call: of an assertion, its left side."""
    text = _answer(completion)
    if text and "==" in text:
        text = text.split("==")[0].strip()
    if text and "assert f" in text:
        text = "f" + text.split("assert f")[1].strip()
    return text or None


def output_program(item: Item, prediction: str) -> Program | None:
    """What must run without an error; None when the prediction only repeats the call."""
    if f"f({item.fields['input']})" in prediction:
        return None
    return _program(item, prediction)


def input_program(item: Item, prediction: str) -> Program | None:
    """What must run without an error; None when the prediction does not call f."""
    return _program(item, prediction) if "f(" in prediction else None


def _program(item: Item, prediction: str) -> Program:
    source = f"{item.fields['code']}\nassert EXPECTED == {prediction}"
    return Program(source, ast.literal_eval(item.fields["output"]))


_PACKAGE = __package__ or ""

CRUXEVAL_O = Benchmark(
    "cruxeval-o", "CruxEval-O", "code", read_prompt(_PACKAGE, "output.txt"), 2,
    partial(_load, "output"), extract_output, output_program,
)  # fmt: skip
CRUXEVAL_I = Benchmark(
    "cruxeval-i", "CruxEval-I", "code", read_prompt(_PACKAGE, "input.txt"), 2,
    partial(_load, "input"), extract_input, input_program,
)  # fmt: skip
