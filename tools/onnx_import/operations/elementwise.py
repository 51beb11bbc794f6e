"""Nodes that compute each element by itself, and chains of them, as one expression."""

import numpy as np

from terms import NARROW_FLOATS, NodeError, attribute_values, is_float, is_onnx

from operations.base import LETTERS, Aligned, Operand, Values, dtype_of, normal_axis, number_text, type_text

MOST_OPERANDS = 16
FEW_CHANNELS = 8


class Map(Aligned):
    """An expression over operands."""

    def __init__(self, expression, operands, output, dtype, shape):
        super().__init__(operands, output, dtype, shape)
        self.expression = expression

    def laid(self, order):
        """Channels last that are fewer than a vector's lanes are one loop with the axis in front of them, in which constants of
        channels are repeated."""
        axes = order[-2:]
        if len(axes) < 2 or not 1 < self.shape[axes[1]] < FEW_CHANNELS:
            return self
        operands = [operand.repeated(axes, self.shape) for operand in self.operands]
        return self if None in operands else Map(self.expression, operands, self.outputs[0], self.dtype, self.shape)

    def text(self, inputs, outputs):
        order = outputs[0]
        return f"map-{self.inputs_text(order)}-{self.output_text(order)}-{self.expression}"


class Term:
    """A part of an expression: its text, its type, and whether it is only a number's text, which has its neighbour's type."""

    def __init__(self, text, dtype, is_number=False):
        self.text, self.dtype, self.is_number = text, np.dtype(dtype), is_number

    def typed(self):
        return f"cast_{type_text(self.dtype)}({self.text})" if self.is_number else self.text


class Call(Values):
    """One node within a chain: its arguments as terms."""

    def __init__(self, chain, node):
        super().__init__(chain.graph, node)
        self.chain, self.attributes = chain, attribute_values(node)
        self.opset = chain.graph.opsets.get(node.domain, 1) if node.domain else chain.graph.opset

    def term(self, index, axes=None):
        return self.chain.term(self.name(index), axes)

    def arguments(self):
        """All inputs, broadcast as the node's opset says."""
        first = self.shape(0)
        axes = None
        if self.opset < 7 and self.attributes.get("broadcast") and len(self.node.input) == 2:
            rank = len(self.shape(1))
            axis = normal_axis(self.attributes.get("axis", len(first) - rank), max(len(first), 1))
            axes = [axis + place for place in range(rank)]
        return [self.term(index, axes if index else None) for index in range(len(self.node.input)) if self.has(index)]

    def apply(self, function, *terms):
        """A function of terms, of which at least one must say the type."""
        if all(term.is_number for term in terms):
            return f"{function}({','.join(term.typed() for term in terms)})"
        return f"{function}({','.join(term.text for term in terms)})"

    def scalar(self, name, default):
        """The text of a float attribute."""
        return number_text(np.float32(self.attributes.get(name, default)))

    def x(self):
        return self.term(0)

    def held(self):
        """The first argument's text, as a step where it will be written more than once."""
        return self.chain.held(self.term(0)).text


def plain(function):
    return lambda call: call.apply(function, *call.arguments())


def folded(function):
    """Of any number of inputs."""
    def handler(call):
        terms = call.arguments()
        result = terms[0]
        for term in terms[1:]:
            result = Term(call.apply(function, result, term), result.dtype)
        return result.text
    return handler


def mean(call):
    return f"div({folded('add')(call)},{len(call.arguments())})"


def mod(call):
    return call.apply("fmod" if call.attributes.get("fmod", 0) else "mod", *call.arguments())


# Exponents by which powers are products or roots.
def power(call):
    base, exponent = call.arguments()
    if exponent.is_number and is_float(base.dtype):
        x = call.chain.held(base).text
        known = {"2": f"mul({x},{x})", "3": f"mul({x},mul({x},{x}))", "0.5": f"sqrt({x})", "1": x,
                 "-1": f"reciprocal({x})", "-0.5": f"reciprocal(sqrt({x}))"}
        if exponent.text in known:
            return known[exponent.text]
    if base.dtype.kind in "iu":
        return power_of_integer(call, base, exponent)
    if not exponent.is_number and exponent.dtype != base.dtype:
        exponent = Term(f"cast_{type_text(base.dtype)}({exponent.text})", base.dtype)
    return call.apply("pow", base, exponent)


