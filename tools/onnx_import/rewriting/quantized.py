"""Nodes that only move or select elements, between a DequantizeLinear and a QuantizeLinear: they do so with bytes as well as
with floats, which are four times as large. Quantisers put the pair around every node of a model. And weights of bytes."""

import collections
import itertools

import numpy as np
import onnx

from operations import is_map
from operations.base import NUMPY_TYPES
from operations.gathering import Windows
from rewriting.idle import make_outputs_at_once, renamed
from terms import AFFINE, BYTES, NARROW_FLOATS, NodeError, attribute_values, copied, input_name, is_layer, is_onnx, outer_names

# Those whose results are elements of their first input: all else that they read says which, but for a Pad's number.
MOVES = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Gather", "Identity", "Expand", "Tile",
         "DepthToSpace", "SpaceToDepth", "Resize", "Upsample", "MaxPool", "Pad"}
# Nodes that make bytes of floats, or floats of bytes: a Cast of bytes is a DequantizeLinear by 1, of a scheme of its own.
QUANTIZING = ("QuantizeLinear", "DequantizeLinear", "Cast")
# No more nodes that change channels are looked through in search of a layer.
MOST_FACTORS = 8


class Scheme(collections.namedtuple("Scheme", "scale zero_point element_type wide")):
    """How a tensor is quantised as a whole, and the type of its floats; schemes that are equal give the same bytes."""

    def byte_of(self, number):
        """What a float is quantised to; NaN, as by kernels, to the least number."""
        limits = np.iinfo(NUMPY_TYPES[self.element_type])
        if np.isnan(number):
            return int(limits.min)
        quotient = np.rint(np.float32(number) / np.float32(self.scale)) if np.isfinite(number) else number
        return int(min(max(quotient + self.zero_point, limits.min), limits.max))

    def float_of(self, byte):
        return float(np.float32(byte - self.zero_point) * np.float32(self.scale))


# Where nodes have weights of bytes, and their zero points; and the axis of these where the node does not say.
WEIGHTS = {"DequantizeLinear": (0, 2, 1), "QLinearConv": (3, 5, 0), "ConvInteger": (1, 3, 0), "MatMulInteger": (1, 3, -1)}
WEIGHT_TYPES = (*BYTES, "INT4", "UINT4")


def with_signed_weights(graph):
    """Makes weights of bytes, or of halves of them, int8 without zero points, where they fit: by others numbers of 16 bits are
    multiplied."""
    made, nodes = {}, []
    for node in graph.nodes:
        place, point, axis = WEIGHTS[node.op_type] if is_onnx(node) and node.op_type in WEIGHTS else (0, 0, 0)
        key = input_name(node, place), input_name(node, point), attribute_values(node).get("axis", axis)
        if point and all(name in graph.constants for name in key[:2] if name):
            if key not in made:
                made[key] = signed(graph, *key)
            if made[key]:
                inputs = list(node.input)
                inputs[place] = made[key][0]
                inputs[point:point + 1] = [made[key][1]] if key[1] else inputs[point:point + 1]
                node = copied(node, inputs)
        nodes.append(node)
    if any(made.values()):
        graph.set_nodes(nodes)


def signed(graph, name, point_name, axis):
    """The names of integers less their zero points, as int8, and of points that are 0; None where they do not fit, or are
    so already."""
    if graph.element_type(name) not in WEIGHT_TYPES:
        return None
    try:
        values = np.asarray(graph.value(name)).astype(np.int16)
        points = np.asarray(graph.value(point_name)).astype(np.int16) if point_name else np.zeros([], np.int16)
    except NodeError:  # whoever takes the node tells it
        return None
    if points.size == 1:
        values = values - points.reshape(-1)[0]
    elif points.ndim == 1 and -values.ndim <= axis < values.ndim and values.shape[axis] == points.size:
        values = np.moveaxis(np.moveaxis(values, axis, -1) - points, -1, axis)
    else:
        return None
    is_so = graph.element_type(name) in BYTES and not points.any()
    if is_so or not values.size or values.min() < -128 or values.max() > 127:
        return None
    new = f"{name}/signed/{point_name}/{axis}", f"{point_name}/none"
    graph.add_constant(new[0], np.ascontiguousarray(values.astype(np.int8)))
    graph.add_constant(new[1], np.zeros(points.shape, np.int8))
    return new


