"""A convolution of the model, and the table of a layers file that it becomes."""

import os

import numpy as np
import onnx

from terms import ATTRIBUTES, DIALECTS, FUSIBLE, INPUTS, NHWC, NodeError, attribute_values, input_name

# That has convolutions of bfloat16.
OPSET_OF_BFLOAT16 = 22


class Layer:
    """A convolution with what was found around it."""

    def __init__(self, node, position, name):
        self.node, self.position, self.name = node, position, name
        self.nodes = [node]  # that it is made of
        self.end = node.output[0]  # the value that what was fused so far ends in
        self.inputs = {role: input_name(node, index) for role, index in INPUTS[node.op_type].items()}
        self.affine = []  # (factor, shift), arrays of one number an output channel, to be folded into weights and bias
        self.residual = ""  # the tensor that is summed
        self.activation = None  # (name, parameters)
        self.has_bytes = False  # between DequantizeLinear, so that it may have a quantisation
        self.quantization = None  # a layer's table of that name
        self.bias_values = None  # in place of the node's own

    def is_transposed(self):
        return self.node.op_type == "ConvTranspose"

    def is_fusible(self):
        return self.node.op_type in FUSIBLE and not self.activation

    def has_channels_last(self):
        return self.node.domain == NHWC

    def out_channels(self, graph):
        w = graph.known_shape("weights", self.inputs["w"])
        return w[1] * attribute_values(self.node).get("group", 1) if self.is_transposed() else w[0]

    def has_bias(self):
        return bool(self.inputs.get("bias")) or self.bias_values is not None or any(shift.any() for _, shift in self.affine)


def opset_of(graph, layer):
    """The model's; of bfloat16 ONNX had products of matrices before it had convolutions."""
    is_product = layer.node.output[0] in graph.products and graph.element_type(layer.inputs["x"]) == "BFLOAT16"
    return max(graph.opset, OPSET_OF_BFLOAT16) if is_product else graph.opset


def layer_table(graph, layer, weights_folder):
    """The layer as a layers file's [[layer]]."""
    table = {"name": layer.name, "operator": layer.node.op_type, "dialect": DIALECTS[layer.node.domain]}
    sizes = graph.open_shape(layer.inputs["x"]) or graph.known_shape("input", layer.inputs["x"])
    table["x"] = ["?" if size is None else size for size in sizes]
    table["w"] = graph.known_shape("weights", layer.inputs["w"])
    table["dtype"] = graph.dtype(layer.inputs["x"])
    check_types(graph, layer)
    if layer.has_channels_last() and not layer.is_transposed():
        # Its document has ConvTranspose alone; the others are ONNX's with other layouts.
        table["dialect"], table["opset"] = "onnx", 11
        table["x"] = [table["x"][0], table["x"][-1], *table["x"][1:-1]]
        table["layouts"] = {"x": "NXC", "y": "NXC"}
    elif table["dialect"] == "onnx":
        table["opset"] = opset_of(graph, layer)
    if layer.node.op_type == "DeformConv":
        table["offset"] = True
    if layer.has_bias():
        table["bias"] = True
    if layer.inputs.get("mask"):
        table["mask"] = True
    if layer.residual:
        table["residual"] = True
    if layer.activation:
        table["activation"], parameters = layer.activation
        if parameters:
            table["activation_params"] = parameters
    if layer.quantization:
        table["quantization"] = layer.quantization
    add_attributes(table, layer.node)
    table["source"] = source(layer)
    if weights_folder:
        write_weights(graph, table, layer, weights_folder)
    return table


def check_types(graph, layer):
    """All tensors of a layer of floats are of one type, as its document says."""
    own = graph.element_type(layer.inputs["x"])
    for role, name in layer.inputs.items():
        other = graph.element_type(name) if name and not layer.quantization else None
        if other not in (None, own):
            raise NodeError(f'its {role} "{name}" is of type {other}, its x "{layer.inputs["x"]}" of {own}: they must be of one type')


