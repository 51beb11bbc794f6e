#!/usr/bin/env python3
"""Reads an ONNX model and writes its convolutions as Kiln layers, in JSON.

    onnx_import.py MODEL OUT.json [--weights DIR] [--shape NAME=1x3x224x224]...

OUT.json holds {"name", "layers", "notes", "failures"}: layers are tables as in a layers file, with "weights" and
"bias_values" paths where --weights names a folder for them; notes say what was folded, fused, renamed and skipped;
failures are convolutions that could not be made layers of, {"layer", "code", "message"}.

Exit status: 0; 1, the model is not usable (the message is on stderr); 2, usage; 3, there is no `onnx` package.
"""

import argparse
import collections
import json
import os
import re
import sys

try:
    import numpy as np
    import onnx
    import onnx.external_data_helper
    import onnx.reference
    import onnx.shape_inference
    from google.protobuf.message import DecodeError
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(3)

# Operators that are layers, with where their inputs are: x, w, bias, mask.
INPUTS = {
    "Conv": {"x": 0, "w": 1, "bias": 2},
    "ConvTranspose": {"x": 0, "w": 1, "bias": 2},
    "DeformConv": {"x": 0, "w": 1, "bias": 3, "mask": 4},
    "ConvInteger": {"x": 0, "w": 1},
    "QLinearConv": {"x": 0, "w": 3, "bias": 8},
}
# Those whose result is a sum of products, so that scales and sums behind them can be fused.
FUSIBLE = ("Conv", "ConvTranspose", "DeformConv")
DIALECTS = {"": "onnx", "ai.onnx": "onnx", "com.ms.internal.nhwc": "ms-nhwc"}
ATTRIBUTES = {"auto_pad", "dilations", "group", "kernel_shape", "offset_group", "output_padding", "output_shape",
              "pads", "strides", "activation", "activation_params"}
DTYPES = {"FLOAT": "float32", "DOUBLE": "float64", "FLOAT16": "float16", "BFLOAT16": "bfloat16", "INT8": "int8",
          "UINT8": "uint8"}
# Operators that do not give the same result twice.
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
# Larger constants are not computed: no weights are that large, and a fill's size is only a number in the file.
MAX_CONSTANT_ELEMENTS = 1 << 28
LOWEST, HIGHEST = float(np.finfo(np.float32).min), float(np.finfo(np.float32).max)


class ModelError(Exception):
    """The model as a whole is not usable."""


class NodeError(Exception):
    """One node cannot be made a layer of."""

    def __init__(self, message, code="invalid_argument"):
        super().__init__(message)
        self.code = code


# ---- Loading ------------------------------------------------------------------------------------------------------


def load_model(path):
    """The model, its external data left where it is but checked to lie in the model's folder."""
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    except (DecodeError, ValueError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} is not an ONNX model, or is cut short: {error}") from error
    if not model.opset_import or not model.graph.node:
        raise ModelError(f"{path} is not an ONNX model, or is cut short: it holds "
                         + ("no nodes" if model.opset_import else "no operator set"))
    folder = os.path.dirname(os.path.abspath(path))
    if model.functions:
        from onnx import inliner  # not in releases before 1.15

        model = inliner.inline_local_functions(model)
    for tensor in all_tensors(model.graph):
        if onnx.external_data_helper.uses_external_data(tensor):
            check_external_data(path, folder, tensor)
    drop_initializer_inputs(model)
    return model, folder


def drop_initializer_inputs(model):
    """Before version 4 initializers had to be inputs too, which a caller could override; here they are constants."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)


def all_tensors(graph):
    """Every tensor of a graph: initializers and attributes, in the bodies of its nodes too."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for inner in subgraphs(node):
            yield from all_tensors(inner)


def check_external_data(path, folder, tensor):
    location = onnx.external_data_helper.ExternalDataInfo(tensor).location
    data = os.path.realpath(os.path.join(folder, location))
    if os.path.commonpath([os.path.realpath(folder), data]) != os.path.realpath(folder):
        raise ModelError(f'{path}: tensor "{tensor.name}" keeps its data in "{location}", outside the model\'s '
                         "folder: refused")
    if not os.path.isfile(data):
        raise ModelError(f'{path}: tensor "{tensor.name}" keeps its data in "{location}", which is not there')


