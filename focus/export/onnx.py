"""A solver as ONNX graphs, for runtimes without Python.

    start.onnx    question (batch, cells) -> x.*, c.*, z, u.*      once for each puzzle
    step.onnx     x.*, c.*, z, u.*        -> next.z, next.u.*      one revision
    decode.onnx   z, x.*                  -> answer, confidence, valid
    solver.onnx   question, steps         -> the same: the whole solver

Whoever keeps the tensors of `start` by name, and puts what a step returns in the place of what it
read, need not know what they mean. With a language model there is no whole: what it reads of the
puzzle is then an input of `start`.
"""

import contextlib
import dataclasses
import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import torch
from onnx import ModelProto
from torch import Tensor, nn

from focus.errors import UserError
from focus.export.graphs import input_names, joined, looped, store_small, without_unused_inputs
from focus.files import write_text
from focus.folders import atomic_folder
from focus.model.base import evaluating
from focus.model.recurrence import Conditioning
from focus.model.solver import Solver
from focus.model.state import State
from focus.tasks.base import Task
from focus.tasks.records import Problem

NEXT = "next."  # before the names of what a step returns
_OPSET = 18
_DRAWN = 16  # puzzles from which examples of shapes are taken
_BATCHES = 2, 3  # axes that differ between two examples are those that may vary


def export_graphs(solver: Solver, name: str) -> dict[str, ModelProto]:
    """The graphs of a solver by the names of their files; `name` is what they call it."""
    solver = solver.to("cpu")
    with evaluating(solver), torch.no_grad():
        questions, cells = _examples(solver.task)
        examples = [_Example.of(solver, *given) for given in zip(questions, cells, strict=True)]
        held = [example.tensors() for example in examples]
        step = _trace(_Step(solver, examples[0]), held)
        decoded = [_only(tensors, ("z", "x.")) for tensors in held]
        decode = _trace(_Decode(solver, examples[0]), decoded)
        wanted = input_names(step) | input_names(decode) | {*examples[0].state.tensors()}
        start = _start(solver, examples, sorted(wanted))
    graphs = {"start": start, "step": step, "decode": decode}
    if solver.language_model is None:
        graphs["solver"] = looped(start, step, decode, NEXT)
    about = {
        "focus.solver": name,
        "focus.task": solver.task.name,
        "focus.cells": str(solver.task.cells),
        "focus.steps": str(solver.default_steps),
    }
    for graph in graphs.values():
        store_small(graph)
        onnx.helper.set_model_props(graph, about)
    return {f"{part}.onnx": graph for part, graph in graphs.items()}


def write_graphs(solver: Solver, name: str, folder: Path) -> list[Path]:
    """Write the graphs of a solver and what they are into a folder; returns their files."""
    with atomic_folder(folder) as fresh:  # first: whether it can be written is known at once
        graphs = export_graphs(solver, name)
        for file, graph in graphs.items():
            onnx.save(graph, fresh / file)
        write_text(fresh / "README.md", _readme(solver, name, graphs))
    return [folder / file for file in graphs]


