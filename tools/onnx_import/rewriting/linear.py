"""Products with constant matrices, as convolutions of one tap: MatMul and Gemm become Conv between views. Matrices and biases
that are dequantised stay so, for products of bytes are layers of bytes."""

import math

import numpy as np
import onnx

from convolutions.quantization import dequantizer_of_weights
from terms import BYTES, MOST_PRODUCTS, NARROW_FLOATS, NodeError, attribute_values, copied, input_name, is_onnx

# Types that convolutions have too.
TYPES = ("FLOAT", *NARROW_FLOATS, "DOUBLE")


def with_convolutions(graph):
    """Replaces the graph's products with constants; those that cannot be are left as they are."""
    taken, nodes = set(), []
    for node in graph.nodes:
        if id(node) in taken:
            continue
        parts = None
        if is_onnx(node) and node.op_type in ("MatMul", "Gemm", "MatMulInteger"):
            try:
                parts = IntegerProduct(graph, node).convolution() if node.op_type == "MatMulInteger" \
                    else Linear(graph, node).convolution(taken)
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
        end, nodes = self.take_bias_behind(columns, taken), []
        inputs = [self.weights(nodes, matrix)]
        if self.bias is not None:
            inputs.append(self.own_bias or self.constant(f"{end}/bias", self.bias.astype(matrix.dtype)))
        self.between_views(nodes, "Conv", inputs, end, self.element_type(), [rows, depth, columns])
        return nodes

    def between_views(self, nodes, operator, inputs, end, element_type, sizes):
        """Adds the operator that reads x, as pixels of one line, and these inputs, and what makes `end` of its result."""
        rows, depth, columns = sizes
        x = self.reshape(nodes, self.node.input[0], f"{end}/rows", [1, rows, depth])
        x = self.transpose(nodes, x, f"{end}/x", [1, depth, rows])
        nodes.append(onnx.helper.make_node(operator, [x, *inputs], [f"{end}/y"], self.node.name or self.node.output[0]))
        self.graph.set_type(f"{end}/y", element_type, [1, columns, rows])
        self.graph.products.add(f"{end}/y")
        y = self.transpose(nodes, f"{end}/y", f"{end}/back", [1, rows, columns])
        self.reshape(nodes, y, end, self.graph.shape(end) or [*self.graph.shape(self.node.input[0])[:-1], columns])

    def weights(self, nodes, matrix):
        """The matrix as a convolution's weights; products by one matrix have the same."""
        name = f"{self.node.input[1]}/w{self.attributes.get('transB', 0)}*{self.attributes.get('alpha', 1.0)}"
        if name not in self.graph.constants:
            self.constant(name, as_weights(matrix))
            self.dequantize(nodes, name)
        return name

    def dequantize(self, nodes, name):
        """Adds the node that makes the weights of bytes, where one of one number or one a column makes the matrix."""
        is_turned = self.node.op_type == "Gemm" and self.attributes.get("transB", 0)
        maker = dequantizer_of_weights(self.graph, self.node.input[1])
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
        if self.element_type() not in TYPES or (self.node.op_type == "Gemm" and self.attributes.get("transA", 0)):
            return None
        value = self.constant_matrix()
        if value is not None and self.node.op_type == "Gemm":
            value = value.T if self.attributes.get("transB", 0) else value
            value = value * value.dtype.type(self.attributes.get("alpha", 1.0))
        return value

    def constant_matrix(self):
        """The second input, where it is a constant of two axes that are not of one element."""
        name = self.node.input[1]
        value = self.graph.value(name) if name in self.graph.constants else np.zeros([])
        while value.ndim > 2 and value.shape[0] == 1:
            value = value[0]
        return value if value.ndim == 2 else None

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
        self.graph.set_type(target, self.graph.element_type(source), shape)
        return target

    def transpose(self, nodes, source, target, shape):
        nodes.append(onnx.helper.make_node("Transpose", [source], [target], self.node.name, perm=[0, 2, 1]))
        self.graph.set_type(target, self.graph.element_type(source), shape)
        return target

    def constant(self, name, value):
        self.graph.add_constant(name, value)
        return name


class IntegerProduct(Linear):
    """Sums of products of bytes, of a zero point that dynamic quantisation computes as a rule: the convolution's is 0, and that
    times the sums of columns, which are constants, is taken off."""

    def convolution(self):
        matrix, x = self.constant_matrix(), self.graph.shape(self.node.input[0])
        if matrix is None or not x or x[-1] != matrix.shape[0] or 0 in x or 0 in matrix.shape or len(matrix) > MOST_PRODUCTS:
            return None
        point, below = input_name(self.node, 2), self.zero_points(matrix.shape[1])
        if below is None or (point and self.graph.shape(point) not in ([], [1])):
            return None
        is_known = not point or point in self.graph.constants
        weights, end = f"{self.node.input[1]}/bytes", self.node.output[0]
        if weights not in self.graph.constants:
            self.constant(weights, as_weights(matrix))
        inputs = [weights, point if is_known else "", self.constant(f"{end}/w_zero_point", below)]
        nodes, sums = [], end if is_known else f"{end}/sums"
        self.graph.set_type(sums, "INT32", [*x[:-1], matrix.shape[1]])
        self.between_views(nodes, "ConvInteger", inputs, sums, "INT32", [math.prod(x[:-1]), *matrix.shape])
        if not is_known:
            self.subtract(nodes, sums, (matrix.astype(np.int32) - below).sum(axis=0, dtype=np.int32))
        return nodes

    def zero_points(self, columns):
        """The matrix's, one a column or one of all; None where they are of something else, or are computed."""
        name = input_name(self.node, 3)
        if not name:
            return np.zeros(1, np.int8)
        value = np.asarray(self.graph.value(name)) if name in self.graph.constants else np.zeros([0, 0])
        return value.reshape(-1) if value.shape in ((), (1,), (columns,)) else None

    def subtract(self, nodes, sums, columns):
        """Adds the nodes that take the zero point times these sums of columns off."""
        end, point = self.node.output[0], self.node.input[2]
        for operator, inputs, result, shape in (
                ("Cast", [point], f"{end}/point", self.graph.shape(point)),
                ("Mul", [f"{end}/point", self.constant(f"{end}/columns", columns)], f"{end}/shift", list(columns.shape)),
                ("Sub", [sums, f"{end}/shift"], end, self.graph.shape(sums))):
            more = {"to": onnx.TensorProto.INT32} if operator == "Cast" else {}
            nodes.append(onnx.helper.make_node(operator, inputs, [result], self.node.name, **more))
            self.graph.set_type(result, "INT32", shape)


def as_weights(matrix):
    return np.ascontiguousarray(matrix.T)[:, :, None]


def of_columns(value, columns):
    """A constant that is broadcast to rows of so many columns as one number a column, or None."""
    if value.size not in (1, columns) or (value.size > 1 and value.shape[-1] != columns):
        return None
    return np.broadcast_to(value.reshape(-1), [columns]).copy()