def parse_shapes(texts):
    """{"data": [1, 3, 224, 224]} of ["data=1x3x224x224"]."""
    shapes = {}
    for text in texts:
        name, separator, sizes = text.rpartition("=")
        if not separator or not re.fullmatch(r"\d+(x\d+)*", sizes):
            raise ModelError(f"--shape {text}: write it like --shape INPUT=1x3x224x224")
        shapes[name] = [int(size) for size in sizes.split("x")]
    return shapes


def set_shapes(path, graph, shapes):
    """Gives inputs the shapes the user says; what the file says of anything computed from them no longer holds."""
    inputs = {value.name: value for value in graph.input}
    for name, sizes in shapes.items():
        if name not in inputs:
            raise ModelError(f'{path} has no input "{name}" to give a shape: its inputs are '
                             + ", ".join(f'"{known}"' for known in inputs))
        tensor = inputs[name].type.tensor_type
        if tensor.HasField("shape") and len(tensor.shape.dim) != len(sizes):
            raise ModelError(f"--shape {name}={'x'.join(map(str, sizes))}: the model says it has "
                             f"{len(tensor.shape.dim)} dimensions, {shape_text(tensor)}")
        tensor.shape.Clear()
        for size in sizes:
            tensor.shape.dim.add().dim_value = size
    if shapes:
        del graph.value_info[:]
        for output in graph.output:
            output.type.tensor_type.ClearField("shape")


def infer_shapes(model, folder):
    """The model with the shape of every value that can be known; initializers count as constants."""
    for tensor in model.graph.initializer:
        # Shapes are computed from these; weights stay in their files.
        if onnx.external_data_helper.uses_external_data(tensor) and np.prod(tensor.dims) <= 1024:
            try:
                onnx.external_data_helper.load_external_data_for_tensor(tensor, folder)
            except Exception as error:
                raise ModelError(f'tensor "{tensor.name}" cannot be read from its file: {error}') from error
            del tensor.external_data[:]
            tensor.data_location = onnx.TensorProto.DEFAULT
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # the C++ checker raises several kinds; shapes that the file states are still there
        return model


# ---- The graph ----------------------------------------------------------------------------------------------------


def shape_of(tensor_type):
    """[1, 3, 224, 224], or None if a size is not known."""
    if not tensor_type.HasField("shape"):
        return None
    sizes = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor_type.shape.dim]
    return None if any(size < 0 for size in sizes) else sizes


def shape_text(tensor_type):
    if not tensor_type.HasField("shape"):
        return "no shape"
    return "[" + ", ".join(str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"
                           for dim in tensor_type.shape.dim) + "]"


