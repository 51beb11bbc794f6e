"""What the importer knows of ONNX: its operators, types and nodes; and the errors it tells."""

import re

import numpy as np
import onnx

# Operators that are layers, with where their inputs are: x, w, bias, mask.
INPUTS = {
    "Conv": {"x": 0, "w": 1, "bias": 2},
    "ConvTranspose": {"x": 0, "w": 1, "bias": 2},
    "DeformConv": {"x": 0, "w": 1, "bias": 3, "mask": 4},
    "ConvInteger": {"x": 0, "w": 1},
    "QLinearConv": {"x": 0, "w": 3, "bias": 8},
}
# Those whose result is a sum of products, so that scales and sums behind them can be fused.
FUSIBLE = ("Conv", "ConvTranspose", "DeformConv")
NHWC = "com.ms.internal.nhwc"  # ONNX Runtime's own: x and y have their channels last
DIALECTS = {"": "onnx", "ai.onnx": "onnx", NHWC: "ms-nhwc"}
ATTRIBUTES = {"auto_pad", "dilations", "group", "kernel_shape", "offset_group", "output_padding", "output_shape",
              "pads", "strides"}
DTYPES = {"FLOAT": "float32", "DOUBLE": "float64", "FLOAT16": "float16", "BFLOAT16": "bfloat16", "INT8": "int8",
          "UINT8": "uint8"}
BYTES = ("INT8", "UINT8")
# What operations and layers compute in float32.
NARROW_FLOATS = ("FLOAT16", "BFLOAT16")
# More products of bytes may have sums that int32 does not hold.
MOST_PRODUCTS = 2 ** 31 // 255 ** 2
# Nodes that move elements, as exporters do to the place of another framework's axes.
MOVING = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")
# Nodes that may change channels by a factor and a number.
AFFINE = ("BatchNormalization", "Mul", "Div", "Add", "Sub", "Neg")
# What becomes numbers of a layer, where the rest becomes something that it does besides.
FOLDED = (*AFFINE, "DequantizeLinear", "QuantizeLinear")
# Operators that do not give the same result twice.
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
# Larger constants are not computed: no weights are that large, and a fill's size is only a number in the file.
MAX_CONSTANT_ELEMENTS = 1 << 28
LOWEST, HIGHEST = float(np.finfo(np.float32).min), float(np.finfo(np.float32).max)


class ModelError(Exception):
    """The model as a whole is not usable."""


class NodeError(Exception):
    """One node cannot be made a layer of."""

    def __init__(self, message, code="invalid_argument"):
        super().__init__(message)
        self.code = code


def is_float(dtype):
    """Whether a NumPy type is of floats, of which bfloat16 is a kind of its own to NumPy."""
    return dtype.kind == "f" or dtype.name == "bfloat16"


def is_number(dtype):
    return is_float(dtype) or dtype.kind in "iu"


def is_onnx(node):
    return node.domain in ("", "ai.onnx")


def is_foldable(node):
    return is_onnx(node) and node.op_type not in RANDOM and not any(True for _ in subgraphs(node)) \
        and node.op_type not in INPUTS and node.op_type != "If"


def is_random(node, graph):
    """Whether a node's result is drawn, another one each time."""
    if not is_onnx(node) or node.op_type not in (*RANDOM, "Dropout"):
        return False
    if node.op_type != "Dropout":
        return True
    if graph.opset < 7:
        return not attribute_values(node).get("is_test", 0)
    training = input_name(node, 2)
    return bool(training) and (training not in graph.constants or bool(np.any(graph.value(training))))


def is_layer(node):
    return node.op_type in INPUTS and node.domain in DIALECTS and len(node.output) > 0


def count_convolutions(nodes):
    """How many nodes convolve, whether Kiln has layers of their kind or not, those in the bodies of nodes too."""
    return sum(bool(re.search(r"Conv(?!er)", node.op_type))
               + sum(count_convolutions(graph.node) for graph in subgraphs(node)) for node in nodes)


def subgraphs(node):
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def outer_names(node):
    """Every name that the bodies of an If, Loop or Scan read from outside."""
    for graph in subgraphs(node):
        made = set(names_made_in(graph))
        read = [name for inner in graph.node for name in [*inner.input, *outer_names(inner)]]
        yield from (name for name in [*read, *(value.name for value in graph.output)] if name not in made)


def names_made_in(graph):
    """Every name that a body defines, but for what the bodies in it do."""
    for item in [*graph.input, *graph.initializer]:
        yield item.name
    for node in graph.node:
        yield from node.output


def attribute_values(node):
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def copied(node, inputs=None, outputs=None):
    """A copy of a node, of these inputs and outputs where they are said."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    if inputs is not None:
        copy.input[:] = inputs
    if outputs is not None:
        copy.output[:] = outputs
    return copy


def input_name(node, index):
    return node.input[index] if index is not None and index < len(node.input) else ""


def shape_of(tensor_type):
    """[1, 3, 224, 224], or None if a size is not known."""
    if not tensor_type.HasField("shape"):
        return None
    sizes = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor_type.shape.dim]
    return None if any(size < 0 for size in sizes) else sizes


def shape_text(tensor_type):
    if not tensor_type.HasField("shape"):
        return "no shape"
    return "[" + ", ".join(str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"
                           for dim in tensor_type.shape.dim) + "]"
