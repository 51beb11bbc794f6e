"""The suite's layers as a GPU is measured by them: float32, and in float16 and uint8 what the suite has a variant of."""

import json
import math
import tomllib
from pathlib import Path

SUITE = Path(__file__).resolve().parent / "suite.toml"
BYTES = {"float32": 4, "float16": 2, "uint8": 1}
VARIANTS = ("float16", "uint8")


def load(suite=SUITE):
    """The layers in the suite's order, other types' behind them, each with all of its attributes; all have bias and ReLU."""
    text = tomllib.loads(suite.read_text())
    layers = [{"dtype": "float32", "activation": "Relu", **text["defaults"], **layer} for layer in text["layer"]]
    named = {variant["dtype"]: variant["layers"] for variant in text.get("variant", [])}
    return layers + [{**layer, "name": f"{layer['name']}_{dtype}", "dtype": dtype}
                     for dtype in VARIANTS for layer in layers if layer["name"] in named.get(dtype, [])]  # fmt: skip


def as_toml(layers, layout):
    """A layers file for kiln, in a layout."""
    text = ""
    for layer in layers:
        own = {key: value for key, value in layer.items() if key != "layouts"}
        text += "[[layer]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in own.items())
        text += f'layouts = {{ x = "{layout}", y = "{layout}" }}\n'
    return text


class Shape:
    """What a layer's attributes come to, all lists of one number a spatial axis."""

    def __init__(self, layer):
        self.rank = rank = len(layer["x"]) - 2
        self.group = layer.get("group", 1)
        self.offset_group = layer.get("offset_group", 1)
        self.strides = layer.get("strides", [1] * rank)
        self.dilations = layer.get("dilations", [1] * rank)
        pads = layer.get("pads", [0] * 2 * rank)
        self.begin, self.end = pads[:rank], pads[rank:]
        self.kernel = layer["w"][2:]
        self.output_padding = layer.get("output_padding", [0] * rank)
        self.transposed = layer["operator"] == "ConvTranspose"
        self.channels = layer["w"][1] * self.group if self.transposed else layer["w"][0]
        reach = [d * (k - 1) + 1 for d, k in zip(self.dilations, self.kernel)]
        extents = zip(layer["x"][2:], self.strides, reach, self.begin, self.end, self.output_padding)
        self.out = [s * (i - 1) + r + more - b - e if self.transposed else (i + b + e - r) // s + 1
                    for i, s, r, b, e, more in extents]  # fmt: skip


def products(layer):
    """Multiplications of the definition, those with padding included."""
    shape = Shape(layer)
    taps = math.prod(shape.kernel)
    if shape.transposed:
        return math.prod(layer["x"]) * layer["w"][1] * taps
    return layer["x"][0] * shape.channels * math.prod(shape.out) * layer["w"][1] * taps


def least_bytes(layer):
    """Of x, w and y, and offsets and mask where there are some: what any implementation reads and writes once."""
    shape = Shape(layer)
    elements = math.prod(layer["x"]) + math.prod(layer["w"]) + layer["x"][0] * shape.channels * math.prod(shape.out)
    if layer["operator"] == "DeformConv":
        each = shape.offset_group * math.prod(shape.kernel) * math.prod(shape.out)
        elements += layer["x"][0] * each * (shape.rank + bool(layer.get("mask")))
    return elements * BYTES[layer["dtype"]]