def has_limits_in_front(graph):
    """Whether a Relu or Clip was moved in front of the QuantizeLinear and DequantizeLinear that it reads: what makes their
    tensor is a layer, which has it as its activation. Where its limits are bytes, or beyond these, it makes the same."""
    moved = {}
    for node in graph.nodes:
        dequantize = graph.makers.get(node.input[0]) if is_onnx(node) and node.op_type in ("Relu", "Clip") else None
        maker = graph.makers.get(dequantize.input[0]) if dequantize is not None and dequantize.input else None
        scheme = scheme_of(graph, dequantize) if maker is not None else None
        if scheme is None or graph.only_reader(dequantize.input[0]) is not dequantize \
                or graph.only_reader(node.input[0]) is not node or not are_bytes(graph, node, scheme):
            continue
        *nodes, quantize = opened(graph, maker) if maker.op_type == "QLinearConv" else [maker]
        if scheme_of(graph, quantize) != scheme or not (nodes or is_of_layer(graph, quantize)):
            continue
        made, x = f"{node.output[0]}/limited", quantize.input[0]
        graph.set_type(made, scheme.wide, graph.shape(x))
        moved[id(maker)] = [*nodes, copied(node, [x, *node.input[1:]], [made]), copied(quantize, [made, *quantize.input[1:]])]
        moved[id(dequantize)] = [copied(dequantize, outputs=list(node.output))]
        moved[id(node)] = []
    if moved:
        graph.set_nodes([part for node in graph.nodes for part in moved.get(id(node), [node])])
    return bool(moved)


def is_of_layer(graph, quantize):
    """Whether a QuantizeLinear alone reads a layer's result, or what factors and sums make of one: what is in front of it
    may be the layer's activation."""
    name = quantize.input[0]
    for _ in range(MOST_FACTORS):
        node = graph.makers.get(name)
        if node is None or graph.only_reader(name) is None:
            return False
        if is_layer(node):
            return True
        if not is_onnx(node) or node.op_type not in AFFINE:
            return False
        name = next((other for other in node.input if other not in graph.constants), "")
    return False


def opened(graph, node):
    """A QLinearConv as a Conv of floats between nodes that make these of bytes, and a QuantizeLinear, which is the last."""
    x, w = list(node.input[:3]), list(node.input[3:6])
    end = node.output[0]
    if node.domain not in ("", "ai.onnx") or not all(name in graph.constants for name in [*x[1:], *node.input[3:]]):
        return [node]
    sides, inputs = [("x", x), ("w", w)], []
    if input_name(node, 8):
        scale = np.float32(np.asarray(graph.value(x[1])).reshape(-1)[0]) * np.asarray(graph.value(w[1]), np.float32)
        graph.add_constant(f"{end}/bias_scale", scale)
        sides.append(("bias", [node.input[8], f"{end}/bias_scale"]))
    nodes = []
    for side, names in sides:
        inputs.append(f"{end}/{side}")
        nodes.append(onnx.helper.make_node("DequantizeLinear", names, inputs[-1:], axis=0))
        graph.set_type(inputs[-1], "FLOAT", graph.shape(names[0]))
        if side != "x":
            graph.constants.add(inputs[-1])
    graph.set_type(f"{end}/floats", "FLOAT", graph.shape(end))
    nodes.append(onnx.helper.make_node("Conv", inputs, [f"{end}/floats"], node.name))
    nodes[-1].attribute.extend(node.attribute)
    return [*nodes, onnx.helper.make_node("QuantizeLinear", [f"{end}/floats", *node.input[6:8]], [end])]


def are_bytes(graph, node, scheme):
    """Whether a Relu's or Clip's limits are what some bytes stand for, or are beyond all of them."""
    if node.op_type == "Relu":
        limits = [0.0]
    elif graph.opset < 11:
        limits = [attribute_values(node).get(name) for name in ("min", "max")]
    else:
        names = [name for name in node.input[1:3] if name]
        if not all(name in graph.constants for name in names):
            return False
        limits = [float(graph.value(name)) for name in names]
    return all(is_byte(scheme, limit) for limit in limits if limit is not None)


def is_byte(scheme, number):
    """A byte stands for a number, or it is beyond all of them."""
    low, high = (scheme.float_of(scheme.byte_of(end)) for end in (-np.inf, np.inf))
    nearest = scheme.float_of(scheme.byte_of(number))
    return number <= low or number >= high or bool(np.isclose(nearest, number, rtol=1e-6, atol=0))


def with_quantized_moves(graph):
    """Moves each DequantizeLinear behind such nodes and each QuantizeLinear in front of them, until none can go on."""
    moves = Moves(graph)
    while has_limits_in_front(graph) | moves.down() | moves.up():
        pass
    make_outputs_at_once(graph, {name for node in graph.nodes for name in outer_names(node)})


