"""Sequences of tensors whose lengths are known, as exporters write a tensor that is split, gone through and joined: what reads
an element reads the tensor. The nodes that make sequences stay for whoever else reads them."""

import numpy as np
import onnx

from terms import attribute_values, input_name, is_onnx

AXES_BY_INPUT = 13  # the operator set since which Split and Squeeze have sizes and axes as inputs


class Sequences:
    """`elements` are {a sequence: its tensors' names, None for an optional one's that has none}."""

    def __init__(self, folder):
        self.folder, self.elements = folder, {}

    def expanded(self, node):
        """The nodes that compute what one does which makes or reads a sequence; None for others, and where it is not known."""
        if not is_onnx(node) or node.op_type not in HANDLERS or not node.output or not node.output[0]:
            return None
        try:
            return HANDLERS[node.op_type](self, node)
        except (IndexError, KeyError, TypeError, ValueError):  # whoever takes it as it is tells what is wrong
            return None

    def number(self, node, index, default=None):
        """An input that is one number; it must be known."""
        name = input_name(node, index)
        return int(self.folder.values[name].reshape(-1)[0]) if name else default

    def constant(self, name, value):
        return onnx.helper.make_node("Constant", [], [name], name, value=onnx.numpy_helper.from_array(np.asarray(value), name))

    # ---- What makes one

    def construct(self, node):
        self.elements[node.output[0]] = list(node.input)
        return [node]

    def insert(self, node):
        elements = list(self.elements[node.input[0]])
        elements.insert(self.number(node, 2, len(elements)), node.input[1])
        self.elements[node.output[0]] = elements
        return [node]

    def erase(self, node):
        elements = list(self.elements[node.input[0]])
        elements.pop(self.number(node, 1, -1))
        self.elements[node.output[0]] = elements
        return [node]

    def split(self, node):
        attributes, shape = attribute_values(node), self.folder.shape(node.input[0])
        axis = attributes.get("axis", 0) % len(shape)
        size, name, squeezes = shape[axis], input_name(node, 1), False
        if not name:
            sizes, squeezes = [1] * size, not attributes.get("keepdims", 1)
        elif self.folder.values[name].ndim:
            sizes = self.folder.values[name].tolist()
        else:
            part = self.number(node, 1)
            sizes = [min(part, size - first) for first in range(0, size, part)]
        if not sizes or min(sizes) < 0 or sum(sizes) != size:
            raise ValueError("its parts are not those of its axis")
        base = node.output[0]
        names = [f"{base}/{place}" for place in range(len(sizes))]
        parts = [f"{name}/wide" for name in names] if squeezes else names
        nodes = self.with_numbers("Split", node.input[0], parts, f"{base}/sizes", "split", sizes, axis=axis)
        for part, name in zip(parts, names) if squeezes else ():
            nodes += self.with_numbers("Squeeze", part, [name], f"{name}/axes", "axes", [axis])
        self.elements[base] = names
        return [*nodes, node]

    def with_numbers(self, operator, source, results, name, attribute, numbers, **more):
        """A node that has some numbers as an input, or as an attribute in older operator sets."""
        if self.folder.opset < AXES_BY_INPUT:
            return [onnx.helper.make_node(operator, [source], results, results[0], **{attribute: numbers}, **more)]
        return [self.constant(name, np.int64(numbers)),
                onnx.helper.make_node(operator, [source, name], results, results[0], **more)]

    # ---- What reads one

    def at(self, node):
        element = self.elements[node.input[0]][self.number(node, 1)]
        return [onnx.helper.make_node("Identity", [element], list(node.output), node.name)]

    def length(self, node):
        return [self.constant(node.output[0], np.int64(len(self.elements[node.input[0]])))]

    def concat(self, node):
        attributes, parts, nodes = attribute_values(node), self.elements[node.input[0]], []
        if attributes.get("new_axis", 0):
            wide = [f"{node.output[0]}/{place}" for place in range(len(parts))]
            for part, name in zip(parts, wide):
                nodes += self.with_numbers("Unsqueeze", part, [name], f"{name}/axes", "axes", [attributes["axis"]])
            parts = wide
        if not parts:
            raise ValueError("it is empty")
        return [*nodes, onnx.helper.make_node("Concat", parts, list(node.output), node.name, axis=attributes["axis"])]

    # ---- What may be there

    def optional(self, node):
        self.elements[node.output[0]] = [node.input[0]] if input_name(node, 0) else []
        return [node]

    def get(self, node):
        element = self.elements.get(node.input[0], [node.input[0]])[0]
        return [onnx.helper.make_node("Identity", [element], list(node.output), node.name)]

    def has(self, node):
        return [self.constant(node.output[0], np.bool_(bool(self.elements[node.input[0]] if input_name(node, 0) else [])))]


HANDLERS = {"SequenceConstruct": Sequences.construct, "SequenceEmpty": Sequences.construct, "SequenceInsert": Sequences.insert,
            "SequenceErase": Sequences.erase, "SplitToSequence": Sequences.split, "SequenceAt": Sequences.at,
            "SequenceLength": Sequences.length, "ConcatFromSequence": Sequences.concat, "Optional": Sequences.optional,
            "OptionalGetElement": Sequences.get, "OptionalHasElement": Sequences.has}