class Graph:
    """A model's main graph: who makes and who reads each value, the types of values, and constants."""

    def __init__(self, model, folder):
        self.model, self.folder = model, folder
        self.nodes = list(model.graph.node)
        self.outputs = {value.name for value in model.graph.output}
        self.opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
        self.types = {value.name: value.type.tensor_type
                      for group in (model.graph.input, model.graph.output, model.graph.value_info) for value in group}
        self.initializers = {tensor.name: tensor for tensor in model.graph.initializer}
        self.readers = collections.defaultdict(list)
        self.makers = {}
        for node in self.nodes:
            for name in [*node.input, *outer_names(node)]:
                self.readers[name].append(node)
            for name in node.output:
                self.makers[name] = node
        self.constants = set(self.initializers)
        for node in self.nodes:
            if is_foldable(node) and all(name in self.constants for name in node.input if name):
                self.constants.update(name for name in node.output if name)
        self._values = {}

    def shape(self, name):
        """The shape of a value as a list, or None if it is not known."""
        if name in self.initializers:
            return list(self.initializers[name].dims)
        return shape_of(self.types[name]) if name in self.types else None

    def element_type(self, name):
        """"FLOAT", ..., or None if it is not known."""
        if name in self.initializers:
            return onnx.TensorProto.DataType.Name(self.initializers[name].data_type)
        return onnx.TensorProto.DataType.Name(self.types[name].elem_type) if name in self.types else None

    def only_reader(self, name):
        """The node that alone reads a value, or None."""
        readers = self.readers[name]
        return readers[0] if len(readers) == 1 and name not in self.outputs else None

    def value(self, name):
        """The value of a constant, as an array. Raises NodeError where it cannot be computed."""
        if name not in self._values:
            shape = self.shape(name)
            if shape is not None and np.prod(shape, dtype=np.float64) > MAX_CONSTANT_ELEMENTS:
                raise NodeError(f'constant "{name}" of shape {shape} is too large')
            try:
                self._values[name] = self._compute(name)
            except NodeError:
                raise
            except Exception as error:  # whatever the reference implementation of an operator raises
                raise NodeError(f'constant "{name}" cannot be computed: {error}') from error
        return self._values[name]

    def _compute(self, name):
        if name in self.initializers:
            return onnx.numpy_helper.to_array(self.initializers[name], self.folder)
        node = self.makers[name]
        inputs = {item: self.value(item) for item in node.input if item}
        make, type_of = onnx.helper.make_tensor_value_info, onnx.helper.np_dtype_to_tensor_dtype
        infos = [make(item, type_of(value.dtype), value.shape) for item, value in inputs.items()]
        graph = onnx.helper.make_graph([node], "constant", infos, [onnx.ValueInfoProto(name=name)])
        model = onnx.helper.make_model(graph, opset_imports=self.model.opset_import)
        return onnx.reference.ReferenceEvaluator(model).run([name], inputs)[0]


def subgraphs(node):
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def outer_names(node):
    """Every name the bodies of an If, Loop or Scan read, outer values among them."""
    for graph in subgraphs(node):
        for inner in graph.node:
            yield from inner.input
            yield from outer_names(inner)
        yield from (value.name for value in graph.output)


def is_foldable(node):
    return node.domain in ("", "ai.onnx") and node.op_type not in RANDOM and not any(True for _ in subgraphs(node)) \
        and node.op_type not in INPUTS


def is_layer(node):
    return node.op_type in INPUTS and node.domain in DIALECTS and len(node.output) > 0


def attribute_values(node):
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def input_name(node, index):
    return node.input[index] if index is not None and index < len(node.input) else ""


# ---- Names --------------------------------------------------------------------------------------------------------


def to_identifier(text, prefix):
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return f"{prefix}_{name}" if not name or name[0].isdigit() else name


class Names:
    """Makes names C identifiers that stay different in a library's header: it adds to them and has them in capitals."""

    def __init__(self):
        self.taken = {"library"}
        self.renamed, self.collided = [], []

    def _collides(self, name):
        lower = name.lower()
        return any(other in self.taken
                   for suffix in ("_pack", "_args")
                   for other in (lower, lower + suffix, lower.removesuffix(suffix)))

    def unique(self, original):
        base = to_identifier(original, "layer")
        name, count = base, 1
        while self._collides(name):
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name.lower())
        if name != base:
            self.collided.append((original, name))
        elif name != original:
            self.renamed.append((original, name))
        return name

    def notes(self):
        shown = ", ".join(f'"{original}" to {name}' for original, name in self.renamed[:3])
        if self.renamed:
            more = f" and {len(self.renamed) - 3} more likewise" if len(self.renamed) > 3 else ""
            yield f"renamed, to be C identifiers: {shown}{more}"
        for original, name in self.collided:
            yield f'renamed, because another layer has the name: "{original}" to {name}'


# ---- Layers -------------------------------------------------------------------------------------------------------


class Layer:
    """A convolution with what was found behind it."""

    def __init__(self, node, position, name):
        self.node, self.position, self.name = node, position, name
        self.end = node.output[0]  # the value that what was fused so far ends in
        self.normalizations = []
        self.residual = False
        self.activation = None  # (name, parameters)

    def input(self, role):
        return input_name(self.node, INPUTS[self.node.op_type].get(role))

    def is_fusible(self):
        return self.node.op_type in FUSIBLE and DIALECTS[self.node.domain] == "onnx"


