"""Random layers, drawn over operators, dialects, types, ranks, layouts and attributes.

A layer is a dict of plain values, as layers.py has it, so that one that fails is kept as a line of JSON. What random_problems.py
and soak.py try is drawn here, and nowhere else.
"""

import math
import random

import layers
import reference

OPERATORS = ["Conv", "ConvTranspose", "DeformConv"]
FLOATS = ["float32", "float64", "float16", "bfloat16"]
TYPES = [*FLOATS, "int8"]
RANKS = [1, 2, 3, 4, 5]
LAYOUTS = [("NCX", "NCX"), ("NCX", "NXC"), ("NXC", "NCX"), ("NXC", "NXC")]

# What a document lists; everything else is invalid there.
DOCUMENTED = [(operator, dtype) for operator in OPERATORS for dtype in TYPES if (operator, dtype) != ("DeformConv", "int8")]

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

# How channels meet, as often as it stands here, and patches, whose kernels lie side by side.
KINDS = ["dense", "dense", "dense", "grouped", "grouped", "depthwise", "depthwise", "patches"]
GROUP_CHANNELS, GROUP_OUT_CHANNELS = [1, 3, 5, 8, 16, 24], [1, 2, 7, 8, 16, 24, 40]
PATCH_CHANNELS = [1, 2, 3, 3, 4, 8, 17, 24]
PATCH_KERNELS = {1: [2, 3, 4, 5, 8, 10, 16], 2: [2, 3, 4, 7, 8, 14, 16], 3: [2, 3, 4], 4: [2, 3], 5: [2]}

# What deployments have: draws of this kind are of one to three dimensions, and have more products.
WIDE_CHANNELS = [4, 24, 48, 64, 72, 96, 120, 128, 160, 192, 256, 320, 384, 512, 576, 768, 960, 1024, 1280, 1536, 2048]
WIDE_LARGEST_SIZE = {1: 300, 2: 300, 3: 40}

# Parameters at which activations' formulas change their kind.
EDGE_PARAMETERS = {
    "LeakyRelu": [[0.0], [1.0], [-0.25], [3.0]],
    "HardSigmoid": [[0.0, 0.5], [1.0, 0.0], [-0.5, 0.5], [4.0, -1.0]],
    "PRelu": [[0.0], [1.0, 0.0], [-3.0, 3.0]],
    "Clip": [[0.0, 0.0], [0.0, 6.0], [-3.4e38, 3.4e38], [1.5, 1.5], [-1.0, -0.5]],
}

# Quantised layers: the dialect's own operator, the types of x, w and y, and the ranks it is drawn in. All meet in 2-D;
# elsewhere there are few, since each is a generic kernel of its own.
INTEGER_CONVS = [
    ("QLinearConv", "uint8", "int8", "uint8", (1, 2, 5)),
    ("QLinearConv", "int8", "int8", "int8", (2, 3)),
    ("QLinearConv", "uint8", "uint8", "uint8", (2, 4)),
    ("ConvInteger", "uint8", "int8", "int32", (1, 2)),
    ("ConvInteger", "uint8", "uint8", "int32", (2, 5)),
    ("Convolution", "int8", "int8", "int8", (2,)),
    ("Convolution", "int8", "int8", "float32", (2, 3)),
]
INTEGER_TRANSPOSES = [
    ("ConvTranspose", "uint8", "int8", "uint8", (1, 2, 4)),
    ("ConvTranspose", "int8", "int8", "int8", (2, 3, 5)),
]


