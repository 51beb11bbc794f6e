"""Nodes that move elements: copies by strides and tables, and concatenation."""

import math

import numpy as np

from terms import NodeError, attribute_values

from operations.base import Aligned, Operand, Operation, identity, normal_axis, number_text, numbers_text, tensor_text


class Loop:
    """A loop over a part of an axis of a copy's result: each step goes `step` on along an axis of the input, to where a
    table says, or nowhere. Outside of `low` to `high` there is a fill."""

    def __init__(self, extent, axis=None, step=1, table=None, low=0, high=None):
        self.extent, self.axis, self.step, self.table = extent, axis, step, table
        self.low, self.high = low, extent if high is None else high


class Copy(Operation):
    """`loops` are those of each axis of the result, the outermost first; `begins` where the input's axes begin."""

    def __init__(self, x, output, loops, begins=None, fill="0", tables_span_axes=False):
        """`x` and `output` are (item, dtype, shape); a table is the name of a value or an array."""
        self.tables = [loop.table for axis in loops for loop in axis if loop.table is not None]
        super().__init__([x[0], *self.tables], output[0], output[1], output[2])
        self.x_dtype, self.x_shape = np.dtype(x[1]), list(x[2])
        self.loops, self.begins, self.fill = loops, begins or [0] * len(self.x_shape), fill
        self.table_types = {}
        self.spans = tables_span_axes

    def with_table_type(self, dtype):
        self.table_types = {0: np.dtype(dtype)}
        return self

    def follow(self, orders):
        order = tuple(orders[0]) if orders[0] is not None else identity(len(self.x_shape))
        by_tables = [order.index(axis) for axis, loops in enumerate(self.loops) if len(self.tables) > 1 and
                     any(loop.table is not None for loop in loops)]
        # Tables come in the axes' order.
        follows = len(self.shape) == len(self.x_shape) and not self.spans and by_tables == sorted(by_tables)
        tables = [None if isinstance(table, str) else identity(np.ndim(table)) for table in self.tables]
        tables = [identity(self.table_rank) if isinstance(item, str) else known for item, known in zip(self.tables, tables)]
        return [order, *tables], [order if follows else identity(len(self.shape))]

    table_rank = 1  # of a table that is computed

    def text(self, inputs, outputs):
        strides, stride = {}, 1
        for axis in reversed(inputs[0]):
            strides[axis] = stride
            stride *= self.x_shape[axis]
        loops = [loop for axis in outputs[0] for loop in self.loops[axis]] or [Loop(1)]
        first = sum(begin * strides[axis] for axis, begin in enumerate(self.begins))
        steps = [0 if loop.axis is None else loop.step * strides[loop.axis] for loop in loops]
        tables = [loop for loop in loops if loop.table is not None]
        x = tensor_text(self.x_dtype, [self.x_shape[axis] for axis in inputs[0]])
        operands = "".join("," + tensor_text(self.table_type(place, loop), [loop.extent]) for place, loop in enumerate(tables))
        result = tensor_text(self.dtype, [self.shape[axis] for axis in outputs[0]])
        text = f"copy-{x}{operands}-{result}-n{numbers_text([loop.extent for loop in loops])}-i{first},{numbers_text(steps)}"
        if any(loop.low > 0 or loop.high < loop.extent for loop in loops):
            lows, highs = ([getattr(loop, name) for loop in loops] for name in ("low", "high"))
            text += f"-v{numbers_text(lows)},{numbers_text(highs)}-f{self.fill}"
        if tables:
            text += "-t" + ",".join(f"{loops.index(loop)}:{self.x_shape[loop.axis]}" for loop in tables)
        return text

    def table_type(self, place, loop):
        return self.table_types.get(place, np.int32) if isinstance(loop.table, str) else loop.table.dtype


class GatherByValue(Copy):
    """A copy whose table is computed in the model, of any shape."""

    def __init__(self, x, output, loops, table_rank, table_type):
        super().__init__(x, output, loops, tables_span_axes=table_rank != 1)
        self.table_rank = table_rank
        self.with_table_type(table_type)


def copy_text(dtype, shape, before, after):
    """The text of a copy from one order to another."""
    copy = Copy(("x", dtype, shape), ("y", dtype, shape), [[Loop(size, axis)] for axis, size in enumerate(shape)])
    return copy.text([tuple(before)], [tuple(after)])


def x_of(values, index=0):
    return (values.item(index) if values.is_constant(index) else values.name(index), values.dtype(index), values.shape(index))


def result_of(values):
    return (values.node.output[0], values.output_dtype(), values.output_shape())


def copy_of(values, loops, begins=None, fill="0"):
    return [Copy((values.name(0), values.dtype(0), values.shape(0)), result_of(values), loops, begins, fill)]


def transpose(values):
    shape = values.shape(0)
    permutation = attribute_values(values.node).get("perm", list(range(len(shape)))[::-1])
    if sorted(permutation) != list(range(len(shape))):
        raise NodeError(f"perm {list(permutation)} is no permutation of {len(shape)} axes")
    copies = copy_of(values, [[Loop(shape[axis], axis)] for axis in permutation])
    copies[0].spans = True  # the result lies as the model has it
    return copies