# --------------------------------------------------------------------- what is traced
@dataclass(frozen=True)
class _Example:
    """Puzzles and what a rollout of them begins with."""

    x: Problem
    conditioning: Conditioning
    state: State

    @classmethod
    def of(cls, solver: Solver, question: Tensor, cell: Tensor | None) -> "_Example":
        x = solver.task.problem_of(question, cell)
        return cls(x, solver.encode(x), solver.updater.initial(x))

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor by name."""
        return {**_flatten("x", self.x), **_flatten("c", self.conditioning), **self.state.tensors()}


class _Start(nn.Module):
    """Question (and its cells, and what a language model has read) to what a rollout needs."""

    def __init__(self, solver: Solver, given: Iterable[str], wanted: Iterable[str]):
        super().__init__()
        self.solver, self.names, self.output_names = solver, list(given), list(wanted)

    def forward(self, *values: Tensor):
        given = dict(zip(self.names, values, strict=True))
        x = self.solver.task.problem_of(given["question"], given.get("cell"))
        conditioning = self.solver.encode(x, given.get("reading"))
        example = _Example(x, conditioning, self.solver.updater.initial(x))
        return tuple(example.tensors()[name] for name in self.output_names)


class _Cells(nn.Module):
    """The cells that tokens stand for."""

    output_names = ("cell",)

    def __init__(self, task: Task):
        super().__init__()
        self.task = task

    def forward(self, *values: Tensor):
        return self.task.token_cells(*values)


class _Step(nn.Module):
    """One revision."""

    def __init__(self, solver: Solver, example: _Example):
        super().__init__()
        self.updater, self.example, self.names = solver.updater, example, [*example.tensors()]
        self.output_names = [NEXT + name for name in example.state.tensors()]

    def forward(self, *values: Tensor):
        tensors = dict(zip(self.names, values, strict=True))
        x = _rebuild(self.example.x, "x", tensors)
        conditioning = _rebuild(self.example.conditioning, "c", tensors)
        state = State.of({name: tensors[name] for name in self.example.state.tensors()})
        return tuple(self.updater(state, conditioning, x).tensors().values())


class _Decode(nn.Module):
    """The answer as codes of cells, how sure it is of each, and whether it obeys the rules."""

    output_names = ("answer", "confidence", "valid")

    def __init__(self, solver: Solver, example: _Example):
        super().__init__()
        self.task, self.example = solver.task, example
        self.names = [*_only(example.tensors(), ("z", "x."))]

    def forward(self, *values: Tensor):
        task, tensors = self.task, dict(zip(self.names, values, strict=True))
        x, z = _rebuild(self.example.x, "x", tensors), tensors["z"]
        decoded = task.decode(z, x)
        sure = task.class_logits(z, x).softmax(-1).gather(-1, decoded[..., None])[..., 0]
        # Cells that are no tokens are certain, and so is what padding points to.
        certain = torch.ones_like(x.grid, dtype=sure.dtype)
        confidence = certain.scatter(1, x.cell, torch.where(x.mask, sure, 1.0))
        return task.cell_codes(decoded, x), confidence, task.obeys(decoded, x)


def _start(solver: Solver, examples: Sequence[_Example], wanted: Sequence[str]) -> ModelProto:
    leaves_out = solver.task.token_cells(examples[0].x.grid) is not None
    given = [{"question": example.x.grid} for example in examples]
    for inputs, example in zip(given, examples, strict=True):
        if leaves_out:
            inputs["cell"] = example.x.cell
        if solver.language_model is not None:
            inputs["reading"] = solver.backbone.read(example.x)
    start = _trace(_Start(solver, given[0], wanted), given)
    if leaves_out and solver.language_model is None:
        cells = _trace(_Cells(solver.task), [{"question": inputs["question"]} for inputs in given])
        start = joined(cells, start)
    return start


def _examples(task: Task) -> tuple[list[Tensor], list[Tensor | None]]:
    """Two batches of questions that differ in every axis that may vary, and their cells."""
    drawn, _ = task.generate(0, 0, _DRAWN, task.generator_modes[0])
    if len(drawn) < sum(_BATCHES):
        raise UserError(f"the generator of {task.name} found too few puzzles to trace with")
    questions = torch.from_numpy(drawn).long()
    every = task.token_cells(questions)
    if every is None:
        return [questions[: _BATCHES[0]], questions[-_BATCHES[1] :]], [None, None]
    # All padded to the longest, and the shortest by themselves.
    order = task.problem_of(questions, every).mask.sum(1).argsort()
    one, other = order[-_BATCHES[0] :], order[: _BATCHES[1]]
    return [questions[one], questions[other]], [every[one], task.token_cells(questions[other])]


def _trace(module: Any, examples: Sequence[dict[str, Tensor]]) -> ModelProto:
    """The graph of a module with named inputs and outputs, checked."""
    first, second = examples
    module(*first.values())  # fills the caches of a task, before tensors without values would
    batch, tokens = torch.export.Dim("batch"), torch.export.Dim("tokens")
    shapes = [
        {
            axis: batch if (one, other) == _BATCHES else tokens
            for axis, (one, other) in enumerate(zip(value.shape, second[name].shape, strict=True))
            if one != other
        }
        for name, value in first.items()
    ]
    with _quiet():
        program = torch.onnx.export(
            module, tuple(first.values()), dynamo=True, verbose=False, opset_version=_OPSET,
            input_names=list(first), output_names=list(module.output_names),
            dynamic_shapes=(tuple(shapes),),
        )  # fmt: skip
    assert program is not None  # it would be with a file to write to
    model = program.model_proto
    for value, axes in zip(model.graph.input, shapes, strict=True):
        fixed = [axis for axis in axes if not value.type.tensor_type.shape.dim[axis].dim_param]
        assert not fixed, f"{type(module).__name__}: {value.name} has fixed axes {fixed}"
    del model.graph.value_info[:]
    without_unused_inputs(model)
    onnx.checker.check_model(model)
    return model


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what the libraries of the export say about themselves."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


# ------------------------------------------------------------------- names of tensors
def _flatten(name: str, value: Any) -> dict[str, Tensor]:
    """The tensors in records, tuples and the like, by where they stand."""
    if isinstance(value, Tensor):
        return {name: value}
    flat: dict[str, Tensor] = {}
    for key, item in _parts(value):
        flat |= _flatten(f"{name}.{key}", item)
    return flat


def _rebuild(like: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """The inverse of `_flatten`, in the form of what was flattened."""
    if isinstance(like, Tensor):
        return tensors[name]
    parts = {key: _rebuild(item, f"{name}.{key}", tensors) for key, item in _parts(like)}
    if isinstance(like, tuple):
        return tuple(parts.values())
    return dataclasses.replace(like, **parts) if parts else like


def _parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, tuple):
        return [(str(number), item) for number, item in enumerate(value)]
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return []


def _only(tensors: dict[str, Tensor], beginnings: tuple[str, ...]) -> dict[str, Tensor]:
    return {name: value for name, value in tensors.items() if name.startswith(beginnings)}


def _readme(solver: Solver, name: str, graphs: dict[str, ModelProto]) -> str:
    task = solver.task
    codes = ", ".join(f"{code} {symbol!r}" for symbol, code in task.answer_symbols.items())
    asked = ", ".join(value.name for value in graphs["start.onnx"].graph.input)
    text = f"""# {name} as ONNX

`{name}` solves {task.name} puzzles of {task.cells} cells. Every graph takes batches of any size.
A question is int64 codes of cells, (batch, {task.cells}); codes of the answer: {codes}.

- `start.onnx`: {asked} -> the tensors of a rollout, once for each puzzle.
- `step.onnx`: those it names -> `{NEXT}*`, which take the place of what they are called after.
- `decode.onnx`: -> `answer` (codes), `confidence` (of each cell), `valid` (obeys the rules).
"""
    if "solver.onnx" not in graphs:
        return text + "- `reading` is what the language model reads: `solver.backbone.read(x)`.\n"
    return (
        text
        + f"""- `solver.onnx`: question, steps -> what `decode.onnx` returns: all of it.

```python
import numpy as np, onnxruntime

solver = onnxruntime.InferenceSession("solver.onnx")
steps = np.array({solver.default_steps})  # those of validation
answer, confidence, valid = solver.run(None, {{"question": question, "steps": steps}})
```

Weights that bf16 holds exactly are stored as bf16 and computed with as float32.
"""
    )
