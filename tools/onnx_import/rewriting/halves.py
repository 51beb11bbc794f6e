"""Nodes of float32 between Casts from float16 or bfloat16 and back, as converters to those write what they will not convert:
kernels compute both in float32, so that they read and make them at once, and are fused with what is around them."""

import math

from operations import is_map
from rewriting.idle import make_outputs_at_once, renamed
from terms import NARROW_FLOATS, copied, is_onnx, outer_names

# Nodes that compute in float32 whatever type their tensors have, and read no others but constants that may have another one.
WHOLE = {"Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization", "InstanceNormalization", "GroupNormalization",
         "LpNormalization", "AveragePool", "MaxPool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool",
         "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
         "ReduceLogSum", "ReduceLogSumExp", "Resize", "Upsample", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose",
         "Slice", "Gather", "Concat", "Pad", "Expand", "Tile", "DepthToSpace", "SpaceToDepth"}
# Nodes whose results' types follow from more than what they read.
CONVERTING = {"Cast", "CastLike", "QuantizeLinear", "DequantizeLinear"}
# No more are one expression for certain, in which nothing is rounded before its end.
MOST_NODES = 12


def with_halves(graph):
    """Leaves out the Casts around such a node, and around elementwise nodes that become one expression."""
    captured = {name for node in graph.nodes for name in outer_names(node)}
    for half in NARROW_FLOATS:
        halves, taken = Halves(graph, captured, half), set()
        for node in graph.nodes:
            if halves.is_cast(node, "FLOAT", half):
                region = halves.region(graph.makers.get(node.input[0]))
                if region and not taken.intersection(map(id, region)):
                    taken.update(map(id, region))
        if taken:
            halves.convert(taken)
            make_outputs_at_once(graph, captured)


class Halves:
    def __init__(self, graph, captured, half):
        """`half` is the type in place of float32."""
        self.graph, self.captured, self.half = graph, captured, half

    def is_cast(self, node, source, target):
        return node is not None and is_onnx(node) and node.op_type == "Cast" and node.input[0] not in self.graph.constants \
            and (self.graph.element_type(node.input[0]), self.graph.element_type(node.output[0])) == (source, target)

    # ---- What can do without Casts

    def region(self, last):
        """The nodes whose only result `last` makes, as a list; None where a Cast is missing on a way in or out."""
        region, waiting = [], [last]
        while waiting:
            node = waiting.pop()
            if any(node is other for other in region):
                continue
            if len(region) == MOST_NODES or not self.may_be_half(node):
                return None
            region.append(node)
            for name in self.floats(node):
                maker = self.graph.makers.get(name)
                if not self.is_cast(maker, self.half, "FLOAT"):
                    waiting.append(maker)
        if len(region) > 1 and not self.is_one_expression(region):
            return None
        has_source = any(self.floats(node) for node in region)
        return region if has_source and all(self.stays_inside(node, region, node is last) for node in region) else None

    def is_one_expression(self, region):
        shapes = [self.graph.shape(node.output[0]) for node in region]
        return all(is_map(node, self.graph) and shape == shapes[0] for node, shape in zip(region, shapes))

    def may_be_half(self, node):
        if node is None or not is_onnx(node) or node.op_type in CONVERTING or any(node.output[1:]):
            return False
        types = {self.graph.element_type(name) for name in node.output if name}
        is_kernel = node.op_type in WHOLE or is_map(node, self.graph)
        return is_kernel and types <= {"FLOAT", "BOOL"} and self.graph.shape(node.output[0]) is not None \
            and not self.reads_whole_constant(node)

    def reads_whole_constant(self, node):
        """Whether it may be a layer's residual sum, of a constant, which must have the layer's type."""
        size = math.prod(self.graph.shape(node.output[0]))
        shapes = [self.graph.shape(name) for name in node.input
                  if name in self.graph.constants and self.graph.element_type(name) == "FLOAT"]
        return size > 1 and any(shape is None or math.prod(shape) >= size for shape in shapes)

    def floats(self, node):
        """What a node reads as float32 when it runs."""
        return [name for name in node.input if name and name not in self.graph.constants
                and self.graph.element_type(name) == "FLOAT"]

    def stays_inside(self, node, region, is_last):
        """Whether nodes of the region alone read what one of it makes, or Casts to halves what the last does."""
        name = node.output[0]
        if name in self.graph.outputs or name in self.captured or not self.graph.readers[name]:
            return False
        return all(self.is_cast(reader, "FLOAT", self.half) if is_last else any(reader is other for other in region)
                   for reader in self.graph.readers[name])

    # ---- Without them

    def convert(self, taken):
        """Has the nodes of these ids read and make halves."""
        casts = {}  # of values of float32: the halves that they have been
        for node in self.graph.nodes:
            if self.is_cast(node, self.half, "FLOAT"):
                casts[node.output[0]] = node.input[0]
        made = {node.output[0] for node in self.graph.nodes if id(node) in taken}
        nodes, names = [], {}
        for node in self.graph.nodes:
            if id(node) in taken:
                node = copied(node, [casts.get(name, name) for name in node.input])
                if self.graph.element_type(node.output[0]) == "FLOAT":
                    self.graph.set_type(node.output[0], self.half, self.graph.shape(node.output[0]))
            elif node.op_type == "Cast" and node.input[0] in made:
                if node.output[0] not in self.graph.outputs and node.output[0] not in self.captured:
                    names[node.output[0]] = node.input[0]
                    continue
                node = copied(node)
                node.op_type = "Identity"
                del node.attribute[:]
            nodes.append(renamed(node, names))
        self.graph.set_nodes(self.without_idle_casts(nodes))

    def without_idle_casts(self, nodes):
        """Without Casts that nobody reads any more."""
        read = {*self.graph.outputs, *(name for node in nodes for name in [*node.input, *outer_names(node)])}
        return [node for node in nodes if node.op_type != "Cast" or node.output[0] in read]
