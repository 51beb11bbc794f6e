"""A layer as a dict of plain values, which a line of JSON can keep: its case of kiln run, with tensors, and its value.

    operator, name     what is computed, and the dialect's name for it; dialect, opset, profile
    dtype, types       of all tensors; of x, w and y where that is int8
    layouts, w_layout  of x and y, and of the filter
    batch, channels, out_channels, group, offset_group, sizes, kernel
    attributes         as the document has them
    activation, parameters, bias, residual, mask, per_channel, w_zero_point, strict
    data               what seeds the tensors
"""

import itertools
import math
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import reference  # noqa: E402

# What dialects call the attributes that follow from a layer's other values.
NAMES = {
    "onnx": {"group": "group", "offset_group": "offset_group", "kernel": "kernel_shape", "strides": "strides",
             "dilations": "dilations"},
    "onednn-graph": {"group": "groups", "strides": "strides", "dilations": "dilations"},
    "tensorrt": {"group": "num_groups", "kernel": "kernel_size_nd", "out_channels": "num_output_maps",
                 "strides": "stride_nd", "dilations": "dilation_nd"},
}  # fmt: skip
NAMES["ms-nhwc"] = NAMES["onnx"]
GROUPS = ("group", "offset_group")


def with_attributes(layer):
    """The layer with those attributes as its other values have them. One of 1 group is left out."""
    attributes = dict(layer["attributes"])
    for key, name in NAMES[layer["dialect"]].items():
        if key in GROUPS and layer[key] == 1:
            attributes.pop(name, None)
        elif key in GROUPS or (key in layer and name in attributes):
            attributes[name] = layer[key]
    return layer | {"attributes": attributes}


def geometry(layer):
    sizes, kernel, attributes, dialect = (layer[key] for key in ("sizes", "kernel", "attributes", "dialect"))
    if dialect == "tensorrt":
        return reference.tensorrt_conv(sizes, kernel, attributes)
    if dialect == "onednn-graph":
        return reference.onednn_conv_transpose(sizes, kernel, attributes)
    if layer["operator"] != "ConvTranspose":
        return reference.onnx_conv(sizes, kernel, attributes)
    first_version = dialect == "ms-nhwc" or layer["opset"] == 1
    return reference.onnx_conv_transpose(sizes, kernel, attributes, first_version, layer["profile"] == "ort")


def products(layer):
    """How much work a layer is, in products; less than 0 where it is none: its output is empty, or its input is less than one
    kernel. An empty batch, or an empty input of a ConvTranspose, is one."""
    g, sizes, kernel = geometry(layer), layer["sizes"], layer["kernel"]
    if min(g.out) < 1 or min(g.begin) < 0:
        return -1
    transposed = layer["operator"] == "ConvTranspose"
    if not transposed and min(sizes) > 0:
        dilations = reference.per_axis(layer["attributes"], NAMES[layer["dialect"]]["dilations"], len(sizes))
        reach = [reference.effective(k, d) for k, d in zip(kernel, dilations)]
        if any(size + b + e < r for size, b, e, r in zip(sizes, g.begin, g.end, reach)):
            return -1
    weights = layer["channels"] * layer["out_channels"] // layer["group"] * math.prod(kernel)
    outputs = layer["out_channels"] * math.prod(g.out)
    return layer["batch"] * max(math.prod(sizes if transposed else g.out) * weights, 10 * outputs)


