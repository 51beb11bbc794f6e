"""Conv, ConvTranspose and DeformConv in NumPy, written from the operators' documents; shares nothing with Kiln.

Arrays are in ONNX's dimension order: x (N, C, ...), the weights of Conv and DeformConv (M, C / group, k...), those of
ConvTranspose (C, M / group, k...). Sums are float64, long double for float64, and int64 for 8-bit integers.
"""

import itertools
import math
import typing
from dataclasses import dataclass

import numpy as np


@dataclass
class Geometry:
    """Output sizes, and pads as the document has them."""

    out: list
    begin: list
    end: list


@dataclass
class Convolution:
    """What is computed, with no dialect left."""

    operator: str  # Conv, ConvTranspose, DeformConv
    strides: list
    dilations: list
    geometry: Geometry
    group: int = 1
    offset_group: int = 1


@dataclass
class Expected:
    y: np.ndarray
    # How far from y each element may be; for Winograd, whose tiles mix neighbours and amplify errors on each axis.
    bound: np.ndarray | float = 0.0
    winograd_bound: np.ndarray | float = 0.0


# Geometry, a function for each document. `sizes` and `kernel` are the spatial ones; attributes have their document's names.


def effective(kernel, dilation):
    return (kernel - 1) * dilation + 1


def split(total, extra_at_end):
    """A total of padding as (begin, end); one below zero is halved towards zero, as the documents' C++ does."""
    small = total // 2 if total >= 0 else -(-total // 2)
    large = total - small
    return (small, large) if extra_at_end else (large, small)


def of_axes(axes):
    """From (out, begin, end) of each axis."""
    return Geometry(*([row[i] for row in axes] for i in range(3)))


def per_axis(attributes, name, rank, default=1):
    return list(attributes.get(name, [default] * rank))


