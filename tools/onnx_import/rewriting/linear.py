"""Products with constant matrices, as convolutions of one tap: MatMul and Gemm become Conv between views. Matrices and biases
that are dequantised stay so, for products of bytes are layers of bytes."""

import math

import numpy as np
import onnx

from convolutions.quantization import dequantizer
from terms import BYTES, NodeError, attribute_values, copied, input_name, is_onnx

# Types that convolutions have too.
TYPES = ("FLOAT", "FLOAT16", "DOUBLE")


def with_convolutions(graph):
    """Replaces the graph's MatMul and Gemm nodes by constants; those that cannot be are left as they are."""
    taken, nodes = set(), []
    for node in graph.nodes:
        if id(node) in taken:
            continue
        parts = None
        if is_onnx(node) and node.op_type in ("MatMul", "Gemm"):
            try:
                parts = Linear(graph, node).convolution(taken)
            except NodeError:  # a constant that cannot be computed: whoever takes the node tells it
                parts = None
        nodes += parts or [node]
    graph.set_nodes([node for node in nodes if id(node) not in taken])


class Linear:
    """One product of x, of any number of rows, with a matrix."""

    def __init__(self, graph, node):
        self.graph, self.node = graph, node
        self.attributes = attribute_values(node)
        self.bias = None  # one number a column
        self.own_bias = ""  # the constant of the model that is just that

    def convolution(self, taken):
        """The nodes in its place, None where it is no product by a constant. What it takes besides goes to `taken`."""
        matrix, x = self.matrix(), self.graph.shape(self.node.input[0])
        if matrix is None or x is None or not x or x[-1] != matrix.shape[0] or 0 in x or 0 in matrix.shape:
            return None
        rows, (depth, columns) = math.prod(x[:-1]), matrix.shape
        if not self.take_own_bias(columns):
            return None
        end = base = self.take_bias_behind(columns, taken)
        nodes = []
        views = f"{base}/rows", f"{base}/x"
        self.reshape(nodes, self.node.input[0], views[0], [1, rows, depth])
        self.transpose(nodes, views[0], views[1], [1, depth, rows])
        inputs = [views[1], self.weights(nodes, matrix)]
        if self.bias is not None:
            inputs.append(self.own_bias or self.constant(f"{base}/bias", self.bias.astype(matrix.dtype)))
        nodes.append(onnx.helper.make_node("Conv", inputs, [f"{base}/y"], self.node.name or self.node.output[0]))
        self.graph.set_type(f"{base}/y", self.element_type(), [1, columns, rows])
        self.transpose(nodes, f"{base}/y", f"{base}/back", [1, rows, columns])
        self.reshape(nodes, f"{base}/back", end, self.graph.shape(end) or [*x[:-1], columns])
        return nodes

    def weights(self, nodes, matrix):
        """The matrix as a convolution's weights; products by one matrix have the same."""
        name = f"{self.node.input[1]}/w{self.attributes.get('transB', 0)}*{self.attributes.get('alpha', 1.0)}"
        if name not in self.graph.constants:
            self.constant(name, as_weights(matrix))
            self.dequantize(nodes, name)
        return name

    def dequantize(self, nodes, name):
        """Adds the node that makes the weights of bytes, where one of one number or one a column makes the matrix."""
        source, is_turned = self.node.input[1], bool(self.node.op_type == "Gemm" and self.attributes.get("transB", 0))
        while is_transpose(self.graph.makers.get(source)):
            source, is_turned = self.graph.makers[source].input[0], not is_turned
        maker = dequantizer(self.graph, source)
        if maker is None or attribute_values(maker).get("block_size", 0) \
                or self.graph.element_type(maker.input[0]) not in BYTES:
            return
        value = self.graph.value(maker.input[0])
        scale, *points = (np.asarray(self.graph.value(number)).reshape(-1) for number in maker.input[1:3] if number)
        of_column = value.ndim - (2 if is_turned else 1)
        alpha = self.attributes.get("alpha", 1.0) if self.node.op_type == "Gemm" else 1.0
        if (scale.size > 1 and attribute_values(maker).get("axis", 1) % value.ndim != of_column) or alpha <= 0:
            return
        matrix = value.reshape(value.shape[-2:])
        numbers = [scale * scale.dtype.type(alpha), *points]
        names = [self.constant(f"{name}/bytes", as_weights(matrix.T if is_turned else matrix)),
                 *(self.constant(f"{name}/{what}", number if scale.size > 1 else number.reshape([]))
                   for what, number in zip(("scale", "zero_point"), numbers))]
        node = copied(maker, names, [name])
        del node.attribute[:]
        node.attribute.append(onnx.helper.make_attribute("axis", 0))
        nodes.append(node)

    def element_type(self):
        return self.graph.element_type(self.node.input[0])

    def matrix(self):
        """The matrix with the sums' length first, or None."""
        name = self.node.input[1]
        if name not in self.graph.constants or self.element_type() not in TYPES:
            return None
        if self.node.op_type == "Gemm" and self.attributes.get("transA", 0):
            return None
        value = self.graph.value(name)
        while value.ndim > 2 and value.shape[0] == 1:
            value = value[0]
        if value.ndim != 2:
            return None
        if self.node.op_type == "Gemm":
            value = value.T if self.attributes.get("transB", 0) else value
            value = value * value.dtype.type(self.attributes.get("alpha", 1.0))
        return value

    def take_own_bias(self, columns):
        """Whether Gemm's own bias, if it has one, is one of the columns alone."""
        name = input_name(self.node, 2) if self.node.op_type == "Gemm" else ""
        if not name:
            return True
        if name not in self.graph.constants:
            return False
        value = self.graph.value(name)
        self.bias = of_columns(value * value.dtype.type(self.attributes.get("beta", 1.0)), columns)
        if self.attributes.get("beta", 1.0) == 1 and value.shape == (columns,):
            self.own_bias = name
        return self.bias is not None

    def take_bias_behind(self, columns, taken):
        """The value that the product ends in: an Add behind it that adds a constant to each column becomes its bias."""
        end = self.node.output[0]
        reader = self.graph.only_reader(end)
        if self.bias is not None or reader is None or not is_onnx(reader) or reader.op_type != "Add":
            return end
        others = [name for name in reader.input if name != end]
        if len(others) != 1 or others[0] not in self.graph.constants:
            return end
        self.bias = of_columns(self.graph.value(others[0]), columns)
        if self.bias is None or self.graph.shape(reader.output[0]) != self.graph.shape(end):
            self.bias = None
            return end
        taken.add(id(reader))
        return reader.output[0]

    def reshape(self, nodes, source, target, shape):
        shape_name = self.constant(f"{target}/shape", np.array(shape, np.int64))
        nodes.append(onnx.helper.make_node("Reshape", [source, shape_name], [target], self.node.name))
        self.graph.set_type(target, self.element_type(), shape)

    def transpose(self, nodes, source, target, shape):
        nodes.append(onnx.helper.make_node("Transpose", [source], [target], self.node.name, perm=[0, 2, 1]))
        self.graph.set_type(target, self.element_type(), shape)

    def constant(self, name, value):
        self.graph.add_constant(name, value)
        return name


def is_transpose(node):
    """Whether a node makes rows of columns."""
    return node is not None and is_onnx(node) and node.op_type == "Transpose" \
        and attribute_values(node).get("perm", [1, 0]) == [1, 0]


def as_weights(matrix):
    return np.ascontiguousarray(matrix.T)[:, :, None]


def of_columns(value, columns):
    """A constant that is broadcast to rows of so many columns as one number a column, or None."""
    if value.size not in (1, columns) or (value.size > 1 and value.shape[-1] != columns):
        return None
    return np.broadcast_to(value.reshape(-1), [columns]).copy()
