"""Normalizations as exporters write them: LayerNormalization before operator set 17, or of the channels of an image, as means,
differences, squares, a root and a quotient; RMSNormalization likewise; GroupNormalization as an InstanceNormalization between
Reshapes."""

import numpy as np
import onnx

from terms import NodeError, attribute_values, input_name, is_onnx

CHANNELS = 1


def with_normalizations(graph):
    """Puts one node in the place of those that are one normalization."""
    found = {}
    for node in graph.nodes:
        if is_onnx(node) and node.op_type in KINDS and len(node.input) >= 2:
            try:
                whole = KINDS[node.op_type](graph, node)
            except (NotOne, NodeError):
                continue
            found[id(whole.nodes[-1])] = whole
    taken = {id(node) for whole in found.values() for node in whole.nodes}
    graph.set_nodes([part for node in graph.nodes for part in
                     (found[id(node)].made() if id(node) in found else [] if id(node) in taken else [node])])


class NotOne(Exception):
    """These nodes are something else."""


def require(condition):
    if not condition:
        raise NotOne


class Normalization:
    """(x - mean) / sqrt(variance + epsilon), with a scale and a shift where they follow. `axes` are the last ones of x, or the
    channels alone."""

    operator = "LayerNormalization"

    def __init__(self, graph, quotient):
        self.graph, self.nodes = graph, []
        difference, root = quotient.input
        subtraction = self.maker(difference, "Sub")
        self.x, mean = subtraction.input
        average = self.maker(mean, "ReduceMean")
        require(average.input[0] == self.x)
        self.axes = self.reduced(average, self.x)
        variance = self.with_epsilon(self.made_of(root, "Sqrt"))
        squares = self.made_of(variance, "ReduceMean")
        require(self.reduced(squares, difference) == self.axes)
        square = self.made_of(squares.input[0], "Pow", "Mul")
        require(self.is_difference(square.input[0], difference))
        require(self.is_square(square))
        self.nodes += [average, subtraction, quotient]
        for name in (mean, difference):  # nobody else reads what is gone
            require(name not in graph.outputs)
            require(all(any(reader is node for node in self.nodes) for reader in graph.readers[name]))
        self.scale = self.shift = None
        self.take_affine()

    # ---- What is found

    def maker(self, name, *operators):
        node = self.graph.makers.get(name)
        require(node is not None and is_onnx(node) and node.op_type in operators)
        return node

    def made_of(self, name, *operators):
        """The node that makes a value which nobody else reads."""
        node = self.maker(name, *operators)
        readers = self.graph.readers[name]
        require(name not in self.graph.outputs and all(reader is readers[0] for reader in readers))
        self.nodes.append(node)
        return node

    def is_square(self, node):
        """Of its first input."""
        return self.number(node.input[1]) == 2 if node.op_type == "Pow" else node.input[0] == node.input[1]

    def is_difference(self, name, difference):
        """Exporters write one difference twice."""
        if name == difference:
            return True
        other, first = self.graph.makers.get(name), self.graph.makers[difference]
        if other is None or other.op_type != "Sub" or list(other.input) != list(first.input):
            return False
        self.made_of(name, "Sub")
        return True

    def number(self, name):
        require(name in self.graph.constants)
        value = np.asarray(self.graph.value(name))
        require(value.size == 1)
        return float(value.reshape(-1)[0])

    def with_epsilon(self, root):
        total = self.made_of(root.input[0], "Add")
        places = [place for place in (0, 1) if total.input[place] in self.graph.constants]
        require(len(places) == 1)
        self.epsilon = self.number(total.input[places[0]])
        return total.input[1 - places[0]]

    def reduced(self, node, name):
        """The axes that a ReduceMean of a value takes, which stay."""
        attributes, shape = attribute_values(node), self.graph.shape(name)
        axes = attributes.get("axes")
        if input_name(node, 1):
            require(node.input[1] in self.graph.constants)
            axes = self.graph.value(node.input[1]).reshape(-1).tolist()
        require(axes and shape is not None and attributes.get("keepdims", 1))
        axes = sorted(int(axis) % len(shape) for axis in axes)
        require(axes == list(range(axes[0], len(shape))) or axes == [CHANNELS])
        return axes

    def take_affine(self):
        """A product and a sum with constants of the shape that is normalized."""
        scale = self.constant_behind("Mul")
        if scale is not None:
            self.scale = scale
            self.shift = self.constant_behind("Add")

    def constant_behind(self, operator):
        reader = self.graph.only_reader(self.nodes[-1].output[0])
        if reader is None or not is_onnx(reader) or reader.op_type != operator or len(reader.input) != 2:
            return None
        others = [name for name in reader.input if name != self.nodes[-1].output[0]]
        if len(others) != 1 or others[0] not in self.graph.constants:
            return None
        shape, sizes = self.graph.shape(self.x), list(self.graph.value(others[0]).shape)
        if self.has_channels_first():
            sizes = [1] * (len(shape) - len(sizes)) + sizes
            if sizes != [size if axis == CHANNELS else 1 for axis, size in enumerate(shape)]:
                return None
        elif sizes != shape[self.axes[0]:]:
            return None
        self.nodes.append(reader)
        return others[0]

    def has_channels_first(self):
        return self.axes != [len(self.graph.shape(self.x)) - 1] and self.axes == [CHANNELS]

    # ---- What it is

    def made(self):
        """One node, which has the channels last where they alone are normalized, with Transposes around it."""
        end, x, shape = self.nodes[-1].output[0], self.x, self.graph.shape(self.x)
        if not self.has_channels_first():
            return [self.normalization(x, end, self.axes[0], [self.scale, self.shift])]
        behind = [0, *range(2, len(shape)), CHANNELS]
        front = [behind.index(axis) for axis in range(len(shape))]
        turned, normalized = f"{end}/turned", f"{end}/normalized"
        for name in (turned, normalized):
            self.graph.set_type(name, self.graph.element_type(x), [shape[axis] for axis in behind])
        affine = [self.flat(name) if name else None for name in (self.scale, self.shift)]
        return [onnx.helper.make_node("Transpose", [x], [turned], turned, perm=behind),
                self.normalization(turned, normalized, len(shape) - 1, affine),
                onnx.helper.make_node("Transpose", [normalized], [end], end, perm=front)]

    def flat(self, name):
        new = f"{self.nodes[-1].output[0]}/{name}"
        self.graph.add_constant(new, self.graph.value(name).reshape(-1))
        return new

    def normalization(self, x, end, axis, affine):
        scale, shift = affine
        if scale is None:
            scale = f"{end}/scale"
            dtype = onnx.helper.tensor_dtype_to_np_dtype(self.graph.types[x].tensor_type.elem_type)
            self.graph.add_constant(scale, np.ones(self.graph.shape(x)[axis:], dtype))
        return onnx.helper.make_node(self.operator, [x, scale, *([shift] if shift else [])], [end],
                                     self.nodes[-1].name or end, axis=axis, epsilon=self.epsilon)