def onnx_conv(sizes, kernel, attributes):
    """Also DeformConv, which has no auto_pad."""
    rank = len(kernel)
    strides, dilations = (per_axis(attributes, name, rank) for name in ("strides", "dilations"))
    auto_pad = attributes.get("auto_pad", "NOTSET")
    pads = per_axis(attributes, "pads", 2 * rank, 0)
    axes = []
    for axis, (size, stride) in enumerate(zip(sizes, strides)):
        k = effective(kernel[axis], dilations[axis])
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            out = -(-size // stride)
            axes.append((out, *split(max((out - 1) * stride + k - size, 0), auto_pad == "SAME_UPPER")))
        else:
            begin, end = pads[axis], pads[rank + axis]
            axes.append(((size + begin + end - k) // stride + 1, begin, end))
    return of_axes(axes)


def naturals(sizes, kernel, attributes):
    """How far a transposed convolution reaches, output_padding included."""
    rank = len(kernel)
    strides, dilations = (per_axis(attributes, name, rank) for name in ("strides", "dilations"))
    output_padding = per_axis(attributes, "output_padding", rank, 0)
    return [
        stride * (size - 1) + extra + effective(k, dilation)
        for size, stride, extra, k, dilation in zip(sizes, strides, output_padding, kernel, dilations)
    ]


def onnx_conv_transpose(sizes, kernel, attributes, first_version=False, ort=False):
    """`first_version` is opset 1 and ms-nhwc, whose equation splits the other way round; `ort` ONNX Runtime."""
    rank = len(kernel)
    strides = per_axis(attributes, "strides", rank)
    auto_pad = attributes.get("auto_pad", "NOTSET")
    pads = per_axis(attributes, "pads", 2 * rank, 0)
    axes = []
    for axis, natural in enumerate(naturals(sizes, kernel, attributes)):
        if "output_shape" in attributes:
            out = attributes["output_shape"][axis]
            upper = auto_pad == "SAME_UPPER"
            extra_at_end = not upper if first_version and not ort else upper
        elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            out = sizes[axis] * strides[axis]
            out = min(out, natural) if ort else out
            extra_at_end = auto_pad == "SAME_UPPER"
        else:
            begin, end = pads[axis], pads[rank + axis]
            axes.append((natural - begin - end, begin, end))
            continue
        total = natural - out
        # A negative total is not split: zeros follow.
        axes.append((out, *(split(total, extra_at_end) if total >= 0 else (0, total))))
    return of_axes(axes)


def onednn_conv_transpose(sizes, kernel, attributes):
    auto_pad = attributes.get("auto_pad", "none").lower()
    axes = []
    for axis, natural in enumerate(naturals(sizes, kernel, attributes)):
        if "output_shape" in attributes:
            out = attributes["output_shape"][axis]
            axes.append((out, *split(natural - out, False)))
        elif auto_pad in ("same_upper", "same_lower"):
            total = max(effective(kernel[axis], attributes["dilations"][axis]) - attributes["strides"][axis], 0)
            axes.append((natural - total, *split(total, auto_pad == "same_upper")))
        else:
            begin, end = (0, 0) if auto_pad == "valid" else (attributes[n][axis] for n in ("pads_begin", "pads_end"))
            axes.append((natural - begin - end, begin, end))
    return of_axes(axes)


def tensorrt_conv(sizes, kernel, attributes):
    rank = len(kernel)
    strides, dilations = (per_axis(attributes, name, rank) for name in ("stride_nd", "dilation_nd"))
    both = per_axis(attributes, "padding_nd", rank, 0)
    before, after = (attributes.get(name, both) for name in ("pre_padding", "post_padding"))
    mode = attributes.get("padding_mode", "EXPLICIT_ROUND_DOWN")
    axes = []
    for axis, (size, stride) in enumerate(zip(sizes, strides)):
        k = effective(kernel[axis], dilations[axis])
        if mode.startswith("SAME"):
            total = max((size - 1) // stride * stride + k - size, 0)
            axes.append((-(-size // stride), *split(total, mode == "SAME_UPPER")))
        else:
            room = size + before[axis] + after[axis] - k
            steps = room // stride if mode == "EXPLICIT_ROUND_DOWN" else -(-room // stride)
            axes.append((steps + 1, before[axis], after[axis]))
    return of_axes(axes)


# Sums of products.


def _taps(kernel):
    return itertools.product(*(range(k) for k in kernel))


def _sum_conv(c, x, w):
    g = c.geometry
    # Rows past the end pad too, where the last output reads them.
    needs = [
        (out - 1) * stride + effective(k, dilation) - size - begin
        for out, stride, k, dilation, size, begin in zip(g.out, c.strides, w.shape[2:], c.dilations, x.shape[2:], g.begin)
    ]
    padded = np.pad(x, [(0, 0), (0, 0)] + [(b, max(e, n)) for b, e, n in zip(g.begin, g.end, needs)])
    y = np.zeros((x.shape[0], w.shape[0], *g.out), x.dtype)
    per_out, per_in = w.shape[0] // c.group, w.shape[1]
    for tap in _taps(w.shape[2:]):
        window = tuple(
            slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, c.dilations, g.out, c.strides)
        )
        for group in range(c.group):
            data = padded[(slice(None), slice(group * per_in, (group + 1) * per_in), *window)]
            weights = w[(slice(group * per_out, (group + 1) * per_out), slice(None), *tap)]
            y[:, group * per_out : (group + 1) * per_out] += np.einsum("nc...,mc->nm...", data, weights)
    return y


def _sum_conv_transpose(c, x, w):
    g = c.geometry
    per_in, per_out = w.shape[0] // c.group, w.shape[1]
    full = [(n - 1) * s + effective(k, d) for n, s, k, d in zip(x.shape[2:], c.strides, w.shape[2:], c.dilations)]
    # Everything the input reaches, with zeros ahead of it and behind it for outputs that nothing reaches.
    ahead = [max(-b, 0) for b in g.begin]
    reach = [a + max(f, b + o) for a, f, b, o in zip(ahead, full, g.begin, g.out)]
    y = np.zeros((x.shape[0], per_out * c.group, *reach), x.dtype)
    for tap in _taps(w.shape[2:]) if x.size else ():
        window = tuple(
            slice(a + t * d, a + t * d + (n - 1) * s + 1, s)
            for a, t, d, n, s in zip(ahead, tap, c.dilations, x.shape[2:], c.strides)
        )
        for group in range(c.group):
            data = x[:, group * per_in : (group + 1) * per_in]
            weights = w[(slice(group * per_in, (group + 1) * per_in), slice(None), *tap)]
            channels = slice(group * per_out, (group + 1) * per_out)
            y[(slice(None), channels, *window)] += np.einsum("nc...,cm->nm...", data, weights)
    return y[(slice(None), slice(None), *(slice(a + b, a + b + o) for a, b, o in zip(ahead, g.begin, g.out)))]


def _positions(c, offset, kernel):
    """Where each tap samples: on each axis (base, offset), shaped (N, offset group, tap, out...)."""
    rank, taps = len(kernel), math.prod(kernel)
    offset = offset.reshape(offset.shape[0], c.offset_group, taps, rank, *c.geometry.out)
    for axis in range(rank):
        tap = np.array([t[axis] for t in _taps(kernel)]).reshape(taps, *[1] * rank)
        point = np.arange(c.geometry.out[axis]).reshape([-1 if a == axis else 1 for a in range(rank)])
        base = point * c.strides[axis] + tap * c.dilations[axis] - c.geometry.begin[axis]
        yield base, offset[:, :, :, axis]


def _sample(c, x, offset, mask, kernel):
    """Returns (samples, uncertainty), both (N, C, tap, point).

    A sample changes by no more than 2 max|x| where its position does by 1 on an axis, and positions are rounded by
    |base| + |offset| units; interpolating adds a few units of max|x| an axis. In units of roundoff.
    """
    batch, channels, *sizes = x.shape
    points = math.prod(c.geometry.out)
    columns = (batch, c.offset_group, 1, math.prod(kernel) * points)
    flat = x.reshape(batch, c.offset_group, channels // c.offset_group, math.prod(sizes))
    inside, near, rounding, axes = True, True, 0, []
    with np.errstate(invalid="ignore"):
        for size, (base, offset_) in zip(sizes, _positions(c, offset, kernel)):
            p = base + offset_
            near = near & (p > -1.5) & (p < size + 0.5)
            inside = inside & (p > -1) & (p < size)
            p = np.where((p > -1) & (p < size), p, 0)
            low = np.floor(p)
            axes.append((low.astype(np.int64), p - low, size))
            rounding = rounding + 2 * (abs(base) + np.where(np.isfinite(offset_), abs(offset_), 0)) + 4
    samples = np.zeros((*flat.shape[:3], columns[3]), x.dtype)
    for corner in itertools.product((0, 1), repeat=len(sizes)) if x.size else ():
        weight, index, exists = np.where(inside, x.dtype.type(1), x.dtype.type(0)), 0, True
        for high, (low, fraction, size) in zip(corner, axes):
            at = low + high
            exists = exists & (at >= 0) & (at < size)
            weight = weight * (fraction if high else 1 - fraction)
            index = index * size + np.clip(at, 0, size - 1)
        weight = np.where(exists, weight, 0).reshape(columns)
        samples += weight * np.take_along_axis(flat, index.reshape(columns), axis=-1)
    largest = abs(flat).max(axis=-1, keepdims=True, initial=0).astype(np.float64)
    rounding = np.where(near, rounding.astype(np.float64), 0).reshape(columns)
    uncertainty = largest * rounding
    if mask is not None:
        weights = mask.reshape(columns)
        samples, uncertainty = samples * weights, uncertainty * abs(weights).astype(np.float64)
    shape = (batch, channels, math.prod(kernel), points)
    return samples.reshape(shape), uncertainty.reshape(shape)


def _sum_samples(c, samples, w):
    batch, channels, taps, points = samples.shape
    grouped = samples.reshape(batch, c.group, channels // c.group, taps, points)
    weights = w.reshape(c.group, w.shape[0] // c.group, w.shape[1], taps)
    return np.einsum("ngctp,gmct->ngmp", grouped, weights).reshape(batch, w.shape[0], *c.geometry.out)


def _channels(values, rank):
    """One number a channel, or one for all, to add to or multiply with (N, C, ...)."""
    return np.reshape(values, (1, -1, *[1] * rank))


class Activation(typing.NamedTuple):
    """By ONNX's document; the parameters p are those of the document, in its order."""

    at: typing.Callable  # (y, p)
    drawn: tuple = ()  # parameters of random problems
    is_exact: bool = False  # whether it only compares and multiplies once, so that float32 leaves no choice
    slope: typing.Callable = lambda p: 1  # the most it stretches a difference
    takes_slopes: bool = False  # whether p is one number an output channel; `drawn` are then those that take turns


def _sigmoid(y):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-y))


@np.vectorize(otypes=[float])  # said, for arrays of no elements
def _normal_distribution(y):
    """(1 + erf(y / sqrt 2)) / 2"""
    return math.erfc(-y / math.sqrt(2)) / 2


ACTIVATIONS = {
    None: Activation(lambda y, p: y, is_exact=True),
    "Relu": Activation(lambda y, p: np.maximum(y, 0), is_exact=True),
    "LeakyRelu": Activation(
        lambda y, p: np.where(y >= 0, y, p[0] * y), (0.125,), is_exact=True, slope=lambda p: max(1, abs(p[0]))
    ),
    "Tanh": Activation(lambda y, p: np.tanh(y)),
    "Sigmoid": Activation(lambda y, p: _sigmoid(y), slope=lambda p: 0.25),
    "HardSigmoid": Activation(lambda y, p: np.clip(p[0] * y + p[1], 0, 1), (0.25, 0.5), slope=lambda p: abs(p[0])),
    "Clip": Activation(lambda y, p: np.clip(y, p[0], p[1]), (-0.75, 1.5), is_exact=True),
    "HardSwish": Activation(lambda y, p: y * np.clip(y / 6 + 0.5, 0, 1), slope=lambda p: 1.5),
    "Swish": Activation(lambda y, p: y * _sigmoid(p[0] * y), (1.5,), slope=lambda p: 1.1),
    "Gelu": Activation(lambda y, p: y * _normal_distribution(y), slope=lambda p: 1.13),
    "GeluTanh": Activation(
        lambda y, p: y * _sigmoid(2 * np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)), slope=lambda p: 1.13
    ),
    "Mish": Activation(lambda y, p: y * np.tanh(np.logaddexp(0, y)), slope=lambda p: 1.09),
    "Elu": Activation(
        lambda y, p: np.where(y >= 0, y, p[0] * np.expm1(np.minimum(y, 0))), (1.25,), slope=lambda p: max(1, abs(p[0]))
    ),
    "Softplus": Activation(lambda y, p: np.logaddexp(0, y)),
    "PRelu": Activation(
        lambda y, p: np.where(y >= 0, y, _channels(np.asarray(p, y.dtype), y.ndim - 2) * y), (0.25, -0.5, 1.25),
        is_exact=True, slope=lambda p: max(1, *map(abs, p)), takes_slopes=True,
    ),
}

# On each axis, about: what transforms by points up to 2 and 1/2 amplify.
WINOGRAD_GROWTH = 14

# Unit roundoff, and what is lost where a number is too small for its digits.
UNITS = {"float64": (2.0**-53, 0), "float32": (2.0**-24, 0), "float16": (2.0**-11, 2.0**-25), "bfloat16": (2.0**-8, 0)}


def compute(c, dtype, x, w, bias=None, residual=None, offset=None, mask=None, activation=None, parameters=()):
    """Floating types: x and so on hold the numbers themselves, as float64."""
    work = np.longdouble if dtype == "float64" else np.float64
    x, w = x.astype(work), w.astype(work)
    interpolation, rank = 0, x.ndim - 2
    if c.operator == "DeformConv":
        samples, uncertainty = _sample(
            c, x, offset.astype(work), None if mask is None else mask.astype(work), w.shape[2:]
        )
        y, magnitude = (_sum_samples(c, *each) for each in ((samples, w), (abs(samples), abs(w))))
        interpolation = _sum_samples(c, uncertainty, abs(w).astype(np.float64))
    else:
        total = _sum_conv if c.operator == "Conv" else _sum_conv_transpose
        y, magnitude = total(c, x, w), total(c, abs(x), abs(w))
    for term in (None if bias is None else _channels(bias.astype(work), rank), residual):
        if term is not None:
            y, magnitude = y + term, magnitude + abs(term)
    terms = math.prod(w.shape[1:]) if c.operator != "ConvTranspose" else w.shape[0] // c.group * math.prod(w.shape[2:])
    terms += (bias is not None) + (residual is not None)

    # The worst case of a sum of so many terms, in any order; behind it, the activation, and one rounding.
    unit = UNITS["float64" if dtype == "float64" else "float32"][0]
    row = ACTIVATIONS[activation]
    slope = row.slope(parameters)
    y = row.at(y, parameters)
    output_unit, smallest = UNITS[dtype]

    def bound(magnitude, growth):
        sums = slope * (growth * terms * unit / (1 - terms * unit) * magnitude + unit * interpolation)
        activations = 0 if row.is_exact else 4 * unit * (1 + magnitude)
        return sums + activations + (output_unit + unit) * abs(y) + smallest + terms * 1e-38

    if magnitude.size == 0:
        return Expected(y)
    largest = magnitude.max(axis=(0, *range(2, magnitude.ndim)), keepdims=True)
    return Expected(y, bound(magnitude, 1), bound(largest, WINOGRAD_GROWTH ** min(rank, 3)))


def compute_quantised(c, x, w, x_zero_point, w_zero_point, bias, y_dtype, scales, y_zero_point, activation=None,
                      parameters=()):  # fmt: skip
    """8-bit integers. `scales` are (x's, w's: one or one a channel, y's), float32; y_dtype is a NumPy type."""
    rank = x.ndim - 2
    zero = np.reshape(np.asarray(w_zero_point, np.int64), -1)
    if c.operator == "ConvTranspose" and zero.size > 1:
        # One an output channel, which lies on axis 1 of each group's weights.
        groups = w.astype(np.int64).reshape(c.group, -1, *w.shape[1:])
        w = (groups - zero.reshape(c.group, 1, -1, *[1] * rank)).reshape(w.shape)
    else:
        w = w.astype(np.int64) - zero.reshape(-1, *[1] * (w.ndim - 1))
    total = _sum_conv if c.operator == "Conv" else _sum_conv_transpose
    v = total(c, x.astype(np.int64) - int(x_zero_point), w)
    real_bias = bias is not None and bias.dtype == np.float32
    if bias is not None and not real_bias:
        v = v + _channels(bias.astype(np.int64), rank)
    if y_dtype == np.int32:
        return Expected(v)

    x_scale, w_scale, y_scale = (np.asarray(s, np.float32) for s in scales)
    integer_y = y_dtype != np.float32
    once = integer_y and not real_bias and activation in (None, "Relu")
    factor = x_scale * w_scale / y_scale if once else x_scale * w_scale
    r = v.astype(np.float32) * _channels(factor, rank)
    if real_bias:
        r = r + _channels(bias, rank)
    row = ACTIVATIONS[activation]
    bound = 0 if row.is_exact else 1 if integer_y else 2.0**-20 * (1 + abs(r))
    r = row.at(r, [np.float32(p) for p in parameters]).astype(np.float32)
    if not integer_y:
        return Expected(r, bound, bound)
    if not once:
        r = r / y_scale
    limits = np.iinfo(y_dtype)
    return Expected(np.clip(np.rint(r).astype(np.float64) + int(y_zero_point), limits.min, limits.max), bound, bound)
