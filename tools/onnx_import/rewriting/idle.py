"""Nodes that give what they read, the shapes being known: exporters write a Pad by nothing, a Slice of everything, and the like."""

import numpy as np

from reading.folding import rename_captured
from terms import NodeError, attribute_values, copied, input_name, is_number, is_onnx, outer_names

# Those of whose constants nothing matters where shape and type stay: more elements cannot come of them, nor others.
SAME_IF_SHAPE_STAYS = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile", "Split", "DepthToSpace", "SpaceToDepth",
                       "Identity", "Cast", "CastLike", "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"}
# Those of several inputs, each of which is spread to the shape of all.
SPREADING = {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean", "Where", "And", "Or", "Xor", "Equal", "Greater",
             "Less", "GreaterOrEqual", "LessOrEqual", "Mod"}
ONE_INPUT = {"Concat", "Sum", "Max", "Min", "Mean"}


def without_idle_nodes(graph):
    """Lets readers of what such nodes make read what they read; those that make outputs of the model stay."""
    names, nodes = {}, []
    captured = {name for node in graph.nodes for name in outer_names(node)}
    for node in graph.nodes:
        node = without_empty_parts(graph, renamed(node, names))
        idle = is_idle(graph, node) or spreads_in_vain(graph, node, names)
        if idle and node.output[0] not in graph.outputs and node.output[0] not in captured:
            names[node.output[0]] = node.input[0]
            graph.copies[node.op_type] += 1
        else:
            nodes.append(node)
    graph.set_nodes(nodes)
    make_outputs_at_once(graph, captured)


def make_outputs_at_once(graph, captured):
    """Has an output that is a copy of a result made by what makes that."""
    names = {}
    for node in graph.nodes:
        x = node.input[0] if is_onnx(node) and node.op_type == "Identity" else ""
        if x in graph.makers and x not in graph.outputs and x not in graph.constants and x not in captured \
                and node.output[0] in graph.outputs:
            names.setdefault(x, node.output[0])
    nodes = []
    for node in graph.nodes:
        if node.op_type == "Identity" and names.get(node.input[0]) == node.output[0]:
            continue
        node = renamed(node, names)
        if any(name in names for name in node.output):
            node = copied(node, outputs=[names.get(name, name) for name in node.output])
        nodes.append(node)
    if names:
        graph.set_nodes(nodes)


def renamed(node, names):
    inside = {name: names[name] for name in outer_names(node) if name in names}
    if not inside and not any(name in names for name in node.input):
        return node
    copy = copied(node, [names.get(name, name) for name in node.input])
    rename_captured(copy, inside)
    return copy


def without_empty_parts(graph, node):
    """A Concat without those of its parts that have no elements."""
    if node.op_type != "Concat" or not is_onnx(node):
        return node
    parts = [name for name in node.input if 0 not in (graph.open_shape(name) or [])]
    if not parts or len(parts) == len(node.input):
        return node
    return copied(node, parts)


def is_idle(graph, node):
    if not is_onnx(node) or not node.input or not node.input[0] or any(node.output[1:]) or not node.output[0]:
        return False
    x, y = node.input[0], node.output[0]
    shape = graph.shape(x)
    if shape is None or shape != graph.shape(y) or graph.element_type(x) != graph.element_type(y) or x in graph.constants \
            or graph.element_type(x) is None:
        return False
    if node.op_type in SAME_IF_SHAPE_STAYS:
        return True
    if node.op_type in ONE_INPUT:
        return len(node.input) == 1
    try:
        return node.op_type in CHECKS and CHECKS[node.op_type](graph, node, attribute_values(node))
    except NodeError:  # a constant that cannot be computed: whoever takes the node tells it
        return False


def spreads_in_vain(graph, node, names):
    """Whether all that reads an Expand's result would spread what that reads. `names` are of what is gone, and its source."""
    if not is_onnx(node) or node.op_type != "Expand" or not graph.readers[node.output[0]]:
        return False
    x, y = node.input[0], node.output[0]
    for reader in graph.readers[y]:
        if not is_onnx(reader) or reader.op_type not in SPREADING or len(reader.output) != 1:
            return False
        shapes = [graph.shape(x if name == y else names.get(name, name)) for name in reader.input]
        if None in shapes or spread(shapes) != graph.shape(reader.output[0]):
            return False
    return x not in graph.constants


def spread(shapes):
    """The shape of what is computed of such element by element; None where they do not fit."""
    try:
        return list(np.broadcast_shapes(*shapes))
    except ValueError:
        return None


# ---- What attributes and constants must be


def constant(graph, node, index):
    """The value of an input, which must be a constant; None where it is left out or is none."""
    name = input_name(node, index)
    return np.asarray(graph.value(name)) if name in graph.constants else None


def pads_nothing(graph, node, attributes):
    pads = constant(graph, node, 1) if input_name(node, 1) else attributes.get("pads", attributes.get("paddings"))
    return pads is not None and not np.any(pads)


def goes_forwards(graph, node, attributes):
    """Of a Slice whose result is as large as what it reads."""
    if not input_name(node, 4):
        return True
    steps = constant(graph, node, 4)
    return steps is not None and bool(np.all(steps == 1))


def permutes_nothing(graph, node, attributes):
    rank = len(graph.shape(node.input[0]))
    return list(attributes.get("perm", range(rank)[::-1])) == list(range(rank))


def picks_all(graph, node, attributes):
    axis = attributes.get("axis", 0) % max(len(graph.shape(node.input[0])), 1)
    indices = constant(graph, node, 1)
    return indices is not None and indices.ndim == 1 and \
        np.array_equal(indices, np.arange(graph.shape(node.input[0])[axis]))


def resizes_nothing(graph, node, attributes):
    """By scales of exactly 1, or to sizes that are the same."""
    if attributes.get("coordinate_transformation_mode") == b"tf_crop_and_resize":
        return False
    if node.op_type == "Resize" and input_name(node, 3):
        return True
    place = 1 if node.op_type == "Upsample" or len(node.input) == 2 else 2
    scales = constant(graph, node, place) if input_name(node, place) else attributes.get("scales")
    return scales is not None and np.size(scales) > 0 and bool(np.all(np.asarray(scales) == 1))


def pools_nothing(graph, node, attributes):
    numbers = [attributes.get(name, [1]) for name in ("kernel_shape", "strides", "dilations")]
    return all(number == 1 for row in numbers for number in row) and not any(attributes.get("pads", [0])) \
        and "kernel_shape" in attributes


def neutral(number):
    """Of a sum or a product: whether the second input is a constant of that number alone."""
    def check(graph, node, attributes):
        value = constant(graph, node, 1)
        return value is not None and is_number(value.dtype) and value.size > 0 and bool(np.all(value == number))
    return check


CHECKS = {"Pad": pads_nothing, "Slice": goes_forwards, "Transpose": permutes_nothing, "Gather": picks_all, "Resize": resizes_nothing,
          "Upsample": resizes_nothing, "MaxPool": pools_nothing, "AveragePool": pools_nothing, "Mul": neutral(1), "Div": neutral(1),
          "Add": neutral(0), "Sub": neutral(0)}
