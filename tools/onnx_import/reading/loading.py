"""Reads a model, with the shapes that its user gives and those that follow."""

import difflib
import os
import re

import numpy as np
import onnx
import onnx.external_data_helper
from google.protobuf.message import DecodeError

from reading.order import in_order
from terms import MAX_CONSTANT_ELEMENTS, ModelError, shape_of, shape_text, subgraphs


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
    try:
        in_order(model.graph.node)
    except ModelError as error:
        raise ModelError(f"{path} makes no sense as a model: {error}") from error
    folder = os.path.dirname(os.path.abspath(path))
    if model.functions:
        from onnx import inliner  # not in releases before 1.15

        model = inliner.inline_local_functions(model)
    for tensor in all_tensors(model.graph):
        if onnx.external_data_helper.uses_external_data(tensor):
            check_external_data(path, folder, tensor)
    write_out_sparse(path, folder, model.graph)
    drop_initializer_inputs(model)
    return model, folder


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
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("sparse_tensor"):
                yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
            yield from attribute.tensors
        for inner in subgraphs(node):
            yield from all_tensors(inner)


def write_out_sparse(path, folder, graph):
    """Sparse tensors become dense ones: initializers, and what a Constant has, in the bodies of nodes too."""
    for sparse in graph.sparse_initializer:
        graph.initializer.append(written_out(path, folder, sparse))
    del graph.sparse_initializer[:]
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "sparse_value":
                dense = written_out(path, folder, attribute.sparse_tensor)
                attribute.CopyFrom(onnx.helper.make_attribute("value", dense))
        for inner in subgraphs(node):
            write_out_sparse(path, folder, inner)


def written_out(path, folder, sparse):
    """A dense tensor of that name: zeros, but for the values at their indices, which count all elements, or those of each axis."""
    name, shape = sparse.values.name, tuple(sparse.dims)
    if np.prod(shape, dtype=np.float64) > MAX_CONSTANT_ELEMENTS:
        raise ModelError(f'{path}: sparse tensor "{name}" of shape {list(shape)} is too large')
    try:
        values, indices = (onnx.numpy_helper.to_array(tensor, folder) for tensor in (sparse.values, sparse.indices))
        dense = np.zeros(shape, values.dtype)
        dense[np.unravel_index(indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape), shape)] = values
    except (ValueError, IndexError, TypeError) as error:
        raise ModelError(f'{path}: sparse tensor "{name}" makes no sense: {error}') from error
    return onnx.numpy_helper.from_array(dense, name)


def check_external_data(path, folder, tensor):
    location = onnx.external_data_helper.ExternalDataInfo(tensor).location
    data = os.path.realpath(os.path.join(folder, location))
    if os.path.commonpath([os.path.realpath(folder), data]) != os.path.realpath(folder):
        raise ModelError(f'{path}: tensor "{tensor.name}" keeps its data in "{location}", outside the model\'s '
                         "folder: refused")
    if not os.path.isfile(data):
        raise ModelError(f'{path}: tensor "{tensor.name}" keeps its data in "{location}", which is not there')


def parse_shapes(texts):
    """{"data": [1, 3, None, None]} of ["data=1x3x?x?"]."""
    shapes = {}
    for text in texts:
        name, separator, sizes = text.rpartition("=")
        if not separator or not re.fullmatch(r"(\d{1,18}|\?)(x(\d{1,18}|\?))*", sizes):
            raise ModelError(f"--shape {text}: write it like --shape INPUT=1x3x224x224, with ? for a size that is known "
                             "when it runs")
        shapes[name] = [None if size == "?" else int(size) for size in sizes.split("x")]
    return shapes


def shape_option(sizes):
    """A shape as --shape has it."""
    return "x".join("?" if size is None else str(size) for size in sizes)


def set_shapes(path, graph, shapes):
    """Gives inputs the shapes the user says."""
    inputs = {value.name: value for value in graph.input}
    for name, sizes in shapes.items():
        if name not in inputs:
            raise ModelError(f'{path} has no input "{name}" to give a shape: its inputs are '
                             + ", ".join(f'"{known}"' for known in inputs))
        tensor = inputs[name].type.tensor_type
        if tensor.HasField("shape") and len(tensor.shape.dim) != len(sizes):
            raise ModelError(f"--shape {name}={shape_option(sizes)}: the model says it has "
                             f"{len(tensor.shape.dim)} dimensions, {shape_text(tensor)}")
        symbols = [dim.dim_param for dim in tensor.shape.dim] or [""] * len(sizes)
        tensor.shape.Clear()
        for axis, (size, symbol) in enumerate(zip(sizes, symbols)):
            if size is None:
                tensor.shape.dim.add().dim_param = symbol or f"{name}.{axis}"
            else:
                tensor.shape.dim.add().dim_value = size
    if shapes:
        forget_shapes(graph)


def forget_shapes(graph):
    """What the file says of the shapes of what is computed no longer holds when those of inputs have changed."""
    del graph.value_info[:]
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")


def set_outputs(path, graph, names):
    """Makes these values the model's outputs, in place of its own."""
    if not names:
        return
    made = {value.name for value in graph.input} | {name for node in graph.node for name in node.output if name}
    for name in names:
        if name not in made:
            near = difflib.get_close_matches(name, made, 3, 0)
            raise ModelError(f'{path} has no value "{name}" to be an output: the nearest that it has are '
                             + ", ".join(f'"{one}"' for one in near))
    known = {value.name: value for group in (graph.input, graph.value_info, graph.output) for value in group}
    outputs = [known.get(name, onnx.ValueInfoProto(name=name)) for name in dict.fromkeys(names)]
    del graph.output[:]
    graph.output.extend(outputs)


def open_inputs(graph, shapes):
    """For every input of the model without a full shape, where the user gave none: how to give it one."""
    hints = []
    for value in graph.input:
        tensor = value.type.tensor_type
        if value.type.HasField("tensor_type") and shape_of(tensor) is None and value.name not in shapes:
            example = [1, 3, 224, 224]
            if tensor.HasField("shape"):
                example = [dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0
                           else (1, 3)[axis] if axis < 2 else 224 for axis, dim in enumerate(tensor.shape.dim)]
            hints.append(f'input "{value.name}" has {shape_text(tensor)}; give it one, for example --shape '
                         f"{value.name}={shape_option(example)}")
    return hints


def load_small_tensors(model, folder):
    """Reads small tensors from their files: shapes are computed from these. Weights stay where they are."""
    for tensor in model.graph.initializer:
        if onnx.external_data_helper.uses_external_data(tensor) and np.prod(tensor.dims) <= 1024:
            try:
                onnx.external_data_helper.load_external_data_for_tensor(tensor, folder)
            except Exception as error:
                raise ModelError(f'tensor "{tensor.name}" cannot be read from its file: {error}') from error
            del tensor.external_data[:]
            tensor.data_location = onnx.TensorProto.DEFAULT
