"""Reads a model, with the shapes that its user gives and those that follow."""

import os
import re

import numpy as np
import onnx
import onnx.external_data_helper
import onnx.shape_inference
from google.protobuf.message import DecodeError

from terms import INPUTS, NHWC, ModelError, input_name, outer_names, shape_of, shape_text, subgraphs


def load_model(path):
    """The model, its external data left where it is but checked to lie in the model's folder."""
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    except (DecodeError, ValueError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} is not an ONNX model, or is cut short: {error}") from error
    if not model.opset_import or not model.graph.node:
        raise ModelError(f"{path} is not an ONNX model, or is cut short: it holds "
                         + ("no nodes" if model.opset_import else "no operator set"))
    check_acyclic(path, model.graph)
    folder = os.path.dirname(os.path.abspath(path))
    if model.functions:
        from onnx import inliner  # not in releases before 1.15

        model = inliner.inline_local_functions(model)
    for tensor in all_tensors(model.graph):
        if onnx.external_data_helper.uses_external_data(tensor):
            check_external_data(path, folder, tensor)
    drop_initializer_inputs(model)
    return model, folder


def check_acyclic(path, graph):
    """Refuses a graph with a node that needs its own result. Nodes may stand in any order."""
    makers = {name: number for number, node in enumerate(graph.node) for name in node.output if name}
    needs = [{makers[name] for name in [*node.input, *outer_names(node)] if name in makers} for node in graph.node]
    readers = [[] for _ in needs]
    for number, needed in enumerate(needs):
        for other in needed:
            readers[other].append(number)
    left = [len(needed) for needed in needs]
    ready = [number for number, count in enumerate(left) if count == 0]
    while ready:
        for reader in readers[ready.pop()]:
            left[reader] -= 1
            if left[reader] == 0:
                ready.append(reader)
    waiting = [number for number, count in enumerate(left) if count > 0]
    if not waiting:
        return
    # Backwards from one that waits, until one is met again: what lies between is the cycle.
    way = [waiting[0]]
    while way[-1] not in way[:-1]:
        way.append(min(other for other in needs[way[-1]] if left[other] > 0))
    cycle = [graph.node[number] for number in reversed(way[way.index(way[-1]):-1])]
    names = [f'"{node.name or node.output[0]}"' for node in cycle[:6]]
    raise ModelError(f"{path} makes no sense as a model: its nodes need each other's results in a circle: "
                     + ", ".join(names) + (", ..." if len(cycle) > 6 else ""))


def drop_initializer_inputs(model):
    """Before version 4 initializers had to be inputs too, which a caller could override; here they are constants."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)


def all_tensors(graph):
    """Every tensor of a graph: initializers and attributes, in the bodies of its nodes too."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for inner in subgraphs(node):
            yield from all_tensors(inner)


def check_external_data(path, folder, tensor):
    location = onnx.external_data_helper.ExternalDataInfo(tensor).location
    data = os.path.realpath(os.path.join(folder, location))
    if os.path.commonpath([os.path.realpath(folder), data]) != os.path.realpath(folder):
        raise ModelError(f'{path}: tensor "{tensor.name}" keeps its data in "{location}", outside the model\'s '
                         "folder: refused")
    if not os.path.isfile(data):
        raise ModelError(f'{path}: tensor "{tensor.name}" keeps its data in "{location}", which is not there')


def parse_shapes(texts):
    """{"data": [1, 3, 224, 224]} of ["data=1x3x224x224"]."""
    shapes = {}
    for text in texts:
        name, separator, sizes = text.rpartition("=")
        if not separator or not re.fullmatch(r"\d+(x\d+)*", sizes):
            raise ModelError(f"--shape {text}: write it like --shape INPUT=1x3x224x224")
        shapes[name] = [int(size) for size in sizes.split("x")]
    return shapes


def set_shapes(path, graph, shapes):
    """Gives inputs the shapes the user says; what the file says of anything computed from them no longer holds."""
    inputs = {value.name: value for value in graph.input}
    for name, sizes in shapes.items():
        if name not in inputs:
            raise ModelError(f'{path} has no input "{name}" to give a shape: its inputs are '
                             + ", ".join(f'"{known}"' for known in inputs))
        tensor = inputs[name].type.tensor_type
        if tensor.HasField("shape") and len(tensor.shape.dim) != len(sizes):
            raise ModelError(f"--shape {name}={'x'.join(map(str, sizes))}: the model says it has "
                             f"{len(tensor.shape.dim)} dimensions, {shape_text(tensor)}")
        tensor.shape.Clear()
        for size in sizes:
            tensor.shape.dim.add().dim_value = size
    if shapes:
        del graph.value_info[:]
        for output in graph.output:
            output.type.tensor_type.ClearField("shape")


def open_inputs(graph):
    """For every input of the model without a full shape: how to give it one."""
    hints = []
    for value in graph.input:
        tensor = value.type.tensor_type
        if value.type.HasField("tensor_type") and shape_of(tensor) is None:
            example = [1, 3, 224, 224]
            if tensor.HasField("shape"):
                example = [dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0
                           else (1, 3)[axis] if axis < 2 else 224 for axis, dim in enumerate(tensor.shape.dim)]
            hints.append(f'input "{value.name}" has {shape_text(tensor)}; give it one, for example --shape '
                         f"{value.name}={'x'.join(map(str, example))}")
    return hints


def in_onnx_terms(model):
    """The model for shape inference, which knows ONNX's operators: each node with its channels last becomes ONNX's own
    between two transpositions."""
    if not any(node.domain == NHWC for node in model.graph.node):
        return model
    ranks = {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
    known = onnx.ModelProto()
    known.CopyFrom(model)
    del known.graph.node[:]
    for node in model.graph.node:
        rank = ranks.get(input_name(node, INPUTS.get(node.op_type, {}).get("w")))
        if node.domain != NHWC or rank is None:
            known.graph.node.append(node)
            continue
        first, last = f"{node.output[0]}/x", f"{node.output[0]}/y"
        plain = onnx.NodeProto()
        plain.CopyFrom(node)
        plain.domain, plain.input[0], plain.output[0] = "", first, last
        del plain.attribute[:]
        plain.attribute.extend(item for item in node.attribute if not item.name.startswith("activation"))
        channels_first = [0, rank - 1, *range(1, rank - 1)]
        channels_last = [0, *range(2, rank), 1]
        known.graph.node.extend([
            onnx.helper.make_node("Transpose", [node.input[0]], [first], perm=channels_first), plain,
            onnx.helper.make_node("Transpose", [last], [node.output[0]], perm=channels_last)])
    return known


def infer_shapes(model, folder):
    """The model with the shape of every value that can be known; initializers count as constants."""
    for tensor in model.graph.initializer:
        # Shapes are computed from these; weights stay in their files.
        if onnx.external_data_helper.uses_external_data(tensor) and np.prod(tensor.dims) <= 1024:
            try:
                onnx.external_data_helper.load_external_data_for_tensor(tensor, folder)
            except Exception as error:
                raise ModelError(f'tensor "{tensor.name}" cannot be read from its file: {error}') from error
            del tensor.external_data[:]
            tensor.data_location = onnx.TensorProto.DEFAULT
    try:
        inferred = onnx.shape_inference.infer_shapes(in_onnx_terms(model), data_prop=True)
    except Exception:  # the C++ checker raises several kinds; shapes that the file states are still there
        return model
    del inferred.graph.node[:]
    inferred.graph.node.extend(model.graph.node)
    return inferred
