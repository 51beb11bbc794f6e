"""Nodes that gather many elements into one: pools, reductions, softmax, and normalizations."""

import math

import numpy as np

from terms import NodeError, attribute_values

from operations.base import (AlongAxes, Aligned, Behind, Operand, identity, normal_axes, normal_axis, number_text,
                             numbers_text, tensor_text)
from operations.elementwise import Map

REDUCTIONS = {"ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "prod",
              "ReduceL1": "l1", "ReduceL2": "l2", "ReduceSumSquare": "sumsquare", "ReduceLogSum": "logsum",
              "ReduceLogSumExp": "logsumexp"}
# A vector's numbers, at most; and elements of a row that take longer than what a row takes besides.
LANES, MOST_IN_ROW = 16, 2048
GLOBAL_POOLS = {"GlobalAveragePool": "mean", "GlobalMaxPool": "max"}
SOFTMAXES = {"Softmax": "softmax", "LogSoftmax": "logsoftmax", "Hardmax": "hardmax"}


# ---- Pools

class Pool(AlongAxes):
    """Windows: `numbers` are {key: a number for each axis}, "i" one for each axis of x."""

    def __init__(self, kind, x, output, axes, numbers, last=""):
        super().__init__(kind, x, [], output, axes)
        self.numbers, self.last = numbers, last

    def parameters(self, order):
        places = sorted(range(len(self.axes)), key=lambda i: order.index(self.axes[i]))
        text = "".join(f"-{key}{numbers_text([self.numbers[key][i] for i in places])}" for key in "ksdpq" if key in self.numbers)
        if "i" in self.numbers:
            text += f"-i{numbers_text([self.numbers['i'][axis] for axis in order])}"
        return text + self.last


class Windows:
    """A pooling node's attributes, for a shape in and out."""

    def __init__(self, attributes, shape, result):
        self.rank = len(shape) - 2
        if self.rank < 1:
            raise NodeError(f"its input has {len(shape)} axes, a pool's at least 3")
        self.kernel = list(attributes.get("kernel_shape", shape[2:]))
        self.strides = list(attributes.get("strides", [1] * self.rank))
        self.dilations = list(attributes.get("dilations", [1] * self.rank))
        pads = list(attributes.get("pads", [0] * 2 * self.rank))
        for name, values in (("kernel_shape", self.kernel), ("strides", self.strides), ("dilations", self.dilations)):
            if len(values) != self.rank:
                raise NodeError(f"{name} has {len(values)} numbers for {self.rank} axes")
        if len(pads) != 2 * self.rank:
            raise NodeError(f"pads has {len(pads)} numbers for {self.rank} axes")
        self.begin, self.end = pads[:self.rank], pads[self.rank:]
        auto = attributes.get("auto_pad", b"NOTSET")
        if auto in (b"SAME_UPPER", b"SAME_LOWER"):
            for i in range(self.rank):
                reach = (result[2 + i] - 1) * self.strides[i] + (self.kernel[i] - 1) * self.dilations[i] + 1
                total = max(reach - shape[2 + i], 0)
                self.begin[i] = total // 2 if auto == b"SAME_UPPER" else total - total // 2
                self.end[i] = total - self.begin[i]
        elif auto == b"VALID":
            self.begin, self.end = [0] * self.rank, [0] * self.rank
        if min([0, *self.begin, *self.end]) < 0:
            raise NodeError("its pads are below 0", "unsupported")

    def numbers(self):
        return {"k": self.kernel, "s": self.strides, "d": self.dilations, "p": self.begin}


