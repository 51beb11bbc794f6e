"""Concatenations of what concatenations make, as one, and of neighbouring parts of one tensor, as these are: each part is moved
once."""

import numpy as np
import onnx

from networks.views import slices
from rewriting.repeated import without_unread_nodes
from terms import NodeError, attribute_values, copied, is_onnx, outer_names

MOST_PARTS = 16
SLICES_BY_INPUTS = 10  # the operator set since which a Slice's bounds are inputs


def with_joined_concats(graph):
    """The first ones first: what they make has all of its parts when the next is looked at."""
    join_concats(graph)
    join_parts(graph)


def join_concats(graph):
    captured = {name for node in graph.nodes for name in outer_names(node)}
    parts, nodes, gone = {}, [], set()  # of results that one Concat alone reads
    for node in graph.nodes:
        if is_concat(graph, node):
            node = joined(node, {name: inside for (name, axis), inside in parts.items() if axis == axis_of(graph, node)}, gone)
            result = node.output[0]
            if graph.only_reader(result) is not None and result not in captured:
                parts[result, axis_of(graph, node)] = list(node.input)
        nodes.append(node)
    if gone:
        graph.set_nodes([node for node in nodes if not gone.intersection(node.output)])


def joined(node, parts, gone):
    """The node, reading the parts of what it reads as far as these are not too many; `gone` gets what it then does not read."""
    inputs = list(node.input)
    for name in node.input:
        if name in parts and inputs.count(name) == 1 and len(inputs) - 1 + len(parts[name]) <= MOST_PARTS:
            place = inputs.index(name)
            inputs[place:place + 1] = parts[name]
            gone.add(name)
    if inputs == list(node.input):
        return node
    return copied(node, inputs)


def is_concat(graph, node):
    return node.op_type == "Concat" and is_onnx(node) and graph.shape(node.output[0]) is not None


def axis_of(graph, node):
    return attribute_values(node).get("axis", 1) % max(len(graph.shape(node.output[0])), 1)


# ---- Neighbouring parts of one tensor


def join_parts(graph):
    """Has concatenations read a tensor in place of all of its parts, or one part in place of several that nobody else reads: a
    block of YOLO's concatenates both halves of what it splits with what it makes of one."""
    nodes, changed = [], False
    for node in graph.nodes:
        parts = with_wholes(graph, node) if is_concat(graph, node) else [node]
        changed = changed or parts != [node]
        nodes += parts
    if changed:
        graph.set_nodes(nodes)
        without_unread_nodes(graph)


def with_wholes(graph, node):
    """The nodes that make what a Concat does of whole tensors and of fewer parts."""
    axis, inputs, made = axis_of(graph, node), [], []
    for run in runs_of(graph, node, axis):
        source, first, last = run[0][1] or "", run[0][2], run[-1][3]
        if len(run) > 1 and last - first == graph.shape(source)[axis]:
            inputs.append(source)
        elif len(run) > 1 and all(graph.only_reader(name) is node for name, *_ in run):
            inputs.append(f"{run[0][0]}/to/{run[-1][0]}")
            made.append(part_of(graph, source, inputs[-1], axis, first, last))
        else:
            inputs += [name for name, *_ in run]
    if inputs == list(node.input):
        return [node]
    if len(inputs) > 1:
        return [*made, copied(node, inputs)]
    return [copied(made[0], outputs=node.output)] if made else \
        [onnx.helper.make_node("Identity", inputs, list(node.output), node.name)]


def runs_of(graph, node, axis):
    """The node's inputs, (name, tensor, first, behind the last) of each, in runs that lie behind each other in one tensor."""
    runs = []
    for name in node.input:
        part = (name, *(place_of(graph, name, axis) or (None, 0, 0)))
        if runs and part[1] is not None and runs[-1][-1][1] == part[1] and runs[-1][-1][3] == part[2]:
            runs[-1].append(part)
        else:
            runs.append([part])
    return runs


def place_of(graph, name, axis):
    """(a tensor, first, behind the last) of what is a part of it along an axis, or None."""
    maker = graph.makers.get(name)
    if maker is None or not is_onnx(maker) or maker.op_type not in ("Split", "Slice") or maker.input[0] in graph.constants:
        return None
    try:
        found = slices(graph, maker)
    except NodeError:  # sizes or bounds that are not known
        return None
    if found is None or found[0] != axis:
        return None
    first, count = next((first, count) for part, first, count in found[1] if part == name)
    return maker.input[0], first, first + count


def part_of(graph, source, name, axis, first, last):
    shape = graph.known_shape("input", source)
    shape[axis] = last - first
    graph.set_type(name, graph.element_type(source), shape)
    bounds = {"starts": [first], "ends": [last], "axes": [axis]}
    if graph.opset < SLICES_BY_INPUTS:
        return onnx.helper.make_node("Slice", [source], [name], **bounds)
    for what, values in bounds.items():
        graph.add_constant(f"{name}/{what}", np.int64(values))
    return onnx.helper.make_node("Slice", [source, *(f"{name}/{what}" for what in bounds)], [name])
