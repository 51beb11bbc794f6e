"""A problem's random tensors, and what the right answer is: the definition in float64.

Tensors are in ONNX's order of dimensions (NCX) whatever the layout under test. float16 and bfloat16 tensors are float32
arrays of values that the type holds.
"""

import itertools
import math

import numpy as np

# The largest error, as a part of the largest value, of a right answer: float32 leaves room for Winograd's larger tiles,
# the others for a result rounded to the type.
TOLERANCES = {"f64": 1e-4, "f32": 1e-4, "f16": 1e-2, "bf16": 2e-2}


def to_bf16(values):
    """The bits of the nearest bfloat16s, as uint16."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def stored(values, dtype):
    """`values` as elements of a problem's type: bfloat16 as its bits."""
    if dtype == "bf16":
        return to_bf16(values)
    return np.asarray(values).astype({"f64": np.float64, "f32": np.float32, "f16": np.float16, "s8": np.int8,
                                      "u8": np.uint8, "s32": np.int32}[dtype])


def loaded(elements, dtype):
    return from_bf16(elements) if dtype == "bf16" else elements


def round_to(values, dtype):
    return loaded(stored(values, dtype), dtype).astype(np.float64 if dtype == "f64" else np.float32)


def make(problem, seed=1):
    """{"x", "w" and, where the problem has them, "bias", "residual", "offset", "mask"}; for 8-bit data also "scale", float32
    a channel. ValueError for problems that are not measured.

    Weights are scaled to keep the variance, as trained ones about do; activations are standard normal, or what follows
    a ReLU where they are 8-bit.
    """
    random = np.random.default_rng(seed)
    terms = math.prod(problem.kernel) * problem.in_channels // problem.groups
    if problem.transposed:
        terms = max(1, terms // math.prod(problem.strides))
    x = random.standard_normal(problem.x_shape, np.float32)
    w = random.standard_normal(problem.weight_shape, np.float32) / np.float32(math.sqrt(terms))
    bias = random.standard_normal(problem.out_channels, np.float32)
    if problem.quantised:
        return _quantised(problem, x, w, bias)
    tensors = {"x": round_to(x, problem.x_type), "w": round_to(w, problem.x_type)}
    if "bias" in problem.flags:
        tensors["bias"] = round_to(bias, problem.x_type)
    if "residual" in problem.flags:
        tensors["residual"] = round_to(random.standard_normal(problem.y_shape, np.float32), problem.x_type)
    if problem.deformable:
        tensors["offset"] = round_to(random.standard_normal(problem.offset_shape(2), np.float32), problem.x_type)
        if "mask" in problem.flags:
            tensors["mask"] = round_to(random.random(problem.offset_shape(1), np.float32), problem.x_type)
    return tensors


def _quantised(problem, x, w, bias):
    if problem.y_type not in ("s8", "u8") or problem.w_type != "s8":
        raise ValueError("8-bit layers are measured with s8 weights and an 8-bit result")
    for flag in ("wz", "biasf32", "residual"):
        if flag in problem.flags:
            raise ValueError(f"8-bit layers are not measured with {flag}")
    low, high = (0, 255) if problem.x_type == "u8" else (-128, 127)
    zero = problem.x_zero_point
    x_scale = 4 / (high - low)  # normal data reaches about 4
    x = np.clip(np.rint(np.maximum(x, 0) / x_scale) + zero, low, high)
    channels = (1, -1) if problem.transposed and problem.groups == 1 else (-1, 1)
    shape = tuple(channels[:2]) + (1,) * problem.rank
    if problem.transposed and problem.groups > 1:
        w_scale = np.full(problem.out_channels, np.abs(w).max() / 127, np.float32)
        q = np.rint(w / w_scale[0])
    else:
        w_scale = np.abs(w).max(axis=tuple(axis for axis in range(w.ndim) if shape[axis] == 1)) / np.float32(127)
        q = np.rint(w / w_scale.reshape(shape))
    tensors = {"x": stored(x, problem.x_type), "w": stored(q, "s8")}
    if "bias" in problem.flags:
        tensors["bias"] = stored(np.rint(bias / (x_scale * w_scale)), "s32")
    # y's scale is such that results fill its type: of standard normal data, about 4 is the largest.
    tensors["scale"] = (x_scale * w_scale / (4 / 255)).astype(np.float32)
    return tensors


def _taps(problem):
    return itertools.product(*map(range, problem.kernel))


def _window(start, count, step):
    return tuple(slice(s, s + (n - 1) * d + 1, d) for s, n, d in zip(start, count, step))


def _conv(problem, x, w):
    x = np.pad(x, [(0, 0), (0, 0), *((max(b, 0), max(e, 0)) for b, e in zip(problem.pads_begin, problem.pads_end))])
    shift = [max(-begin, 0) for begin in problem.pads_begin]
    groups, batch = problem.groups, problem.batch
    y = np.zeros((batch, groups, problem.out_channels // groups, math.prod(problem.outputs)))
    w = w.reshape(groups, problem.out_channels // groups, *w.shape[1:])
    for tap in _taps(problem):
        start = [s + t * d for s, t, d in zip(shift, tap, problem.dilations)]
        data = x[(slice(None), slice(None), *_window(start, problem.outputs, problem.strides))]
        y += w[(..., *tap)] @ data.reshape(batch, groups, problem.in_channels // groups, -1)
    return y.reshape(problem.y_shape)


def _conv_transpose(problem, x, w):
    groups, batch = problem.groups, problem.batch
    begin = [max(b, 0) for b in problem.pads_begin]
    reach = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in
             zip(problem.inputs, problem.strides, problem.kernel, problem.dilations)]
    lead = [max(-b, 0) for b in problem.pads_begin]  # rows of zeros in front
    full = [max(at + r, at + b + o) for at, r, b, o in zip(lead, reach, begin, problem.outputs)]
    y = np.zeros((batch, problem.out_channels, *full))
    x = x.reshape(batch, groups, problem.in_channels // groups, -1)
    w = w.reshape(groups, problem.in_channels // groups, *w.shape[1:])
    for tap in _taps(problem):
        products = np.swapaxes(w[(..., *tap)], 1, 2) @ x
        start = [at + t * d for at, t, d in zip(lead, tap, problem.dilations)]
        y[(slice(None), slice(None), *_window(start, problem.inputs, problem.strides))] += products.reshape(
            batch, problem.out_channels, *problem.inputs)
    return y[(slice(None), slice(None), *(slice(b, b + o) for b, o in zip(begin, problem.outputs)))]


def _sample(image, rows, columns):
    """Bilinear samples of [channels][height][width], zero outside."""
    height, width = image.shape[1:]
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    sum_ = 0
    for y, x in ((top + i, left + j) for i in (0, 1) for j in (0, 1)):
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        weight = (1 - np.abs(rows - y)) * (1 - np.abs(columns - x)) * inside
        sum_ = sum_ + image[:, np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)] * weight
    return sum_


def _deform_conv(problem, x, w, offset, mask):
    if problem.rank != 2:
        raise ValueError(f"deformable convolutions of rank {problem.rank} are not checked here")
    taps, count = list(_taps(problem)), math.prod(problem.kernel)
    per_offset = problem.in_channels // problem.offset_groups
    outputs = np.meshgrid(*map(np.arange, problem.outputs), indexing="ij")
    samples = np.zeros((problem.batch, problem.in_channels, count, *problem.outputs))
    for n, group, (index, tap) in itertools.product(range(problem.batch), range(problem.offset_groups),
                                                    enumerate(taps)):
        number = group * count + index
        places = [o * s + t * d - b + offset[n, 2 * number + axis] for axis, (o, s, t, d, b) in enumerate(
            zip(outputs, problem.strides, tap, problem.dilations, problem.pads_begin))]
        channels = slice(group * per_offset, (group + 1) * per_offset)
        values = _sample(x[n, channels], *places)
        samples[n, channels, index] = values if mask is None else values * mask[n, number]
    groups = problem.groups
    samples = samples.reshape(problem.batch, groups, problem.in_channels // groups * count, -1)
    return (w.reshape(groups, problem.out_channels // groups, -1) @ samples).reshape(problem.y_shape)


def reference(problem, tensors):
    """The right answer, float64 (integers, as they are, where the problem's type is one)."""
    x, w = (tensors[name].astype(np.float64) for name in "xw")
    x = x - problem.x_zero_point
    if problem.deformable:
        mask = tensors["mask"].astype(np.float64) if "mask" in tensors else None
        y = _deform_conv(problem, x, w, tensors["offset"].astype(np.float64), mask)
    else:
        y = (_conv_transpose if problem.transposed else _conv)(problem, x, w)
    channels = (1, -1) + (1,) * problem.rank
    if "bias" in tensors:
        y = y + tensors["bias"].astype(np.float64).reshape(channels)
    if "residual" in tensors:
        y = y + tensors["residual"]
    if problem.quantised:
        y = y * tensors["scale"].astype(np.float64).reshape(channels)
    if problem.activation == "relu":
        y = np.maximum(y, 0)
    elif problem.activation:
        raise ValueError(f"activation {problem.activation} is not checked here")
    if problem.quantised:
        low, high = (0, 255) if problem.y_type == "u8" else (-128, 127)
        y = np.clip(np.rint(y) + problem.y_zero_point, low, high)
    return y


def error_of(problem, y, expected):
    """(error, whether it is a right answer): in steps of 8-bit types, else as a part of the largest value."""
    if y.shape != expected.shape:
        raise ValueError(f"the result's shape is {list(y.shape)}, not {list(expected.shape)}")
    difference = np.abs(y.astype(np.float64) - expected)
    error = float(difference.max()) if np.isfinite(difference).all() else math.inf
    if problem.quantised:  # a product rounded another way may be a step aside
        return error, error <= 1
    error /= max(float(np.abs(expected).max()), 1e-30)
    return error, error <= TOLERANCES[problem.x_type]
