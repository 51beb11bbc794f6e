"""What all operations have in common: how they are called, what they read and write, and how that lies in memory.

An order is a tuple whose element i is the logical axis that lies at physical place i, the slowest first.
"""

import re

import numpy as np
import onnx

from terms import NodeError

TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64", "int8": "s8", "uint8": "u8", "int16": "s16", "uint16": "u16",
         "int32": "s32", "uint32": "u32", "int64": "s64", "uint64": "u64", "bool": "bool"}
# As ONNX calls them.
NUMPY_TYPES = {"FLOAT": "float32", "FLOAT16": "float16", "BFLOAT16": "bfloat16", "DOUBLE": "float64", "INT8": "int8", "UINT8": "uint8",
               "INT16": "int16", "UINT16": "uint16", "INT32": "int32", "UINT32": "uint32", "INT64": "int64",
               "UINT64": "uint64", "BOOL": "bool"}
# Tensors' names in expressions.
LETTERS = "abcdefghijklmnop"
# Kernels count a tensor's places in 32 bits.
MOST_ELEMENTS = (2 ** 31 - 1) // 8
# Of constants that are repeated so that two axes are one loop.
MOST_REPEATED = 2 ** 14


def identity(rank):
    return tuple(range(rank))


def type_text(dtype):
    return TYPES[np.dtype(dtype).name]


def tensor_text(dtype, shape):
    return f"{type_text(dtype)}[{'x'.join(map(str, shape))}]"


def number_text(value):
    """The shortest text that stands for a number of NumPy's, or an array of one."""
    value = np.asarray(value).reshape(-1)[0]
    if value.dtype.kind == "b":
        return str(int(value))
    if value.dtype.kind in "iu":
        return str(int(value))
    if np.isnan(value):
        return "nan"
    text = str(float(value)) if value.dtype == np.float64 else str(np.float32(value))
    return text.removesuffix(".0").replace("+", "")


def numbers_text(numbers):
    return "x".join(map(str, numbers))


class Operand:
    """A tensor that an operation reads: the name of a value or an array; `axes` are the axes of the result that its own
    stand on."""

    def __init__(self, item, dtype, shape, axes):
        self.item, self.dtype, self.shape, self.axes = item, np.dtype(dtype), list(shape), list(axes)

    def repeated(self, axes, shape):
        """Itself where it stands on all or none of these axes of a result of this shape, a constant repeated along those that
        it lacks; None where that cannot be, or is large."""
        sizes = {axis: size for axis, size in zip(self.axes, self.shape)}
        if len({sizes.get(axis, 1) > 1 for axis in axes}) == 1:
            return self
        whole = sorted({*self.axes, *axes})
        wanted = [shape[axis] if axis in axes else sizes[axis] for axis in whole]
        if isinstance(self.item, str) or np.prod(wanted) > MOST_REPEATED:
            return None
        value = np.asarray(self.item).reshape(self.shape).transpose(np.argsort(self.axes))
        value = np.broadcast_to(value.reshape([sizes.get(axis, 1) for axis in whole]), wanted)
        return Operand(np.ascontiguousarray(value), self.dtype, wanted, whole)

    def order(self, order):
        """How it lies where the result lies in this order."""
        return tuple(self.axes.index(axis) for axis in order if axis in self.axes)

    def text(self, order):
        """With an axis of size 1 in place of those that it lacks, the first of which need not be said."""
        shape = [self.shape[self.axes.index(axis)] if axis in self.axes else 1 for axis in order]
        while len(shape) > 0 and shape[0] == 1:
            shape.pop(0)
        return tensor_text(self.dtype, shape)


class Operation:
    """One kernel: `inputs` are names of values or arrays, `outputs` a name."""

    def __init__(self, inputs, output, dtype, shape):
        self.inputs, self.outputs = list(inputs), [output]
        self.dtype, self.shape = np.dtype(dtype), list(shape)
        for size in (self.shape, *(np.shape(item) for item in self.inputs if not isinstance(item, str))):
            if np.prod(size, dtype=np.float64) > MOST_ELEMENTS:
                raise NodeError(f"a tensor of shape {list(size)} has more than {MOST_ELEMENTS} elements", "unsupported")

    def follow(self, orders):
        """(orders of the inputs, [order of the output]) nearest to the orders in which inputs lie, None for those that lie
        as one likes."""
        raise NotImplementedError

    def text(self, inputs, outputs):
        """The operation's text where inputs and outputs lie in these orders."""
        raise NotImplementedError

    def laid(self, order):
        """The operation where its result lies in this order: what it knows may be there in another form."""
        return self

    def with_behind(self, chain):
        """Takes a Map that reads its result, whose result is then its own. NodeError: it cannot."""
        raise NodeError("it computes nothing of its result", "unsupported")

    def ends_in(self, chain):
        """Has the result of a Map for its own."""
        if list(chain.shape) != self.shape or chain.dtype != self.dtype:
            raise NodeError("what is behind has another shape or type", "unsupported")
        self.outputs = list(chain.outputs)