class Draw:
    """One random layer. `wide` draws it as deployments have them: large images, many channels, parameters at their edges."""

    def __init__(self, cell, rng, most_products, wide=False, kinds=None):
        self.operator, self.dtype, self.rank, self.layouts = cell
        self.rng, self.wide, self.kinds = rng, wide and self.rank in WIDE_LARGEST_SIZE, kinds or KINDS
        while True:
            self.draw_layer()
            if 0 <= layers.products(self.shape()) <= most_products:
                break
        self.draw_tensors()

    def chance(self, probability):
        return self.rng.random() < probability

    # The layer.

    def draw_layer(self):
        rng = self.rng
        self.draw_dialect()
        self.kind = rng.choice(self.kinds)
        self.draw_channels()
        self.kernel = [rng.choice(KERNELS[self.rank]) for _ in range(self.rank)]
        self.sizes = [self.draw_size() for _ in range(self.rank)]
        self.batch = rng.choice([1, 1, 2, 3])
        if self.chance(0.03):
            self.batch = 0
        elif self.chance(0.03) and self.operator == "ConvTranspose":
            self.sizes[rng.randrange(self.rank)] = 0
        self.strides = [rng.choice([1, 1, 2, 3]) for _ in range(self.rank)]
        self.dilations = [rng.choice([1, 1, 1, 2, 3]) for _ in range(self.rank)]
        if self.kind == "patches":
            self.draw_patches()
        strides = self.strides
        {"onnx": self.draw_onnx, "ms-nhwc": self.draw_onnx, "onednn-graph": self.draw_onednn,
         "tensorrt": self.draw_tensorrt}[self.dialect]()  # fmt: skip
        if self.kind == "patches":
            self.put_side_by_side(strides)

    def draw_patches(self):
        """Kernels that lie side by side along the innermost axis, and mostly along others."""
        for axis in reversed(range(self.rank)):
            if axis == self.rank - 1 or self.chance(0.7):
                self.kernel[axis] = self.strides[axis] = self.rng.choice(PATCH_KERNELS[self.rank])
                if self.operator != "ConvTranspose" and self.sizes[axis] > 0:
                    self.sizes[axis] = math.ceil(self.sizes[axis] / self.kernel[axis]) * self.kernel[axis]

    def put_side_by_side(self, strides):
        """Attributes that leave patches where they are: no padding, no dilation, all strides, whatever was left out."""
        self.strides, self.dilations = strides, [1] * self.rank
        names, a = layers.NAMES[self.dialect], self.attributes
        kept = [names[key] for key in ("group", "offset_group", "kernel", "out_channels") if key in names]
        self.attributes = {name: a[name] for name in [*kept, "data_format", "filter_format"] if name in a}
        self.attributes[names["strides"]] = strides
        if self.dialect == "onednn-graph":
            none = {names["dilations"]: [1] * self.rank, "pads_begin": [0] * self.rank, "pads_end": [0] * self.rank}
            self.attributes |= none
        if self.dialect == "tensorrt":
            self.attributes["padding_mode"] = "EXPLICIT_ROUND_DOWN"

    def draw_size(self):
        if not self.wide:
            return self.rng.randrange(1, LARGEST_SIZE[self.rank] + 1)
        return round(math.exp(self.rng.uniform(0, math.log(WIDE_LARGEST_SIZE[self.rank]))))

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
        self.group, self.offset_group = 1, 1
        channels = WIDE_CHANNELS if self.wide else CHANNELS
        if self.kind == "dense":
            self.channels, self.out_channels = rng.choice(channels), rng.choice(channels)
        elif self.kind == "patches":
            self.channels, self.out_channels = rng.choice(PATCH_CHANNELS), rng.choice(channels)
        elif self.kind == "grouped":
            self.group = rng.choice([2, 8, 32] if self.wide else [2, 3, 4])
            self.channels = self.group * rng.choice(GROUP_CHANNELS)
            self.out_channels = self.group * rng.choice(GROUP_OUT_CHANNELS)
        else:
            self.group = self.channels = rng.choice(channels)
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
            return
        if self.chance(0.4):
            a["output_padding"] = [rng.randrange(0, max(s, d)) for s, d in zip(self.strides, self.dilations)]
        if "pads" not in a and a.get("auto_pad") != "VALID" and self.chance(0.35):
            a["output_shape"] = self.draw_output_shape(a)
        # What ONNX Runtime refuses is not drawn for its profile: a large output_padding, a surplus of a stride or more.
        if self.chance(0.25) and "output_shape" not in a and "output_padding" not in a:
            self.profile = "ort"

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
            a["output_shape"] = self.draw_output_shape(a)

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

    # What else a layer has.

    def draw_tensors(self):
        self.bias = self.residual = self.mask = False
        self.draw_activation()
        if self.types is not None:
            return self.draw_integers()
        self.bias = self.chance(0.6)
        self.residual = self.chance(0.25)
        if self.operator == "DeformConv":
            self.mask = self.chance(0.6)

    def draw_activation(self):
        self.activation, self.parameters = None, []
        if self.chance(0.6) or (self.types is not None and self.types[2] == "int32"):
            return
        self.activation = self.rng.choice(list(ACTIVATIONS))
        self.parameters = list(ACTIVATIONS[self.activation])
        if self.wide and self.activation in EDGE_PARAMETERS:
            self.parameters = self.rng.choice(EDGE_PARAMETERS[self.activation])

    def draw_integers(self):
        self.per_channel = self.chance(0.5)
        self.w_zero_point = self.dialect == "onnx" and self.chance(0.5)
        self.bias = self.chance(0.6) and self.name != "ConvInteger"

    def shape(self):
        """What a layer's shapes follow from."""
        return {"operator": self.operator, "name": self.name, "dialect": self.dialect, "opset": self.opset,
                "profile": self.profile, "dtype": self.dtype, "types": self.types, "layouts": list(self.layouts),
                "batch": self.batch, "channels": self.channels, "out_channels": self.out_channels, "group": self.group,
                "offset_group": self.offset_group, "sizes": self.sizes, "kernel": self.kernel,
                "attributes": self.attributes}  # fmt: skip

    def layer(self, data):
        """`data` seeds the tensors."""
        layer = self.shape() | {"activation": self.activation, "parameters": self.parameters, "bias": self.bias,
                                "residual": self.residual, "mask": self.mask}  # fmt: skip
        if self.types is not None:
            layer |= {"per_channel": self.per_channel, "w_zero_point": self.w_zero_point}
        layer["w_layout"] = self.rng.choice(["OIX", "IOX", "XIO", "XOI"]) if self.dialect != "onednn-graph" else None
        layer["strict"] = self.chance(0.1)
        return layer | {"data": data}


def cell_of(layer):
    return layer["operator"], layer["dtype"], len(layer["sizes"]), tuple(layer["layouts"])


def draw(seed, number, most_products, cells=CELLS, wide=False, kinds=None):
    """The same for the same seed and number."""
    rng = random.Random(f"{seed}/{number}")
    return Draw(cells[number % len(cells)], rng, most_products, wide, kinds).layer([seed, number])