class Importer:
    """Turns a graph into layers, notes and failures."""

    def __init__(self, graph, weights_folder):
        self.graph, self.weights_folder = graph, weights_folder
        self.notes, self.failures, self.tables = [], [], []
        self.fused = collections.Counter()
        self.used = set()  # ids of nodes that became part of a layer

    def run(self):
        names = Names()
        layers = []
        for position, node in enumerate(self.graph.nodes):
            if is_layer(node):
                name = names.unique(node.name or node.output[0])
                layers.append(Layer(node, position, name))
                self.used.add(id(node))
        fusible = [layer for layer in layers if layer.is_fusible()]
        for layer in fusible:
            self.fold_normalizations(layer)
        self.fuse_residuals(fusible)
        for layer in fusible:
            self.fuse_activation(layer)
        for layer in layers:
            try:
                self.tables.append(self.table(layer))
            except NodeError as error:
                self.failures.append({"layer": layer.name, "code": error.code, "message": str(error)})
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # a malformed node
                self.failures.append({"layer": layer.name, "code": "invalid_argument", "message": str(error)})
        self.notes = [*self.fused_notes(), *self.notes, *names.notes(), *self.other_notes()]

    def take(self, layer, node, what):
        """Makes `node`, which alone reads the layer's end, a part of the layer."""
        self.used.add(id(node))
        self.fused[what] += 1
        layer.end = node.output[0]

    # BatchNormalization in inference form computes scale * (y - mean) / sqrt(variance + epsilon) + shift.
    def fold_normalizations(self, layer):
        while (node := self.graph.only_reader(layer.end)) is not None and node.op_type == "BatchNormalization":
            reason = self.not_foldable(layer, node)
            if reason:
                self.notes.append(f"the BatchNormalization behind {layer.name} stays outside: {reason}")
                return
            layer.normalizations.append(node)
            self.take(layer, node, "BatchNormalization")

    def not_foldable(self, layer, node):
        attributes = attribute_values(node)
        training = attributes.get("training_mode", 0) or any(node.output[1:]) \
            or (self.graph.opset < 7 and not attributes.get("is_test", 0))
        if training:
            return "it is in training form"
        if attributes.get("spatial", 1) == 0 or node.input[0] != layer.end:
            return "it does not scale whole channels"
        weights = [name for name in (layer.input("w"), layer.input("bias")) if name]
        if not all(name in self.graph.constants for name in [*weights, *node.input[1:]]):
            return "weights, bias, scale, shift, mean and variance are not all constants"
        return None

    def fuse_residuals(self, layers):
        ends = {layer.end: layer for layer in layers}
        for node in self.graph.nodes:
            if node.op_type not in ("Add", "Sum") or node.domain not in DIALECTS or len(node.input) != 2:
                continue
            shapes = [self.graph.shape(name) for name in node.input]
            if shapes[0] is None or shapes[0] != shapes[1]:
                continue
            candidates = [ends[name] for name in node.input
                          if name in ends and self.graph.only_reader(name) is node]
            if not candidates:
                continue
            chosen = max(candidates, key=lambda layer: layer.position)
            chosen.residual = True
            self.take(chosen, node, "residual sum")
            for other in candidates:
                if other is not chosen:
                    self.notes.append(f"{chosen.name} and {other.name} are summed: the sum is fused into "
                                      f"{chosen.name}, the later one, as its residual")

    def fuse_activation(self, layer):
        node = self.graph.only_reader(layer.end)
        if node is None or node.domain not in DIALECTS:
            return
        if node.op_type == "Relu":
            layer.activation = ("Relu", [])
        elif node.op_type == "Clip" and node.input[0] == layer.end and (bounds := self.clip_bounds(node)) is not None:
            layer.activation = ("Clip", bounds)
        if layer.activation:
            self.take(layer, node, node.op_type)

    def clip_bounds(self, node):
        """[min, max], or None if they are not constants."""
        attributes = attribute_values(node)
        bounds = [attributes.get("min", LOWEST), attributes.get("max", HIGHEST)]
        for index, name in enumerate(node.input[1:3]):
            if name and name not in self.graph.constants:
                return None
            if name:
                try:
                    bounds[index] = float(self.graph.value(name).reshape(()))
                except (NodeError, ValueError):
                    return None
        return None if any(np.isnan(bounds)) else [min(max(bound, LOWEST), HIGHEST) for bound in bounds]

    # ---- A layer's table

    def table(self, layer):
        """The layer as a layers file's [[layer]]."""
        table = {"name": layer.name, "operator": layer.node.op_type, "dialect": DIALECTS[layer.node.domain]}
        if table["dialect"] == "onnx":
            table["opset"] = self.graph.opset
        table["x"] = self.known_shape("input", layer.input("x"))
        table["w"] = self.known_shape("weights", layer.input("w"))
        table["dtype"] = self.dtype(layer.input("x"))
        if layer.node.op_type == "DeformConv":
            table["offset"] = True
        for role in ("bias", "mask"):
            if layer.input(role) or (role == "bias" and layer.normalizations):
                table[role] = True
        if layer.residual:
            table["residual"] = True
        if layer.activation:
            table["activation"], parameters = layer.activation
            if parameters:
                table["activation_params"] = parameters
        self.add_attributes(table, layer.node)
        if self.weights_folder:
            self.write_weights(table, layer)
        return table

    def add_attributes(self, table, node):
        for attribute in node.attribute:
            value = onnx.helper.get_attribute_value(attribute)
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

    def dtype(self, name):
        element_type = self.graph.element_type(name)
        if element_type not in DTYPES:
            raise NodeError(f'its input "{name}" is of type {element_type or "unknown"}', "unsupported")
        return DTYPES[element_type]

    def known_shape(self, what, name):
        shape = self.graph.shape(name)
        if shape is None and name in self.graph.constants:
            shape = list(self.graph.value(name).shape)
        if shape is None:
            stated = shape_text(self.graph.types[name]) if name in self.graph.types else "no shape"
            hints = open_inputs(self.graph.model.graph)
            raise NodeError(f'the shape of its {what} "{name}" is not known ({stated})'
                            + (": " + "; ".join(hints) if hints else ""))
        return shape

    def write_weights(self, table, layer):
        """Writes what is constant of the weights and the bias, with the normalisations folded in."""
        names = [layer.input("w"), layer.input("bias")]
        constant = [name in self.graph.constants for name in names]
        weights = self.graph.value(names[0]) if constant[0] else None
        bias = self.graph.value(names[1]) if constant[1] else None
        for node in layer.normalizations:
            weights, bias = self.normalized(layer, node, weights, bias)
        for key, suffix, value in (("weights", "w", weights), ("bias_values", "b", bias)):
            if value is not None:
                path = os.path.join(os.path.abspath(self.weights_folder), f"{layer.name}.{suffix}.npy")
                np.save(path, as_stored(value, table["dtype"] if layer.node.op_type in FUSIBLE else value.dtype))
                table[key] = path

    def normalized(self, layer, node, weights, bias):
        scale, shift, mean, variance = (np.asarray(self.graph.value(name), np.float64) for name in node.input[1:5])
        factor = scale / np.sqrt(variance + attribute_values(node).get("epsilon", 1e-5))
        weights = np.asarray(weights, np.float64)
        group = attribute_values(layer.node).get("group", 1)
        channels = weights.shape[1] * group if layer.node.op_type == "ConvTranspose" else weights.shape[0]
        if any(values.shape != (channels,) for values in (scale, shift, mean, variance)):
            raise NodeError(f"the BatchNormalization behind it has {list(scale.shape)} scales for {channels} channels")
        bias = np.zeros(channels) if bias is None else np.asarray(bias, np.float64)
        if layer.node.op_type == "ConvTranspose":
            # (C, M / group, ...): the output channels of group g belong to input channels [g * C / group, ...).
            per_group = factor.reshape(group, 1, -1)
            blocks = weights.reshape(group, weights.shape[0] // group, weights.shape[1], -1) * per_group[..., None]
            weights = blocks.reshape(weights.shape)
        else:
            weights = weights * factor.reshape(-1, *[1] * (weights.ndim - 1))
        return weights, (bias - mean) * factor + shift

    # ---- Notes

    def fused_notes(self):
        for what, count in self.fused.items():
            verb = "folded" if what == "BatchNormalization" else "fused"
            yield f"{verb}: {what} x{count}"

    def other_notes(self):
        folded, skipped, inner = (collections.Counter() for _ in range(3))
        for node in self.graph.nodes:
            if any(name in self.graph.constants for name in node.output):
                folded[node.op_type] += 1
            elif id(node) not in self.used:
                skipped[f"{node.domain}.{node.op_type}" if node.domain not in DIALECTS else node.op_type] += 1
                inner.update(convolutions_inside(node))
        for verb, counter in (("computed as constants", folded), ("skipped", skipped),
                              ("skipped inside If, Loop or Scan", inner)):
            if counter:
                yield f"{verb}: " + ", ".join(f"{kind} x{count}" for kind, count in counter.most_common())


def convolutions_inside(node):
    for graph in subgraphs(node):
        for inner in graph.node:
            if is_layer(inner):
                yield inner.op_type
            yield from convolutions_inside(inner)


def as_stored(value, dtype):
    """An array as a .npy file holds it; bfloat16 travels as its bits."""
    if dtype != "bfloat16":
        return np.ascontiguousarray(value, dtype)
    value = np.ascontiguousarray(np.asarray(value).astype(np.float32))
    bits = value.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # to the nearest, ties to even
    return np.where(np.isnan(value), 0x7FC0, rounded).astype(np.uint16)


def open_inputs(graph):
    """For every input of the model without a full shape: how to give it one."""
    hints = []
    for value in graph.input:
        tensor = value.type.tensor_type
        if value.type.HasField("tensor_type") and shape_of(tensor) is None:
            example = [1, 3, 224, 224]
            if tensor.HasField("shape"):
                example = [dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0
                           else (1, 3)[axis] if axis < 2 else 224 for axis, dim in enumerate(tensor.shape.dim)]
            hints.append(f'input "{value.name}" has {shape_text(tensor)}; give it one, for example --shape '
                         f"{value.name}={'x'.join(map(str, example))}")
    return hints


# ---- Command line -------------------------------------------------------------------------------------------------


def import_model(path, shapes, weights_folder):
    """The importer's answer for a model."""
    model, folder = load_model(path)
    set_shapes(path, model.graph, shapes)
    graph = Graph(infer_shapes(model, folder), folder)
    if weights_folder:
        os.makedirs(weights_folder, exist_ok=True)
    importer = Importer(graph, weights_folder)
    importer.run()
    if not importer.tables and not importer.failures:
        raise ModelError(f"{path} has no convolution: " + "; ".join(importer.notes))
    hints = open_inputs(graph.model.graph)
    if not importer.tables and hints:
        raise ModelError(f"{path}: its convolutions' shapes are not known: " + "; ".join(hints))
    name = to_identifier(os.path.splitext(os.path.basename(path))[0], "model")
    return {"name": name, "layers": importer.tables, "notes": importer.notes, "failures": importer.failures}


def main():
    parser = argparse.ArgumentParser(description="Writes the convolutions of an ONNX model as Kiln layers, in JSON.")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("answer", metavar="OUT.json")
    parser.add_argument("--weights", metavar="DIR", default="", help="write weights and biases as .npy here")
    parser.add_argument("--shape", metavar="NAME=1x3x224x224", action="append", default=[],
                        help="the shape of an input that the model leaves open; may be given again")
    arguments = parser.parse_args()
    try:
        answer = import_model(arguments.model, parse_shapes(arguments.shape), arguments.weights)
        with open(arguments.answer, "w", encoding="utf-8") as file:
            json.dump(answer, file, indent=1)
    except (ModelError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except Exception as error:  # a broken file can hold anything, a name that is no text for one
        print(f"{arguments.model} makes no sense as a model: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
