"""Resize and Upsample: which input elements an output element is made of, and how much of each."""

import math

import numpy as np

from terms import NodeError, attribute_values, is_float

from operations.base import AlongAxes, identity, normal_axes, number_text

# Bytes of an element, at least, that is rounded between axes.
LEAST_ROUNDED = 4
# By how much a half that is rounded down may be less than one, for ONNX Runtime's sake.
ROUNDED = 1e-6
# Elements that one along two axes is made of, at most: a cubic one's.
MOST_TAPS = 16


class Interpolate(AlongAxes):
    """`tables` are (indices, weights) of each axis, weights None for nearest ones."""

    def __init__(self, x, output, axes, tables, outside):
        super().__init__("interpolate", x, [part for table in tables for part in table if part is not None], output, axes)
        self.outside = outside

    def follow(self, orders):
        inputs, outputs = super().follow(orders)
        if [axis for axis in inputs[0] if axis in self.axes] != self.axes:  # tables come in the axes' order
            order = identity(len(self.x_shape))
            return [order, *inputs[1:]], [order]
        return inputs, outputs

    def parameters(self, order):
        return "" if self.outside is None else f"-v{self.outside}"


class Axis:
    """One axis of a Resize: sizes before and after, what the scale is taken as, and the region's limits."""

    def __init__(self, before, after, scale, region):
        self.before, self.after, self.scale, self.region = before, after, float(scale), region

    def positions(self, mode, kind=np.float64):
        """Where output elements lie on the input, as the coordinate transformation says, by arithmetic of a type."""
        x, before, after = np.arange(self.after, dtype=kind), kind(self.before), kind(self.after)
        scale, half, one = kind(self.scale), kind(0.5), kind(1)
        # The size that results count by, which need not be whole.
        exact = before * scale
        if mode == "asymmetric":
            return x / scale
        if mode == "align_corners":
            return x * kind(0) if one in (exact, after) else x * (before - one) / (exact - one)
        if mode in ("half_pixel", "tf_half_pixel_for_nn"):
            return (x + half) / scale - (half if mode == "half_pixel" else kind(0))
        if mode == "pytorch_half_pixel":
            return (x + half) / scale - half if after > 1 else x * kind(0)
        if mode == "half_pixel_symmetric":
            return before * half * (one - after / exact) + (x + half) / scale - half
        if mode == "tf_crop_and_resize":
            start, end = map(kind, self.region)
            if after == 1:
                return half * (start + end) * (before - one) + x * kind(0)
            return start * (before - one) + x * (end - start) * (before - one) / (exact - one)
        raise NodeError(f'coordinate_transformation_mode "{mode}"', "unsupported")


def nearest(positions, mode, before, scale):
    positions = positions.astype(np.float64)
    if mode == "round_prefer_floor":
        places = np.ceil(positions - 0.5)
    elif mode == "round_prefer_ceil":
        places = np.floor(positions + 0.5 + ROUNDED)
    elif mode in ("floor", "ceil"):
        places = np.floor(positions) if mode == "floor" else np.ceil(positions)
    elif mode == "simple":  # of opsets before nearest_mode
        places = np.ceil(positions) if scale < 1 else np.floor(positions)
    else:
        raise NodeError(f'nearest_mode "{mode}"', "unsupported")
    return np.clip(places, 0, before - 1).astype(np.int32)


def linear_weight(distance):
    return np.maximum(0, 1 - np.abs(distance))


def cubic_weight(a):
    def weight(distance):
        x = np.abs(distance)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0))
    return weight


def taps(axis, positions, reach, weight, antialias, exclude_outside):
    """Indices and weights of every input element nearer than `reach`; a shrinking Resize with antialias reaches farther."""
    stretch = max(1.0, 1 / axis.scale) if antialias else 1.0
    wide = reach * stretch
    count = int(np.ceil(2 * wide)) if stretch == 1 else int(np.floor(2 * wide)) + 1
    first = np.floor(positions).astype(np.int64) - (reach - 1) if stretch == 1 else np.ceil(positions - wide).astype(np.int64)
    places = first[:, None] + np.arange(count)[None, :]
    weights = weight((places - positions[:, None]) / stretch)
    if stretch > 1:
        weights = weights / weights.sum(axis=1, keepdims=True)
    if exclude_outside or stretch > 1 and antialias and exclude_outside:
        weights = np.where((places >= 0) & (places < axis.before), weights, 0)
        weights = weights / weights.sum(axis=1, keepdims=True)
    return np.clip(places, 0, axis.before - 1).astype(np.int32), weights.astype(np.float32)


