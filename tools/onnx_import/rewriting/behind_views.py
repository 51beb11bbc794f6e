"""What a layer can compute itself, moved in front of the Reshapes and Transposes behind the layer: factors and numbers of
channels, the sum with another tensor, an activation. Products of matrices are layers between such views."""

import numpy as np
import onnx

from convolutions.activations import find_activation
from convolutions.quantization import dequantizer
from reading.order import in_order
from terms import FUSIBLE, MOVING, NodeError, attribute_values, copied, is_layer, is_onnx

AFFINE = ("Mul", "Div", "Add", "Sub")


def with_ends_at_layers(graph):
    """The latest layers first: of two whose results are summed, that one has the sum."""
    moved = False
    for node in [node for node in reversed(graph.nodes) if is_layer(node) and is_onnx(node) and node.op_type in FUSIBLE]:
        try:
            moved |= Ends(graph, node).move()
        except NodeError:  # a constant that cannot be computed: whoever takes the node tells it
            continue
    if moved:
        graph.set_nodes(in_order(graph.nodes))


class Ends:
    """What stands behind one layer, between and behind views."""

    def __init__(self, graph, node):
        self.graph = graph
        self.last = node.output[0]  # what the layer and what is with it make
        self.views, self.end = [], self.last
        self.may_add = not self.has_bytes(node)
        self.has_residual = False
        self.made, self.gone = [], []
        self.channels = 0

    def has_bytes(self, node):
        """Whether the layer may become one of bytes, which adds no other tensor to its sums."""
        x = node.input[0]
        while x in self.graph.makers and is_onnx(self.graph.makers[x]) and self.graph.makers[x].op_type in MOVING:
            x = self.graph.makers[x].input[0]
        return dequantizer(self.graph, x) is not None and dequantizer(self.graph, node.input[1]) is not None

    def move(self):
        """Whether anything was moved."""
        shape = self.graph.shape(self.last)
        if shape is None or len(shape) < 3 or 0 in shape:
            return False
        self.shape, self.channels = shape, shape[1]
        while not find_activation(self.graph, self.end):
            reader = self.graph.only_reader(self.end)
            if reader is None or not is_onnx(reader):
                break
            if not (self.take_view(reader) or self.take_affine(reader) or self.take_sum(reader)):
                break
        if self.views:
            self.take_activation()
        if self.made:
            self.write()
        return bool(self.made)

    # ---- What is taken

    def take_view(self, node):
        shape = self.graph.shape(node.output[0])
        if node.op_type not in MOVING or any(node.output[1:]) or shape is None or node.input[0] != self.end:
            return False
        self.views.append(node)
        self.end = node.output[0]
        return True

    def take_affine(self, node):
        """One number a channel, by which the result is multiplied, or to which it is added."""
        if self.has_residual or self.graph.shape(node.output[0]) != self.graph.shape(self.end):
            return False
        if node.op_type == "BatchNormalization" and node.input[0] == self.end and not any(node.output[1:]):
            axis = np.arange(self.channels).reshape(-1, *[1] * (len(self.graph.shape(self.end)) - 2))
            places = self.of_channels(axis) if self.graph.shape(self.end)[1] == self.channels else None
            if places is None or not np.array_equal(places, np.arange(self.channels)):
                return False
            self.take(node, [None, *node.input[1:]])
            return True
        if node.op_type == "Neg":
            self.take(node, [None])
            return True
        constants = [name for name in node.input if name in self.graph.constants]
        if node.op_type not in AFFINE or len(node.input) != 2 or len(constants) != 1:
            return False
        value = self.of_channels(np.asarray(self.graph.value(constants[0])))
        if value is None:
            return False
        name = f"{node.output[0]}/channels"
        if self.views:
            self.graph.add_constant(name, np.ascontiguousarray(value.reshape(-1, *[1] * (len(self.shape) - 2))))
        self.take(node, [name if other in self.graph.constants else None for other in node.input])
        return True

    def of_channels(self, value):
        """A constant that is broadcast to what the views make, as one number a channel; None where it is none."""
        whole = self.before_views(value)
        if whole is None:
            return None
        first = whole[(slice(0, 1), slice(None), *[slice(0, 1)] * (whole.ndim - 2))]
        return first.reshape(-1) if (whole == first).all() else None

    def before_views(self, value):
        """A constant as it lies in front of the views, None where it is not broadcast to what is behind them."""
        shape = self.graph.shape(self.end)
        if value.ndim > len(shape) or any(size not in (1, whole) for size, whole in zip(value.shape[::-1], shape[::-1])):
            return None
        if value.size == 1:
            return np.broadcast_to(value.reshape([1] * len(self.shape)), self.shape)
        whole = np.broadcast_to(value, shape)
        for view in reversed(self.views):
            before = self.graph.shape(view.input[0])
            whole = whole.transpose(np.argsort(permutation(view, whole.ndim))) if view.op_type == "Transpose" \
                else whole.reshape(before)
        return whole

    def take_sum(self, node):
        """A tensor of the result's shape, which is brought to the shape in front of the views."""
        if node.op_type != "Add" or not self.may_add or self.has_residual or len(node.input) != 2 \
                or node.input[0] == node.input[1] \
                or any(self.graph.shape(name) != self.graph.shape(self.end) for name in node.input) \
                or any(self.graph.element_type(name) != self.graph.element_type(self.last) for name in node.input):
            return False
        other = next(name for name in node.input if name != self.end)
        self.has_residual = True
        name = other
        if not self.views:
            pass
        elif other in self.graph.constants:
            name = f"{node.output[0]}/residual"
            self.graph.add_constant(name, np.ascontiguousarray(self.before_views(np.asarray(self.graph.value(other)))))
        else:
            name = self.turned_back(other, f"{node.output[0]}/residual")
        self.take(node, [None if source == self.end else name for source in node.input])
        return True

    def turned_back(self, name, base):
        """The nodes that make of a tensor as it is behind the views what it is in front of them."""
        for place, view in enumerate(reversed(self.views)):
            before, made = self.graph.shape(view.input[0]), f"{base}{place}"
            known = self.view_of(name, view, before)
            if known is not None:
                name = known
                continue
            if view.op_type == "Transpose":
                order = [int(axis) for axis in np.argsort(permutation(view, len(before)))]
                node = onnx.helper.make_node("Transpose", [name], [made], made, perm=order)
            else:
                self.graph.add_constant(f"{made}/shape", np.int64(before))
                node = onnx.helper.make_node("Reshape", [name, f"{made}/shape"], [made], made)
            self.graph.set_type(made, self.graph.element_type(self.last), before)
            self.made.append(node)
            name = made
        return name

    def view_of(self, name, view, before):
        """What a node of the model makes of a value that undoes the view: the layer may read it itself."""
        for node in self.graph.readers[name]:
            if not is_onnx(node) or node.input[0] != name or self.graph.shape(node.output[0]) != before:
                continue
            if view.op_type != "Transpose" and node.op_type in MOVING and node.op_type != "Transpose" or \
                    view.op_type == node.op_type == "Transpose" and \
                    permutation(node, len(before)) == np.argsort(permutation(view, len(before))).tolist():
                return node.output[0]
        return None

    def take_activation(self):
        found = find_activation(self.graph, self.end)
        if found is None:
            return
        names = {self.end: self.last}
        for node in [node for node in self.graph.nodes if any(node is other for other in found.nodes)]:
            made = f"{node.output[0]}/moved"
            self.copy(node, [names.get(name, name) for name in node.input], made)
            names[node.output[0]] = made
        self.last, self.end = names[found.output], found.output

    # ---- What becomes of it

    def take(self, node, inputs):
        """A node that goes in front of the views, where there are any: `inputs` are what it has there, None for what the layer
        makes."""
        if not self.views:
            self.last = self.end = node.output[0]
            return
        made = f"{node.output[0]}/moved"
        self.copy(node, [self.last if name is None else name for name in inputs], made)
        self.last, self.end = made, node.output[0]

    def copy(self, node, inputs, made):
        moved = copied(node, inputs, [made])
        self.graph.set_type(made, self.graph.element_type(node.output[0]), self.shape)
        self.made.append(moved)
        self.gone.append(node)

    def write(self):
        """The views stand behind what was moved, and make what that made."""
        views, source = [], self.last
        for place, view in enumerate(self.views):
            copy = copied(view, [source, *view.input[1:]])
            if place == len(self.views) - 1:
                copy.output[0] = self.end
            source = copy.output[0]
            views.append(copy)
        gone = {id(node) for node in [*self.views, *self.gone]}
        self.graph.set_nodes([*(node for node in self.graph.nodes if id(node) not in gone), *self.made, *views])


def permutation(node, rank):
    return [int(axis) for axis in attribute_values(node).get("perm", range(rank)[::-1])]
