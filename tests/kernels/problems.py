"""Random cases of kiln run, drawn over operators, dialects, types, ranks, layouts and attributes, with their values."""

import math
import random
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import reference  # noqa: E402

OPERATORS = ["Conv", "ConvTranspose", "DeformConv"]
FLOATS = ["float32", "float64", "float16", "bfloat16"]
TYPES = [*FLOATS, "int8"]
RANKS = [1, 2, 3, 4, 5]
LAYOUTS = [("NCX", "NCX"), ("NCX", "NXC"), ("NXC", "NCX"), ("NXC", "NXC")]

# What a document lists; everything else is invalid there.
DOCUMENTED = {(operator, dtype) for operator in OPERATORS for dtype in FLOATS} | {("Conv", "int8"), ("ConvTranspose", "int8")}

# Every combination of them: draws go through these in turn, mixed, so that a few draws are of many kinds.
CELLS = [
    (operator, dtype, rank, layouts)
    for rank in RANKS
    for operator in OPERATORS
    for dtype in TYPES
    if (operator, dtype) in DOCUMENTED
    for layouts in LAYOUTS
]
random.Random(0).shuffle(CELLS)

CHANNELS = [1, 2, 3, 8, 16, 17, 21, 32, 40]
KERNELS = {1: [1, 2, 3, 3, 4, 5, 7], 2: [1, 2, 3, 3, 4, 5, 7], 3: [1, 2, 3, 4], 4: [1, 2, 3], 5: [1, 2]}
LARGEST_SIZE = {1: 40, 2: 19, 3: 8, 4: 5, 5: 4}

ACTIVATIONS = {name: row.drawn for name, row in reference.ACTIVATIONS.items() if name is not None}

# Quantised layers: the dialect's own operator, the types of x, w and y, and the ranks it is drawn in. All meet in 2-D;
# elsewhere there are few, since each is a generic kernel of its own.
INTEGER_CONVS = [
    ("QLinearConv", np.uint8, np.int8, np.uint8, (1, 2, 5)),
    ("QLinearConv", np.int8, np.int8, np.int8, (2, 3)),
    ("QLinearConv", np.uint8, np.uint8, np.uint8, (2, 4)),
    ("ConvInteger", np.uint8, np.int8, np.int32, (1, 2)),
    ("ConvInteger", np.uint8, np.uint8, np.int32, (2, 5)),
    ("Convolution", np.int8, np.int8, np.int8, (2,)),
    ("Convolution", np.int8, np.int8, np.float32, (2, 3)),
]
INTEGER_TRANSPOSES = [
    ("ConvTranspose", np.uint8, np.int8, np.uint8, (1, 2, 4)),
    ("ConvTranspose", np.int8, np.int8, np.int8, (2, 3, 5)),
]


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


