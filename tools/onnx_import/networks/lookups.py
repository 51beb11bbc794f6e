"""Values that are a function of one tensor of bytes: a kernel that makes such by a series computes it of the 256 values of a byte,
and looks elements up."""

import math

from terms import BYTES

# Nodes whose functions are computed by series: looking up takes a third of the time, or less.
SERIES = {"Sigmoid", "Tanh", "Exp", "Log", "Erf", "Gelu", "Softplus", "Mish", "Swish", "Elu", "Selu", "Celu", "Sin", "Cos", "Tan",
          "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"}
# Of fewer elements none are looked up.
LEAST_ELEMENTS = 512


class Lookups:
    """Which elementwise nodes' values are a function of one tensor of bytes."""

    def __init__(self, graph, units, is_map):
        self.graph = graph
        self.sources = {}  # of values: that tensor, or None, and whether a series is between
        for unit in units:
            if unit.kind == "node" and is_map(unit.node):
                self.sources[unit.outputs[0]] = self.source_of(unit)

    def source_of(self, unit):
        result, shape = unit.outputs[0], self.graph.shape(unit.outputs[0])
        parts = [self.of(name) for name in unit.inputs if not is_number(self.graph, name)]
        sources = {source for source, _ in parts}
        source = sources.pop() if len(sources) == 1 else None
        if source is None or self.graph.shape(source) != shape or math.prod(shape) < LEAST_ELEMENTS:
            return (result if self.is_byte(result) else None), False
        return source, unit.node.op_type in SERIES or any(series for _, series in parts)

    def of(self, name):
        return self.sources.get(name) or ((name if self.is_byte(name) else None), False)

    def is_byte(self, name):
        return self.graph.element_type(name) in BYTES and name not in self.graph.constants

    def end_at(self, value, end):
        """Whether the kernel of a chain that ends in `end` had better find a value stored: elements of one of the two parts can
        then be looked up, where those of the whole chain are a function of several tensors."""
        if not self.is_byte(value):
            return False
        (first, is_series), (own, is_own_series) = self.of(end), self.of(value)
        return is_series if first == value else is_own_series and first != own


def is_number(graph, name):
    """Whether a value is a constant of one element, which is a part of an expression."""
    shape = graph.shape(name) if name in graph.constants else None
    return shape is not None and math.prod(shape) == 1