def power_of_integer(call, base, exponent):
    """In a type that holds what both do, but by fractions in floats. What does not fit into the base's type wraps around."""
    is_number, wide = exponent.is_number and exponent.text.removeprefix("-").isdigit(), base.dtype
    if not is_number and is_float(exponent.dtype):
        floats = "f64" if exponent.dtype == np.float64 else "f32"
        by_fraction = f"cast_{type_text(base.dtype)}(pow(cast_{floats}({base.text}),{exponent.text}))"
        if exponent.is_number:
            return by_fraction
        # Of whole exponents floats' powers may be a little less than the whole number.
        base, exponent = call.chain.held(base), call.chain.held(exponent)
        by_whole = power_of_integer(call, base, Term(f"cast_s64({exponent.text})", np.int64))
        return f"where(equal({exponent.text},trunc({exponent.text})),{by_whole},{by_fraction})"
    if not is_number or not np.iinfo(wide).min <= int(exponent.text) <= np.iinfo(wide).max:
        wide = np.promote_types(wide, exponent.dtype if exponent.dtype.kind in "iu" else np.int64)
        if wide.kind == "f":  # of 64 bits both, one of them unsigned: the base may wrap around, the exponent may not
            wide = exponent.dtype
    base_text = base.text if base.dtype == wide and not base.is_number else f"cast_{type_text(wide)}({base.text})"
    exponent_text = exponent.text if is_number or exponent.dtype == wide else f"cast_{type_text(wide)}({exponent.text})"
    text = f"pow({base_text},{exponent_text})"
    return text if wide == base.dtype else f"cast_{type_text(base.dtype)}({text})"


def leaky_relu(call):
    return f"leaky_relu({call.x().text},{call.scalar('alpha', 0.01)})"


def prelu(call):
    shape, slope = call.shape(0), call.shape(1)
    axes = None
    if call.opset < 7 or (len(slope) == 1 and len(shape) > 1 and slope[0] == shape[1] and slope[0] != shape[-1]):
        axes = [1] if len(slope) == 1 and slope[0] != 1 else None
    return call.apply("leaky_relu", call.x(), call.term(1, axes))


def elu(call):
    return f"elu({call.x().text},{call.scalar('alpha', 1)})"


def selu(call):
    return f"mul(elu({call.x().text},{call.scalar('alpha', 1.67326319217681884765625)})," \
           f"{call.scalar('gamma', 1.05070102214813232421875)})"


def celu(call):
    x, alpha = call.held(), call.scalar("alpha", 1)
    return f"add(max({x},0),min(0,mul({alpha},sub(exp(div({x},{alpha})),1))))"


def thresholded_relu(call):
    x, alpha = call.held(), call.scalar("alpha", 1)
    return f"where(greater({x},{alpha}),{x},{zero_of(call)})"


def computed_text(call, index):
    """The type that an input is computed in."""
    dtype = call.dtype(index)
    return "f32" if dtype.name.upper() in NARROW_FLOATS else type_text(dtype)


def zero_of(call):
    return f"cast_{computed_text(call, 0)}(0)"


def shrink(call):
    x, above, bias = call.held(), call.scalar("lambd", 0.5), call.scalar("bias", 0)
    below = number_text(-np.float32(call.attributes.get("lambd", 0.5)))
    return f"where(less({x},{below}),add({x},{bias}),where(greater({x},{above}),sub({x},{bias}),{zero_of(call)}))"


def softsign(call):
    x = call.held()
    return f"div({x},add(1,abs({x})))"


def hard_sigmoid(call):
    return f"hard_sigmoid({call.x().text},{call.scalar('alpha', 0.2)},{call.scalar('beta', 0.5)})"


def gelu(call):
    return f"{'gelu_tanh' if call.attributes.get('approximate') == b'tanh' else 'gelu'}({call.x().text})"


def swish(call):
    return f"swish({call.x().text},{call.scalar('alpha', 1)})"


def clip(call):
    text = call.x().text
    if call.opset < 11:
        limits = [number_text(np.float32(call.attributes[name])) if name in call.attributes else None
                  for name in ("min", "max")]
    else:
        limits = [call.term(index, []).text if call.has(index) else None for index in (1, 2)]
    if limits[0] is not None:
        text = f"max({text},{limits[0]})"
    return text if limits[1] is None else f"min({text},{limits[1]})"


def where(call):
    condition, x, y = call.term(0), call.term(1), call.term(2)
    if x.is_number and y.is_number:
        return f"where({condition.text},{x.typed()},{y.typed()})"
    return f"where({condition.text},{x.text},{y.text})"


def is_inf(call):
    x = call.held()
    positive, negative = call.attributes.get("detect_positive", 1), call.attributes.get("detect_negative", 1)
    if positive and negative:
        return f"is_inf({x})"
    if not positive and not negative:
        return f"less({x},{x})"
    return f"equal({x},{'inf' if positive else '-inf'})"


def is_equal(call):
    return call.apply("equal", *call.arguments())


def shift(call):
    left = call.attributes.get("direction", b"") == b"LEFT"
    return call.apply("shift_left" if left else "shift_right", *call.arguments())


def cast(call):
    source, target = call.dtype(0), call.output_dtype()
    x = call.x()
    return x.typed() if source == target and x.is_number else x.text if source == target else \
        f"cast_{type_text(target)}({x.typed()})"


