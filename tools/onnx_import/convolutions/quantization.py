"""Quantisation, as a layer's table of that name: of operators that have it themselves, and of float operators between
DequantizeLinear and QuantizeLinear."""

import numpy as np

from reading.folding import evaluate
from reading.graph import onnx_type, one_number, per_channel
from terms import BYTES, DTYPES, MOVING, NodeError, attribute_values, copied, input_name, is_onnx


def of_inputs(graph, layer, places):
    """The quantization that an operator has in its own inputs, at these places, in the order of the keys."""
    table = {}
    keys = ("x_scale", "x_zero_point", "w_scale", "w_zero_point", "y_scale", "y_zero_point")
    for key, index in zip(keys, places):
        name = input_name(layer.node, index)
        if not name:
            continue
        if name not in graph.constants and key == "x_zero_point" and layer.node.op_type == "ConvInteger":
            table[key] = "?"  # as DynamicQuantizeLinear makes one: the layer's function takes it
            continue
        if name not in graph.constants:
            why = ", but weights are packed with theirs" if key == "w_zero_point" else ""
            raise NodeError(f'its {key} "{name}" is not a constant{why}', "unsupported")
        value = graph.value(name)
        if key == "y_zero_point":
            table["y_dtype"] = DTYPES.get(onnx_type(value), onnx_type(value))
        table[key] = per_channel(value) if key.startswith("w_") else one_number(key, value)
    table["w_dtype"] = graph.dtype(layer.inputs["w"])
    return table


def dequantizer(graph, name):
    """The DequantizeLinear that makes a value, or None."""
    node = graph.makers.get(name)
    return node if node is not None and is_onnx(node) and node.op_type == "DequantizeLinear" else None


def dequantizer_of_weights(graph, name):
    """The DequantizeLinear that makes a constant, where it is moved behind one of the moved bytes; None where there is none."""
    moves = []
    while (maker := graph.makers.get(name)) is not None and is_onnx(maker) and maker.op_type in MOVING:
        moves.append(maker)
        name = maker.input[0]
    node = dequantizer(graph, name)
    if node is None or not moves or not all(item in graph.constants for item in node.input if item):
        return node
    value, axis = np.asarray(graph.value(node.input[0])), attribute_values(node).get("axis", 1)
    count = graph.value(node.input[1]).size
    if count > 1 and (not -value.ndim <= axis < value.ndim or value.shape[axis] != count):
        return None
    places = np.broadcast_to(along(axis % value.ndim, count, value.ndim) if count > 1 else 0, value.shape)
    for move in reversed(moves):
        value, places = (moved(graph, move, array) for array in (value, places))
    return of_moved_bytes(graph, node, moves[0].output[0], value, places, count)


def moved(graph, node, value):
    """What a node that moves elements makes of these."""
    numbers = {name: graph.value(name) for name in node.input[1:] if name}
    return np.asarray(evaluate(node, {node.input[0]: value, **numbers}, graph.opsets)[0])


def along(axis, count, rank):
    """0, 1, ... along an axis."""
    return np.arange(count).reshape([-1 if other == axis else 1 for other in range(rank)])


def of_moved_bytes(graph, node, name, value, places, count):
    """A DequantizeLinear like a node, of moved bytes: `places` tell each one's scale, which must follow one axis."""
    axes = [axis for axis in range(value.ndim) if count > 1 and value.shape[axis] == count
            and (places == along(axis, count, value.ndim)).all()]
    if count > 1 and not axes:
        return None
    made = f"{name}/bytes"
    if made not in graph.constants:
        graph.add_constant(made, np.ascontiguousarray(value))
    result = copied(node, [made, *node.input[1:]], [name])
    for attribute in result.attribute:
        if attribute.name == "axis" and axes:
            attribute.i = axes[0]
    return result


def has_bytes(graph, layer):
    """Whether x and the weights are dequantised, so that it can be a layer of bytes, which adds no other tensor to its sums."""
    dequantize = dequantizer(graph, layer.inputs["x"])
    try:
        return dequantize is not None and bool(of_dequantizers(graph, layer, dequantize))
    except NodeError:
        return False


