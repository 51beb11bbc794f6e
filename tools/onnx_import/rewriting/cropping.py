"""Slices behind convolutions that take off the ends of an axis: a causal one may pad both sides and have the end cut off, and a
transposed one is cut to the size that it is wanted in. The convolution makes what is left alone."""

import onnx

from networks.views import bounds_of
from terms import NodeError, attribute_values, copied, input_name, is_onnx


def with_own_crops(graph):
    """Changes the pads of each Conv and ConvTranspose that a Slice alone reads, as far as pads can be changed so."""
    changed = True
    while changed:  # a Slice takes off one axis's ends, the next one another's
        changed = False
        for node in graph.nodes:
            try:
                if is_onnx(node) and node.op_type == "Slice" and node.input and take(graph, node):
                    changed = True
                    break
            except NodeError:  # a constant that cannot be computed: whoever takes the node tells it
                continue


def take(graph, crop):
    """Whether the Slice became part of the convolution in front of it."""
    node = graph.makers.get(crop.input[0])
    if node is None or not is_onnx(node) or node.op_type not in ("Conv", "ConvTranspose") or len(node.input) < 2 \
            or graph.only_reader(crop.input[0]) is not crop:
        return False
    before, after = (graph.known_shape("result", part.output[0]) for part in (node, crop))
    bounds = bounds_of(graph, crop, len(before))
    if bounds is None or 0 in after or any(step != 1 for _, step in bounds.values()) or before[:2] != after[:2]:
        return False
    begins = [bounds.get(axis, (0, 1))[0] for axis in range(len(before))]
    begins = [max(begin + size if begin < 0 else begin, 0) for begin, size in zip(begins, before)]
    pads = pads_of(graph, node, begins[2:], after[2:])
    if pads is None:
        return False
    whole = copied(node, outputs=[crop.output[0]])
    kept = [item for item in whole.attribute if item.name not in ("pads", "auto_pad", "output_padding")]
    del whole.attribute[:]
    whole.attribute.extend([*kept, onnx.helper.make_attribute("pads", pads)])
    graph.set_nodes([whole if part is node else part for part in graph.nodes if part is not crop])
    return True


def pads_of(graph, node, begins, sizes):
    """The pads with which a convolution makes these parts of its result alone, or None."""
    attributes, points = attribute_values(node), len(sizes)
    if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID") or "output_shape" in attributes:
        return None
    x, kernel = graph.known_shape("input", node.input[0])[2:], graph.known_shape("weights", input_name(node, 1))[2:]
    strides, dilations = (list(attributes.get(name, [1] * points)) for name in ("strides", "dilations"))
    own = [0] * 2 * points
    if attributes.get("auto_pad", b"NOTSET") == b"NOTSET":
        own = list(attributes.get("pads", own))
    low, high = [], []
    for axis in range(points):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        if node.op_type == "Conv":
            low.append(own[axis] - begins[axis] * strides[axis])
            high.append((sizes[axis] - 1) * strides[axis] + reach - x[axis] - low[-1])
            if -strides[axis] < high[-1] < 0:
                high[-1] = 0  # what a stride leaves over at the end is read by no window
        else:
            low.append(own[axis] + begins[axis])
            high.append((x[axis] - 1) * strides[axis] + reach - low[-1] - sizes[axis])
            if max(low[-1], high[-1]) >= reach:  # whole elements of x would be read by nothing
                return None
    return [*low, *high] if min([*low, *high]) >= 0 else None
