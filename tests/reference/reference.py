"""ONNX Conv and ConvTranspose in NumPy, written from the operators' pages; shares nothing with Kiln.

Every function takes x and w in ONNX's dimension order, attributes by their ONNX names (absent ones have the page's
defaults), and computes in float64, or in long double where x is float64.
"""

import itertools

import numpy as np


def _per_axis(attributes, name, rank):
    return list(attributes.get(name, [1] * rank))


def _split(total, extra_at_end):
    """A total of padding as (begin, end)."""
    small, large = total // 2, total - total // 2
    return (small, large) if extra_at_end else (large, small)


def conv_geometry(x_shape, kernel, attributes):
    """Returns (output sizes, pads at the beginning, pads at the end)."""
    rank = len(kernel)
    strides, dilations = (_per_axis(attributes, name, rank) for name in ("strides", "dilations"))
    auto_pad = attributes.get("auto_pad", "NOTSET")
    pads = attributes.get("pads", [0] * 2 * rank)
    begin, end = list(pads[:rank]), list(pads[rank:])
    out = []
    for axis in range(rank):
        size, stride = x_shape[2 + axis], strides[axis]
        effective = (kernel[axis] - 1) * dilations[axis] + 1
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            out.append(-(-size // stride))
            total = max((out[axis] - 1) * stride + effective - size, 0)
            begin[axis], end[axis] = _split(total, auto_pad == "SAME_UPPER")
        else:
            out.append((size + begin[axis] + end[axis] - effective) // stride + 1)
    return out, begin, end


def conv_transpose_geometry(x_shape, kernel, attributes):
    """Returns (output sizes, pads at the beginning, pads at the end), by opset 11."""
    rank = len(kernel)
    strides, dilations = (_per_axis(attributes, name, rank) for name in ("strides", "dilations"))
    output_padding = attributes.get("output_padding", [0] * rank)
    auto_pad = attributes.get("auto_pad", "NOTSET")
    pads = attributes.get("pads", [0] * 2 * rank)
    out, begins, ends = [], [], []
    for axis in range(rank):
        size, stride = x_shape[2 + axis], strides[axis]
        natural = stride * (size - 1) + output_padding[axis] + (kernel[axis] - 1) * dilations[axis] + 1
        if "output_shape" in attributes or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            out.append(attributes["output_shape"][axis] if "output_shape" in attributes else size * stride)
            total = natural - out[axis]
            # The page's NOTSET puts the extra in front, like SAME_LOWER. A negative total is not split: zeros follow.
            begin, end = _split(total, auto_pad == "SAME_UPPER") if total >= 0 else (0, total)
        else:
            begin, end = pads[axis], pads[rank + axis]
            out.append(natural - begin - end)
        begins.append(begin)
        ends.append(end)
    return out, begins, ends


def _work_type(x):
    return np.longdouble if x.dtype == np.float64 else np.float64


def _taps(kernel):
    return itertools.product(*(range(k) for k in kernel))


def _sum_conv(x, w, out, begin, end, attributes):
    rank = w.ndim - 2
    strides, dilations = (_per_axis(attributes, name, rank) for name in ("strides", "dilations"))
    groups = attributes.get("group", 1)
    padded = np.pad(x, [(0, 0), (0, 0)] + list(zip(begin, end)))
    y = np.zeros((x.shape[0], w.shape[0], *out), x.dtype)
    per_out, per_in = w.shape[0] // groups, w.shape[1]
    for tap in _taps(w.shape[2:]):
        window = tuple(
            slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, dilations, out, strides)
        )
        for group in range(groups):
            data = padded[(slice(None), slice(group * per_in, (group + 1) * per_in), *window)]
            weights = w[(slice(group * per_out, (group + 1) * per_out), slice(None), *tap)]
            y[:, group * per_out : (group + 1) * per_out] += np.einsum("nc...,mc->nm...", data, weights)
    return y


def _sum_conv_transpose(x, w, out, begin, attributes):
    rank = w.ndim - 2
    strides, dilations = (_per_axis(attributes, name, rank) for name in ("strides", "dilations"))
    groups = attributes.get("group", 1)
    per_in, per_out = w.shape[0] // groups, w.shape[1]
    full = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(x.shape[2:], strides, w.shape[2:], dilations)]
    # Everything the input reaches, with zeros behind it for outputs that nothing reaches.
    reach = [max(f, b + o) for f, b, o in zip(full, begin, out)]
    y = np.zeros((x.shape[0], per_out * groups, *reach), x.dtype)
    for tap in _taps(w.shape[2:]) if x.size else ():
        window = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilations, x.shape[2:], strides)
        )
        for group in range(groups):
            data = x[:, group * per_in : (group + 1) * per_in]
            weights = w[(slice(group * per_in, (group + 1) * per_in), slice(None), *tap)]
            channels = slice(group * per_out, (group + 1) * per_out)
            y[(slice(None), channels, *window)] += np.einsum("nc...,cm->nm...", data, weights)
    return y[(slice(None), slice(None), *(slice(b, b + o) for b, o in zip(begin, out)))]


def compute(operator, x, w, attributes, bias=None, residual=None, activation=None):
    """Returns (y, magnitude, terms, geometry).

    magnitude is the sum of |x * w| over each element's products, plus |bias| and |residual|; terms is how many numbers an
    element is the sum of, at the most.
    """
    work = _work_type(x)
    if operator == "Conv":
        geometry = conv_geometry(x.shape, w.shape[2:], attributes)
        terms = int(np.prod(w.shape[1:]))

        def total(data, weights):
            return _sum_conv(data, weights, *geometry, attributes)

    else:
        geometry = conv_transpose_geometry(x.shape, w.shape[2:], attributes)
        terms = int(np.prod(w.shape[2:])) * w.shape[0] // attributes.get("group", 1)

        def total(data, weights):
            return _sum_conv_transpose(data, weights, geometry[0], geometry[1], attributes)

    x, w = x.astype(work), w.astype(work)
    y, magnitude = total(x, w), total(abs(x), abs(w))
    if bias is not None:
        shape = (1, -1) + (1,) * (x.ndim - 2)
        y, magnitude = y + bias.astype(work).reshape(shape), magnitude + abs(bias.astype(work)).reshape(shape)
    if residual is not None:
        y, magnitude = y + residual.astype(work), magnitude + abs(residual.astype(work))
    if activation == "Relu":
        y = np.maximum(y, 0)
    elif activation is not None:
        raise ValueError(f"no activation {activation}")
    return y, magnitude, terms + (bias is not None) + (residual is not None), geometry
