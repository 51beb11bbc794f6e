"""A model in doubles: all of its floats are, so that what rounding makes of a result, anybody's, can be told from a mistake."""

import numpy as np
import onnx

from evaluating import evaluator
from terms import ModelError, is_float

PROTO = onnx.TensorProto
FLOATS = (PROTO.FLOAT, PROTO.FLOAT16, PROTO.BFLOAT16)
# Attributes that name the type of a result, or in which one is computed.
TYPES = ("to", "dtype", "output_dtype", "stash_type", "softmax_precision", "precision")


def evaluate(model, inputs, names):
    """{name: array} of these values of a model, its floats in doubles. Raises ModelError where it cannot be done."""
    inputs = {name: in_double(array) for name, array in inputs.items()}
    try:
        doubled = in_doubles(model)
        del doubled.graph.output[:]
        doubled.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        with np.errstate(all="ignore"):
            return dict(zip(names, evaluator(doubled).run(names, inputs)))
    except Exception as error:  # whatever the reference implementation of an operator raises
        raise ModelError(f"the model cannot be computed in doubles: {str(error)[:300]}") from error


def in_double(array):
    array = np.asarray(array)
    return array.astype(np.float64) if is_float(array.dtype) else array


def in_doubles(model):
    """The same model, its floats doubles."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    convert_graph(result.graph)
    for function in result.functions:
        convert_nodes(function.node)
    return result


def convert_graph(graph):
    for tensor in graph.initializer:
        convert_tensor(tensor)
    for value in [*graph.input, *graph.output, *graph.value_info]:
        kind = value.type.tensor_type
        if kind.elem_type in FLOATS:
            kind.elem_type = PROTO.DOUBLE
    convert_nodes(graph.node)


def convert_tensor(tensor):
    if tensor.data_type in FLOATS:
        tensor.CopyFrom(onnx.numpy_helper.from_array(in_double(onnx.numpy_helper.to_array(tensor)), tensor.name))


def convert_nodes(nodes):
    for node in nodes:
        if node.op_type == "ConstantOfShape" and not node.attribute:
            node.attribute.append(onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(np.zeros(1))))
        for attribute in node.attribute:
            convert_attribute(node, attribute)


def convert_attribute(node, attribute):
    kind = attribute.type
    if kind == onnx.AttributeProto.TENSOR:
        convert_tensor(attribute.t)
    elif kind == onnx.AttributeProto.INT and attribute.name in TYPES and attribute.i in FLOATS:
        attribute.i = PROTO.DOUBLE
    elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
        numbers = attribute.f if attribute.name == "value_float" else list(attribute.floats)
        attribute.CopyFrom(onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(np.asarray(numbers, np.float64))))
    elif kind in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
        for graph in [attribute.g] if kind == onnx.AttributeProto.GRAPH else attribute.graphs:
            convert_graph(graph)
