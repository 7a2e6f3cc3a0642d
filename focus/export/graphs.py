"""ONNX graphs joined to larger ones, and their weights stored small without loss."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

_SMALL = 1024  # numbers of a weight that is not worth a conversion


def inlined(
    graph: GraphProto, into: GraphProto, prefix: str, given: Mapping[str, str],
    weights_into: GraphProto | None = None,
) -> dict[str, str]:  # fmt: skip
    """Put the nodes of a graph into another; returns what its outputs are called there.

    `given` says which value of the other graph each input is. `weights_into` takes the weights
    instead, where `into` is the body of a loop: outside of it they are prepared once.
    """
    inputs = {value.name for value in graph.input}
    names = {name: given[name] for name in inputs}

    def renamed(name: str) -> str:
        return names.setdefault(name, f"{prefix}{name}") if name else ""

    for weight in graph.initializer:
        copy = (weights_into or into).initializer.add()
        copy.CopyFrom(weight)
        copy.name = renamed(weight.name)
    for node in graph.node:
        assert not any(attribute.HasField("g") for attribute in node.attribute), node.op_type
        copied = into.node.add()
        copied.CopyFrom(node)
        copied.name = f"{prefix}{node.name}"
        copied.input[:] = map(renamed, node.input)
        copied.output[:] = map(renamed, node.output)
    return {value.name: renamed(value.name) for value in graph.output}


def joined(first: ModelProto, then: ModelProto) -> ModelProto:
    """One graph after another: inputs of the second that the first does not make are inputs."""
    graph = GraphProto(name=then.graph.name)
    made = {value.name for value in first.graph.output}
    inputs = {value.name: value for value in first.graph.input}
    inputs |= {value.name: value for value in then.graph.input if value.name not in made}
    graph.input.extend(inputs.values())
    values = inlined(first.graph, graph, "first.", {name: name for name in inputs})
    given = {value.name: values.get(value.name, value.name) for value in then.graph.input}
    _add_outputs(graph, inlined(then.graph, graph, "", given), then.graph.output)
    return _model(graph, then)


def looped(start: ModelProto, step: ModelProto, decode: ModelProto, prefix: str) -> ModelProto:
    """The whole: the start, so many steps, and the decoder.

    Outputs of a step carry a prefix, which keeps them apart from the inputs they replace.
    """
    graph = GraphProto(name="solver")
    graph.input.extend(start.graph.input)
    graph.input.append(helper.make_tensor_value_info("steps", TensorProto.INT64, []))
    values = inlined(
        start.graph, graph, "start.", {value.name: value.name for value in start.graph.input}
    )
    body = GraphProto(name="step")
    state = [value.name.removeprefix(prefix) for value in step.graph.output]
    kinds = {value.name: value.type for value in step.graph.input}
    kinds |= {value.name.removeprefix(prefix): value.type for value in step.graph.output}
    body.input.append(helper.make_tensor_value_info("number", TensorProto.INT64, []))
    body.input.append(helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []))
    for name in state:
        body.input.append(helper.make_value_info(f"before.{name}", kinds[name]))
    given = {
        value.name: f"before.{value.name}" if value.name in state else values[value.name]
        for value in step.graph.input
    }
    after = inlined(step.graph, body, "step.", given, weights_into=graph)
    body.node.append(helper.make_node("Identity", ["goes_on"], ["goes_on_after"]))
    body.output.append(helper.make_tensor_value_info("goes_on_after", TensorProto.BOOL, []))
    for name in state:
        body.output.append(helper.make_value_info(after[f"{prefix}{name}"], kinds[name]))
    last = [f"last.{name}" for name in state]
    graph.node.append(
        helper.make_node("Loop", ["steps", "", *(values[name] for name in state)], last, body=body)
    )
    values |= dict(zip(state, last, strict=True))
    given = {value.name: values[value.name] for value in decode.graph.input}
    _add_outputs(graph, inlined(decode.graph, graph, "decode.", given), decode.graph.output)
    return _model(graph, start)


def input_names(model: ModelProto) -> set[str]:
    """What a graph asks for."""
    return {value.name for value in model.graph.input}


def without_unused_inputs(model: ModelProto) -> None:
    """Drop inputs that no node reads: a runtime would ask for them."""
    used = {name for node in model.graph.node for name in node.input}
    used |= {value.name for value in model.graph.output}
    inputs = [value for value in model.graph.input if value.name in used]
    del model.graph.input[:]
    model.graph.input.extend(inputs)


def store_small(model: ModelProto) -> None:
    """Store as bf16 what bf16 holds exactly, with a conversion that a runtime does when it loads.

    Released weights are bf16: their files are half as large, and compute the same numbers.
    """
    casts = []
    for weight in model.graph.initializer:
        if weight.data_type != TensorProto.FLOAT or np.prod(weight.dims) < _SMALL:
            continue
        bits = numpy_helper.to_array(weight).astype("<f4").view("<u4")
        if (bits & 0xFFFF).any():
            continue
        stored = f"{weight.name}.bf16"
        casts.append(helper.make_node("Cast", [stored], [weight.name], to=TensorProto.FLOAT))
        raw = (bits >> 16).astype("<u2").tobytes()
        weight.CopyFrom(
            TensorProto(name=stored, data_type=TensorProto.BFLOAT16, dims=weight.dims, raw_data=raw)
        )
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _add_outputs(
    graph: GraphProto, values: Mapping[str, str], outputs: Sequence[ValueInfoProto]
) -> None:
    """Give values of a graph the names that its outputs are to have."""
    for output in outputs:
        name = values[output.name]
        if name != output.name:
            graph.node.append(helper.make_node("Identity", [name], [output.name]))
    graph.output.extend(outputs)


def _model(graph: GraphProto, like: ModelProto) -> ModelProto:
    model = helper.make_model(graph, opset_imports=like.opset_import, ir_version=like.ir_version)
    onnx.checker.check_model(model)
    return model
