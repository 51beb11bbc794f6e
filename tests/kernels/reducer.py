"""Reduces a layer (layers.py) that fails to the smallest one found that still does: fewer dimensions, sizes, attributes."""

import math

import layers

# What a layer is without each of these.
PLAIN = {
    "activation": None, "bias": False, "residual": False, "mask": False, "strict": False, "per_channel": False,
    "w_zero_point": False, "profile": "spec", "layouts": ["NCX", "NCX"], "batch": 1, "offset_group": 1,
}  # fmt: skip

# Attributes that oneDNN's document asks for: they are made plain where others are left out.
NEEDED = {"strides": 1, "dilations": 1, "pads_begin": 0, "pads_end": 0}
PLAIN_VALUES = {"strides": 1, "dilations": 1, "stride_nd": 1, "dilation_nd": 1}
FOLLOWING = {name for names in layers.NAMES.values() for key, name in names.items() if key not in ("strides", "dilations")}


def weight(layer):
    """What reducing makes less of."""
    sizes = layer["sizes"] + layer["kernel"] + [layer[k] for k in ("channels", "out_channels", "batch", "group")]
    numbers = sum(math.log2(size + 1) for size in sizes)
    extras = sum(key in layer and layer[key] != value for key, value in PLAIN.items())
    extras += 2 * len(layer["attributes"]) + (layer["w_layout"] is not None)
    extras += sum(sum(map(is_odd(name), values)) for name, values in axis_values(layer))
    return 8 * len(layer["sizes"]) + numbers + extras


def axis_values(layer):
    return [(name, value) for name, value in layer["attributes"].items() if isinstance(value, list)]


def is_odd(name):
    return lambda value: value != PLAIN_VALUES.get(name, 0)


def without_axis(layer, axis):
    rank = len(layer["sizes"])

    def cut(values):
        return [value for at, value in enumerate(values) if at % rank != axis]

    attributes = {name: cut(v) if isinstance(v, list) else v for name, v in layer["attributes"].items()}
    return layer | {"sizes": cut(layer["sizes"]), "kernel": cut(layer["kernel"]), "attributes": attributes}


def without_attribute(layer, name):
    attributes = dict(layer["attributes"])
    if layer["dialect"] == "onednn-graph" and name in NEEDED:
        attributes[name] = [NEEDED[name]] * len(layer["sizes"])
    else:
        del attributes[name]
    return layer | {"attributes": attributes}


def with_channels(layer, group, per_in, per_out):
    return layer | {"group": group, "channels": group * per_in, "out_channels": group * per_out, "offset_group": 1}


def less(number, least=1):
    """Smaller numbers, the boldest first."""
    return sorted({n for n in (least, number // 2, number - 1) if least <= n < number})


def replaced(values, at, value):
    return [*values[:at], value, *values[at + 1 :]]


def plainer(layer):
    """Without what the layer has besides its sum, all of it and each by itself."""
    plain = {key: value for key, value in PLAIN.items() if key in layer}
    yield layer | plain
    for name in layer["attributes"]:
        if name not in FOLLOWING or layer["dialect"] == "onnx" and name == "kernel_shape":
            yield without_attribute(layer, name)
    for key, value in plain.items():
        yield layer | {key: value}
    if layer["w_layout"]:
        yield layer | {"w_layout": None}
    for name, values in axis_values(layer):
        for at, value in enumerate(values):
            if name not in FOLLOWING and is_odd(name)(value):
                yield layer | {"attributes": {**layer["attributes"], name: replaced(values, at, PLAIN_VALUES.get(name, 0))}}


def fewer(layer):
    """Fewer dimensions, sizes, taps, channels."""
    rank = len(layer["sizes"])
    if rank > 1:
        yield from (without_axis(layer, axis) for axis in range(rank))
    yield layer | {"sizes": [max(1, size // 2) for size in layer["sizes"]]}
    for key in ("sizes", "kernel"):
        for axis, size in enumerate(layer[key]):
            yield from (layer | {key: replaced(layer[key], axis, n)} for n in less(size))
    group, per_in, per_out = layer["group"], layer["channels"] // layer["group"], layer["out_channels"] // layer["group"]
    yield from (with_channels(layer, n, per_in, per_out) for n in less(group))
    yield from (with_channels(layer, group, n, per_out) for n in less(per_in))
    yield from (with_channels(layer, group, per_in, n) for n in less(per_out))


def candidates(layer):
    """Layers that are one step smaller, legal ones only, without repetitions."""
    seen = []
    for candidate in [*plainer(layer), *fewer(layer)]:
        candidate = layers.with_attributes(candidate)
        if candidate in seen or weight(candidate) >= weight(layer):
            continue
        if layers.products(candidate) >= 0:
            seen.append(candidate)
    return seen


def reduce(layer, failing, rounds=30):
    """`failing` says of each of some layers whether it fails as the first one does. It is asked once a round."""
    for _ in range(rounds):
        smaller = candidates(layer)
        fails = [candidate for candidate, fails in zip(smaller, failing(smaller)) if fails] if smaller else []
        if not fails:
            break
        layer = min(fails, key=weight)
    return layer