def resize(values):
    node, attributes, shape = values.node, attribute_values(values.node), values.shape(0)
    result, rank = values.output_shape(), len(values.shape(0))
    if not is_float(values.dtype(0)) and attributes.get("mode", b"nearest") != b"nearest":
        raise NodeError(f"a Resize of mode \"{attributes['mode'].decode()}\" of {values.dtype(0).name}", "unsupported")
    is_upsample = node.op_type == "Upsample" or values.graph.opset < 11
    mode = attributes.get("mode", b"nearest").decode()
    coordinates = "asymmetric" if is_upsample else attributes.get("coordinate_transformation_mode", b"half_pixel").decode()
    rounding = "simple" if is_upsample else attributes.get("nearest_mode", b"round_prefer_floor").decode()
    if coordinates == "tf_half_pixel_for_nn" and "nearest_mode" not in attributes:
        rounding = "floor"
    stated = normal_axes(attributes["axes"], rank) if "axes" in attributes else list(range(rank))
    stated = [axis % rank for axis in attributes["axes"]] if "axes" in attributes else stated
    scales = scales_of(values, attributes, shape, result, stated, is_upsample)
    regions = regions_of(values, stated, rank, coordinates)
    axes = [axis for axis in range(rank) if shape[axis] != result[axis] or scales[axis] != 1
            or (coordinates == "tf_crop_and_resize" and regions[axis] != (0.0, 1.0))]
    if not axes:
        axes = [rank - 1]
    outside = number_text(np.float32(attributes.get("extrapolation_value", 0))) if coordinates == "tf_crop_and_resize" else None
    tables = [table_of(Axis(shape[axis], result[axis], scales[axis], regions[axis]), attributes, mode, coordinates, rounding)
              for axis in axes]
    x, dtype = (values.name(0), values.dtype(0), shape), values.dtype(0)
    if outside is None and dtype.itemsize >= LEAST_ROUNDED and is_worth_parts(tables):
        return one_after_the_other(values, x, result, list(zip(axes, tables)))
    return [Interpolate(x, (node.output[0], dtype, result), axes, tables, outside)]


def is_worth_parts(tables):
    """Whether an element is made of so many that one axis after the other takes less; along two axes a kernel keeps rows."""
    taps = [1 if weights is None else weights.shape[1] for _, weights in tables]
    return sum(number > 1 for number in taps) > 2 or (sum(number > 1 for number in taps) > 1 and math.prod(taps) > MOST_TAPS)


def one_after_the_other(values, x, result, parts):
    """Interpolations along an axis each, those first that leave fewer elements to the next."""
    made, (name, dtype, shape) = [], x
    parts.sort(key=lambda part: result[part[0]] / shape[part[0]])
    for place, (axis, table) in enumerate(parts):
        sizes = [result[axis] if other == axis else size for other, size in enumerate(shape)]
        target = values.node.output[0] if place == len(parts) - 1 else values.intermediate(f"axis{axis}", dtype, sizes)
        made.append(Interpolate((name, dtype, shape), (target, dtype, sizes), [axis], [table], None))
        name, shape = target, sizes
    return made


def table_of(axis, attributes, mode, coordinates, rounding):
    # Which of two is nearest where a position is whole but for rounding is decided as PyTorch and ONNX Runtime do: in float32.
    positions = axis.positions(coordinates, np.float32 if mode == "nearest" else np.float64)
    antialias, excludes = attributes.get("antialias", 0), attributes.get("exclude_outside", 0)
    is_outside = (positions < 0) | (positions > axis.before - 1) if coordinates == "tf_crop_and_resize" else \
        np.zeros(axis.after, bool)
    if mode == "nearest":
        return np.where(is_outside, np.int32(-1), nearest(positions, rounding, axis.before, axis.scale)), None
    if mode in ("linear", "bilinear", "trilinear"):
        indices, weights = taps(axis, positions, 1, linear_weight, antialias, excludes)
    elif mode in ("cubic", "bicubic"):
        weight = cubic_weight(float(np.float32(attributes.get("cubic_coeff_a", -0.75))))
        indices, weights = taps(axis, positions, 2, weight, antialias, excludes)
    else:
        raise NodeError(f'a Resize of mode "{mode}"', "unsupported")
    return np.where(is_outside[:, None], np.int32(-1), indices), weights


def scales_of(values, attributes, shape, result, stated, is_upsample):
    """How many times as large each axis becomes."""
    given = attributes.get("scales")
    index = 1 if is_upsample else 2
    if given is None and values.has(index):
        constant = values.constant(index, "scales")
        given = constant.reshape(-1).tolist() if constant.size else None
    if given is None and attributes.get("height_scale") is not None:
        given = [1, 1, attributes["height_scale"], attributes["width_scale"]]
    scales = [after / before if before else 1 for before, after in zip(shape, result)]
    if given is not None:
        for place, axis in enumerate(stated):
            scales[axis] = float(given[place])
        return scales
    policy = attributes.get("keep_aspect_ratio_policy", b"stretch")
    if policy != b"stretch":
        sizes = values.constant(3, "sizes").reshape(-1).tolist()
        ratios = [size / shape[axis] for size, axis in zip(sizes, stated)]
        ratio = min(ratios) if policy == b"not_larger" else max(ratios)
        for axis in stated:
            scales[axis] = ratio
    return scales


def regions_of(values, stated, rank, coordinates):
    regions = [(0.0, 1.0)] * rank
    if coordinates == "tf_crop_and_resize":
        region = values.constant(1, "roi").reshape(-1).tolist()
        for place, axis in enumerate(stated):
            regions[axis] = (region[place], region[place + len(stated)])
    return regions


HANDLERS = {"Resize": resize, "Upsample": resize}
