"""Convolutions whose weights the model computes: no layer has such, as its weights are packed before it runs. They are
products of matrices, of the weights and of what each of them is multiplied by."""

import math

import numpy as np

from terms import NodeError, attribute_values

from operations.base import identity, number_text
from operations.gathering import Windows
from operations.movement import Copy, Loop
from operations.products import Product


class Unfolded(Copy):
    """What the weights are multiplied by, by groups: [batch, group, channel and tap, point], in the model's order."""

    def follow(self, orders):
        order = tuple(orders[0]) if orders[0] is not None else identity(len(self.x_shape))
        return [order], [identity(len(self.shape))]


def convolution(values):
    node, dtype = values.node, values.dtype(0)
    x, w, y, groups = values.shape(0), values.shape(1), values.output_shape(), groups_of(values)
    if len(w) != len(x) or x[1] != w[1] * groups or w[0] % groups or 0 in (*x, *w, *y):
        raise NodeError(f"a Conv of shapes {x} and {w} in {groups} groups")
    windows = Windows({"kernel_shape": w[2:], **attribute_values(node)}, x, y)
    if windows.kernel != w[2:]:
        raise NodeError(f"kernel_shape is {windows.kernel} and its weights' {w[2:]}")
    operations, source, sizes = [], values.item(0), x
    if any([*windows.begin, *windows.end]):
        sizes = [*x[:2], *(sum(of_axis) for of_axis in zip(x[2:], windows.begin, windows.end))]
        source = values.intermediate("padded", dtype, sizes)
        operations.append(framed((values.item(0), dtype, x), (source, dtype, sizes), windows.begin))
    return operations + products(values, (source, dtype, sizes), windows, (values.item(1), len(w), w[0] // groups), groups)


def transposed_convolution(values):
    """The convolution of x, with zeros between its points, by the weights backwards."""
    node, dtype, attributes = values.node, values.dtype(0), attribute_values(values.node)
    x, w, y, groups = values.shape(0), values.shape(1), values.output_shape(), groups_of(values)
    rank = len(x) - 2
    if len(w) != len(x) or x[1] != w[0] or w[0] % groups or 0 in (*x, *w, *y):
        raise NodeError(f"a ConvTranspose of shapes {x} and {w} in {groups} groups")
    for name in ("output_shape", "auto_pad"):
        if attributes.get(name, b"NOTSET") != b"NOTSET":
            raise NodeError(f"{name} of a ConvTranspose is for layers, whose weights are constants", "unsupported")
    strides, dilations, pads = (list(attributes.get(name, [default] * rank)) for name, default in
                                (("strides", 1), ("dilations", 1), ("pads", 0)))
    reach = [(size - 1) * step for size, step in zip(w[2:], dilations)]
    spread = [*x[:2], *(size * step for size, step in zip(x[2:], strides))]
    sizes = [*x[:2], *(size + more for size, more in zip(y[2:], reach))]
    names = [values.intermediate(what, dtype, shape) for what, shape in (("spread", spread), ("padded", sizes))]
    zeros = [[Loop(size, 2 + place), Loop(step, high=1)] for place, (size, step) in enumerate(zip(x[2:], strides))]
    fill = number_text(np.zeros([], dtype))
    loops, begins = [[Loop(x[0], 0)], [Loop(x[1], 1)], *zeros], [size - pad for size, pad in zip(reach, pads)]
    operations = [Copy((values.item(0), dtype, x), (names[0], dtype, spread), loops, fill=fill),
                  framed((names[0], dtype, spread), (names[1], dtype, sizes), begins)]
    of_group, turned = [w[0] // groups, w[1]], [w[1] * groups, w[0] // groups, *w[2:]]
    weights = values.intermediate("backwards", dtype, turned)
    operations.append(Unfolded((values.item(1), dtype, w), (weights, dtype, turned),
                               [[Loop(groups, 0, of_group[0]), Loop(of_group[1], 1)], [Loop(of_group[0], 0)],
                                *([Loop(size, 2 + place, -1)] for place, size in enumerate(w[2:]))],
                               [0, 0, *(size - 1 for size in w[2:])]))
    windows = Windows({"kernel_shape": w[2:], "dilations": dilations}, sizes, y)
    return operations + products(values, (names[1], dtype, sizes), windows, (weights, len(w), w[1]), groups)


def groups_of(values):
    groups = attribute_values(values.node).get("group", 1)
    if groups < 1 or len(values.shape(0)) < 3:
        raise NodeError(f"its group is {groups}, and its input has {len(values.shape(0))} axes")
    return groups


def framed(x, output, begins):
    """A copy with zeros around its points; what is before the first of them or behind the last is left out."""
    loops = [[Loop(x[2][0], 0)], [Loop(x[2][1], 1)]]
    for place, begin in enumerate(begins, 2):
        high = max(max(begin, 0), min(output[2][place], x[2][place] + begin))
        loops.append([Loop(output[2][place], place, low=max(begin, 0), high=high)])
    return Copy(x, output, loops, [0, 0, *(-begin for begin in begins)], number_text(np.zeros([], output[1])))


def products(values, x, windows, weights, groups):
    """The points that each weight is multiplied by, as columns of a matrix, and the product; `x` is (item, dtype, shape),
    `weights` are (item, rank, output channels of a group)."""
    dtype, batch, y = x[1], x[2][0], values.output_shape()
    points, channels = math.prod(y[2:]), x[2][1] // groups
    depth = channels * math.prod(windows.kernel)
    taps = [Loop(size, 2 + place, step) for place, (size, step) in enumerate(zip(windows.kernel, windows.dilations))]
    steps = [Loop(y[2 + place], 2 + place, step) for place, step in enumerate(windows.strides)]
    shape = [batch, groups, depth, points]
    columns = values.intermediate("columns", dtype, shape)
    unfolded = Unfolded(x, (columns, dtype, shape),
                        [[Loop(batch, 0)], [Loop(groups, 1, channels)], [Loop(channels, 1), *taps], steps])
    item, rank, rows = weights
    inputs, shapes, ranks = [item, columns], [[groups, rows, depth], shape], [rank, 4]
    if values.has(2):
        inputs, shapes, ranks = [*inputs, values.item(2)], [*shapes, [groups, rows, 1]], [*ranks, 1]
    product = Product(inputs, [dtype] * len(inputs), shapes, values.node.output[0], dtype, y, "-nn")
    return [unfolded, product.taken_for([batch, groups, rows, points], ranks)]


HANDLERS = {"Conv": convolution, "ConvTranspose": transposed_convolution}
