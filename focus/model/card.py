"""The model card of a checkpoint: what it is, how to use it, what was measured."""

import re
from typing import Any

from focus.model.base import SolverConfig
from focus.model.install import INSTALLABLE
from focus.model.pretrained import public_name
from focus.tasks.base import Task

_FIELDS = ("control", "steps", "n", "exact", "low", "high")
_HUB_ID = r"\w[\w.-]*/\w[\w.-]*"


def model_card(task: Task, config: SolverConfig, notes: dict, data: str = "") -> str:
    """Markdown with the front matter that model hubs read; `data` is the run's source."""
    lines = ["---", _metadata(task, config, notes, data), "---", ""]
    lines += [f"# A {task.name} solver that revises its answer", "", _what(task, config), ""]
    lines += ["## Use", "", "`pip install focus-solver`, then", "", *_use(config)]
    if config.backbone.name != "none" and not config.backbone.frozen:
        lines += [
            "The folder `adapter` is a plain peft adapter of the language model:", "",
            "```python",
            "from peft import PeftModel",
            'model = PeftModel.from_pretrained(language_model, "DIR/adapter")',
            "```", "",
            "Trained to encode puzzles alone, it may harm what the language model writes; "
            "`focus transfer base DIR --bits` measures that.", "",
        ]  # fmt: skip
    lines += ["## Measured", "", _measured(notes), ""]
    return "\n".join(lines)


def _metadata(task: Task, config: SolverConfig, notes: dict, data: str) -> str:
    """What a hub shows and searches: licence, base model, data set, stored results of tests."""
    from huggingface_hub import ModelCardData

    base = public_name(config.backbone.name)
    fields: dict[str, Any] = {}
    if re.fullmatch(_HUB_ID, base):  # a folder of somebody's machine is no base model
        fields = {"base_model": base, "base_model_relation": "adapter"}
    if dataset := _dataset(task, notes, data):
        results = _results(task, notes, dataset)
        fields |= {"datasets": [dataset], "eval_results": results or None}
    return ModelCardData(
        license="other" if base.startswith("meta-llama/") else "apache-2.0",
        library_name="focus-solver", tags=["focus", task.name, "recurrent-reasoning"],
        model_name=f"focus-{task.name}", **fields,
    ).to_yaml()  # fmt: skip


def _dataset(task: Task, notes: dict, data: str) -> str:
    """The public data set of a run, where that is certain: a folder may hold anything.

    Only a release has a test, which is on the task's own data set.
    """
    _, _, named = data.partition("hub:")
    return named or (task.hub_dataset if data == "hub" or notes.get("test") else "")


def _results(task: Task, notes: dict, dataset: str) -> list[Any]:
    """The stored tests of these weights, or their validation where there is no test."""
    from huggingface_hub import EvalResult

    split = "test" if notes.get("test") else "validation"
    rows = notes.get("test") or [row for row in [notes.get("validation")] if row]
    return [
        EvalResult(
            task_type="other", task_name=f"solving {task.name} puzzles", dataset_type=dataset,
            dataset_name=dataset.partition("/")[2], dataset_split=split,
            dataset_args={"puzzles": row["n"]}, metric_type="exact_match",
            metric_name=f"solved exactly, K = {row['steps']}",
            metric_value=round(row["exact"], 4),
        )
        for row in rows
    ]  # fmt: skip


def _use(config: SolverConfig) -> list[str]:
    """Commands and Python; DIR is the folder, or its name on the hub."""
    if config.answer == "written":
        return ["```", "focus eval DIR", "```", ""]
    name = config.backbone.name
    install = [f"focus backbone install {name}"] if name in INSTALLABLE else []
    return [
        "```", *install, "focus solve PUZZLE --checkpoint DIR --watch", "focus eval DIR", "```", "",
        "or, in Python,", "",
        "```python",
        "from focus import Solver", "",
        'solver = Solver.from_pretrained("DIR")',
        'print(solver.solve("PUZZLE"))',
        "```", "",
        "DIR is this folder or its name on the hub, PUZZLE the puzzle as text.", "",
    ]  # fmt: skip


def _what(task: Task, config: SolverConfig) -> str:
    name = config.backbone.name
    if config.answer == "written":
        return f"{public_name(name)} with LoRA writes the answer once; it does not revise."
    if config.answer == "trm":
        text = (
            f"A Tiny Recursive Model (Jolicoeur-Martineau 2025) of width {config.trm.width}, "
            "trained by deep supervision: the paper's teacher, and a baseline of its own."
        )
        if config.trm.neighbour_heads:
            heads = f"{config.trm.neighbour_heads} heads that each look at one neighbouring cell"
            text += f" Unlike the published one it has {heads}."
        if config.trm.targets == "all":
            text += " Besides the answer it has learned all else that the task's loss asks for."
        return text
    encoder = (
        "A learned embedding of the clues, no language model,"
        if name == "none"
        else f"{public_name(name)}, frozen,"
        if config.backbone.frozen
        else f"{public_name(name)} with LoRA (r = {config.backbone.rank})"
    )
    text = (
        f"{encoder} encodes the puzzle; a recurrent updater of width {config.updater.width} "
        "revises an explicit answer, again and again."
    )
    if name in INSTALLABLE:
        text += (
            " The language model's weights were dequantised from a "
            f"{INSTALLABLE[name].quantization} file; the hub's own weights differ slightly."
        )
    return text


def _measured(notes: dict) -> str:
    """Validation, and the test where it is known: n puzzles, 95 % interval from low to high."""
    if not notes.get("validation"):
        return "Nothing is on record for these weights."
    method = f" of the method `{notes['method']}`" if "method" in notes else ""
    after = f"Validation after {notes['update']} updates{method}:"
    text = [f"{after}\n\n{_table([notes['validation']])}"]
    if notes.get("test"):
        text.append(f"Test, all puzzles:\n\n{_table(notes['test'])}")
    if notes.get("controls"):
        text.append(_controls(notes["controls"]))
    if notes.get("trained"):
        text.append(notes["trained"])
    return "\n\n".join(text)


def _controls(controls: dict[str, dict]) -> str:
    """What is left when what the language model gives is taken away, mixed up, or unadapted."""
    rows = [{"control": name, **result} for name, result in controls.items()]
    question = "Does the language model matter? The same test with its representation R changed:"
    return f"{question}\n\n{_table(rows)}"


def _table(rows: list[dict]) -> str:
    names = [field for field in _FIELDS if field in rows[0]]
    lines = [names, ["---"] * len(names)]
    lines += [[_cell(row[name]) for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