class RootMeanSquare(Normalization):
    """x / sqrt(mean of squares + epsilon), with a scale where it follows."""

    operator = "RMSNormalization"

    def __init__(self, graph, last):
        self.graph, self.nodes = graph, []
        self.x, root = self.sides(last)
        squares = self.made_of(self.with_epsilon(root), "ReduceMean")
        self.axes = self.reduced(squares, squares.input[0])
        square = self.made_of(squares.input[0], "Pow", "Mul")
        require(square.input[0] == self.x and self.is_square(square) and graph.shape(last.output[0]) == graph.shape(self.x))
        self.nodes.append(last)
        self.scale, self.shift = self.constant_behind("Mul"), None

    def sides(self, last):
        """(what is divided, the Sqrt that it is divided by): a quotient, or a product with one of 1."""
        if last.op_type == "Div":
            return last.input[0], self.made_of(last.input[1], "Sqrt")
        places = [place for place in (0, 1) if self.is_inverse(last.input[place])]
        require(len(places) == 1)
        inverse = self.made_of(last.input[places[0]], "Reciprocal", "Div")
        return last.input[1 - places[0]], self.made_of(inverse.input[-1], "Sqrt")

    def is_inverse(self, name):
        maker = self.graph.makers.get(name)
        return maker is not None and (maker.op_type == "Reciprocal" or (
            maker.op_type == "Div" and maker.input[0] in self.graph.constants and self.number(maker.input[0]) == 1))


