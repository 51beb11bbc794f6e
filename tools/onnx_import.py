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
NHWC = "com.ms.internal.nhwc"  # ONNX Runtime's own: x and y have their channels last
DIALECTS = {"": "onnx", "ai.onnx": "onnx", NHWC: "ms-nhwc"}
ATTRIBUTES = {"auto_pad", "dilations", "group", "kernel_shape", "offset_group", "output_padding", "output_shape",
              "pads", "strides"}
# Operators that can be fused as an activation, with their attributes' defaults in the order of activation_params; Clip
# is one more.
ACTIVATIONS = {"Relu": {}, "LeakyRelu": {"alpha": 0.01}, "Tanh": {}, "Sigmoid": {},
               "HardSigmoid": {"alpha": 0.2, "beta": 0.5}, "HardSwish": {}}
DTYPES = {"FLOAT": "float32", "DOUBLE": "float64", "FLOAT16": "float16", "BFLOAT16": "bfloat16", "INT8": "int8",
          "UINT8": "uint8"}
BYTES = ("INT8", "UINT8")
# What becomes numbers of a layer, where the rest becomes something that it does besides.
FOLDED = ("BatchNormalization", "Mul", "Div", "Add", "Sub", "DequantizeLinear", "QuantizeLinear")
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


def in_onnx_terms(model):
    """The model for shape inference, which knows ONNX's operators: each node with its channels last becomes ONNX's own
    between two transpositions."""
    if not any(node.domain == NHWC for node in model.graph.node):
        return model
    ranks = {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
    known = onnx.ModelProto()
    known.CopyFrom(model)
    del known.graph.node[:]
    for node in model.graph.node:
        rank = ranks.get(input_name(node, INPUTS.get(node.op_type, {}).get("w")))
        if node.domain != NHWC or rank is None:
            known.graph.node.append(node)
            continue
        first, last = f"{node.output[0]}/x", f"{node.output[0]}/y"
        plain = onnx.NodeProto()
        plain.CopyFrom(node)
        plain.domain, plain.input[0], plain.output[0] = "", first, last
        del plain.attribute[:]
        plain.attribute.extend(item for item in node.attribute if not item.name.startswith("activation"))
        channels_first = [0, rank - 1, *range(1, rank - 1)]
        channels_last = [0, *range(2, rank), 1]
        known.graph.node.extend([
            onnx.helper.make_node("Transpose", [node.input[0]], [first], perm=channels_first), plain,
            onnx.helper.make_node("Transpose", [last], [node.output[0]], perm=channels_last)])
    return known


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
        inferred = onnx.shape_inference.infer_shapes(in_onnx_terms(model), data_prop=True)
    except Exception:  # the C++ checker raises several kinds; shapes that the file states are still there
        return model
    del inferred.graph.node[:]
    inferred.graph.node.extend(model.graph.node)
    return inferred


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
        opsets = {entry.domain: entry.version for entry in self.model.opset_import}
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            # The reference implementation has them from 19 on; the versions before say the same of fewer types.
            opsets[node.domain] = max(opsets.get(node.domain, 1), 19)
        imports = [onnx.helper.make_opsetid(*entry) for entry in opsets.items()]
        model = onnx.helper.make_model(graph, opset_imports=imports)
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


def is_onnx(node):
    return node.domain in ("", "ai.onnx")


def is_foldable(node):
    return is_onnx(node) and node.op_type not in RANDOM and not any(True for _ in subgraphs(node)) \
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
    """A convolution with what was found around it."""

    def __init__(self, node, position, name):
        self.node, self.position, self.name = node, position, name
        self.end = node.output[0]  # the value that what was fused so far ends in
        self.inputs = {role: input_name(node, index) for role, index in INPUTS[node.op_type].items()}
        self.affine = []  # (factor, shift), arrays of one number an output channel, to be folded into weights and bias
        self.residual = False
        self.activation = None  # (name, parameters)
        self.quantization = None  # a layer's table of that name
        self.bias_values = None  # in place of the node's own

    def is_transposed(self):
        return self.node.op_type == "ConvTranspose"

    def is_fusible(self):
        return self.node.op_type in FUSIBLE and not self.activation

    def has_channels_last(self):
        return self.node.domain == NHWC

    def has_bias(self):
        return bool(self.inputs.get("bias")) or any(shift.any() for _, shift in self.affine)


class Importer:
    """Turns a graph into layers, notes and failures."""

    def __init__(self, graph, weights_folder):
        self.graph, self.weights_folder = graph, weights_folder
        self.notes, self.failures, self.tables = [], [], []
        self.fused = collections.Counter()
        self.used = set()  # ids of nodes that became part of a layer
        self.rounded = collections.defaultdict(list)  # names of layers in coarse types with something folded, by type

    def run(self):
        names = Names()
        layers = []
        for position, node in enumerate(self.graph.nodes):
            if is_layer(node):
                layers.append(Layer(node, position, names.unique(node.name or node.output[0])))
                self.used.add(id(node))
        for layer in layers:
            self.attempt(layer, self.read_own)
        fusible = [layer for layer in layers if layer.is_fusible()]
        for layer in fusible:
            self.attempt(layer, self.fold_affine)
        self.fuse_residuals(fusible)
        for layer in fusible:
            self.attempt(layer, self.fuse_activation)
            self.attempt(layer, self.fold_quantization)
        self.use_dequantizers(layers)
        for layer in layers:
            self.attempt(layer, lambda layer: self.tables.append(self.table(layer)))
        self.notes = [*self.fused_notes(), *self.notes, *names.notes(), *self.other_notes()]

    def attempt(self, layer, act):
        """Does something for a layer that has not failed yet; what is wrong with its node becomes its failure."""
        if any(failure["layer"] == layer.name for failure in self.failures):
            return
        try:
            act(layer)
        except NodeError as error:
            self.failures.append({"layer": layer.name, "code": error.code, "message": str(error)})
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # a malformed node
            self.failures.append({"layer": layer.name, "code": "invalid_argument", "message": str(error)})

    def take(self, layer, node, what):
        """Makes `node`, which alone reads the layer's end, a part of the layer."""
        self.used.add(id(node))
        self.fused[what] += 1
        layer.end = node.output[0]

    def read_own(self, layer):
        """What the node itself says of an activation and a quantisation."""
        attributes = attribute_values(layer.node)
        if layer.has_channels_last() and attributes.get("activation"):
            layer.activation = (attributes["activation"].decode(), list(attributes.get("activation_params", [])))
        if layer.node.op_type == "QLinearConv":
            layer.quantization = self.quantization(layer, [1, 2, 4, 5, 6, 7])
        elif layer.node.op_type == "ConvInteger":
            layer.quantization = {**self.quantization(layer, [None, 2, None, 3, None, None]), "y_dtype": "int32"}

    def quantization(self, layer, places):
        """A layer's quantization of the inputs at these places, in the order of the keys."""
        table = {}
        keys = ("x_scale", "x_zero_point", "w_scale", "w_zero_point", "y_scale", "y_zero_point")
        for key, index in zip(keys, places):
            name = input_name(layer.node, index)
            if not name:
                continue
            if name not in self.graph.constants:
                raise NodeError(f'its {key} "{name}" is not a constant', "unsupported")
            value = self.graph.value(name)
            if key == "y_zero_point":
                table["y_dtype"] = DTYPES.get(onnx_type(value), onnx_type(value))
            table[key] = per_channel(value) if key.startswith("w_") else one_number(key, value)
        table["w_dtype"] = self.dtype(layer.inputs["w"])
        return table

    # BatchNormalization in inference form, and products and sums with constants, change channels by factor * y + shift.
    def fold_affine(self, layer):
        while (node := self.graph.only_reader(layer.end)) is not None and is_onnx(node):
            try:
                affine = self.affine_of(layer, node)
            except NodeError as error:
                self.notes.append(f"the {node.op_type} behind {layer.name} stays outside: {error}")
                return
            if affine is None:
                return
            layer.affine.append(affine)
            dtype = self.dtype(layer.inputs["x"])
            if dtype in ("float16", "bfloat16") and layer.name not in self.rounded[dtype]:
                self.rounded[dtype].append(layer.name)
            self.take(layer, node, node.op_type)

    def affine_of(self, layer, node):
        """(factor, shift) of a node behind a layer; None if it is of another kind. NodeError: it cannot be folded."""
        if node.op_type == "BatchNormalization":
            factor, shift = self.normalization(layer, node)
        elif node.op_type in ("Mul", "Div", "Add", "Sub") and len(node.input) == 2:
            others = [name for name in node.input if name != layer.end]
            if len(others) != 1 or others[0] not in self.graph.constants:
                return None
            value = self.channel_values(layer, others[0])
            if value is None or (node.op_type == "Div" and node.input[0] != layer.end):
                return None
            one, none = np.ones_like(value), np.zeros_like(value)
            sign = one if node.input[0] == layer.end else -one
            factor, shift = {"Mul": lambda: (value, none), "Div": lambda: (1 / value, none),
                             "Add": lambda: (one, value), "Sub": lambda: (sign, -sign * value)}[node.op_type]()
        else:
            return None
        scales = node.op_type == "BatchNormalization" or (factor != 1).any()
        needed = [layer.inputs["w"] if scales else "", layer.inputs["bias"]]
        if not all(name in self.graph.constants for name in needed if name):
            raise NodeError("weights and bias are not all constants" if scales else "the bias is not a constant")
        if not np.isfinite(factor).all() or not np.isfinite(shift).all():
            raise NodeError("its factors are not all finite")
        return factor, shift

    def normalization(self, layer, node):
        attributes = attribute_values(node)
        training = attributes.get("training_mode", 0) or any(node.output[1:]) \
            or (self.graph.opset < 7 and not attributes.get("is_test", 0))
        if training:
            raise NodeError("it is in training form")
        if attributes.get("spatial", 1) == 0 or node.input[0] != layer.end or layer.has_channels_last():
            raise NodeError("it does not scale whole channels")
        if not all(name in self.graph.constants for name in node.input[1:]):
            raise NodeError("scale, shift, mean and variance are not all constants")
        scale, shift, mean, variance = (np.asarray(self.graph.value(name), np.float64) for name in node.input[1:5])
        channels = self.out_channels(layer)
        if any(values.shape != (channels,) for values in (scale, shift, mean, variance)):
            raise NodeError(f"it has {list(scale.shape)} scales for {channels} channels")
        factor = scale / np.sqrt(variance + attributes.get("epsilon", 1e-5))
        return factor, shift - mean * factor

    def channel_values(self, layer, name):
        """A constant as one number an output channel; None if it is not that where it is broadcast to y."""
        value = np.asarray(self.graph.value(name), np.float64)
        w, channels = self.known_shape("weights", layer.inputs["w"]), self.out_channels(layer)
        rank = len(w)
        if value.ndim > rank:
            return None
        shape = [1] * (rank - value.ndim) + list(value.shape)
        channel = rank - 1 if layer.has_channels_last() else 1
        if any(size != 1 for axis, size in enumerate(shape) if axis != channel) or shape[channel] not in (1, channels):
            return None
        return np.broadcast_to(value.reshape(-1), [channels]).copy()

    def out_channels(self, layer):
        w = self.known_shape("weights", layer.inputs["w"])
        return w[1] * attribute_values(layer.node).get("group", 1) if layer.is_transposed() else w[0]

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
        if node is None or not is_onnx(node) or node.input[0] != layer.end:
            return
        if node.op_type in ACTIVATIONS:
            attributes = attribute_values(node)
            parameters = [float(attributes.get(name, value)) for name, value in ACTIVATIONS[node.op_type].items()]
            layer.activation = (node.op_type, parameters)
        elif node.op_type == "Clip" and (bounds := self.clip_bounds(node)) is not None:
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

    # ---- Quantisation

    def fold_quantization(self, layer):
        """DequantizeLinear of x, w and perhaps the bias, the operator, QuantizeLinear: an operator on 8-bit tensors."""
        dequantize = self.dequantizer(layer.inputs["x"])
        if dequantize is None:
            return
        try:
            inputs, table, rounded = self.quantized_inputs(layer, dequantize)
        except NodeError as error:
            dtype = DTYPES.get(self.graph.element_type(layer.inputs["x"]), "as it is")
            self.notes.append(f"{layer.name} stays {dtype}, though its input is quantised: {error}")
            return
        layer.inputs, layer.quantization = inputs, table
        if rounded:
            self.notes.append(f"the bias of {layer.name} is rounded to a multiple of x_scale * w_scale")
        node = self.graph.only_reader(layer.end)
        end = self.quantizer(node) if node is not None and is_onnx(node) and node.op_type == "QuantizeLinear" else None
        if end:
            table.update(end)
            self.take(layer, node, "QuantizeLinear")
        else:
            table["y_dtype"] = "float32"

    def dequantizer(self, name):
        """The DequantizeLinear that makes a value, or None."""
        node = self.graph.makers.get(name)
        return node if node is not None and is_onnx(node) and node.op_type == "DequantizeLinear" else None

    def quantized_inputs(self, layer, dequantize):
        """(inputs by role, quantization table, whether the bias had to be rounded)."""
        if layer.node.op_type not in ("Conv", "ConvTranspose") or layer.has_channels_last():
            raise NodeError(f"{layer.node.op_type} takes no 8-bit tensors")
        if self.graph.element_type(layer.inputs["x"]) != "FLOAT":
            raise NodeError(f"it is dequantised to {self.graph.element_type(layer.inputs['x'])}")
        if layer.affine or layer.residual:
            raise NodeError("what is folded or summed behind it would be rounded in between")
        weights = self.dequantizer(layer.inputs["w"])
        if weights is None:
            raise NodeError("its weights are not")
        x_scale, x_zero_point = self.scale_and_zero_point("its input", dequantize)
        w_scale, w_zero_point = self.scale_and_zero_point("the weights", weights)
        axis = 1 if layer.is_transposed() else 0
        w_scale, w_zero_point = (self.over_channels(layer, weights, value, axis) for value in (w_scale, w_zero_point))
        inputs = {**layer.inputs, "x": dequantize.input[0], "w": weights.input[0]}
        rounded = False
        if inputs["bias"]:
            sums_scale = one_number("x_scale", x_scale) * np.asarray(w_scale, np.float64)
            layer.bias_values, rounded = self.integer_bias(inputs["bias"], sums_scale)
        table = {"x_scale": one_number("x_scale", x_scale), "x_zero_point": one_number("x_zero_point", x_zero_point),
                 "w_scale": w_scale, "w_zero_point": w_zero_point, "w_dtype": self.dtype(inputs["w"])}
        return inputs, table, rounded

    def scale_and_zero_point(self, what, node):
        """Those of a node that quantises or not, as arrays. NodeError: they are not constant, or not of 8 bits."""
        quantized = node.input[0] if node.op_type == "DequantizeLinear" else node.output[0]
        if self.graph.element_type(quantized) not in BYTES:
            raise NodeError(f"{what} is quantised to {self.graph.element_type(quantized) or 'an unknown type'}")
        if attribute_values(node).get("block_size", 0):
            raise NodeError(f"{what} is quantised in blocks")
        names = list(node.input[1:3])
        if not all(name in self.graph.constants for name in names if name):
            raise NodeError(f"scale and zero point of {what} are not constants")
        scale = self.graph.value(names[0])
        zero_point = self.graph.value(names[1]) if len(names) > 1 and names[1] else np.zeros(scale.shape, np.int8)
        return np.asarray(scale), np.asarray(zero_point)

    def over_channels(self, layer, node, value, axis):
        """What the weights' scales or zero points are of each output channel."""
        if value.size == 1:
            return per_channel(value)
        rank = len(self.known_shape("weights", node.input[0]))
        if value.ndim != 1 or attribute_values(node).get("axis", 1) % rank != axis:
            raise NodeError("the weights are quantised along another axis than the output channels")
        groups = attribute_values(layer.node).get("group", 1) if layer.is_transposed() else 1
        return per_channel(np.tile(value, groups))

    def integer_bias(self, name, scale):
        """(a constant bias in multiples of the sums' scale, as int32; whether it had to be rounded to them)."""
        node = self.dequantizer(name)
        if name not in self.graph.constants:
            raise NodeError("its bias is not a constant")
        if node is not None and self.graph.element_type(node.input[0]) == "INT32":
            own = np.asarray(self.graph.value(node.input[1]), np.float64)
            has_zero_point = input_name(node, 2) and self.graph.value(node.input[2]).any()
            comparable = own.size == scale.size or 1 in (own.size, scale.size)
            if not has_zero_point and comparable and np.allclose(own, scale, rtol=1e-6, atol=0):
                return self.graph.value(node.input[0]), False
        values = np.round(np.asarray(self.graph.value(name), np.float64) / scale)
        if not (np.abs(values) < 2 ** 31).all():
            raise NodeError("its bias does not fit int32 in multiples of x_scale * w_scale")
        return values.astype(np.int32), True

    def quantizer(self, node):
        """The keys of a quantization that a QuantizeLinear stands for; None if a layer cannot do it."""
        try:
            scale, zero_point = self.scale_and_zero_point("its output", node)
            return {"y_scale": one_number("y_scale", scale), "y_zero_point": one_number("y_zero_point", zero_point),
                    "y_dtype": DTYPES[self.graph.element_type(node.output[0])]}
        except NodeError as error:
            self.notes.append(f'the QuantizeLinear that makes "{node.output[0]}" stays outside: {error}')
            return None

    def use_dequantizers(self, layers):
        """A DequantizeLinear is gone where nobody but quantised layers reads it."""
        convolutions = {id(layer.node) for layer in layers if layer.quantization}
        for node in self.graph.nodes:
            if node.op_type == "DequantizeLinear" and node.output[0] not in self.graph.outputs:
                readers = self.graph.readers[node.output[0]]
                if readers and all(id(reader) in convolutions for reader in readers):
                    self.used.add(id(node))
                    self.fused["DequantizeLinear"] += 1

    # ---- A layer's table

    def table(self, layer):
        """The layer as a layers file's [[layer]]."""
        table = {"name": layer.name, "operator": layer.node.op_type, "dialect": DIALECTS[layer.node.domain]}
        table["x"] = self.known_shape("input", layer.inputs["x"])
        table["w"] = self.known_shape("weights", layer.inputs["w"])
        table["dtype"] = self.dtype(layer.inputs["x"])
        if layer.has_channels_last() and not layer.is_transposed():
            # Its document has ConvTranspose alone; the others are ONNX's with other layouts.
            table["dialect"], table["opset"] = "onnx", 11
            table["x"] = [table["x"][0], table["x"][-1], *table["x"][1:-1]]
            table["layouts"] = {"x": "NXC", "y": "NXC"}
        elif table["dialect"] == "onnx":
            table["opset"] = self.graph.opset
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
        self.add_attributes(table, layer.node)
        if self.weights_folder:
            self.write_weights(table, layer)
        return table

    def add_attributes(self, table, node):
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
        """Writes what is constant of the weights and the bias, with what is folded into them."""
        weights, bias = self.constant(layer.inputs["w"]), layer.bias_values
        if bias is None:
            bias = self.constant(layer.inputs.get("bias"))
        for factor, shift in layer.affine:
            weights, bias = self.scaled(layer, weights, factor), (0 if bias is None else bias) * factor + shift
        for key, suffix, value in (("weights", "w", weights), ("bias_values", "b", bias)):
            if value is None or (key == "bias_values" and not layer.has_bias()):
                continue
            stored = as_stored(value, value.dtype if layer.quantization else table["dtype"])
            if layer.affine and not np.isfinite(as_float(stored, table["dtype"])).all():
                raise NodeError(f"{key} with what is folded into it does not fit {table['dtype']}", "unsupported")
            path = os.path.join(os.path.abspath(self.weights_folder), f"{layer.name}.{suffix}.npy")
            np.save(path, stored)
            table[key] = path

    def constant(self, name):
        return self.graph.value(name) if name in self.graph.constants else None

    def scaled(self, layer, weights, factor):
        if weights is None or (factor == 1).all():
            return weights
        weights = np.asarray(weights, np.float64)
        if not layer.is_transposed():
            return weights * factor.reshape(-1, *[1] * (weights.ndim - 1))
        # (C, M / group, ...): the output channels of group g belong to input channels [g * C / group, ...).
        group = attribute_values(layer.node).get("group", 1)
        blocks = weights.reshape(group, weights.shape[0] // group, weights.shape[1], -1)
        return (blocks * factor.reshape(group, 1, -1)[..., None]).reshape(weights.shape)

    # ---- Notes

    def fused_notes(self):
        for what, count in self.fused.items():
            verb = "folded" if what in FOLDED else "fused"
            yield f"{verb}: {what} x{count}"
        for dtype, names in self.rounded.items():
            yield f"what is folded into {', '.join(names)} is rounded to {dtype} with the weights"

    def other_notes(self):
        folded, skipped, inner = (collections.Counter() for _ in range(3))
        for node in self.graph.nodes:
            if id(node) in self.used:
                continue
            if any(name in self.graph.constants for name in node.output):
                folded[node.op_type] += 1
            else:
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


def onnx_type(value):
    return onnx.TensorProto.DataType.Name(onnx.helper.np_dtype_to_tensor_dtype(value.dtype))


def one_number(what, value):
    """The single number of a constant."""
    if value.size != 1:
        raise NodeError(f"{what} has shape {list(value.shape)}: one number is needed", "unsupported")
    return value.reshape(-1)[0].item()


def per_channel(value):
    """A constant as a list, of one number where that holds for every channel."""
    return [number.item() for number in value.reshape(-1)]


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
    with np.errstate(all="ignore"):  # what overflows is told with its layer's name
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
