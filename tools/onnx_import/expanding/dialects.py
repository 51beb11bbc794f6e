"""ONNX Runtime's own operators in ONNX's terms, which ONNX's shape inference knows: what matters is the shape and the
type of what they make, not its numbers."""

import onnx

from terms import INPUTS, NHWC, attribute_values, input_name

MICROSOFT = "com.microsoft"

# com.microsoft's operators: ONNX's operator with the same shapes, and which of its inputs that one takes. The elements
# of its result have the type of the first of them, unless the operator's row in RESULTS says another.
MICROSOFT_OPERATORS = {
    "QLinearAdd": ("Add", [0, 3]), "QLinearMul": ("Mul", [0, 3]), "QLinearWhere": ("Where", [0, 1, 4]),
    "QLinearSigmoid": ("Identity", [0]), "QLinearLeakyRelu": ("Identity", [0]), "QLinearSoftmax": ("Identity", [0]),
    "QLinearReduceMean": ("ReduceMean", [0]), "QLinearGlobalAveragePool": ("GlobalAveragePool", [0]),
    "QLinearAveragePool": ("AveragePool", [0]), "QLinearConcat": ("Concat", None), "QGemm": ("Gemm", [0, 3]),
    "NhwcMaxPool": ("MaxPool", [0]), "QuantizeLinear": ("Identity", [0]), "DequantizeLinear": ("Identity", [0]),
    "DynamicQuantizeMatMul": ("MatMul", [0, 1]), "MatMulIntegerToFloat": ("MatMul", [0, 1]),
    "FusedGemm": ("Gemm", [0, 1]),
    "Gelu": ("Identity", [0]), "FastGelu": ("Identity", [0]), "BiasGelu": ("Identity", [0]),
    "SkipLayerNormalization": ("Identity", [0]), "SimplifiedLayerNormalization": ("Identity", [0]),
    "GroupNorm": ("Identity", [0]), "SkipGroupNorm": ("Identity", [0]), "BiasAdd": ("Identity", [0]),
    "BiasSplitGelu": ("Identity", [0]), "Inverse": ("Identity", [0]),
}
# Where elements have another type: the input that has it (its type or, with none given there, this one), or the type.
RESULTS = {"QuantizeLinear": (2, "UINT8"), "QGemm": (8, "FLOAT"), "DequantizeLinear": (1, "FLOAT"),
           "MatMulIntegerToFloat": (2, "FLOAT"), "QLinearWhere": (1, "UINT8")}
# The newest version of an operator that has what com.microsoft's takes as attributes as attributes too.
VERSIONS = {"ReduceMean": 13}
# Attributes that shapes depend on.
SHAPING = {"axis", "axes", "keepdims", "kernel_shape", "strides", "pads", "dilations", "auto_pad", "ceil_mode", "group",
           "count_include_pad", "transA", "transB", "storage_order", "output_padding", "output_shape"}
# Operators of ONNX that its inference passes by, or does not know in a model of an operator set before theirs.
ELEMENTWISE = {"GroupNormalization", "MeanVarianceNormalization", "Gelu", "LayerNormalization", "RMSNormalization"}


# Parameters of a FusedConv's activation, as attributes of the operator that it is, in the order of activation_params.
ACTIVATION_ATTRIBUTES = {"LeakyRelu": ["alpha"], "HardSigmoid": ["alpha", "beta"], "Clip": ["min", "max"]}
CLIP_BY_INPUTS = 11  # the operator set since which Clip's are inputs


def expanded(node, folder):
    """The nodes of ONNX that compute what ONNX Runtime's optimiser made one of; None for any other node."""
    if node.domain != MICROSOFT or not node.input or not node.output:
        return None
    if node.op_type == "FusedConv":
        return convolution_and_more(node, folder)
    if node.op_type == "QuickGelu" and attribute_values(node).get("alpha", 1.702) == 1:
        gate = f"{node.output[0]}/gate"
        return [onnx.helper.make_node("Sigmoid", node.input[:1], [gate]),
                onnx.helper.make_node("Mul", [node.input[0], gate], node.output[:1], node.name)]
    return None