def scale_axes(call, index):
    """The axes on which a scale or zero point of x stands."""
    shape, rank = call.shape(index), len(call.shape(0))
    if call.attributes.get("block_size", 0):
        raise NodeError("it is quantised by blocks", "unsupported")
    return [] if int(np.prod(shape)) == 1 else [normal_axis(call.attributes.get("axis", 1), rank)]


def quantize(call):
    target = call.output_dtype()
    x, scale = call.x(), call.term(1, scale_axes(call, 1))
    quotient = call.apply("div", x, scale) if is_float(call.dtype(0)) else \
        f"div(cast_{type_text(call.dtype(1))}({x.text}),{scale.text})"
    rounded = f"saturate_s32({quotient})"
    if not call.has(2):
        return f"saturate_{type_text(target)}({rounded})"
    point = call.term(2, scale_axes(call, 2))
    point_text = point.text if point.is_number else f"cast_s32({point.text})"
    if point.is_number and point.text == "0":
        return f"saturate_{type_text(target)}({rounded})"
    return f"saturate_{type_text(target)}(add({rounded},{point_text}))"


def dequantize(call):
    x, scale = call.x(), call.term(1, scale_axes(call, 1))
    kind = computed_text(call, 1)
    value = f"cast_s32({x.text})" if x.dtype.itemsize < 4 else x.text
    if call.has(2):
        point = call.term(2, scale_axes(call, 2))
        if not (point.is_number and point.text == "0"):
            wide = point.text if point.is_number or point.dtype == np.int32 else f"cast_s32({point.text})"
            value = f"sub({value},{wide})"
    return f"mul(cast_{kind}({value}),{scale.text})"


def batch_normalization(call):
    if call.attributes.get("training_mode", 0) or (call.opset < 7 and not call.attributes.get("is_test", 0)):
        raise NodeError("it is a BatchNormalization in training mode", "unsupported")
    if call.opset < 9 and not call.attributes.get("spatial", 1):
        raise NodeError("it is a BatchNormalization with spatial=0", "unsupported")
    axes = [1] if len(call.shape(0)) > 1 else [0]
    epsilon = call.scalar("epsilon", 1e-5)
    values = [np.asarray(call.graph.value(call.name(i)), np.float64) if call.is_constant(i) else None for i in range(1, 5)]
    if all(value is not None for value in values):  # a factor and a summand a channel
        scale, shift, mean_, variance = values
        factor = scale / np.sqrt(variance + call.attributes.get("epsilon", 1e-5))
        dtype = np.float64 if call.dtype(0) == np.float64 else np.float32
        terms = [call.chain.array(value.astype(dtype), axes) for value in (factor, shift - mean_ * factor)]
        return f"add(mul({call.x().text},{terms[0].text}),{terms[1].text})"
    scale, shift, mean_, variance = (call.term(i, axes) for i in range(1, 5))
    return f"add(div(mul(sub({call.x().text},{mean_.text}),{scale.text}),sqrt(add({variance.typed()},{epsilon}))),{shift.text})"


def identity_of(call):
    return call.x().typed()


def dropout(call):
    training = call.opset >= 12 and call.has(2) and not (call.is_constant(2) and not np.any(call.graph.value(call.name(2))))
    if training or (call.opset < 7 and not call.attributes.get("is_test", 0)):
        raise NodeError("it is a Dropout in training mode", "unsupported")
    if call.uses_output(1):
        raise NodeError("the mask of a Dropout is read", "unsupported")
    return call.x().typed()


# The handlers of nodes, and the kinds of types that the nodes' first inputs may have.
HANDLERS = {
    "Add": plain("add"), "Sub": plain("sub"), "Mul": plain("mul"), "Div": plain("div"), "Mod": mod, "Pow": power,
    "Min": folded("min"), "Max": folded("max"), "Sum": folded("add"), "Mean": mean,
    "Relu": plain("relu"), "LeakyRelu": leaky_relu, "PRelu": prelu, "Elu": elu, "Selu": selu, "Celu": celu,
    "ThresholdedRelu": thresholded_relu, "Shrink": shrink, "Softsign": softsign, "HardSigmoid": hard_sigmoid,
    "HardSwish": plain("hard_swish"), "Gelu": gelu, "Swish": swish, "Clip": clip, "Where": where,
    "IsInf": is_inf, "IsNaN": plain("is_nan"), "Equal": is_equal, "Less": plain("less"), "LessOrEqual": plain("less_equal"),
    "Greater": plain("greater"), "GreaterOrEqual": plain("greater_equal"), "And": plain("and"), "Or": plain("or"),
    "Xor": plain("xor"), "Not": plain("not"), "BitwiseAnd": plain("bit_and"), "BitwiseOr": plain("bit_or"),
    "BitwiseXor": plain("bit_xor"), "BitwiseNot": plain("bit_not"), "BitShift": shift, "Cast": cast, "CastLike": cast,
    "QuantizeLinear": quantize, "DequantizeLinear": dequantize, "BatchNormalization": batch_normalization,
    "Identity": identity_of, "Dropout": dropout,
    **{name: plain(name.lower()) for name in (
        "Neg", "Abs", "Sign", "Sqrt", "Exp", "Log", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh",
        "Asinh", "Acosh", "Atanh", "Erf", "Sigmoid", "Softplus", "Floor", "Ceil", "Round", "Reciprocal", "Mish")},
}
# Functions that are computed of float32 (and of float16, in it) alone.
FLOAT32_ALONE = {"Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf"}