def pool(values):
    node, attributes = values.node, attribute_values(values.node)
    shape, result = values.shape(0), values.output_shape()
    windows = Windows(attributes, shape, result)
    numbers, last = windows.numbers(), ""
    kind = {"MaxPool": "max", "AveragePool": "average", "LpPool": "lp"}[node.op_type]
    if kind == "average" and attributes.get("count_include_pad", 0):
        numbers["q"] = windows.end
    if kind == "lp":
        power = attributes.get("p", 2)
        kind, last = (f"l{int(power)}", "") if power in (1, 2) else ("lp", f"-n{number_text(np.float32(power))}")
    x, axes = (values.name(0), values.dtype(0), shape), range(2, len(shape))
    made = [Pool(f"pool-{kind}", x, (node.output[0], values.dtype(0), result), axes, numbers, last)]
    if values.uses_output(1):
        places = {**windows.numbers(), "i": index_strides(shape, attributes.get("storage_order", 0))}
        made.append(Pool("pool-argmax", x, (node.output[1], np.int64, result), axes, places))
    return made


def index_strides(shape, column_major):
    """How MaxPool counts places: the whole tensor's, a channel's points by rows or by columns."""
    strides, stride = [0] * len(shape), 1
    points = list(range(2, len(shape)))
    for axis in [*(points if column_major else points[::-1]), 1, 0]:
        strides[axis] = stride
        stride *= shape[axis]
    return strides


# ---- Reductions

class Reduce(AlongAxes):
    def __init__(self, kind, x, output, axes, keeps, last=""):
        super().__init__(kind, x, [], output, axes)
        self.keeps, self.last = keeps, last

    def output_order(self, order):
        if self.keeps:
            return order
        left = [axis for axis in range(len(self.x_shape)) if axis not in self.axes]
        return tuple(left.index(axis) for axis in order if axis in left)

    def parameters(self, order):
        return self.last


def reduce(values):
    node, attributes = values.node, attribute_values(values.node)
    shape = values.shape(0)
    axes = values.constant(1, "axes")
    axes = attributes.get("axes") if axes is None else axes.reshape(-1).tolist()
    if not axes and attributes.get("noop_with_empty_axes", 0):
        return [elementwise_reduction(values)]
    axes = normal_axes(axes, len(shape)) if axes else list(range(len(shape)))
    if not axes:  # a scalar
        return [elementwise_reduction(values)]
    return [Reduce(f"reduce-{REDUCTIONS[node.op_type]}", (values.name(0), values.dtype(0), shape),
                   (node.output[0], values.dtype(0), values.output_shape()), axes, attributes.get("keepdims", 1))]


def one_operand_map(values, expression):
    shape, dtype = values.shape(0), values.dtype(0)
    return Map(expression, [Operand(values.name(0), dtype, shape, range(len(shape)))], values.node.output[0], dtype,
               values.output_shape())


def elementwise_reduction(values):
    """A reduction over no axes: of each element by itself."""
    expressions = {"ReduceL1": "abs(a)", "ReduceL2": "abs(a)", "ReduceSumSquare": "mul(a,a)", "ReduceLogSum": "log(a)"}
    return one_operand_map(values, expressions.get(values.node.op_type, "a"))


def global_pool(values):
    shape = values.shape(0)
    return [Reduce(f"reduce-{GLOBAL_POOLS[values.node.op_type]}", (values.name(0), values.dtype(0), shape),
                   (values.node.output[0], values.dtype(0), values.output_shape()), range(2, len(shape)), True)]


def global_lp_pool(values):
    power = attribute_values(values.node).get("p", 2)
    if power not in (1, 2):
        raise NodeError(f"a GlobalLpPool of p={power}", "unsupported")
    shape = values.shape(0)
    return [Reduce(f"reduce-l{int(power)}", (values.name(0), values.dtype(0), shape),
                   (values.node.output[0], values.dtype(0), values.output_shape()), range(2, len(shape)), True)]


class ArgExtreme(Reduce):
    """Rows whose elements lie side by side take half a microsecond each besides, longer than a copy and vectors along another
    axis, if that has as many."""

    def follow(self, orders):
        inputs, outputs = super().follow(orders)
        model, axis = identity(len(self.x_shape)), self.axes[0]
        rows = math.prod(size for other, size in enumerate(self.x_shape) if other != axis)
        if not self.lies_last(inputs[0]) or rows < LANES or self.x_shape[axis] > MOST_IN_ROW:
            return inputs, outputs
        first = model if not self.lies_last(model) else (axis, *(other for other in inputs[0] if other != axis))
        return [first], [self.output_order(first)]

    def lies_last(self, order):
        return [axis for axis in order if self.x_shape[axis] != 1][-1:] == self.axes