class Draw:
    """One random layer and its tensors. `case` is its line of a cases file, with arrays; `expected()` its value."""

    def __init__(self, cell, rng, data, most_products):
        self.cell = cell
        self.operator, self.dtype, self.rank, self.layouts = cell
        self.rng, self.data = rng, data
        while True:
            self.draw_layer()
            if self.is_usable(most_products):
                break
        self.draw_tensors()

    def chance(self, probability):
        return self.rng.random() < probability

    # The layer.

    def draw_layer(self):
        rng = self.rng
        self.draw_dialect()
        self.draw_channels()
        self.kernel = [rng.choice(KERNELS[self.rank]) for _ in range(self.rank)]
        self.sizes = [rng.randrange(1, LARGEST_SIZE[self.rank] + 1) for _ in range(self.rank)]
        self.batch = rng.choice([1, 1, 2, 3])
        if self.chance(0.03):
            self.batch = 0
        elif self.chance(0.03) and self.operator == "ConvTranspose":
            self.sizes[rng.randrange(self.rank)] = 0
        self.strides = [rng.choice([1, 1, 2, 3]) for _ in range(self.rank)]
        self.dilations = [rng.choice([1, 1, 1, 2, 3]) for _ in range(self.rank)]
        {"onnx": self.draw_onnx, "ms-nhwc": self.draw_onnx, "onednn-graph": self.draw_onednn,
         "tensorrt": self.draw_tensorrt}[self.dialect]()  # fmt: skip

    def draw_dialect(self):
        rng = self.rng
        self.opset, self.name, self.types = 22, self.operator, None
        choices = ["onnx"]
        if self.dtype == "int8":
            rows = INTEGER_CONVS if self.operator == "Conv" else INTEGER_TRANSPOSES
            self.name, *self.types, _ = rng.choice([row for row in rows if self.rank in row[-1]])
            self.dialect = "tensorrt" if self.name == "Convolution" else "onnx"
            return
        if self.operator == "Conv" and self.dtype != "float64" and self.rank <= 3:
            choices.append("tensorrt")
        if self.operator == "ConvTranspose":
            choices += ["ms-nhwc"] if self.dtype != "bfloat16" else []
            choices += ["onednn-graph"] if self.dtype != "float64" else []
        self.dialect = rng.choice(choices)
        if self.dialect == "tensorrt":
            self.name = "Convolution"
        if self.dialect == "onnx" and self.dtype != "bfloat16":
            self.opset = rng.choice([19, 22] if self.operator == "DeformConv" else [1, 11, 22])

    def draw_channels(self):
        rng = self.rng
        kind = rng.choice(["dense", "dense", "grouped", "depthwise"])
        self.group, self.offset_group = 1, 1
        if kind == "dense":
            self.channels, self.out_channels = rng.choice(CHANNELS), rng.choice(CHANNELS)
        elif kind == "grouped":
            self.group = rng.choice([2, 3, 4])
            self.channels, self.out_channels = self.group * rng.choice([1, 3, 5, 8]), self.group * rng.choice([1, 2, 7, 16])
        else:
            self.group = self.channels = rng.choice(CHANNELS)
            self.out_channels = self.channels * rng.choice([1, 1, 2])
        if self.operator == "DeformConv":
            self.offset_group = rng.choice([g for g in (1, 1, 2, 3, 4) if self.channels % g == 0])

    def optional(self, attributes, **values):
        """Adds attributes; where one is left out, the default takes its place."""
        for name, value in values.items():
            if self.chance(0.7):
                attributes[name] = value
            elif name.startswith("stride"):
                self.strides = [1] * self.rank
            elif name.startswith("dilation"):
                self.dilations = [1] * self.rank

    def draw_pads(self):
        # Beyond the kernel too: rows of bias alone in a Conv, rows cropped from a ConvTranspose.
        return [self.rng.randrange(0, k + 2) for k in self.kernel]

    def draw_output_shape(self, attributes, least=-3):
        """Some below what the input reaches, some above: then zeros follow."""
        natural = reference.naturals(self.sizes, self.kernel, attributes)
        return [max(1, n + self.rng.randrange(least, 3)) for n in natural]

    def draw_onnx(self):
        rng, rank = self.rng, self.rank
        self.attributes = a = {}
        self.profile = "spec"
        self.optional(a, strides=self.strides, dilations=self.dilations, kernel_shape=self.kernel)
        if self.group > 1:
            a["group"] = self.group
        if self.offset_group > 1:
            a["offset_group"] = self.offset_group
        padding = rng.choice(["none", "pads", "pads", "auto"])
        if padding == "pads":
            a["pads"] = self.draw_pads() + self.draw_pads()
        if padding == "auto" and self.operator != "DeformConv":
            a["auto_pad"] = rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
        if self.operator != "ConvTranspose":
            self.geometry = reference.onnx_conv(self.sizes, self.kernel, a)
            return
        if self.chance(0.4):
            a["output_padding"] = [rng.randrange(0, max(s, d)) for s, d in zip(self.strides, self.dilations)]
        if "pads" not in a and a.get("auto_pad") != "VALID" and self.chance(0.35):
            a["output_shape"] = self.draw_output_shape(a)
        first_version = self.dialect == "ms-nhwc" or self.opset == 1
        # What ONNX Runtime refuses is not drawn for its profile: a large output_padding, a surplus of a stride or more.
        if self.chance(0.25) and "output_shape" not in a and "output_padding" not in a:
            self.profile = "ort"
        self.geometry = reference.onnx_conv_transpose(self.sizes, self.kernel, a, first_version, self.profile == "ort")

    def draw_onednn(self):
        rng = self.rng
        self.profile = "spec"
        self.attributes = a = {"strides": self.strides, "dilations": self.dilations, "pads_begin": self.draw_pads(),
                               "pads_end": self.draw_pads()}  # fmt: skip
        self.optional(a, data_format=rng.choice(["NXC", "NCX"]), filter_format=rng.choice(["XIO", "OIX", "XOI", "IOX"]))
        if self.group > 1:
            a["groups"] = self.group
        if self.chance(0.4):
            a["output_padding"] = [rng.randrange(0, 4) for _ in range(self.rank)]
        if self.chance(0.4):
            a["auto_pad"] = rng.choice(["none", "SAME_UPPER", "same_lower", "valid", "same_upper"])
        elif self.chance(0.3):
            natural = reference.naturals(self.sizes, self.kernel, a)
            a["output_shape"] = [max(1, n - rng.randrange(0, 4)) for n in natural]
        self.geometry = reference.onednn_conv_transpose(self.sizes, self.kernel, a)

    def draw_tensorrt(self):
        rng = self.rng
        self.profile = "spec"
        self.attributes = a = {"num_output_maps": self.out_channels, "kernel_size_nd": self.kernel}
        self.optional(a, stride_nd=self.strides, dilation_nd=self.dilations)
        if self.group > 1:
            a["num_groups"] = self.group
        a["padding_mode"] = rng.choice(["EXPLICIT_ROUND_DOWN", "EXPLICIT_ROUND_UP", "SAME_UPPER", "SAME_LOWER"])
        if self.chance(0.5):
            a["padding_nd"] = self.draw_pads()
        elif self.chance(0.6):
            a["pre_padding"], a["post_padding"] = self.draw_pads(), self.draw_pads()
        self.geometry = reference.tensorrt_conv(self.sizes, self.kernel, a)

    def is_usable(self, most_products):
        """Whether the output is not empty (but for an empty batch), the input large enough, the work small enough."""
        if min(self.geometry.out) < 1 or min(self.geometry.begin) < 0:
            return False
        if self.operator != "ConvTranspose" and min(self.sizes) > 0:
            pads = [b + e for b, e in zip(self.geometry.begin, self.geometry.end)]
            reach = [reference.effective(k, d) for k, d in zip(self.kernel, self.dilations)]
            if any(size + pad < r for size, pad, r in zip(self.sizes, pads, reach)):
                return False
        points = math.prod(self.sizes if self.operator == "ConvTranspose" else self.geometry.out)
        weights = self.channels * self.out_channels // self.group * math.prod(self.kernel)
        outputs = self.out_channels * math.prod(self.geometry.out)
        return self.batch * max(points * weights, 10 * outputs) <= most_products

    # The tensors.

    def floats(self, shape, scale=1.0):
        return encode(scale * self.data.standard_normal(shape), self.dtype)

    def draw_tensors(self):
        group_out = self.out_channels // self.group
        w_shape = [self.out_channels, self.channels // self.group, *self.kernel]
        if self.operator == "ConvTranspose":
            w_shape = [self.channels, group_out, *self.kernel]
        self.x_shape, self.w_shape = [self.batch, self.channels, *self.sizes], w_shape
        self.y_shape = [self.batch, self.out_channels, *self.geometry.out]
        self.bias = self.residual = self.offset = self.mask = None
        self.draw_activation()
        if self.types is not None:
            return self.draw_integers()
        self.x, self.w = self.floats(self.x_shape), self.floats(w_shape, math.prod(w_shape[1:]) ** -0.5)
        if self.chance(0.6):
            self.bias = self.floats([self.out_channels])
        if self.chance(0.25):
            self.residual = self.floats(self.y_shape)
        if self.operator == "DeformConv":
            taps = self.offset_group * math.prod(self.kernel)
            self.offset = encode(self.draw_offsets(taps), self.dtype)
            if self.chance(0.6):
                self.mask = self.floats([self.batch, taps, *self.geometry.out])

    def draw_offsets(self, taps):
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

    def draw_activation(self):
        self.activation, self.parameters = None, []
        if self.chance(0.6) or (self.types is not None and self.types[2] == np.int32):
            return
        self.activation = self.rng.choice(list(ACTIVATIONS))
        self.parameters = list(ACTIVATIONS[self.activation])

    def draw_integers(self):
        """Scales and zero points are drawn so that y takes most values of its type."""
        x_type, w_type, y_type = self.types

        def integers(shape, dtype):
            limits = np.iinfo(dtype)
            return self.data.integers(limits.min, limits.max, shape, dtype, endpoint=True)

        self.x, self.w = integers(self.x_shape, x_type), integers(self.w_shape, w_type)
        has_zero_points = self.dialect == "onnx"
        per_channel = self.chance(0.5)
        count = self.out_channels if per_channel else 1
        self.x_zero_point = integers([1], x_type) if has_zero_points else np.zeros(1, x_type)
        self.y_zero_point = np.zeros(1, y_type)
        self.w_zero_point = np.zeros(1, w_type)
        if has_zero_points and y_type in (np.int8, np.uint8):
            self.y_zero_point = integers([1], y_type)
        if has_zero_points and self.chance(0.5):
            self.w_zero_point = integers([count], w_type)
        deviation = 5000 * math.sqrt(self.channels // self.group * math.prod(self.kernel))
        self.x_scale = np.array([0.02], np.float32)
        self.w_scale = (self.data.random(count) + 0.5).astype(np.float32) / np.float32(0.02 * deviation)
        self.y_scale = np.array([1 / 50], np.float32)
        if self.chance(0.6) and self.name != "ConvInteger":
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
            case["opset"] = self.opset
        if self.profile != "spec":
            case["profile"] = self.profile
        if self.dialect != "onednn-graph":
            case["layouts"]["w"] = self.rng.choice(["OIX", "IOX", "XIO", "XOI"])
        if self.activation is not None:
            case["activation"] = self.activation
            if self.parameters:
                case["activation_params"] = self.parameters
        case["dtype"] = self.dtype if self.types is None else np.dtype(self.types[0]).name
        if self.chance(0.1):
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

    def describe(self):
        names = ["dialect", "name", "opset", "profile", "dtype", "types", "layouts", "attributes", "activation"]
        shown = {name: getattr(self, name) for name in names}
        return f"{shown} x {self.x_shape} w {self.w_shape}, bias {self.bias is not None}, mask {self.mask is not None}"


def draw(seed, number, most_products, cells=CELLS):
    """The same for the same seed and number."""
    rng = random.Random(f"{seed}/{number}")
    data = np.random.default_rng([seed, number])
    return Draw(cells[number % len(cells)], rng, data, most_products)