def of_quotient(graph, node):
    try:
        return Normalization(graph, node)
    except NotOne:
        return RootMeanSquare(graph, node)


# A vector's numbers, at most; where channels lie last, groups of others than whole vectors are slower than transposing x.
LANES = 8


class Groups:
    """(x - mean) / sqrt(variance + epsilon) of groups of channels, with a scale and a shift for each channel."""

    def __init__(self, graph, inner):
        self.graph, self.inner = graph, inner
        first, last = graph.makers.get(inner.input[0]), graph.only_reader(inner.output[0])
        for node in (first, last):
            require(node is not None and is_onnx(node) and node.op_type == "Reshape")
        require(graph.only_reader(first.output[0]) is inner and not any(inner.output[1:]))
        self.x, self.nodes = first.input[0], [first, inner, last]
        self.shape, groups = graph.shape(self.x), graph.shape(first.output[0])
        require(self.shape is not None and len(self.shape) > 2 and groups is not None and len(groups) == 3
                and graph.shape(last.output[0]) == self.shape and groups[0] == self.shape[0] and 0 not in self.shape
                and self.shape[1] % groups[1] == 0)
        self.groups = groups[1]
        require(self.shape[1] == self.groups or self.shape[1] // self.groups % LANES == 0)
        self.scale, self.shift = (np.repeat(self.of_groups(name), self.shape[1] // self.groups) for name in inner.input[1:3])
        factor = self.channels_behind("Mul")
        if factor is not None:
            self.scale, self.shift = self.scale * factor, self.shift * factor
        more = self.channels_behind("Add")
        self.shift = self.shift if more is None else self.shift + more

    def of_groups(self, name):
        require(name in self.graph.constants and self.graph.value(name).shape == (self.groups,))
        return np.asarray(self.graph.value(name), np.float64)

    def channels_behind(self, operator):
        """The numbers of the channels by which the result is multiplied, or that are added to it, or None."""
        end = self.nodes[-1].output[0]
        reader = self.graph.only_reader(end)
        if reader is None or not is_onnx(reader) or reader.op_type != operator or len(reader.input) != 2:
            return None
        others = [name for name in reader.input if name != end]
        if len(others) != 1 or others[0] not in self.graph.constants:
            return None
        value = np.asarray(self.graph.value(others[0]), np.float64)
        sizes = [1] * (len(self.shape) - value.ndim) + list(value.shape)
        if len(sizes) != len(self.shape) or value.size not in (1, self.shape[1]) or sizes[1] != value.size:
            return None
        self.nodes.append(reader)
        return value.reshape(-1)

    def made(self):
        end = self.nodes[-1].output[0]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(self.graph.types[self.x].tensor_type.elem_type)
        names = [f"{end}/scale", f"{end}/shift"]
        for name, value in zip(names, (self.scale, self.shift)):
            self.graph.add_constant(name, np.broadcast_to(value, self.shape[1]).astype(dtype))
        return [onnx.helper.make_node("GroupNormalization", [self.x, *names], [end], self.inner.name or end,
                                      num_groups=self.groups, epsilon=attribute_values(self.inner).get("epsilon", 1e-5))]


KINDS = {"Div": of_quotient, "Mul": RootMeanSquare, "InstanceNormalization": Groups}