def arg_extreme(values):
    attributes, shape = attribute_values(values.node), values.shape(0)
    axis = normal_axis(attributes.get("axis", 0), len(shape))
    return [ArgExtreme("reduce-" + values.node.op_type.lower(), (values.name(0), values.dtype(0), shape),
                   (values.node.output[0], np.int64, values.output_shape()), [axis], attributes.get("keepdims", 1),
                   "-l" if attributes.get("select_last_index", 0) else "")]


# ---- Softmax

def softmax(values):
    attributes, shape = attribute_values(values.node), values.shape(0)
    flattens = values.graph.opset < 13
    axis = normal_axis(attributes.get("axis", 1 if flattens else -1), len(shape))
    axes = range(axis, len(shape)) if flattens else [axis]
    return [AlongAxes(SOFTMAXES[values.node.op_type], (values.name(0), values.dtype(0), shape), [],
                      (values.node.output[0], values.dtype(0), shape), axes)]


# ---- Normalizations

class Normalize(Aligned):
    """The first operand is x; the others, if any, are scale and shift."""

    def __init__(self, kind, operands, output, dtype, shape, axes, epsilon):
        super().__init__(operands, output, dtype, shape)
        self.kind, self.axes, self.epsilon = kind, axes, epsilon
        self.own, self.behind = len(operands), None

    def with_behind(self, chain):
        if self.behind:
            raise NodeError("something is behind already", "unsupported")
        behind = Behind.of(chain, self.outputs[0])
        self.refuse_operands(behind.operands)
        self.ends_in(chain)
        self.behind = behind
        self.operands += behind.operands
        self.inputs += [operand.item for operand in behind.operands]

    def refuse_operands(self, operands):
        pass

    def text(self, inputs, outputs):
        order = outputs[0]
        places = ",".join(str(place) for place in sorted(order.index(axis) for axis in self.axes))
        x = self.output_text(order)
        operands = ",".join([x, *(operand.text(order) for operand in self.operands[1:])])
        return f"{self.kind}-{operands}-{x}-a{places}-e{self.epsilon}{self.behind_text()}"

    def behind_text(self):
        return self.behind.text() if self.behind else ""


