"""Nodes that move nothing: their results are what they read, under another shape or order, or a part of it."""

import math

import numpy as np

from networks import layouts
from terms import NodeError, attribute_values, input_name, is_onnx, is_random

SHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout")


def is_view(node, graph):
    """Whether a node's first result is all of its first input."""
    return is_onnx(node) and (node.op_type in SHAPES or node.op_type == "Transpose") \
        and not any(name for name in node.output[1:]) and not is_random(node, graph)


def add_view(network, node):
    """Whether a node's results could be had without a step; then they are there."""
    if is_view(node, network.graph):
        if node.input[0] in network.graph.constants:
            return False
        add_whole(network, node)
    elif is_onnx(node) and node.op_type in ("Split", "Slice"):
        return add_parts(network, node)
    elif is_onnx(node) and node.op_type == "Concat":
        return add_concat(network, node)
    else:
        return False
    network.views += 1
    return True


def permutation(node, rank):
    return [int(axis) for axis in attribute_values(node).get("perm", range(rank)[::-1])]


def add_whole(network, node):
    source, target = node.input[0], node.output[0]
    shape = network.graph.known_shape("result", target)
    network.lies(source)
    placed = [Place(placement, order) for placement in network.placements[source]
              if (order := order_behind(node, placement.shape, shape, placement.order)) is not None]
    if not placed:
        before = network.graph.known_shape("input", source)
        placement = network.at(source, order_to_copy(network, node, before, shape))
        placed = [Place(placement, order_behind(node, before, shape, placement.order))]
    kind = type(placed[0].placement)
    network.placements[target] = [kind(place.placement.tensor, shape, place.order) for place in placed]


def order_to_copy(network, node, before, after):
    """The order in which a view can be had of what it reads: one that gives its result as it is wanted, or the model's."""
    wanted = network.wanted.get(node.output[0])
    order = layouts.reshaped(after, before, wanted) if wanted is not None else None
    if order is not None and layouts.reshaped(before, after, order) is not None:
        return order
    return layouts.identity(len(before))


class Place:
    """A placement of what a view reads, and the order of the view of it."""

    def __init__(self, placement, order):
        self.placement, self.order = placement, order


def order_behind(node, before, after, order):
    """How a view's result lies where what it reads lies in `order`; None where it would have to be moved."""
    if node.op_type == "Transpose":
        return layouts.transposed(order, permutation(node, len(before)))
    return layouts.reshaped(before, after, order)


def wish(graph, node, wanted):
    """The order in which a view would best have what it reads, its result being wanted in `wanted`, or None."""
    before, after = graph.shape(node.input[0]), graph.shape(node.output[0])
    if before is None or after is None:
        return None
    if node.op_type == "Transpose":
        return wanted and layouts.before_transposition(wanted, permutation(node, len(before)))
    order = layouts.reshaped(after, before, wanted) if wanted else None
    if order is not None:
        return order
    last = layouts.channels_last(len(before))
    return None if layouts.reshaped(before, after, last) is not None else layouts.identity(len(before))


# ---- Parts of tensors


def slices(graph, node):
    """(axis, [(result, first, count)]) of a Split or a Slice along one axis, or None."""
    shape = graph.known_shape("input", node.input[0])
    if node.op_type == "Split":
        axis, first, parts = attribute_values(node).get("axis", 0) % len(shape), 0, []
        for name in node.output:
            count = graph.known_shape("result", name)[axis] if name else None
            if count is None:
                return None
            parts.append((name, first, count))
            first += count
        return axis, parts
    bounds = bounds_of(graph, node, len(shape))
    if bounds is None:
        return None
    after = graph.known_shape("result", node.output[0])
    changed = [axis for axis in range(len(shape)) if after[axis] != shape[axis]]
    if len(changed) != 1 or any(step != 1 for _, step in bounds.values()):
        return None
    axis = changed[0]
    first = bounds[axis][0]
    first = min(max(first + shape[axis] if first < 0 else first, 0), shape[axis])
    return axis, [(node.output[0], first, after[axis])]


def bounds_of(graph, node, rank):
    """{axis: (start, step)} of a Slice, or None where they are not constants."""
    values = attribute_values(node)
    if "starts" in values:
        starts, axes, steps = values["starts"], values.get("axes"), None
    else:
        names = [input_name(node, place) for place in (1, 3, 4)]
        if any(name and name not in graph.constants for name in names):
            return None
        starts, axes, steps = (graph.value(name).tolist() if name else None for name in names)
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    return {int(axis) % rank: (int(start), int(step)) for axis, start, step in zip(axes, starts, steps)}


def leads(shape, order, axis):
    """Whether parts along an axis are whole pieces of memory."""
    return shape[axis] == 1 or layouts.moving(shape, order)[:1] == [axis]


def add_parts(network, node):
    source = node.input[0]
    if source in network.graph.constants:
        return False
    try:
        found = slices(network.graph, node)
    except NodeError:
        return False
    if found is None:
        return False
    axis, parts = found
    for placement in network.placements[source]:
        if leads(placement.shape, placement.order, axis):
            for name, first, count in parts:
                add_part(network, placement, name, axis, first, count)
            return True
    return False


def add_part(network, placement, name, axis, first, count):
    shape = [count if at == axis else size for at, size in enumerate(placement.shape)]
    row = math.prod(size for at, size in enumerate(placement.shape) if at != axis) * placement.tensor.dtype.itemsize
    whole, offset = placement.tensor, first * row
    while whole.view:
        whole, offset = whole.view[0], whole.view[1] + offset
    tensor = network.new_tensor(name, placement.tensor.dtype, shape, placement.order)
    tensor.view = (whole, offset)
    network.placements[name] = [type(placement)(tensor, shape, placement.order)]
    network.views += 1


def add_concat(network, node):
    """Whether all parts could be made where they belong: each is the only thing that a step wrote into its tensor."""
    names, result = list(node.input), node.output[0]
    if len(set(names)) != len(names) or any(name in network.graph.constants for name in names):
        return False
    shape = network.graph.known_shape("result", result)
    axis = attribute_values(node).get("axis", 1) % len(shape)
    order = network.lies(names[0])
    placements = []
    for name in names:
        if len(network.placements[name]) != 1:
            return False
        placements.append(network.placements[name][0])
    if not leads(shape, order, axis) or not all(is_free(network, placement, order) for placement in placements) or \
            len({id(placement.tensor) for placement in placements}) != len(placements):
        return False
    whole = network.make(result, order)
    offset = 0
    for placement in placements:
        placement.tensor.view = (whole, offset)
        offset += placement.tensor.bytes()
    network.views += 1
    return True


def is_free(network, placement, order):
    """Whether a tensor can be put anywhere: a step writes it, and nothing else is known of where it lies."""
    tensor = placement.tensor
    viewed = any(other.view and other.view[0] is tensor for other in network.tensors)
    written = any(tensor.number in step.get("outputs", [step.get("y")]) for step in network.steps)
    return written and not viewed and not (tensor.is_input or tensor.constant or tensor.view or tensor.output) \
        and layouts.same(placement.shape, placement.order, order) and tensor.bytes() == int(
            np.prod(placement.shape, dtype=np.int64)) * tensor.dtype.itemsize