class Reshaped(Copy):
    """The same elements in the model's order, under another shape."""

    def follow(self, orders):
        return [identity(len(self.x_shape))], [identity(len(self.shape))]

    def text(self, inputs, outputs):
        count = math.prod(self.x_shape)
        return f"copy-{tensor_text(self.x_dtype, self.x_shape)}-{tensor_text(self.dtype, self.shape)}-n{count}-i0,1"


def reshape(values):
    shape = values.shape(0)
    return [Reshaped((values.name(0), values.dtype(0), shape), result_of(values), [])]


def slice_(values):
    node, shape, rank = values.node, values.shape(0), len(values.shape(0))
    if values.graph.opset < 10:
        attributes = attribute_values(node)
        starts, ends = list(attributes["starts"]), list(attributes["ends"])
        axes, steps = attributes.get("axes"), None
    else:
        starts, ends, axes, steps = (values.constant(index, what) for index, what in
                                     ((1, "starts"), (2, "ends"), (3, "axes"), (4, "steps")))
        if values.has(3) and axes is None or starts is None or ends is None:
            raise NodeError("starts or ends are missing")
        starts, ends = starts.reshape(-1).tolist(), ends.reshape(-1).tolist()
    axes = list(range(len(starts))) if axes is None else [normal_axis(int(axis), rank) for axis in np.reshape(axes, -1)]
    steps = [1] * len(starts) if steps is None else steps.reshape(-1).tolist()
    begins, strides, sizes = [0] * rank, [1] * rank, list(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps):
        if step == 0:
            raise NodeError("a step is 0")
        begin, stop, _ = slice(start if start >= -shape[axis] else None if step > 0 else -shape[axis] - 1,
                               bounded_end(end, shape[axis]), step).indices(shape[axis])
        begins[axis], strides[axis], sizes[axis] = max(begin, 0), step, len(range(begin, stop, step))
    return copy_of(values, [[Loop(sizes[axis], axis, strides[axis])] for axis in range(rank)], begins)


def bounded_end(end, size):
    """An end as Python's slices have it: one before the first is none for them."""
    return None if end < -size else end


def split(values):
    node, attributes, shape = values.node, attribute_values(values.node), values.shape(0)
    axis, begin, made = normal_axis(attributes.get("axis", 0), len(shape)), 0, []
    for name in node.output:
        if not name:
            continue
        sizes = list(values.graph.known_shape("result", name))
        begins = [begin if place == axis else 0 for place in range(len(shape))]
        loops = [[Loop(size, place)] for place, size in enumerate(sizes)]
        if values.graph.readers[name] or name in values.graph.outputs:
            made.append(Copy((values.name(0), values.dtype(0), shape), (name, values.dtype(0), sizes), loops, begins))
        begin += sizes[axis]
    return made


def pad(values):
    node, attributes, shape = values.node, attribute_values(values.node), values.shape(0)
    rank, mode = len(shape), attributes.get("mode", b"constant").decode()
    fill = np.zeros([], values.dtype(0))
    if values.graph.opset < 11:
        pads = list(attributes.get("pads", attributes.get("paddings", [])))
        fill = np.float32(attributes.get("value", 0))
    else:
        pads = values.constant(1, "pads").reshape(-1).tolist()
        given = values.constant(2, "constant_value")
        fill = fill if given is None or given.size == 0 else given.reshape(-1)[0]
    axes = values.constant(3, "axes")
    axes = list(range(rank)) if axes is None else [normal_axis(int(axis), rank) for axis in axes.reshape(-1)]
    begin, end = [0] * rank, [0] * rank
    for place, axis in enumerate(axes):
        begin[axis], end[axis] = pads[place], pads[place + len(axes)]
    loops, begins = [], [0] * rank
    for axis, size in enumerate(shape):
        extent = size + begin[axis] + end[axis]
        if mode == "constant" or (begin[axis] == 0 and end[axis] == 0):
            loops.append([Loop(extent, axis, low=max(begin[axis], 0), high=max(max(begin[axis], 0), min(extent, size + begin[axis])))])
            begins[axis] = -begin[axis]
        else:
            loops.append([Loop(extent, axis, table=padded_places(mode, size, begin[axis], extent))])
    return copy_of(values, loops, begins, number_text(fill))


def padded_places(mode, size, begin, extent):
    places = np.arange(extent) - begin
    if mode == "edge":
        places = np.clip(places, 0, size - 1)
    elif mode == "wrap":
        places = places % size
    elif mode == "reflect":
        period = max(2 * size - 2, 1)
        places = np.abs((places + size - 1) % period - (size - 1)) if size > 1 else places * 0
    else:
        raise NodeError(f'a Pad of mode "{mode}"', "unsupported")
    return places.astype(np.int32)


