"""Nodes of a network that are several of ONNX's: ONNX Runtime's own operators, as its optimiser and quantiser write them, and
ONNX's dynamic quantisation, Einsum and recurrent operators."""

import numpy as np
import onnx

from expanding import einsum, recurrent_steps
from expanding.dialects import MICROSOFT, expanded
from terms import BYTES, MOST_PRODUCTS, attribute_values, input_name, is_onnx

POOLING = ("auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "storage_order", "strides")


def in_onnx_nodes(node, folder):
    """The nodes of ONNX that compute what this one does; None where it is one itself, or there are none."""
    own = is_onnx(node) and node.op_type in OWN_HANDLERS
    if node.domain != MICROSOFT and not own or not node.output:
        return None
    handler = (OWN_HANDLERS if own else HANDLERS).get(node.op_type)
    if handler is None:
        return expanded(node, folder)
    writer = Writer(node, folder)
    try:
        handler(writer)
    except (IndexError, KeyError, AttributeError, NotTaken):
        return expanded(node, folder)
    writer.nodes[-1].name = node.name
    return writer.nodes


class NotTaken(Exception):
    """A node of a form that has no handler: whoever takes it as it is tells what is wrong."""


class Writer:
    """The nodes in the place of one."""

    def __init__(self, node, folder):
        self.node, self.folder, self.nodes = node, folder, []
        self.attributes = attribute_values(node)
        self.base = next(filter(None, node.output), node.op_type)

    def name(self, index):
        return input_name(self.node, index)

    def add(self, operator, *inputs, output="", **attributes):
        """A node, "" for inputs that are left out; the name of its result."""
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        output = output or f"{self.base}/{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(operator, list(inputs), [output], output, **attributes))
        return output

    def end(self, operator, *inputs, **attributes):
        """The node that makes the first output."""
        return self.add(operator, *inputs, output=self.node.output[0], **attributes)

    def number(self, value, dtype=np.float32):
        return self.add("Constant", value=onnx.numpy_helper.from_array(np.asarray(value, dtype)))

    def number_beside(self, name, value):
        """A number of a value's type."""
        kind = onnx.TensorProto.DataType.Value(self.folder.element_type(name) or "FLOAT")
        return self.add("Constant", value=onnx.helper.make_tensor("", kind, [], [value]))

    def rank(self, name):
        rank = self.folder.rank(name)
        if rank is None:
            raise NotTaken
        return rank

    def shape(self, name):
        shape = self.folder.shape(name)
        if shape is None:
            raise NotTaken
        return shape

    def reshape(self, value, shape):
        return self.add("Reshape", value, self.number(shape, np.int64))

    def reduce_sum(self, value, axes):
        if self.folder.opset < 13:
            return self.add("ReduceSum", value, axes=axes, keepdims=0)
        return self.add("ReduceSum", value, self.number(axes, np.int64), keepdims=0)

    def is_constant(self, name):
        return name in self.folder.constants

    def kept(self, *names):
        """Attributes of these names."""
        return {name: self.attributes[name] for name in names if name in self.attributes}

    def dequantized(self, index, **attributes):
        """A tensor, its scale and zero point, as floats."""
        return self.add("DequantizeLinear", self.name(index), self.name(index + 1), self.name(index + 2), **attributes)

    def quantized(self, value, index):
        """Ends in a value, by scale and zero point."""
        self.end("QuantizeLinear", value, self.name(index), self.name(index + 1))

    def transposed(self, value, rank, to_last):
        if self.attributes.get("channels_last", 0) or self.node.op_type == "NhwcMaxPool":
            order = [0, *range(2, rank), 1] if to_last else [0, rank - 1, *range(1, rank - 1)]
            return self.add("Transpose", value, perm=order)
        return value

    def activated(self, value, name, alpha, beta):
        """Ends in an activation of a value, or in the value."""
        known = {"LeakyRelu": {"alpha": alpha}, "HardSigmoid": {"alpha": alpha, "beta": beta}, "Elu": {"alpha": alpha}}
        self.end(name or "Identity", value, **{key: number for key, number in known.get(name, {}).items()
                                               if number is not None})


# ---- Quantised


def binary(operator):
    def handler(writer):
        writer.quantized(writer.add(operator, writer.dequantized(0), writer.dequantized(3)), 6)
    return handler


def unary(operator, *attributes):
    def handler(writer):
        writer.quantized(writer.add(operator, writer.dequantized(0), **writer.kept(*attributes)), 3)
    return handler


def qlinear_softmax(writer):
    rank, axis = writer.rank(writer.name(0)), writer.attributes.get("axis", -1)
    flattens = writer.attributes.get("opset", 13) < 13
    if flattens != (writer.folder.opset < 13) and axis % rank != rank - 1:
        raise NotTaken
    writer.quantized(writer.add("Softmax", writer.dequantized(0), axis=axis), 3)


def qlinear_pool(operator):
    def handler(writer):
        rank = writer.rank(writer.name(0))
        x = writer.transposed(writer.dequantized(0), rank, False)
        y = writer.add(operator, x, **writer.kept(*POOLING))
        writer.quantized(writer.transposed(y, rank, True), 3)
    return handler


def qlinear_concat(writer):
    parts = [writer.dequantized(index) for index in range(2, len(writer.node.input), 3)]
    writer.quantized(writer.add("Concat", *parts, axis=writer.attributes["axis"]), 0)


def qlinear_where(writer):
    writer.quantized(writer.add("Where", writer.name(0), writer.dequantized(1), writer.dequantized(4)), 7)


def qlinear_reduce_mean(writer):
    axes, keeps = list(writer.attributes.get("axes", [])), writer.attributes.get("keepdims", 1)
    x = writer.dequantized(0)
    if not axes or writer.folder.opset < 18:
        y = writer.add("ReduceMean", x, keepdims=keeps, **({"axes": axes} if axes else {}))
    else:
        y = writer.add("ReduceMean", x, writer.number(axes, np.int64), keepdims=keeps)
    writer.quantized(y, 3)


def qgemm(writer):
    """Its bias is of multiples of what both scales make."""
    attributes = writer.kept("alpha", "transA", "transB")
    a, b = writer.dequantized(0), writer.dequantized(3, axis=0 if attributes.get("transB", 0) else 1)
    bias = ""
    if writer.name(6):
        scale = writer.add("Mul", writer.name(1), writer.name(4))
        if attributes.get("alpha", 1.0) != 1:
            scale = writer.add("Mul", scale, writer.number(attributes["alpha"]))
        bias = writer.add("DequantizeLinear", writer.name(6), scale, axis=0)
    if writer.name(7):
        writer.quantized(writer.add("Gemm", a, b, bias, **attributes), 7)
    else:
        writer.end("Gemm", a, b, bias, **attributes)


def qlinear_matmul(writer):
    """By constant weights alone, whose products are layers, and by one scale of what they multiply and make."""
    scales = [writer.shape(writer.name(index)) for index in (1, 6)]
    if not writer.is_constant(writer.name(3)) or writer.rank(writer.name(3)) != 2 or any(shape not in ([], [1]) for shape in scales):
        raise NotTaken
    axis = {"axis": 1} if writer.rank(writer.name(4)) else {}
    writer.quantized(writer.add("MatMul", writer.dequantized(0), writer.dequantized(3, **axis)), 6)


def nhwc_max_pool(writer):
    rank = writer.rank(writer.name(0))
    y = writer.add("MaxPool", writer.transposed(writer.name(0), rank, False), **writer.kept(*POOLING))
    writer.end("Transpose", y, perm=[0, *range(2, rank), 1])


def same(writer):
    """ONNX's operator of this name."""
    writer.end(writer.node.op_type, *writer.node.input, **writer.attributes)


def resize_of_bytes(writer):
    """Linearly, in floats, whose fractions are cut off, as ONNX Runtime does."""
    element_type = writer.folder.element_type(writer.name(0))
    if element_type not in BYTES or writer.attributes.get("mode", b"nearest") != b"linear" \
            or writer.attributes.get("antialias", 0):
        raise NotTaken
    x = writer.add("Cast", writer.name(0), to=onnx.TensorProto.FLOAT)
    y = writer.add("Resize", x, *writer.node.input[1:], **writer.attributes)
    writer.end("Cast", y, to=onnx.TensorProto.DataType.Value(element_type))


# ---- Products


def matmul_integer_to_float(writer):
    sums = writer.add("MatMulInteger", writer.name(0), writer.name(1), writer.name(4), writer.name(5))
    scaled_sums(writer, sums, writer.add("Mul", writer.name(2), writer.name(3)), writer.name(6))


def dynamic_quantize_matmul(writer):
    x, scale, point = dynamically_quantized(writer, writer.name(0))
    sums = writer.add("MatMulInteger", x, writer.name(1), point, writer.name(3))
    scaled_sums(writer, sums, writer.add("Mul", scale, writer.name(2)), writer.name(4))


def scaled_sums(writer, sums, scale, bias):
    value = writer.add("Cast", sums, to=onnx.TensorProto.FLOAT)
    if bias:
        writer.end("Add", writer.add("Mul", value, scale), bias)
    else:
        writer.end("Mul", value, scale)


def fused_gemm(writer):
    y = writer.add("Gemm", *writer.node.input, **writer.kept("alpha", "beta", "transA", "transB"))
    name = writer.attributes.get("activation", b"").decode()
    writer.activated(y, name, writer.attributes.get("activation_alpha"), writer.attributes.get("activation_beta"))


def fused_matmul(writer):
    if writer.attributes.get("transBatchA", 0) or writer.attributes.get("transBatchB", 0):
        raise NotTaken
    sides = []
    for index, key in enumerate(("transA", "transB")):
        name = writer.name(index)
        if writer.attributes.get(key, 0):
            rank = writer.rank(name)
            name = writer.add("Transpose", name, perm=[*range(rank - 2), rank - 1, rank - 2]) if rank > 1 else name
        sides.append(name)
    alpha = writer.attributes.get("alpha", 1.0)
    if alpha == 1:
        writer.end("MatMul", *sides)
    else:
        writer.end("Mul", writer.add("MatMul", *sides), writer.number_beside(writer.name(0), alpha))


# ---- Elementwise, and normalizations


def gelu(**attributes):
    """With a bias first, where there is one."""
    def handler(writer):
        x = writer.add("Add", writer.name(0), writer.name(1)) if writer.name(1) else writer.name(0)
        writer.end("Gelu", x, **attributes)
    return handler


def quick_gelu(writer):
    x, alpha = writer.name(0), writer.attributes.get("alpha", 1.702)
    scaled = x if alpha == 1 else writer.add("Mul", x, writer.number_beside(x, alpha))
    writer.end("Mul", x, writer.add("Sigmoid", scaled))


def bias_add(writer):
    writer.end("Add", writer.add("Add", writer.name(0), writer.name(1)), writer.name(2))


def skip_normalization(operator, shift, bias):
    """Of a sum, which may be an output too: the fourth."""
    def handler(writer):
        if any(writer.node.output[1:3]):
            raise NotTaken
        total = writer.add("Add", writer.name(0), writer.name(1))
        if writer.name(bias):
            total = writer.add("Add", total, writer.name(bias))
        if len(writer.node.output) > 3 and writer.node.output[3]:
            writer.add("Identity", total, output=writer.node.output[3])
        writer.end(operator, total, writer.name(2), writer.name(shift) if shift else "", axis=-1,
                   epsilon=writer.attributes.get("epsilon", 1e-12 if shift else 1e-5))
    return handler


def simplified_layer_normalization(writer):
    if any(writer.node.output[1:]):
        raise NotTaken
    writer.end("RMSNormalization", *writer.node.input, **writer.kept("axis", "epsilon"))


# ---- ONNX's own


def dynamically_quantized(writer, x):
    """(bytes, scale, zero point) of x, by the range of its values and 0."""
    zero = writer.number(0)
    highest = writer.add("Max", writer.add("ReduceMax", x, keepdims=0), zero)
    lowest = writer.add("Min", writer.add("ReduceMin", x, keepdims=0), zero)
    width = writer.add("Sub", highest, lowest)
    one = writer.number(1)
    scale = writer.add("Where", writer.add("Equal", width, zero), one, writer.add("Div", width, writer.number(255)))
    below = writer.add("Round", writer.add("Div", writer.add("Neg", lowest), scale))
    point = writer.add("Cast", writer.add("Min", writer.add("Max", below, zero), writer.number(255)),
                       to=onnx.TensorProto.UINT8)
    return writer.add("QuantizeLinear", x, scale, point), scale, point


def dynamic_quantize_linear(writer):
    results = dynamically_quantized(writer, writer.name(0))
    for output, result in list(zip(writer.node.output, results))[::-1]:
        if output:
            writer.add("Identity", result, output=output)


def conv_integer(writer):
    """Where the zero point is computed: sums are linear in it, so that they are those of a zero point of 0, less the zero point
    times the sums of the weights. What pads is the zero point then."""
    w, point, w_point = writer.name(1), writer.name(2), writer.name(3)
    if not point or writer.is_constant(point) or not writer.is_constant(w) or (w_point and not writer.is_constant(w_point)):
        raise NotTaken
    attributes = dict(writer.attributes)
    explicit = attributes.pop("auto_pad", b"NOTSET") in (b"NOTSET", b"VALID")
    if not explicit or writer.folder.opset < 11 or np.prod(writer.shape(w)[1:]) > MOST_PRODUCTS:
        conv_integer_of_floats(writer)
        return
    x, pads = writer.name(0), attributes.pop("pads", [])
    if any(pads):
        x = padded_with(writer, x, pads, point)
    sums = writer.add("ConvInteger", x, w, "", w_point, **attributes)
    weights = less_points(writer, writer.add("Cast", w, to=onnx.TensorProto.INT32), onnx.TensorProto.INT32)
    rank = writer.rank(w)
    columns = writer.reshape(writer.reduce_sum(weights, list(range(1, rank))), [-1, *[1] * (rank - 2)])
    writer.end("Sub", sums, writer.add("Mul", writer.add("Cast", point, to=onnx.TensorProto.INT32), columns))


def conv_integer_of_floats(writer):
    """Sums of floats that are whole numbers."""
    as_float = lambda name: writer.add("Cast", name, to=onnx.TensorProto.FLOAT)
    x = writer.add("Sub", as_float(writer.name(0)), as_float(writer.name(2)))
    sums = writer.add("Conv", x, less_points(writer, as_float(writer.name(1)), onnx.TensorProto.FLOAT), **writer.attributes)
    writer.end("Cast", writer.add("Round", sums), to=onnx.TensorProto.INT32)


def less_points(writer, weights, element_type):
    """A ConvInteger's weights, which are of this type now, less their zero points, if they have any."""
    if not writer.name(3):
        return weights
    points = writer.add("Cast", writer.name(3), to=element_type)
    if writer.shape(writer.name(3)) not in ([], [1]):  # one for each output channel
        points = writer.reshape(points, [-1, *[1] * (writer.rank(writer.name(1)) - 1)])
    return writer.add("Sub", weights, points)


def padded_with(writer, x, pads, point):
    """A tensor with a computed number around it."""
    shape, around = writer.shape(x), len(pads) // 2
    pads = [0, 0, *pads[:around], 0, 0, *pads[around:]]
    inside = np.pad(np.zeros([1, 1, *shape[2:]], bool), list(zip(pads, pads[len(shape):])), constant_values=True)
    return writer.add("Where", writer.number(inside, bool), point, writer.add("Pad", x, writer.number(pads, np.int64)))


def as_products(writer):
    names = list(writer.node.input)
    found = einsum.parsed(writer.attributes["equation"].decode(), len(names))
    shapes = [writer.shape(name) for name in names]
    if found is None or len(names) > 2 or any(len(term) != len(shape) for term, shape in zip(found[0], shapes)):
        raise NotTaken
    sizes = {}
    if any(sizes.setdefault(label, size) != size for term, shape in zip(found[0], shapes) for label, size in zip(term, shape)):
        raise NotTaken  # it is broadcast, or makes no sense
    einsum.write(writer, *found, shapes)


def recurrent_nodes(writer):
    try:
        recurrent_steps.write_steps(writer)
    except recurrent_steps.NotUnrolled as error:
        raise NotTaken from error


def batch_normalization(writer):
    """By the batch's own mean and variance, as in training: an instance's, where the batch is one."""
    if not writer.attributes.get("training_mode", 0) or writer.folder.read.intersection(writer.node.output[1:]):
        raise NotTaken
    x, shape = writer.name(0), writer.shape(writer.name(0))
    if len(shape) < 3:
        raise NotTaken
    affine, epsilon = [writer.name(1), writer.name(2)], writer.kept("epsilon")
    if shape[0] == 1:
        writer.end("InstanceNormalization", x, *affine, **epsilon)
        return
    order = [1, 0, *range(2, len(shape))]
    turned = writer.reshape(writer.add("Transpose", x, perm=order), [1, shape[1], -1])
    normalized = writer.add("InstanceNormalization", turned, *affine, **epsilon)
    writer.end("Transpose", writer.reshape(normalized, [shape[axis] for axis in order]), perm=order)


OWN_HANDLERS = {"Einsum": as_products, "LSTM": recurrent_nodes, "GRU": recurrent_nodes, "RNN": recurrent_nodes,
                "DynamicQuantizeLinear": dynamic_quantize_linear, "ConvInteger": conv_integer, "QLinearMatMul": qlinear_matmul,
                "Resize": resize_of_bytes, "BatchNormalization": batch_normalization,
                "SimplifiedLayerNormalization": simplified_layer_normalization}
HANDLERS = {
    "QLinearAdd": binary("Add"), "QLinearMul": binary("Mul"), "QLinearSigmoid": unary("Sigmoid"),
    "QLinearLeakyRelu": unary("LeakyRelu", "alpha"), "QLinearSoftmax": qlinear_softmax,
    "QLinearAveragePool": qlinear_pool("AveragePool"), "QLinearGlobalAveragePool": qlinear_pool("GlobalAveragePool"),
    "QLinearConcat": qlinear_concat, "QLinearWhere": qlinear_where, "QLinearReduceMean": qlinear_reduce_mean, "QGemm": qgemm,
    "NhwcMaxPool": nhwc_max_pool, "QuantizeLinear": same, "DequantizeLinear": same,
    "MatMulIntegerToFloat": matmul_integer_to_float, "DynamicQuantizeMatMul": dynamic_quantize_matmul,
    "DynamicQuantizeLSTM": recurrent_nodes, "FusedGemm": fused_gemm, "FusedMatMul": fused_matmul,
    "Gelu": gelu(), "BiasGelu": gelu(),
    "FastGelu": gelu(approximate="tanh"), "QuickGelu": quick_gelu, "BiasAdd": bias_add,
    "SkipLayerNormalization": skip_normalization("LayerNormalization", 3, 4),
    "SkipSimplifiedLayerNormalization": skip_normalization("RMSNormalization", None, 3),
    "SimplifiedLayerNormalization": simplified_layer_normalization,
}
