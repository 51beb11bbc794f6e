"""Kiln's problem texts (runtime/problem_text.cpp has their grammar), as the benchmark and its peers read them."""

import dataclasses
import math
import re

# Every other flag is an activation.
NOT_ACTIVATIONS = ("wz", "bias", "biasf32", "mask", "residual", "epilogue?", "epiloguef32?", "strict", "fast")


@dataclasses.dataclass(frozen=True)
class Problem:
    """Fields are named as in kiln/problem.h; sizes are tuples, one number a spatial axis."""

    operator: str  # conv, convtranspose or deformconv
    x_type: str  # f64 f32 f16 bf16 s8 u8
    w_type: str
    y_type: str
    batch: int
    in_channels: int
    inputs: tuple
    out_channels: int
    outputs: tuple
    kernel: tuple
    strides: tuple
    dilations: tuple
    pads_begin: tuple
    pads_end: tuple
    groups: int
    offset_groups: int
    x_zero_point: int
    y_zero_point: int
    x_layout: str
    y_layout: str
    flags: tuple  # "bias", "mask", "relu", ... in the text's order

    @property
    def rank(self):
        return len(self.inputs)

    @property
    def transposed(self):
        return self.operator == "convtranspose"

    @property
    def deformable(self):
        return self.operator == "deformconv"

    @property
    def quantised(self):
        return self.x_type in ("s8", "u8")

    @property
    def activation(self):
        """As the text has it, "" where there is none."""
        return next((flag for flag in self.flags if flag not in NOT_ACTIVATIONS), "")

    @property
    def weight_shape(self):
        """Of a dense filter in ONNX's order."""
        if self.transposed:
            return (self.in_channels, self.out_channels // self.groups, *self.kernel)
        return (self.out_channels, self.in_channels // self.groups, *self.kernel)

    @property
    def x_shape(self):
        return (self.batch, self.in_channels, *self.inputs)

    @property
    def y_shape(self):
        return (self.batch, self.out_channels, *self.outputs)

    @property
    def flops(self):
        """Two for each product of the definition, padding included, as kiln counts them."""
        points = self.inputs if self.transposed else self.outputs
        return 2 * self.batch * math.prod(points) * math.prod(self.weight_shape)

    @property
    def tensor_bytes(self):
        """Of x, w and y, each once."""
        size = {"f64": 8, "f32": 4, "s32": 4, "f16": 2, "bf16": 2}
        shapes = ((self.x_type, self.x_shape), (self.w_type, self.weight_shape), (self.y_type, self.y_shape))
        return sum(size.get(dtype, 1) * math.prod(shape) for dtype, shape in shapes)

    def offset_shape(self, values):
        """Of the offset (two values a tap) or the mask (one)."""
        return (self.batch, values * self.offset_groups * math.prod(self.kernel), *self.outputs)

    def with_layout(self, layout):
        return dataclasses.replace(self, x_layout=layout, y_layout=layout)

    def with_activation(self, activation):
        """The same with this activation, "" for none; strict stays last, as in texts."""
        flags = [flag for flag in self.flags if flag != self.activation]
        at = flags.index("strict") if "strict" in flags else len(flags)
        return dataclasses.replace(self, flags=(*flags[:at], *([activation] if activation else []), *flags[at:]))

    def text(self):
        def axes(values):
            return "x".join(str(value).replace("-", "~") for value in values)

        types = (self.x_type, self.w_type, self.y_type)
        tokens = [f"{self.operator}{self.rank}d", self.x_type if len(set(types)) == 1 else ".".join(types),
                  f"n{self.batch}", f"c{self.in_channels}", f"i{axes(self.inputs)}", f"m{self.out_channels}",
                  f"o{axes(self.outputs)}", f"k{axes(self.kernel)}", f"s{axes(self.strides)}",
                  f"d{axes(self.dilations)}", f"p{axes(self.pads_begin)},{axes(self.pads_end)}", f"g{self.groups}"]
        if self.deformable:
            tokens.append(f"og{self.offset_groups}")
        if self.quantised:
            tokens.append("xz" + axes([self.x_zero_point]))
            if self.y_type in ("s8", "u8"):
                tokens.append("yz" + axes([self.y_zero_point]))
        return "-".join([*tokens, f"{self.x_layout},{self.y_layout}", *self.flags])


def parse(text):
    """The problem of a text that leaves nothing open; ValueError for others."""
    if "?" in text:
        raise ValueError("sizes are left open")
    head, types, *tokens = text.split("-")
    types = types.split(".")
    x_type, w_type, y_type = types * 3 if len(types) == 1 else types
    values = {}
    while match := re.fullmatch(r"([a-z]+)([~\d].*)", tokens[0]):
        name, body = match.groups()
        values[name] = [tuple(map(int, part.split("x"))) for part in body.replace("~", "-").split(",")]
        tokens.pop(0)
    layouts, *flags = tokens
    x_layout, y_layout = layouts.split(",")

    def number(name, otherwise=None):
        return values[name][0][0] if name in values else otherwise

    return Problem(head[:-2], x_type, w_type, y_type, number("n"),
                   number("c"), values["i"][0], number("m"), values["o"][0], values["k"][0], values["s"][0],
                   values["d"][0], *values["p"], number("g"), number("og", 1), number("xz", 0), number("yz", 0),
                   x_layout, y_layout, tuple(flags))