def convolution_and_more(node, folder):
    """FusedConv: a Conv, the sum with its fourth input, and an activation."""
    attributes = attribute_values(node)
    fused = ("activation", "activation_params")
    constants = []
    steps = [("Conv", list(node.input[:3]), [item for item in node.attribute if item.name not in fused])]
    if input_name(node, 3):
        steps.append(("Add", [None, node.input[3]], []))
    if attributes.get("activation"):
        name = attributes["activation"].decode()
        numbers = attributes.get("activation_params", [])
        if name == "Clip" and folder.opset >= CLIP_BY_INPUTS:
            constants = [number_of(f"{node.output[0]}/{place}", number, folder.element_type(node.input[0]))
                         for place, number in enumerate(numbers)]
            steps.append((name, [None, *(constant.output[0] for constant in constants)], []))
        else:
            named = zip(ACTIVATION_ATTRIBUTES.get(name, []), numbers)
            steps.append((name, [None], [onnx.helper.make_attribute(*pair) for pair in named]))
    nodes, last = list(constants), None
    for place, (operator, inputs, more) in enumerate(steps):
        output = node.output[0] if place == len(steps) - 1 else f"{node.output[0]}/{operator}"
        nodes.append(onnx.helper.make_node(operator, [last if name is None else name for name in inputs], [output]))
        nodes[-1].attribute.extend(more)
        last = output
    nodes[len(constants)].name = node.name
    return nodes


def number_of(name, number, element_type):
    """A Constant."""
    kind = onnx.TensorProto.DataType.Value(element_type or "FLOAT")
    return onnx.helper.make_node("Constant", [], [name], value=onnx.helper.make_tensor(name, kind, [], [number]))


def in_onnx_terms(node, rank_of):
    """Nodes of ONNX that make what this one does; None where there are none, or the node is ONNX's itself."""
    if not node.input or not node.output:
        return None
    if node.domain == NHWC:
        return channels_last(node, rank_of(input_name(node, INPUTS.get(node.op_type, {}).get("w"))))
    if node.domain in ("", "ai.onnx") and node.op_type in ELEMENTWISE and not any(node.output[1:]):
        return [plain(node, "Identity", node.input[:1])]
    if node.domain != MICROSOFT or node.op_type not in MICROSOFT_OPERATORS:
        return None
    operator, places = MICROSOFT_OPERATORS[node.op_type]
    # QLinearConcat has the result's scale and zero point, then tensor, scale and zero point of each.
    inputs = node.input[2::3] if places is None else [input_name(node, place) for place in places]
    if not inputs:
        return None
    same = plain(node, operator, inputs)
    if attribute_values(node).get("channels_last", 0) or node.op_type == "NhwcMaxPool":
        return channels_last(same, rank_of(inputs[0]))
    return [same]


def plain(node, operator, inputs):
    """ONNX's operator with this node's outputs, and what of its attributes shapes depend on."""
    same = onnx.helper.make_node(operator, inputs, list(node.output[:1]))
    if operator != "Identity":
        same.attribute.extend(item for item in node.attribute if item.name in SHAPING)
    return same


def channels_last(node, rank):
    """ONNX's operator between two transpositions."""
    if rank is None or rank < 3:
        return None
    first, last = f"{node.output[0]}/x", f"{node.output[0]}/y"
    inner = onnx.helper.make_node(node.op_type, [first, *node.input[1:]], [last])
    inner.attribute.extend(item for item in node.attribute if item.name in SHAPING)
    return [onnx.helper.make_node("Transpose", [node.input[0]], [first], perm=[0, rank - 1, *range(1, rank - 1)]), inner,
            onnx.helper.make_node("Transpose", [last], [node.output[0]], perm=[0, *range(2, rank), 1])]


def result_type(node, type_of):
    """The name of the type of a com.microsoft node's elements where it is not its first input's; None where it is."""
    if node.domain != MICROSOFT or node.op_type not in RESULTS:
        return None
    place, otherwise = RESULTS[node.op_type]
    return type_of(input_name(node, place)) or otherwise