class Moves:
    """A DequantizeLinear only goes down and a QuantizeLinear only up: where two of one scheme meet, both are gone."""

    def __init__(self, graph):
        self.graph = graph

    def set_nodes(self, nodes):
        """Without those that quantise, or the other way around, what nobody reads any more."""
        kept, read = [], {*self.graph.outputs, *(name for node in nodes for name in outer_names(node))}
        for node in reversed(nodes):
            if is_onnx(node) and node.op_type in QUANTIZING and not read.intersection(node.output):
                continue
            read.update(node.input)
            kept.append(node)
        self.graph.set_nodes(kept[::-1])

    def new_bytes(self, name, element_type, shape):
        """The name of a new value, of what another one is quantised to."""
        names = (f"{name}/quantized{number or ''}" for number in itertools.count())
        new = next(name for name in names if name not in self.graph.types and name not in self.graph.makers)
        self.graph.set_type(new, element_type, shape)
        return new

    # ---- DequantizeLinear

    def down(self):
        """Whether any DequantizeLinear was moved, or a QuantizeLinear left out that makes what is there already."""
        names, floats, known, nodes, changed = {}, {}, {}, [], False
        for node in self.graph.nodes:
            node = renamed(node, names)
            scheme = scheme_of(self.graph, node)
            if scheme and node.op_type != "QuantizeLinear":
                floats[node.output[0]] = (node, scheme)
            elif scheme:
                same = self.bytes_of(node, scheme, floats, known)
                if same is not None:
                    changed = True
                    if node.output[0] not in self.graph.outputs:
                        names[node.output[0]] = same
                        continue
                    node = onnx.helper.make_node("Identity", [same], list(node.output), node.name)
                else:
                    known[node.input[0], scheme] = node.output[0]
            elif data := self.data_of(node):
                found = [floats.get(node.input[place], (None, None)) for place in data]
                if None not in found[0] and all(other == found[0][1] for _, other in found) and self.fits(node, found[0][1]):
                    made = self.moved_down(node, data, [maker for maker, _ in found], found[0][1])
                    floats.update((part.output[0], (part, found[0][1])) for part in made[1:])
                    nodes += made
                    changed = True
                    continue
            nodes.append(node)
        if changed:
            self.set_nodes(nodes)
        return changed

    def bytes_of(self, node, scheme, floats, known):
        """The value that a QuantizeLinear gives, where there is one: what its input was dequantised from, which rounding finds
        again, or the result of another one."""
        maker, other = floats.get(node.input[0], (None, None))
        return maker.input[0] if other == scheme else known.get((node.input[0], scheme))

    def moved_down(self, node, data, makers, scheme):
        """The node reading bytes, and a DequantizeLinear for each of its results."""
        inputs, outputs, behind = list(node.input), list(node.output), []
        for place, maker in zip(data, makers):
            inputs[place] = maker.input[0]
        self.fill(node, inputs, scheme)
        for place, name in enumerate(node.output):
            if name:
                outputs[place] = self.new_bytes(name, scheme.element_type, self.graph.shape(name))
                behind.append(copied(makers[0], [outputs[place], *makers[0].input[1:]], [name]))
        return [copied(node, inputs, outputs), *behind]

    # ---- QuantizeLinear

    def up(self):
        """Whether any QuantizeLinear was moved."""
        gone, replaced = set(), {}
        for node in self.graph.nodes:
            data = self.data_of(node)
            readers = self.quantizers_behind(node) if data else []
            if readers and self.pays(node, [node.input[place] for place in data]):
                gone.update(id(reader) for reader in readers)
                replaced[id(node)] = self.moved_up(node, data, readers)
        if replaced:
            self.set_nodes([part for node in self.graph.nodes if id(node) not in gone
                            for part in replaced.get(id(node), [node])])
        return bool(replaced)

    def quantizers_behind(self, node):
        """A QuantizeLinear for each of the node's results, all of one scheme, that alone reads it; else none."""
        readers = [self.graph.only_reader(name) for name in node.output if name]
        schemes = {reader and scheme_of(self.graph, reader) for reader in readers}
        alike = len(schemes) == 1 and None not in schemes and all(reader.op_type == "QuantizeLinear" for reader in readers)
        return readers if alike else []

    def pays(self, node, names):
        """Whether no more elements are quantised in front of a node, or whatever makes them does it on the way."""
        before, after = (sum(int(np.prod(self.graph.shape(name), dtype=np.int64)) for name in some if name)
                         for some in (dict.fromkeys(names), node.output))
        return before <= after or all(self.graph.only_reader(name) is node and self.takes(name) for name in names)

    def takes(self, name):
        maker = self.graph.makers.get(name)
        return maker is not None and (is_map(maker, self.graph) or is_layer(maker) or self.data_of(maker) is not None)

    def moved_up(self, node, data, readers):
        """A QuantizeLinear for each input, and the node reading bytes."""
        inputs, made = list(node.input), {}
        for place in data:
            x = node.input[place]
            if x not in made:
                name = self.new_bytes(x, self.graph.element_type(readers[0].output[0]), self.graph.shape(x))
                made[x] = copied(readers[0], [x, *readers[0].input[1:]], [name])
                if x in self.graph.constants:
                    self.graph.constants.add(name)
            inputs[place] = made[x].output[0]
        self.fill(node, inputs, scheme_of(self.graph, readers[0]))
        results = iter(reader.output[0] for reader in readers)
        return [*made.values(), copied(node, inputs, [next(results) if name else name for name in node.output])]

    # ---- What moves

    def number_of(self, node):
        """What a Pad puts there, or None where it is what is there, or no Pad."""
        if node.op_type != "Pad" or attribute_values(node).get("mode", b"constant") != b"constant":
            return None
        name = input_name(node, 2)
        value = np.asarray(self.graph.value(name)) if name else np.zeros(1)
        return float(value.reshape(-1)[0]) if value.size else 0.0

    def fits(self, node, scheme):
        """Whether a byte stands for what a Pad puts there."""
        number = self.number_of(node)
        return number is None or scheme.float_of(scheme.byte_of(number)) == number

    def fill(self, node, inputs, scheme):
        """Has a Pad put a byte there."""
        number = self.number_of(node)
        if number is not None:
            inputs.extend([""] * (3 - len(inputs)))
            inputs[2] = f"{node.output[0]}/byte"
            self.graph.add_constant(inputs[2], np.asarray(scheme.byte_of(number), NUMPY_TYPES[scheme.element_type]))

    def data_of(self, node):
        """The places of the inputs whose elements a node moves; None where it computes something, or is known."""
        graph = self.graph
        if not is_onnx(node) or not node.input or any(name in graph.constants for name in node.output) \
                or not all(graph.shape(name) for name in [node.input[0], *filter(None, node.output)]):
            return None
        if node.op_type == "Concat":
            return list(range(len(node.input))) if all(graph.shape(name) for name in node.input) else None
        known = node.op_type == "Gather" or all(name in graph.constants for name in node.input[1:] if name)
        if node.op_type not in MOVES or not known or (node.op_type != "Split" and any(node.output[1:])) \
                or (node.op_type == "Pad" and graph.opset < 11):  # whose number is an attribute
            return None
        attributes = attribute_values(node)
        if node.op_type in ("Resize", "Upsample"):
            picks = attributes.get("mode", b"nearest") == b"nearest" \
                and attributes.get("coordinate_transformation_mode") != b"tf_crop_and_resize"
            return [0] if picks else None
        return [0] if node.op_type != "MaxPool" or has_whole_windows(graph, node, attributes) else None