def to_bfloat16(values):
    """The nearest bfloat16 numbers, ties to even, as bit patterns."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def encode(values, dtype):
    return to_bfloat16(values) if dtype == "bfloat16" else np.asarray(values).astype(dtype)


def decode(array, dtype):
    """Numbers that NumPy can compute with."""
    return from_bfloat16(array) if dtype == "bfloat16" else array


class Layer:
    """A layer and its tensors. `case` is its line of a cases file, with arrays; `expected()` its value."""

    def __init__(self, layer):
        self.layer = layer
        self.operator, self.name, self.dialect, self.dtype = (layer[k] for k in ("operator", "name", "dialect", "dtype"))
        self.types = layer["types"] and [np.dtype(name).type for name in layer["types"]]
        self.sizes, self.kernel, self.rank = layer["sizes"], layer["kernel"], len(layer["sizes"])
        self.batch, self.channels, self.out_channels = (layer[k] for k in ("batch", "channels", "out_channels"))
        self.group, self.offset_group, self.attributes = (layer[k] for k in ("group", "offset_group", "attributes"))
        self.activation, self.parameters, self.layouts = (layer[k] for k in ("activation", "parameters", "layouts"))
        if reference.ACTIVATIONS[self.activation].takes_slopes:  # in turns, however many channels there are
            self.parameters = list(itertools.islice(itertools.cycle(self.parameters), layer["out_channels"]))
        names = NAMES[self.dialect]
        self.strides, self.dilations = (
            reference.per_axis(self.attributes, names[key], self.rank) for key in ("strides", "dilations")
        )
        self.geometry = geometry(layer)
        self.data = np.random.default_rng(layer["data"])
        self.make_tensors()

    def floats(self, shape, scale=1.0):
        return encode(scale * self.data.standard_normal(shape), self.dtype)

    def make_tensors(self):
        group_out = self.out_channels // self.group
        w_shape = [self.out_channels, self.channels // self.group, *self.kernel]
        if self.operator == "ConvTranspose":
            w_shape = [self.channels, group_out, *self.kernel]
        self.x_shape, self.w_shape = [self.batch, self.channels, *self.sizes], w_shape
        self.y_shape = [self.batch, self.out_channels, *self.geometry.out]
        self.bias = self.residual = self.offset = self.mask = None
        if self.types is not None:
            return self.make_integers()
        self.x, self.w = self.floats(self.x_shape), self.floats(w_shape, math.prod(w_shape[1:]) ** -0.5)
        if self.layer["bias"]:
            self.bias = self.floats([self.out_channels])
        if self.layer["residual"]:
            self.residual = self.floats(self.y_shape)
        if self.operator == "DeformConv":
            taps = self.offset_group * math.prod(self.kernel)
            self.offset = encode(self.make_offsets(taps), self.dtype)
            if self.layer["mask"]:
                self.mask = self.floats([self.batch, taps, *self.geometry.out])

    def make_offsets(self, taps):
        """Near ones, whole ones, and now and then one that is not finite, far away, or just past a border."""
        shape = [self.batch, taps * self.rank, *self.geometry.out]
        offsets = 2 * self.data.standard_normal(shape)
        kind = self.data.random(shape)
        offsets = np.where(kind < 0.2, np.round(offsets), offsets)
        hostile = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9, -1, max(self.sizes), -max(self.sizes)])
        with np.errstate(over="ignore"):
            return np.where(kind > 0.93, self.data.choice(hostile, shape), offsets).astype(
                "float32" if self.dtype == "bfloat16" else self.dtype
            )

    def make_integers(self):
        """Scales and zero points are such that y takes most values of its type."""
        x_type, w_type, y_type = self.types

        def integers(shape, dtype):
            limits = np.iinfo(dtype)
            return self.data.integers(limits.min, limits.max, shape, dtype, endpoint=True)

        self.x, self.w = integers(self.x_shape, x_type), integers(self.w_shape, w_type)
        has_zero_points = self.dialect == "onnx"
        count = self.out_channels if self.layer["per_channel"] else 1
        self.x_zero_point = integers([1], x_type) if has_zero_points else np.zeros(1, x_type)
        self.y_zero_point = np.zeros(1, y_type)
        self.w_zero_point = np.zeros(1, w_type)
        if has_zero_points and y_type in (np.int8, np.uint8):
            self.y_zero_point = integers([1], y_type)
        if self.layer["w_zero_point"]:
            self.w_zero_point = integers([count], w_type)
        deviation = 5000 * math.sqrt(self.channels // self.group * math.prod(self.kernel))
        self.x_scale = np.array([0.02], np.float32)
        self.w_scale = (self.data.random(count) + 0.5).astype(np.float32) / np.float32(0.02 * deviation)
        self.y_scale = np.array([1 / 50], np.float32)
        if self.layer["bias"]:
            real = self.dialect == "tensorrt"
            self.bias = self.data.standard_normal(self.out_channels).astype(np.float32) if real else \
                self.data.integers(-30000, 30000, self.out_channels, np.int32)  # fmt: skip

    # The case.

    def in_document_order(self, array):
        """From (N, C, ...) to the dialect's dimension order, and back with `from_document_order`."""
        return np.moveaxis(array, 1, -1) if self.is_channels_last() else array

    def from_document_order(self, array):
        return np.moveaxis(array, -1, 1) if self.is_channels_last() else array

    def is_channels_last(self):
        return self.dialect == "ms-nhwc" or (
            self.dialect == "onednn-graph" and self.attributes.get("data_format", "NXC") == "NXC"
        )

    def filter_in_document_order(self):
        if self.dialect != "onednn-graph":
            return self.w
        spatial = list(range(2, 2 + self.rank))
        # self.w is (I, O, X).
        orders = {"OIX": [1, 0, *spatial], "IOX": [0, 1, *spatial], "XIO": [*spatial, 0, 1], "XOI": [*spatial, 1, 0]}
        return np.transpose(self.w, orders[self.attributes.get("filter_format", "XIO")])

    def case(self, name):
        case = {"name": name, "operator": self.name, "dialect": self.dialect, "attributes": self.attributes,
                "layouts": {"x": self.layouts[0], "y": self.layouts[1]}}  # fmt: skip
        if self.dialect == "onnx":
            case["opset"] = self.layer["opset"]
        if self.layer["profile"] != "spec":
            case["profile"] = self.layer["profile"]
        if self.layer["w_layout"]:
            case["layouts"]["w"] = self.layer["w_layout"]
        if self.activation is not None:
            case["activation"] = self.activation
            if self.parameters:
                case["activation_params"] = self.parameters
        case["dtype"] = self.dtype if self.types is None else np.dtype(self.types[0]).name
        if self.layer["strict"]:
            case["accuracy"] = "strict"
        case["inputs"] = self.inputs(case)
        return case

    def inputs(self, case):
        x, w = self.in_document_order(self.x), self.filter_in_document_order()
        if self.name in ("QLinearConv", "ConvInteger"):
            inputs = {"x": x, "w": w, "x_zero_point": self.x_zero_point, "w_zero_point": self.w_zero_point}
            if self.name == "QLinearConv":
                inputs |= {"x_scale": self.x_scale, "w_scale": self.w_scale, "y_scale": self.y_scale}
                inputs["y_zero_point"] = self.y_zero_point
            if self.bias is not None:
                inputs["B"] = self.bias
            return inputs
        if self.types is not None:
            case["quantization"] = self.quantization()
        names = {"onednn-graph": ["input", "filter", "bias"], "tensorrt": ["input", "kernel", "bias"]}
        names = names.get(self.dialect, ["X", "W", "B"])
        inputs = dict(zip(names, [x, w]))
        if self.bias is not None:
            inputs[names[2]] = self.bias
        if self.residual is not None:
            inputs["residual"] = self.in_document_order(self.residual)
        if self.offset is not None:
            inputs["offset"] = self.offset
        if self.mask is not None:
            inputs["mask"] = self.mask
        return inputs

    def quantization(self):
        quantization = {"x_scale": float(self.x_scale[0]), "w_scale": [float(s) for s in self.w_scale],
                        "y_scale": float(self.y_scale[0]), "y_dtype": np.dtype(self.types[2]).name}  # fmt: skip
        if self.dialect == "onnx":
            quantization["x_zero_point"] = int(self.x_zero_point[0])
            quantization["y_zero_point"] = int(self.y_zero_point[0])
            quantization["w_zero_point"] = [int(z) for z in self.w_zero_point]
        return quantization

    # Its value.

    def y_type(self):
        return self.dtype if self.types is None else np.dtype(self.types[2]).name

    def expected(self):
        c = reference.Convolution(self.operator, self.strides, self.dilations, self.geometry, self.group, self.offset_group)
        if self.types is not None:
            return reference.compute_quantised(
                c, self.x, self.w, self.x_zero_point[0], self.w_zero_point, self.bias, self.types[2],
                (self.x_scale, self.w_scale, self.y_scale), self.y_zero_point[0], self.activation, self.parameters,
            )  # fmt: skip
        names = ["x", "w", "bias", "residual", "offset", "mask"]
        tensors = {n: decode(getattr(self, n), self.dtype) for n in names if getattr(self, n) is not None}
        return reference.compute(c, self.dtype, activation=self.activation, parameters=self.parameters, **tensors)