def of_dequantizers(graph, layer, dequantize):
    """(inputs by role, quantization table, the bias in multiples of the sums' scale or None, whether that had to be rounded):
    what is folded into the layer changes the weights' scales, and the bias."""
    if layer.node.op_type not in ("Conv", "ConvTranspose") or layer.has_channels_last():
        raise NodeError(f"{layer.node.op_type} takes no 8-bit tensors")
    if graph.element_type(layer.inputs["x"]) != "FLOAT":
        raise NodeError(f"it is dequantised to {graph.element_type(layer.inputs['x'])}")
    weights = dequantizer_of_weights(graph, layer.inputs["w"])
    if weights is None:
        raise NodeError("its weights are not")
    x_scale, x_zero_point = scale_and_zero_point(graph, "its input", dequantize)
    w_scale, w_zero_point = scale_and_zero_point(graph, "the weights", weights)
    axis = 1 if layer.is_transposed() else 0
    w_scale, w_zero_point = (over_channels(graph, layer, weights, value, axis) for value in (w_scale, w_zero_point))
    inputs = {**layer.inputs, "x": dequantize.input[0], "w": weights.input[0]}
    values, rounded = None, False
    if inputs["bias"]:
        values, rounded = integer_bias(graph, inputs["bias"], sums_scale(x_scale, w_scale))
    if layer.affine:
        factor, shift = folded(layer.affine)
        if (factor != 1).any():
            w_scale = np.float32(np.asarray(w_scale, np.float64) * factor).tolist()
        if shift.any():
            values = (0 if values is None else values) + shift / sums_scale(x_scale, w_scale)
            values, rounded = rounded_bias(values), True
    table = {"x_scale": one_number("x_scale", x_scale), "x_zero_point": one_number("x_zero_point", x_zero_point),
             "w_scale": w_scale, "w_zero_point": w_zero_point, "w_dtype": graph.dtype(inputs["w"])}
    return inputs, table, values, rounded


def sums_scale(x_scale, w_scale):
    return one_number("x_scale", x_scale) * np.asarray(w_scale, np.float64)


def folded(affine):
    """(factor, shift) of what changes channels by several of them, one after the other."""
    factor, shift = 1.0, 0.0
    for other, more in affine:
        factor, shift = factor * other, shift * other + more
    return factor, shift


def scale_and_zero_point(graph, what, node):
    """Those of a node that quantises or not, as arrays. NodeError: they are not constant, or not of 8 bits."""
    quantized = node.input[0] if node.op_type == "DequantizeLinear" else node.output[0]
    if graph.element_type(quantized) not in BYTES:
        raise NodeError(f"{what} is quantised to {graph.element_type(quantized) or 'an unknown type'}")
    if attribute_values(node).get("block_size", 0):
        raise NodeError(f"{what} is quantised in blocks")
    names = list(node.input[1:3])
    if not all(name in graph.constants for name in names if name):
        raise NodeError(f"scale and zero point of {what} are not constants")
    scale = graph.value(names[0])
    zero_point = graph.value(names[1]) if len(names) > 1 and names[1] else np.zeros(scale.shape, np.int8)
    return np.asarray(scale), np.asarray(zero_point)


def over_channels(graph, layer, node, value, axis):
    """What the weights' scales or zero points are of each output channel."""
    if value.size == 1:
        return per_channel(value)
    rank = len(graph.known_shape("weights", node.input[0]))
    if value.ndim != 1 or attribute_values(node).get("axis", 1) % rank != axis:
        raise NodeError("the weights are quantised along another axis than the output channels")
    groups = attribute_values(layer.node).get("group", 1) if layer.is_transposed() else 1
    return per_channel(np.tile(value, groups))


def integer_bias(graph, name, scale):
    """(a constant bias in multiples of the sums' scale, as int32; whether it had to be rounded to them)."""
    node = dequantizer(graph, name)
    if name not in graph.constants:
        raise NodeError("its bias is not a constant")
    if node is not None and graph.element_type(node.input[0]) == "INT32":
        own = np.asarray(graph.value(node.input[1]), np.float64)
        has_zero_point = input_name(node, 2) and graph.value(node.input[2]).any()
        comparable = own.size == scale.size or 1 in (own.size, scale.size)
        if not has_zero_point and comparable and np.allclose(own, scale, rtol=1e-6, atol=0):
            return graph.value(node.input[0]), False
    return rounded_bias(np.asarray(graph.value(name), np.float64) / scale), True


def rounded_bias(values):
    values = np.round(values)
    if not (np.abs(values) < 2 ** 31).all():
        raise NodeError("its bias does not fit int32 in multiples of x_scale * w_scale")
    return values.astype(np.int32)


def of_quantizer(graph, node):
    """The keys of a quantization that a QuantizeLinear stands for. NodeError: a layer cannot do it."""
    scale, zero_point = scale_and_zero_point(graph, "its output", node)
    return {"y_scale": one_number("y_scale", scale), "y_zero_point": one_number("y_zero_point", zero_point),
            "y_dtype": DTYPES[graph.element_type(node.output[0])]}