def expand(values):
    shape, result = values.shape(0), values.output_shape()
    missing = len(result) - len(shape)
    return copy_of(values, [[Loop(size, axis - missing if axis >= missing and shape[axis - missing] == size else None)]
                            for axis, size in enumerate(result)])


def tile(values):
    shape, result = values.shape(0), values.output_shape()
    if len(shape) != len(result) or any(size and whole % size for size, whole in zip(shape, result)):
        raise NodeError(f"a Tile of {shape} to {result}")
    return copy_of(values, [[Loop(whole // size if size else 0), Loop(size, axis)]
                            for axis, (size, whole) in enumerate(zip(shape, result))])


def gather(values):
    shape, rank = values.shape(0), len(values.shape(0))
    axis = normal_axis(attribute_values(values.node).get("axis", 0), rank)
    indices = values.shape(1)
    count = math.prod(indices)
    result = result_of(values)
    if values.is_constant(1):
        table = np.asarray(values.graph.value(values.name(1))).reshape(-1).astype(np.int64)
        if count and (table.min() < -shape[axis] or table.max() >= shape[axis]):
            raise NodeError(f"an index is outside of the axis' {shape[axis]} elements")
        table = np.where(table < 0, table + shape[axis], table).astype(np.int32)
        steps = np.unique(np.diff(table))
        plain = count == 1 or len(steps) == 1
        middle = Loop(count, axis, int(steps[0]) if len(steps) else 1) if plain else Loop(count, axis, table=table)
        begins = [int(table[0]) if plain and place == axis else 0 for place in range(rank)]
    else:
        middle, begins = Loop(count, axis, table=values.name(1)), [0] * rank
    loops = [[Loop(size, place)] for place, size in enumerate(shape)]
    # All indices are the loop of the first of their axes, or, where they are one number, of none.
    spread = [[middle], *([[]] * (len(indices) - 1))] if indices else []
    new = [*loops[:axis], *spread, *loops[axis + 1:]]
    if not indices:
        new = [[middle, *new[0]], *new[1:]] if new else [[middle]]
    x = (values.name(0), values.dtype(0), shape)
    if isinstance(middle.table, str):
        return [GatherByValue(x, result, new, len(indices), values.dtype(1))]
    return [Copy(x, result, new, begins, tables_span_axes=len(indices) != 1)]


def depth_to_space(values):
    attributes, shape = attribute_values(values.node), values.shape(0)
    block = attributes["blocksize"]
    if len(shape) != 4 or block < 1 or shape[1] % (block * block):
        raise NodeError(f"a DepthToSpace of shape {shape} by {block}")
    channels = shape[1] // (block * block)
    blocks_first = attributes.get("mode", b"DCR") == b"DCR"
    inner, outer = (channels, block * channels) if blocks_first else (1, block)
    return copy_of(values, [[Loop(shape[0], 0)], [Loop(channels, 1, 1 if blocks_first else block * block)],
                            [Loop(shape[2], 2), Loop(block, 1, outer)], [Loop(shape[3], 3), Loop(block, 1, inner)]])


def space_to_depth(values):
    attributes, shape = attribute_values(values.node), values.shape(0)
    block = attributes["blocksize"]
    if len(shape) != 4 or block < 1 or shape[2] % block or shape[3] % block:
        raise NodeError(f"a SpaceToDepth of shape {shape} by {block}")
    channels, blocks = [Loop(shape[1], 1)], [Loop(block, 2), Loop(block, 3)]
    return copy_of(values, [[Loop(shape[0], 0)],
                            channels + blocks if attributes.get("mode", b"DCR") == b"CRD" else blocks + channels,
                            [Loop(shape[2] // block, 2, block)], [Loop(shape[3] // block, 3, block)]])


class Concat(Aligned):
    def __init__(self, operands, output, dtype, shape, axis):
        super().__init__(operands, output, dtype, shape)
        self.axis = axis

    def follow(self, orders):
        known = [order for order in orders if order is not None]
        order = tuple(known[0]) if known else identity(len(self.shape))
        return [order] * len(self.operands), [order]

    def text(self, inputs, outputs):
        order = outputs[0]
        parts = ",".join(tensor_text(operand.dtype, [operand.shape[axis] for axis in order]) for operand in self.operands)
        return f"concat-{parts}-{self.output_text(order)}-a{order.index(self.axis)}"


def concat(values):
    shape = values.output_shape()
    axis = normal_axis(attribute_values(values.node).get("axis", 1), len(shape))
    operands = [Operand(values.item(index), values.dtype(index), values.shape(index), range(len(shape)))
                for index in range(len(values.node.input)) if values.has(index)]
    return [Concat(operands, values.node.output[0], values.output_dtype(), shape, axis)]


HANDLERS = {"Transpose": transpose, "Slice": slice_, "Split": split, "Pad": pad, "Expand": expand, "Tile": tile,
            "Gather": gather, "DepthToSpace": depth_to_space, "SpaceToDepth": space_to_depth, "Concat": concat,
            **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), reshape)}