class Values:
    """What operations ask of the graph about a node's values."""

    def __init__(self, graph, node):
        self.graph, self.node = graph, node

    def name(self, index):
        return self.node.input[index] if index < len(self.node.input) else ""

    def has(self, index):
        return bool(self.name(index))

    def shape(self, index):
        return list(self.graph.known_shape("input", self.name(index)))

    def dtype(self, index):
        return dtype_of(self.graph, self.name(index))

    def output_shape(self, index=0):
        return list(self.graph.known_shape("result", self.node.output[index]))

    def output_dtype(self, index=0):
        return dtype_of(self.graph, self.node.output[index])

    def is_constant(self, index):
        return self.name(index) in self.graph.constants

    def constant(self, index, what):
        """The value of an input that must be constant, None where it is left out."""
        if not self.has(index):
            return None
        if not self.is_constant(index):
            raise NodeError(f'its {what} "{self.name(index)}" is computed in the model', "unsupported")
        return np.asarray(self.graph.value(self.name(index)))

    def item(self, index):
        """An input as operations have it: the array of a constant, or a name."""
        return np.asarray(self.graph.value(self.name(index))) if self.is_constant(index) else self.name(index)

    def uses_output(self, index):
        name = self.node.output[index] if index < len(self.node.output) else ""
        return bool(name) and (bool(self.graph.readers[name]) or name in self.graph.outputs)

    def intermediate(self, what, dtype, shape):
        """The name of a value between operations that one node becomes."""
        name = f"{self.node.output[0]}/{what}"
        element_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.graph.types[name] = onnx.helper.make_tensor_type_proto(element_type, list(shape))
        return name

    def refuse_outputs_behind_first(self):
        for index in range(1, len(self.node.output)):
            if self.uses_output(index):
                raise NodeError(f'its output "{self.node.output[index]}" is read: only the first is computed', "unsupported")


def dtype_of(graph, name):
    element_type = graph.element_type(name)
    if element_type is None and name in graph.constants:
        return np.asarray(graph.value(name)).dtype
    if element_type not in NUMPY_TYPES:
        raise NodeError(f'"{name}" is of type {element_type or "unknown"}', "unsupported")
    return np.dtype(NUMPY_TYPES[element_type])


def normal_axis(axis, rank):
    """An axis that may count from the end. NodeError: there is none such."""
    if not -rank <= axis < max(rank, 1):
        raise NodeError(f"there is no axis {axis} in {rank}")
    return axis % rank if rank else 0


def normal_axes(axes, rank):
    return sorted({normal_axis(int(axis), rank) for axis in axes})


class Aligned(Operation):
    """An operation whose inputs are broadcast to its result, or lie like it."""

    def __init__(self, operands, output, dtype, shape):
        super().__init__([operand.item for operand in operands], output, dtype, shape)
        self.operands = operands

    def follow(self, orders):
        rank = len(self.shape)
        whole = [order for operand, order in zip(self.operands, orders)
                 if order is not None and operand.axes == list(range(rank))]
        same = [order for operand, order in zip(self.operands, orders)
                if order is not None and operand.axes == list(range(rank)) and operand.shape == self.shape]
        order = tuple((same or whole or [identity(rank)])[0])
        return [operand.order(order) for operand in self.operands], [order]

    def inputs_text(self, order):
        return ",".join(operand.text(order) for operand in self.operands)

    def output_text(self, order):
        return tensor_text(self.dtype, [self.shape[axis] for axis in order])


class Behind:
    """An expression that is computed of an operation's result before it is stored: of the result, which is `a` in it, and of
    further operands."""

    def __init__(self, expression, operands):
        self.expression, self.operands = expression, operands

    @staticmethod
    def of(chain, result):
        """What a Map computes of one of its operands, the value `result`. NodeError: it reads that in more than one way."""
        places = [place for place, operand in enumerate(chain.operands) if isinstance(operand.item, str) and operand.item == result]
        if len(places) != 1 or chain.operands[places[0]].axes != list(range(len(chain.shape))):
            raise NodeError("what is behind reads it broadcast", "unsupported")
        order = [places[0], *(place for place in range(len(chain.operands)) if place != places[0])]
        letters = {LETTERS[place]: LETTERS[new] for new, place in enumerate(order)}
        expression = re.sub(r"\b[a-p]\b", lambda found: letters[found.group()], chain.expression)
        return Behind(expression, [chain.operands[place] for place in order[1:]])

    def text(self):
        return f"-then{len(self.operands)}-{self.expression}"


class AlongAxes(Operation):
    """An operation along some axes of its first input, which takes that in any order; further inputs lie as they are."""

    def __init__(self, kind, x, inputs, output, axes):
        """`x` and `output` are (item, dtype, shape)."""
        super().__init__([x[0], *inputs], output[0], output[1], output[2])
        self.kind, self.axes = kind, list(axes)
        self.x_dtype, self.x_shape = np.dtype(x[1]), list(x[2])

    def follow(self, orders):
        order = tuple(orders[0]) if orders[0] is not None else identity(len(self.x_shape))
        return [order, *(identity(np.ndim(item)) for item in self.inputs[1:])], [self.output_order(order)]

    def output_order(self, order):
        return order

    def input_text(self, order):
        return tensor_text(self.x_dtype, [self.x_shape[axis] for axis in order])

    def further_text(self):
        return "".join("," + tensor_text(item.dtype, item.shape) for item in self.inputs[1:])

    def places(self, order):
        """Where the axes lie, ascending."""
        return sorted(order.index(axis) for axis in self.axes)

    def axes_text(self, order):
        return "-a" + ",".join(map(str, self.places(order)))

    def parameters(self, order):
        return ""

    def text(self, inputs, outputs):
        order = inputs[0]
        out = tensor_text(self.dtype, [self.shape[axis] for axis in outputs[0]])
        return f"{self.kind}-{self.input_text(order)}{self.further_text()}-{out}{self.axes_text(order)}{self.parameters(order)}"