class Chain:
    """Nodes that become one expression, in an order in which they can run."""

    def __init__(self, nodes, graph):
        self.nodes, self.graph = nodes, graph
        self.shape = list(graph.known_shape("result", nodes[-1].output[0]))
        self.operands, self.keys, self.values, self.steps = [], {}, {}, []
        self.readers = {}
        for node in nodes:
            for name in node.input:
                self.readers[name] = self.readers.get(name, 0) + 1
        for node in nodes:
            self.add(node)

    def add(self, node):
        if not is_onnx(node) or node.op_type not in HANDLERS:
            raise NodeError(f"a {node.op_type} is not computed element by element", "unsupported")
        call = Call(self, node)
        call.refuse_outputs_behind_first()
        dtype = call.output_dtype()
        if node.op_type in FLOAT32_ALONE and dtype == np.float64:
            raise NodeError(f"a {node.op_type} of float64 has no kernel", "unsupported")
        text = HANDLERS[node.op_type](call)
        term = Term(text, dtype)
        self.values[node.output[0]] = self.held(term) if self.readers.get(node.output[0], 0) > 1 else term

    def held(self, term):
        """A term that may be written often: a step of its own where it is more than a letter or a number."""
        if "(" not in term.text:
            return term
        if term.text not in self.steps:
            self.steps.append(term.text)
        return Term(f"t{self.steps.index(term.text)}", term.dtype)

    def term(self, name, axes=None):
        """A value as a term; it is broadcast where `axes` do not say on which axes of the result it stands."""
        if name in self.values:
            return self.values[name]
        if name in self.graph.constants:
            value = np.asarray(self.graph.value(name))
            dtype_of(self.graph, name)
            if value.size == 1 and len(value.shape) <= len(self.shape):
                return Term(number_text(value), value.dtype, is_number=True)
            return self.array(value, axes)
        shape, dtype = list(self.graph.known_shape("input", name)), dtype_of(self.graph, name)
        return self.operand(name, name, dtype, shape, axes)

    def array(self, value, axes):
        return self.operand((id(value), tuple(axes or ())), value, value.dtype, list(value.shape), axes)

    def operand(self, key, item, dtype, shape, axes):
        if axes is None:
            axes = [len(self.shape) - len(shape) + place for place in range(len(shape))]
        if not axes and shape:  # of one element
            axes, shape = ([len(self.shape) - 1], [1]) if self.shape else ([], [])
            if isinstance(item, np.ndarray):
                item = item.reshape(shape)
        for axis, size in zip(axes, shape):
            if not 0 <= axis < len(self.shape) or size not in (1, self.shape[axis]):
                raise NodeError(f"shapes {shape} and {self.shape} are not broadcast to the latter", "unsupported")
        key = (key, tuple(axes))
        if key not in self.keys:
            if len(self.operands) == MOST_OPERANDS:
                raise NodeError(f"a chain reads more than {MOST_OPERANDS} tensors", "unsupported")
            self.keys[key] = len(self.operands)
            self.operands.append(Operand(item, dtype, shape, axes))
        return Term(LETTERS[self.keys[key]], dtype)

    def operation(self):
        output = self.nodes[-1].output[0]
        term = self.values[output]
        dtype = dtype_of(self.graph, output)
        text = term.typed()
        is_last_step = bool(self.steps) and text == f"t{len(self.steps) - 1}"
        expression = ":".join(self.steps if is_last_step else [*self.steps, text])
        if not self.operands:  # numbers alone
            self.operands.append(Operand(np.zeros([], dtype), dtype, [], []))
        return Map(expression, self.operands, output, dtype, self.shape)


def is_map(node, graph):
    """Whether a node is computed element by element."""
    if not is_onnx(node) or node.op_type not in HANDLERS or len(node.output) < 1:
        return False
    try:
        Chain([node], graph)
    except NodeError:
        return False
    return True


def map_of(nodes, graph):
    """A chain of nodes as an operation. NodeError: it is none."""
    return Chain(nodes, graph).operation()