def scheme_of(graph, node):
    """How a node quantises its tensor, or what it dequantises; None where it does neither, or by more than two numbers that are
    known."""
    if not is_onnx(node) or node.op_type not in QUANTIZING:
        return None
    small, wide = (node.output[0], node.input[0]) if node.op_type == "QuantizeLinear" else (node.input[0], node.output[0])
    element_type, wide_type = (graph.element_type(name) for name in (small, wide))
    if element_type not in BYTES or not graph.shape(wide) \
            or (wide in graph.constants and node.op_type != "DequantizeLinear"):
        return None
    if node.op_type == "Cast":
        return Scheme(1.0, 0, element_type, wide_type) if wide_type in ("FLOAT", *NARROW_FLOATS) else None
    names, attributes = [name for name in node.input[1:3] if name], attribute_values(node)
    if wide_type != "FLOAT" or attributes.get("block_size", 0) or attributes.get("precision", 0) \
            or not all(name in graph.constants for name in names):
        return None
    try:
        numbers = [np.asarray(graph.value(name)) for name in names]
    except NodeError:  # whoever takes the node tells it
        return None
    if any(number.size != 1 or number.ndim > 1 for number in numbers) or numbers[0].dtype != np.float32:
        return None
    scale, zero_point = float(numbers[0].reshape(-1)[0]), int(numbers[1].reshape(-1)[0]) if input_name(node, 2) else 0
    # Else products by it, and quotients of these, are not near the integers.
    is_usual = float(np.finfo(np.float32).tiny) <= scale <= 1e30
    return Scheme(scale, zero_point, element_type, wide_type) if is_usual else None


def has_whole_windows(graph, node, attributes):
    """Whether each of a MaxPool's windows has an element, which the largest of bytes then is as of floats: of padding alone
    they make different numbers."""
    shape, result = graph.shape(node.input[0]), graph.shape(node.output[0])
    try:
        windows = Windows(attributes, shape, result)
    except NodeError:
        return False
    for size, count, kernel, stride, dilation, begin in zip(shape[2:], result[2:], windows.kernel, windows.strides,
                                                            windows.dilations, windows.begin):
        places = np.arange(count)[:, None] * stride - begin + np.arange(kernel) * dilation
        if not ((places >= 0) & (places < size)).any(axis=1).all():
            return False
    return True
