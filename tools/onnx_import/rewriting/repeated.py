"""Nodes whose results nobody needs, and nodes that compute what others do: exporters write what a program calls twice as often, and
leave what an output that was taken away was made by. Either keeps what is in front of it from being fused, as readers do."""

import numpy as np

from operations import is_map, may_take
from reading.branches import is_requirement
from reading.order import names_of
from rewriting.idle import renamed
from terms import NodeError, is_layer, is_onnx, is_random, outer_names, subgraphs

# Constants of more elements are the same only where they have one name.
MOST_ELEMENTS = 64
# Each reader has one of its own, by which quantisers tell what is of bytes.
QUANTIZERS = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}


def without_unread_nodes(graph):
    """Leaves out what no output of the model needs; those that make constants stay, which are computed when they are wanted."""
    needed, kept = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if makes_constants(graph, node):
            kept.append(node)
        elif is_requirement(node) or needed.intersection(node.output):
            needed.update(names_of(node))
            kept.append(node)
    if len(kept) < len(graph.nodes):
        graph.set_nodes(kept[::-1])


def makes_constants(graph, node):
    return all(name in graph.constants for name in node.output if name)


def without_repeated_nodes(graph):
    """Lets readers of what was computed before read that, where it is worth keeping."""
    repeated = Repeated(graph)
    names, nodes = repeated.names(), []
    if not names:
        return
    for node in graph.nodes:
        if not any(name in names for name in node.output):
            nodes.append(renamed(node, names))
    graph.set_nodes(nodes)
    without_unread_nodes(graph)


class Repeated:
    """Classes of nodes that compute the same, the first of each being the one that stays."""

    def __init__(self, graph):
        self.graph = graph
        self.captured = {name for node in graph.nodes for name in outer_names(node)}
        self.first, self.classes = {}, {}  # names of what other names are the same as; nodes by what they compute
        for node in graph.nodes:
            if self.may_be_shared(node):
                same = self.classes.setdefault(self.key(node), [])
                same.append(node)
                self.first.update(zip(node.output, same[0].output))

    def names(self):
        """{a result: the one that was computed before}, of those that are left out."""
        found = {}
        for same in self.classes.values():
            if len(same) > 1:
                whole = self.reads_nothing_else(same)
                for node in same[1:]:
                    if self.is_free(node) and (whole or (self.is_kept(node) and self.is_kept(same[0]))):
                        found.update(zip(filter(None, node.output), filter(None, same[0].output)))
        return found

    def may_be_shared(self, node):
        return is_onnx(node) and node.op_type not in QUANTIZERS and bool(node.input) and any(node.output) \
            and not any(True for _ in subgraphs(node)) and not makes_constants(self.graph, node) and not is_random(node, self.graph)

    def key(self, node):
        attributes = sorted(item.SerializeToString(deterministic=True) for item in node.attribute)
        return (node.op_type, tuple(self.meaning(name) for name in node.input), tuple(map(bool, node.output)), *attributes)

    def meaning(self, name):
        """What a value is: the name of the first that is the same, or the numbers of a small constant."""
        shape = self.graph.shape(name) if name in self.graph.constants else None
        if shape is not None and np.prod(shape) <= MOST_ELEMENTS:
            try:
                value = np.asarray(self.graph.value(name))
                return value.dtype.name, value.shape, value.tobytes()
            except NodeError:  # whoever needs it tells
                pass
        return self.first.get(name, name)

    def is_free(self, node):
        """Whether the names of what it makes may be gone."""
        return not any(name in self.graph.outputs or name in self.captured for name in node.output)

    def reads_nothing_else(self, same):
        """Whether nodes that are the same are all that reads a value, whose maker has one of them for its own."""
        ids = {id(node) for node in same}
        for name in same[0].input:
            maker = self.graph.makers.get(name)
            if maker is not None and name not in self.graph.constants and name not in self.graph.outputs and self.takes(maker) \
                    and all(id(reader) in ids for reader in self.graph.readers[name]):
                return True
        return False

    def takes(self, maker):
        return is_layer(maker) or may_take(maker) or is_map(maker, self.graph)

    def is_kept(self, node):
        """Whether the result is stored: what is elementwise is not where other such nodes alone read it."""
        readers = self.graph.readers[node.output[0]]
        return not is_map(node, self.graph) or len(readers) > 1 or node.output[0] in self.graph.outputs \
            or not all(is_map(reader, self.graph) for reader in readers)
