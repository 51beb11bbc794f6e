"""Turns a graph into layers: folds and fuses what stands around its convolutions."""

import collections

import numpy as np

from convolutions import quantization, reasons
from convolutions.activations import find_activation
from convolutions.layer import Layer, layer_table
from names import Names
from terms import AFFINE, DIALECTS, DTYPES, FOLDED, NodeError, attribute_values, is_layer, is_onnx, subgraphs


class Importer:
    """Turns a graph into layers, notes and failures."""

    def __init__(self, graph, weights_folder):
        self.graph, self.weights_folder = graph, weights_folder
        self.notes, self.failures, self.tables, self.layers = [], [], [], []
        self.convolutions = 0  # that the model has, layers or not
        self.failed = set()  # names of layers
        self.fused = collections.Counter()
        self.used = set()  # ids of nodes that became part of a layer
        self.told = set()  # of those that a note is about
        self.rounded = collections.defaultdict(list)  # names of layers in coarse types with something folded, by type

    def run(self):
        names = Names()
        layers = self.layers
        for position, node in enumerate(self.graph.nodes):
            if is_layer(node):
                layers.append(Layer(node, position, names.unique(node.name or node.output[0])))
                self.used.add(id(node))
        for layer in layers:
            self.attempt(layer, self.read_own)
        fusible = [layer for layer in layers if layer.is_fusible()]
        for layer in fusible:
            self.attempt(layer, self.find_bytes)
            self.attempt(layer, self.fold_affine)
        self.fuse_residuals(fusible)
        for layer in fusible:
            self.attempt(layer, self.fuse_activation)
            self.attempt(layer, self.fold_quantization)
        self.use_dequantizers(layers)
        for layer in layers:
            self.attempt(layer, lambda layer: self.tables.append(
                layer_table(self.graph, layer, self.weights_folder)))
        self.notes = [*self.fused_notes(), *self.notes, *reasons.notes(self.graph, layers, self.used, self.told),
                      *names.notes(), *self.branch_notes(), *self.open_notes(), *self.other_notes()]

    def attempt(self, layer, act):
        """Does something for a layer that has not failed yet; what is wrong with its node becomes its failure."""
        if layer.name in self.failed:
            return
        try:
            act(layer)
        except NodeError as error:
            self.fail(layer, error.code, error)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # a malformed node
            self.fail(layer, "invalid_argument", error)

    def fail(self, layer, code, error):
        self.failed.add(layer.name)
        self.failures.append({"layer": layer.name, "node": layer.node.name, "code": code, "message": str(error)})

    def take(self, layer, node, what):
        """Makes `node`, which alone reads the layer's end, a part of the layer."""
        self.used.add(id(node))
        layer.nodes.append(node)
        self.fused[what] += 1
        layer.end = node.output[0]

    def read_own(self, layer):
        """What the node itself says of an activation and a quantisation."""
        attributes = attribute_values(layer.node)
        if layer.has_channels_last() and attributes.get("activation"):
            layer.activation = (attributes["activation"].decode(), list(attributes.get("activation_params", [])))
        if layer.node.op_type == "QLinearConv":
            layer.quantization = quantization.of_inputs(self.graph, layer, [1, 2, 4, 5, 6, 7])
        elif layer.node.op_type == "ConvInteger":
            layer.quantization = {**quantization.of_inputs(self.graph, layer, [None, 2, None, 3, None, None]), "y_dtype": "int32"}

    def find_bytes(self, layer):
        layer.has_bytes = quantization.has_bytes(self.graph, layer)

    # BatchNormalization in inference form, and products and sums with constants, change channels by factor * y + shift.
    def fold_affine(self, layer):
        while (node := self.graph.only_reader(layer.end)) is not None and is_onnx(node):
            if find_activation(self.graph, layer.end):
                return  # its sums and products are part of it
            try:
                affine = self.affine_of(layer, node)
            except NodeError as error:
                self.notes.append(f"the {node.op_type} behind {layer.name} stays outside: {error}")
                self.told.add(id(node))
                return
            if affine is None or (layer.has_bytes and not self.may_round(layer, *affine)):
                return
            layer.affine.append(affine)
            dtype = self.graph.dtype(layer.inputs["x"])
            if dtype in ("float16", "bfloat16") and layer.name not in self.rounded[dtype]:
                self.rounded[dtype].append(layer.name)
            self.take(layer, node, node.op_type)

    def may_round(self, layer, factor, shift):
        """Whether a layer of bytes can have the factors in its weights' scales, and the numbers rounded to multiples of its
        sums' scale, which bytes behind it do not tell."""
        if not (factor > 0).all():
            return False
        end = layer.end
        while shift.any() and (node := self.graph.only_reader(end)) is not None and node.op_type in AFFINE:
            end = node.output[0]
        found = find_activation(self.graph, end)
        node = self.graph.only_reader(found.output if found else end)
        return not shift.any() or (node is not None and is_onnx(node) and node.op_type == "QuantizeLinear")

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
        elif node.op_type == "Neg":
            factor = -np.ones(layer.out_channels(self.graph))
            shift = np.zeros_like(factor)
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
        channels = layer.out_channels(self.graph)
        if any(values.shape != (channels,) for values in (scale, shift, mean, variance)):
            raise NodeError(f"it has {list(scale.shape)} scales for {channels} channels")
        factor = scale / np.sqrt(variance + attributes.get("epsilon", 1e-5))
        return factor, shift - mean * factor

    def channel_values(self, layer, name):
        """A constant as one number an output channel; None if it is not that where it is broadcast to y."""
        value = np.asarray(self.graph.value(name), np.float64)
        w, channels = self.graph.known_shape("weights", layer.inputs["w"]), layer.out_channels(self.graph)
        rank = len(w)
        if value.ndim > rank:
            return None
        shape = [1] * (rank - value.ndim) + list(value.shape)
        channel = rank - 1 if layer.has_channels_last() else 1
        if any(size != 1 for axis, size in enumerate(shape) if axis != channel) or shape[channel] not in (1, channels):
            return None
        return np.broadcast_to(value.reshape(-1), [channels]).copy()

    def fuse_residuals(self, layers):
        ends = {layer.end: layer for layer in layers}
        for node in self.graph.nodes:
            if node.op_type not in ("Add", "Sum") or node.domain not in DIALECTS or len(node.input) != 2:
                continue
            if not self.graph.have_one_shape(*node.input):
                continue
            candidates = [ends[name] for name in node.input
                          if name in ends and self.graph.only_reader(name) is node and not ends[name].has_bytes]
            if not candidates:
                continue
            chosen = max(candidates, key=lambda layer: layer.position)
            chosen.residual = next(name for name in node.input if name != chosen.end)
            self.take(chosen, node, "residual sum")
            for other in candidates:
                if other is not chosen:
                    self.notes.append(f"{chosen.name} and {other.name} are summed: the sum is fused into "
                                      f"{chosen.name}, the later one, as its residual")

    def fuse_activation(self, layer):
        found = find_activation(self.graph, layer.end, lambda name: self.channel_values(layer, name))
        if found is None:
            return
        layer.activation = (found.name, found.parameters)
        self.used.update(id(node) for node in found.nodes)
        layer.nodes += found.nodes
        self.fused[found.what()] += 1
        layer.end = found.output

    # ---- Quantisation

    def fold_quantization(self, layer):
        """DequantizeLinear of x, w and perhaps the bias, the operator, QuantizeLinear: an operator on 8-bit tensors."""
        dequantize = quantization.dequantizer(self.graph, layer.inputs["x"])
        if dequantize is None:
            return
        try:
            inputs, table, bias, rounded = quantization.of_dequantizers(self.graph, layer, dequantize)
        except NodeError as error:
            dtype = DTYPES.get(self.graph.element_type(layer.inputs["x"]), "as it is")
            self.notes.append(f"{layer.name} stays {dtype}, though its input is quantised: {error}")
            return
        layer.inputs, layer.quantization, layer.bias_values, layer.affine = inputs, table, bias, []
        table["y_dtype"] = "float32"
        if rounded:
            self.notes.append(f"the bias of {layer.name} is rounded to a multiple of x_scale * w_scale")
        node = self.graph.only_reader(layer.end)
        if node is None or not is_onnx(node) or node.op_type != "QuantizeLinear":
            return
        try:
            table.update(quantization.of_quantizer(self.graph, node))
            self.take(layer, node, "QuantizeLinear")
        except NodeError as error:
            self.notes.append(f'the QuantizeLinear that makes "{node.output[0]}" stays outside: {error}')

    def use_dequantizers(self, layers):
        """A DequantizeLinear is gone where nobody but quantised layers reads it."""
        convolutions = {id(layer.node) for layer in layers if layer.quantization}
        for node in self.graph.nodes:
            if node.op_type == "DequantizeLinear" and node.output[0] not in self.graph.outputs:
                readers = self.graph.readers[node.output[0]]
                if readers and all(id(reader) in convolutions for reader in readers):
                    self.used.add(id(node))
                    self.fused["DequantizeLinear"] += 1

    # ---- Notes

    def fused_notes(self):
        for what, count in self.fused.items():
            verb = "folded" if what in FOLDED else "fused"
            yield f"{verb}: {what} x{count}"
        for dtype, names in self.rounded.items():
            yield f"what is folded into {', '.join(names)} is rounded to {dtype} with the weights"

    def branch_notes(self):
        constant, both = self.graph.branches["constant"], self.graph.branches["open"]
        if constant:
            yield f"replaced by the branch that is taken, as the condition is constant: If x{constant}"
        if both:
            yield f"decided when the model runs, so that the layers of both branches are here: If x{both}"
        yield from self.graph.misfits

    def open_notes(self):
        count = sum("?" in table["x"] for table in self.tables)
        if count:
            yield f"sizes of x are left to run time in {count} of {len(self.tables)} layers, which costs speed" \
                  + "".join(f"; {hint}" for hint in self.graph.hints)

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
        for verb, counter in (("left out, being copies", self.graph.copies), ("computed as constants", folded),
                              ("skipped", skipped),
                              ("skipped inside Loop or Scan", inner)):
            if counter:
                yield f"{verb}: " + ", ".join(f"{kind} x{count}" for kind, count in counter.most_common())


def convolutions_inside(node):
    for graph in subgraphs(node):
        for inner in graph.node:
            if is_layer(inner):
                yield inner.op_type
            yield from convolutions_inside(inner)
