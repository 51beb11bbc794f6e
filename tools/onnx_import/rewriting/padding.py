"""Pads in front of what pads by itself: exporters of TensorFlow's and PyTorch's models write them as nodes of their own. And Slices
behind convolutions that take off the ends of an axis: a causal one may pad both sides and have the end cut off, and a transposed
one is cut to the size that it is wanted in. The convolution makes what is left alone."""

import numpy as np
import onnx

from networks.views import bounds_of
from rewriting.repeated import without_unread_nodes
from terms import BYTES, LOWEST, MOVING, NodeError, attribute_values, copied, input_name, is_onnx

READERS = ("Conv", "MaxPool", "AveragePool")
# What may stand between: a turn, or floats being made of bytes that are padded.
BETWEEN = ("Transpose", "DequantizeLinear")
# Operators whose results are never below 0, and such as give elements of what they read, or means of them.
NOT_NEGATIVE = {"Relu", "Sigmoid", "HardSigmoid", "Softmax", "Softplus", "Abs", "Exp", "Sqrt"}
SELECTING = {*MOVING, "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "Slice", "Split"}


def with_own_pads(graph):
    """Lets convolutions and pools pad what Pads in front of them do, a Transpose or a DequantizeLinear between or not."""
    replaced, turned = {}, set()
    for node in graph.nodes:
        if not is_onnx(node) or node.op_type not in READERS or not node.input:
            continue
        try:
            nodes = joined(graph, node, turned)
        except NodeError:  # a constant that cannot be computed: whoever takes the node tells it
            continue
        if nodes:
            replaced[id(node)] = nodes
    if replaced:
        graph.set_nodes([part for node in graph.nodes for part in replaced.get(id(node), [node])])
        without_unread_nodes(graph)


def joined(graph, node, turned):
    """The nodes in the place of one that reads a Pad, or None. `turned` are results of Transposes that are there already."""
    between, pad = None, graph.makers.get(node.input[0])
    if pad is not None and is_onnx(pad) and pad.op_type in BETWEEN:
        between, pad = pad, graph.makers.get(pad.input[0])
    if pad is None or not is_onnx(pad) or pad.op_type != "Pad":
        return None
    begin, end, fill = pads_of(graph, pad)
    source, nodes, order, is_least = pad.input[0], [], list(range(len(begin))), is_least_byte(graph, pad, fill)
    if between is not None:
        source = f"{between.output[0]}/unpadded"
        if between.op_type == "Transpose":
            order = list(attribute_values(between).get("perm", order[::-1]))
            begin, end = [begin[axis] for axis in order], [end[axis] for axis in order]
        else:
            fill = dequantised(graph, between, fill)
    if node.op_type == "MaxPool" and (is_least or (fill <= 0 and is_not_negative(graph, pad.input[0]))):
        fill = LOWEST
    attributes = padding(graph, node, begin, end, fill)
    if attributes is None:
        return None
    if between is not None and source not in turned:
        turned.add(source)
        shape = graph.known_shape("input", pad.input[0])
        graph.set_type(source, graph.element_type(between.output[0]), [shape[axis] for axis in order])
        nodes.append(copied(between, [pad.input[0], *between.input[1:]], [source]))
    whole = onnx.helper.make_node(node.op_type, [source, *node.input[1:]], list(node.output), node.name)
    whole.attribute.extend(item for item in node.attribute if item.name not in attributes and item.name != "auto_pad")
    whole.attribute.extend(onnx.helper.make_attribute(name, value) for name, value in attributes.items())
    return [*nodes, whole]


def dequantised(graph, node, byte):
    """What a DequantizeLinear makes of a byte: 0 or some other number."""
    points = graph.value(node.input[2]) if input_name(node, 2) else np.zeros(1)
    return 0.0 if np.size(points) == 1 and np.all(points == byte) else np.nan


def is_least_byte(graph, pad, fill):
    kind = graph.element_type(pad.input[0])
    return kind in BYTES and fill == (-128 if kind == "INT8" else 0)


def is_not_negative(graph, name):
    """Whether a value's elements are 0 or more for certain: none of them is less than a pad of 0."""
    while (node := graph.makers.get(name)) is not None and is_onnx(node):
        if node.op_type == "Clip":
            low = attribute_values(node).get("min", -1) if graph.opset < 11 else \
                graph.value(node.input[1]) if input_name(node, 1) in graph.constants else -1
            return np.size(low) > 0 and bool(np.all(np.asarray(low) >= 0))
        if node.op_type not in SELECTING:
            return node.op_type in NOT_NEGATIVE
        name = node.input[0]
    return False


def pads_of(graph, pad):
    """(what a Pad puts in front of each axis, behind it, its number). NodeError: it does something else, or it is not known."""
    attributes, rank = attribute_values(pad), len(graph.known_shape("input", pad.input[0]))
    if attributes.get("mode", b"constant") != b"constant":
        raise NodeError("it pads by what is there")
    if "pads" in attributes:
        pads, fill = attributes["pads"], attributes.get("value", 0.0)
    else:
        values = [graph.value(name) if name in graph.constants else None for name in (input_name(pad, 1), input_name(pad, 2))]
        if values[0] is None or (values[1] is None and input_name(pad, 2)) or input_name(pad, 3):
            raise NodeError("its pads are not constants")
        pads, fill = values[0].tolist(), 0.0 if values[1] is None or values[1].size == 0 else float(values[1].reshape(-1)[0])
    if len(pads) != 2 * rank or min(pads) < 0:
        raise NodeError("it takes something away")
    return list(pads[:rank]), list(pads[rank:]), fill


def padding(graph, node, begin, end, fill):
    """The attributes by which the node pads that itself, or None where it cannot."""
    attributes, points = attribute_values(node), len(begin) - 2
    if any([*begin[:2], *end[:2]]) or attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID") or points < 1:
        return None
    own = list(attributes.get("pads", [])) if attributes.get("auto_pad", b"NOTSET") == b"NOTSET" else []
    own = own or [0] * 2 * points
    pads = [int(number) + more for number, more in zip(own, [*begin[2:], *end[2:]])]
    if node.op_type == "Conv":
        return {"pads": pads} if fill == 0 else None
    kernel = list(attributes.get("kernel_shape", []))
    reach = [(size - 1) * step for size, step in zip(kernel, attributes.get("dilations", [1] * points))]
    if attributes.get("ceil_mode", 0) or any(node.output[1:]) or not kernel or any(
            number > most for number, most in zip(pads, reach * 2)):  # a window may be of pads alone
        return None
    if node.op_type == "MaxPool":
        return {"pads": pads} if fill <= LOWEST else None
    counts = not any(own) or attributes.get("count_include_pad", 0)
    return {"pads": pads, "count_include_pad": 1} if fill == 0 and counts else None


def with_own_crops(graph):
    """Changes the pads of each Conv and ConvTranspose that a Slice alone reads, as far as pads can be changed so."""
    changed = True
    while changed:  # a Slice takes off one axis's ends, the next one another's
        changed = False
        for node in graph.nodes:
            try:
                if is_onnx(node) and node.op_type == "Slice" and node.input and take_crop(graph, node):
                    changed = True
                    break
            except NodeError:  # a constant that cannot be computed: whoever takes the node tells it
                continue


def take_crop(graph, crop):
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
    pads = cropping_pads(graph, node, begins[2:], after[2:])
    if pads is None:
        return False
    whole = copied(node, outputs=[crop.output[0]])
    kept = [item for item in whole.attribute if item.name not in ("pads", "auto_pad", "output_padding")]
    del whole.attribute[:]
    whole.attribute.extend([*kept, onnx.helper.make_attribute("pads", pads)])
    graph.set_nodes([whole if part is node else part for part in graph.nodes if part is not crop])
    return True


def cropping_pads(graph, node, begins, sizes):
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
