"""Scatters to places that are known: parts of a tensor assigned, as exporters write it. They become concatenations, or a gather
from the tensor and what is assigned together."""

import math

import numpy as np
import onnx

from terms import NodeError, attribute_values, is_onnx

OPERATORS = ("ScatterND", "ScatterElements")


def without_known_scatters(graph):
    """Replaces them by nodes that move elements; those to places that the model computes are left as they are."""
    nodes = []
    for node in graph.nodes:
        try:
            nodes += Scatter(graph, node).nodes() if is_known(graph, node) else [node]
        except NodeError:  # a constant that cannot be computed: whoever takes the node tells it
            nodes.append(node)
    graph.set_nodes(nodes)


def is_known(graph, node):
    return is_onnx(node) and node.op_type in OPERATORS and len(node.input) == 3 and node.input[1] in graph.constants \
        and attribute_values(node).get("reduction", b"none") == b"none" and not any(node.output[1:]) \
        and all(graph.shape(node.input[index]) for index in (0, 2)) and math.prod(graph.shape(node.input[2])) > 0 \
        and graph.element_type(node.input[0]) is not None


class Scatter:
    """`places` are where the rows of what is assigned go to, as numbers of the tensor's rows: its first axes are `counts`."""

    def __init__(self, graph, node):
        self.graph, self.node = graph, node
        self.x, self.updates, self.end = node.input[0], node.input[2], node.output[0]
        self.shape = graph.shape(self.x)
        indices = np.asarray(graph.value(node.input[1]), np.int64)
        if node.op_type == "ScatterND":
            depth = indices.shape[-1]
            axes = list(np.moveaxis(indices, -1, 0))
        else:
            depth, axis = len(self.shape), attribute_values(node).get("axis", 0) % len(self.shape)
            axes = list(np.indices(indices.shape, sparse=False))
            axes[axis] = indices
        self.counts = self.shape[:depth]
        axes = [np.where(places < 0, places + size, places) for places, size in zip(axes, self.counts)]
        if any(places.size and (places.min() < 0 or places.max() >= size) for places, size in zip(axes, self.counts)):
            raise NodeError(f"an index is outside of {self.shape}")
        self.places = np.ravel_multi_index(axes, self.counts).reshape(-1) if depth else np.zeros(1, np.int64)

    def nodes(self):
        self.made = []
        box = self.box()
        if box is None:
            self.gather()
        else:
            self.assign_box(*box)
        return self.made

    # ---- A box

    def box(self):
        """(first, sizes) of the part that is assigned, in the order of its elements; None where it is no such part."""
        corners = [np.unravel_index(self.places[end], self.counts) for end in (0, -1)]
        first, sizes = [int(place) for place in corners[0]], [int(last - place) + 1 for place, last in zip(*corners)]
        if min(sizes, default=1) < 1 or math.prod(sizes) != self.places.size:
            return None
        inside = np.ravel_multi_index(np.ix_(*(np.arange(place, place + size) for place, size in zip(first, sizes))), self.counts) \
            if sizes else np.zeros(1, np.int64)
        return (first, sizes) if np.array_equal(inside.reshape(-1), self.places) else None

    def assign_box(self, first, sizes):
        """What is assigned, with what lies around it along one axis after the other, from the last one on."""
        sizes_now = [*sizes, *self.shape[len(sizes):]]
        partial = [axis for axis in range(len(sizes)) if sizes[axis] != self.counts[axis]]
        now = self.reshaped(self.updates, "assigned" if partial else None, sizes_now)
        for axis in reversed(partial):
            begin, end = first[axis], first[axis] + sizes[axis]
            before, behind = (self.part(first, sizes, axis, low, high) for low, high in ((0, begin), (end, self.counts[axis])))
            sizes_now[axis] = self.counts[axis]
            now = self.add("Concat", [*before, now, *behind], f"around{axis}" if axis != partial[0] else None, sizes_now, axis=axis)

    def part(self, first, sizes, axis, low, high):
        """What of the tensor stands beside the box along an axis, if there is any: axes behind it are whole."""
        if low == high:
            return []
        axes = [other for other in range(axis + 1) if other == axis or sizes[other] != self.counts[other]]
        begins = [low if other == axis else first[other] for other in axes]
        ends = [high if other == axis else first[other] + sizes[other] for other in axes]
        shape = list(self.shape)
        for other, begin, end in zip(axes, begins, ends):
            shape[other] = end - begin
        what = f"part{axis}.{low}"
        names = [self.constant(f"{what}/{kind}", values) for kind, values in (("begins", begins), ("ends", ends), ("axes", axes))]
        return [self.add("Slice", [self.x, *names], what, shape)]

    # ---- Any places

    def gather(self):
        rows, row = math.prod(self.counts), math.prod(self.shape[len(self.counts):])
        table = np.arange(rows)
        table[self.places] = rows + np.arange(self.places.size)  # the last of several at one place
        parts = [self.reshaped(self.x, "rows", [rows, row]),
                 self.reshaped(self.updates, "assigned", [self.places.size, row])]
        both = self.add("Concat", parts, "both", [rows + self.places.size, row], axis=0)
        self.reshaped(self.add("Gather", [both, self.constant("table", table)], "picked", [rows, row], axis=0), None, self.shape)

    # ---- Nodes

    def constant(self, what, values):
        name = f"{self.end}/{what}"
        self.graph.add_constant(name, np.asarray(values, np.int64))
        return name

    def add(self, operator, inputs, what, shape, **attributes):
        name = self.end if what is None else f"{self.end}/{what}"
        self.graph.set_type(name, self.graph.element_type(self.x), shape)
        self.made.append(onnx.helper.make_node(operator, inputs, [name], self.node.name or self.end, **attributes))
        return name

    def reshaped(self, source, what, shape):
        if what is not None and self.graph.shape(source) == list(shape):
            return source
        return self.add("Reshape", [source, self.constant(f"{what or 'end'}/shape", shape)], what, shape)