class GroupNormalize(Normalize):
    """Of groups of channels: the channels' axis lies as two, groups and their channels."""

    def __init__(self, operands, output, dtype, shape, groups, epsilon):
        super().__init__("normalize", operands, output, dtype, shape, [], epsilon)
        self.groups = groups

    def refuse_operands(self, operands):
        if any(operand.shape != self.shape for operand in operands):
            raise NodeError("what is behind reads what is broadcast", "unsupported")

    def text(self, inputs, outputs):
        order = outputs[0]
        sizes, reduced, channels = [], [], None
        for axis in order:
            if axis == 1:
                channels = len(sizes)
                sizes += [self.groups, self.shape[1] // self.groups]
                reduced.append(channels + 1)
            else:
                if axis > 1:
                    reduced.append(len(sizes))
                sizes.append(self.shape[axis])
        x = tensor_text(self.dtype, sizes)
        behind = [1] * (len(sizes) - channels - 2)
        others = [tensor_text(operand.dtype, [self.groups, operand.shape[0] // self.groups, *behind])
                  for operand in self.operands[1:self.own]]
        others += [tensor_text(operand.dtype, sizes) for operand in self.operands[self.own:]]
        places = ",".join(map(str, reduced))
        return f"normalize-{','.join([x, *others])}-{x}-a{places}-e{self.epsilon}{self.behind_text()}"


def operand_of(values, index, axes):
    return Operand(values.item(index), values.dtype(index), values.shape(index), axes)


def epsilon_of(values, default):
    return number_text(np.float32(attribute_values(values.node).get("epsilon", default)))


def x_operand(values):
    shape = values.shape(0)
    return Operand(values.name(0), values.dtype(0), shape, range(len(shape)))


def instance_normalization(values):
    shape = values.shape(0)
    return [Normalize("normalize", [x_operand(values), operand_of(values, 1, [1]), operand_of(values, 2, [1])],
                      values.node.output[0], values.dtype(0), shape, range(2, len(shape)), epsilon_of(values, 1e-5))]


def layer_normalization(values):
    values.refuse_outputs_behind_first()
    shape, kind = values.shape(0), "normalize" if values.node.op_type == "LayerNormalization" else "normalize-rms"
    axis = normal_axis(attribute_values(values.node).get("axis", -1), len(shape))
    operands = [x_operand(values)]
    for index in (1, 2):
        if values.has(index):
            rank = len(values.shape(index))
            if rank > len(shape):
                raise NodeError("its scale has more axes than its input")
            operands.append(operand_of(values, index, range(len(shape) - rank, len(shape))))
    return [Normalize(kind, operands, values.node.output[0], values.dtype(0), shape, range(axis, len(shape)),
                      epsilon_of(values, 1e-5))]


def group_normalization(values):
    attributes, shape = attribute_values(values.node), values.shape(0)
    groups = attributes["num_groups"]
    if groups < 1 or shape[1] % groups:
        raise NodeError(f"num_groups is {groups} and there are {shape[1]} channels")
    return [GroupNormalize([x_operand(values), operand_of(values, 1, [1]), operand_of(values, 2, [1])],
                           values.node.output[0], values.dtype(0), shape, groups, epsilon_of(values, 1e-5))]


def mean_variance_normalization(values):
    shape = values.shape(0)
    axes = normal_axes(attribute_values(values.node).get("axes", [0, 2, 3]), len(shape))
    # ONNX adds 1e-9 to the deviation: this is the same where that is 0 or large.
    return [Normalize("normalize", [x_operand(values)], values.node.output[0], values.dtype(0), shape, axes, "1e-18")]


def lp_normalization(values):
    attributes, shape = attribute_values(values.node), values.shape(0)
    axis, power = normal_axis(attributes.get("axis", -1), len(shape)), attributes.get("p", 2)
    if power not in (1, 2):
        raise NodeError(f"an LpNormalization of p={power}", "unsupported")
    sizes = [1 if place == axis else size for place, size in enumerate(shape)]
    norm = values.intermediate("norm", values.dtype(0), sizes)
    zero = "cast_f64(0)" if values.dtype(0) == np.float64 else "cast_f32(0)"
    return [Reduce(f"reduce-l{power}", (values.name(0), values.dtype(0), shape), (norm, values.dtype(0), sizes), [axis], True),
            Map(f"where(equal(b,0),{zero},div(a,b))",
                [x_operand(values), Operand(norm, values.dtype(0), sizes, range(len(shape)))],
                values.node.output[0], values.dtype(0), shape)]


class Lrn(AlongAxes):
    def __init__(self, x, output, attributes):
        super().__init__("lrn", x, [], output, [1])
        self.attributes = attributes

    def parameters(self, order):
        numbers = [number_text(np.float32(self.attributes.get(name, default)))
                   for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1))]
        return f"-n{self.attributes['size']}-alpha{numbers[0]}-beta{numbers[1]}-bias{numbers[2]}"


def lrn(values):
    shape = values.shape(0)
    return [Lrn((values.name(0), values.dtype(0), shape), (values.node.output[0], values.dtype(0), shape),
                attribute_values(values.node))]


HANDLERS = {
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), pool), **dict.fromkeys(REDUCTIONS, reduce),
    **dict.fromkeys(GLOBAL_POOLS, global_pool), "GlobalLpPool": global_lp_pool,
    **dict.fromkeys(("ArgMax", "ArgMin"), arg_extreme), **dict.fromkeys(SOFTMAXES, softmax),
    "InstanceNormalization": instance_normalization, "LayerNormalization": layer_normalization,
    "RMSNormalization": layer_normalization, "GroupNormalization": group_normalization,
    "MeanVarianceNormalization": mean_variance_normalization, "LpNormalization": lp_normalization, "LRN": lrn,
}
