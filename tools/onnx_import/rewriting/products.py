"""Numbers by which a product of computed matrices, or a side of it, is multiplied: attention has one on each side, or behind.
The product multiplies its sums by them itself, and what moves the sides moves them once."""

import math

import numpy as np
import onnx

from terms import MOVING, NARROW_FLOATS, NodeError, copied, is_onnx

MICROSOFT = "com.microsoft"


def with_own_factors(graph):
    """Puts ONNX Runtime's FusedMatMul, which has a factor, in the place of MatMul nodes with such around them."""
    for node in list(graph.nodes):
        if is_onnx(node) and node.op_type == "MatMul" and not any(name in graph.constants for name in node.input):
            try:
                Factors(graph, node).take()
            except NodeError:  # a constant that cannot be computed: whoever takes the node tells it
                continue


class Factors:
    """What of the nodes around one product is a number by which it is multiplied."""

    def __init__(self, graph, node):
        self.graph, self.node = graph, node
        self.alpha, self.gone, self.changed = 1.0, [], {}
        self.inputs, self.end = list(node.input), node.output[0]

    def take(self):
        if self.graph.element_type(self.end) not in ("FLOAT", *NARROW_FLOATS):
            return
        if self.inputs[0] != self.inputs[1]:
            for place in (0, 1):
                self.take_in_front(place)
        self.take_behind()
        if not self.gone or not math.isfinite(np.float32(self.alpha)) or np.float32(self.alpha) == 0:
            return
        whole = onnx.helper.make_node("FusedMatMul", self.inputs, [self.end], self.node.name, domain=MICROSOFT, alpha=self.alpha)
        gone = {id(node) for node in self.gone}
        at_once = {id(self.node): whole, **self.changed}
        self.graph.set_nodes([at_once.get(id(node), node) for node in self.graph.nodes if id(node) not in gone])

    def take_in_front(self, place):
        """Behind views that nobody else reads, or at once."""
        name, reader = self.inputs[place], None
        while True:
            maker = self.graph.makers.get(name)
            if maker is None or not is_onnx(maker) or self.graph.only_reader(name) is not (reader or self.node):
                return
            factor = self.factor(maker)
            if factor is not None:
                break
            if maker.op_type not in MOVING or any(maker.output[1:]):
                return
            name, reader = maker.input[0], maker
        source, number = factor
        self.alpha *= number
        self.gone.append(maker)
        if reader is None:
            self.inputs[place] = source
            return
        self.changed[id(reader)] = copied(reader, [source, *reader.input[1:]])

    def take_behind(self):
        reader = self.graph.only_reader(self.end)
        factor = self.factor(reader) if reader is not None and is_onnx(reader) else None
        if factor is not None:
            self.alpha *= factor[1]
            self.gone.append(reader)
            self.end = reader.output[0]

    def factor(self, node):
        """(what a node multiplies, by which number), or None."""
        if node.op_type not in ("Mul", "Div") or len(node.input) != 2:
            return None
        places = [place for place in (0, 1) if node.input[place] in self.graph.constants]
        if len(places) != 1 or (node.op_type == "Div" and places != [1]):
            return None
        source, value = node.input[1 - places[0]], np.asarray(self.graph.value(node.input[places[0]]))
        if value.size != 1 or self.graph.shape(node.output[0]) is None or \
                self.graph.shape(source) != self.graph.shape(node.output[0]):
            return None
        number = float(value.reshape(-1)[0])
        if node.op_type == "Div":
            number = 1 / number if number else math.inf
        return source, number