def source(layer):
    """Where the layer stands in the model: its node, what it reads by the names of a layer's inputs, what it ends in."""
    inputs = {**layer.inputs, "residual": layer.residual}
    if layer.node.op_type == "DeformConv":
        inputs["offset"] = input_name(layer.node, 2)
    return {"node": layer.node.name, "operator": layer.node.op_type, "output": layer.end,
            "inputs": {role: name for role, name in inputs.items() if name}}


def add_attributes(table, node):
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if node.domain == NHWC and attribute.name in ("activation", "activation_params"):
            continue  # told by Kiln's own keys
        if attribute.name not in ATTRIBUTES:
            raise NodeError(f"unknown attribute {attribute.name}")
        if isinstance(value, bytes):
            value = value.decode("utf-8", errors="replace")
        if not isinstance(value, (int, float, str, list)) or \
                (isinstance(value, list) and not all(isinstance(item, (int, float)) for item in value)):
            kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
            raise NodeError(f"attribute {attribute.name} is of type {kind}")
        if not isinstance(value, str) and not np.isfinite(value).all():
            raise NodeError(f"{attribute.name} is {value}: its numbers must be finite")
        table[attribute.name] = value


def write_weights(graph, table, layer, folder):
    """Writes what is constant of the weights and the bias, with what is folded into them."""
    weights, bias = constant(graph, layer.inputs["w"]), layer.bias_values
    if bias is None:
        bias = constant(graph, layer.inputs.get("bias"))
    for factor, shift in layer.affine:
        weights, bias = scaled(layer, weights, factor), (0 if bias is None else bias) * factor + shift
    for key, suffix, value in (("weights", "w", weights), ("bias_values", "b", bias)):
        if value is None or (key == "bias_values" and not layer.has_bias()):
            continue
        stored = as_stored(value, value.dtype if layer.quantization else table["dtype"])
        if layer.affine and not np.isfinite(as_float(stored, table["dtype"])).all():
            raise NodeError(f"{key} with what is folded into it does not fit {table['dtype']}", "unsupported")
        own = None if layer.affine or (suffix == "b" and layer.bias_values is not None) else \
            (layer.inputs["w" if suffix == "w" else "bias"], stored.dtype)
        path = graph.files.get(own) or os.path.join(os.path.abspath(folder), f"{file_stem(layer)}.{suffix}.npy")
        if own not in graph.files:
            np.save(path, stored)
        if own is not None:
            graph.files[own] = path
        table[key] = path


def file_stem(layer):
    """The layer's name, unless that is longer than a file's may be."""
    return layer.name if len(layer.name) <= 100 else f"{layer.name[:100]}.{layer.position}"


def constant(graph, name):
    return graph.value(name) if name in graph.constants else None


def scaled(layer, weights, factor):
    if weights is None or (factor == 1).all():
        return weights
    weights = np.asarray(weights, np.float64)
    if not layer.is_transposed():
        return weights * factor.reshape(-1, *[1] * (weights.ndim - 1))
    # (C, M / group, ...): the output channels of group g belong to input channels [g * C / group, ...).
    group = attribute_values(layer.node).get("group", 1)
    blocks = weights.reshape(group, weights.shape[0] // group, weights.shape[1], -1)
    return (blocks * factor.reshape(group, 1, -1)[..., None]).reshape(weights.shape)


def as_float(stored, dtype):
    """What as_stored() made, in numbers."""
    return (stored.astype(np.uint32) << 16).view(np.float32) if dtype == "bfloat16" else stored


def as_stored(value, dtype):
    """An array as a .npy file holds it; bfloat16 travels as its bits."""
    if dtype != "bfloat16":
        return np.ascontiguousarray(value, dtype)
    value = np.ascontiguousarray(np.asarray(value).astype(np.float32))
    bits = value.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # to the nearest, ties to even
    return np.where(np.isnan(value), 0x7FC0, rounded).astype(np.uint16)
