"""What is put in the place of a network's nodes computes what they did: graphs that are drawn from a seed, of layers and what
exporters write around them, before and after, both by onnxruntime. KILN_RANDOM_SEED and KILN_RANDOM_COUNT choose others.
Seconds."""

import collections
import os
import pathlib
import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/onnx_import"), str(ROOT / "tests/frontend")]
from onnx_models import model_of, value  # noqa: E402
from reading.folding import Folder  # noqa: E402
from reading.graph import Graph  # noqa: E402
from rewriting import rewrite  # noqa: E402

SEED, COUNT = (int(os.environ.get(f"KILN_RANDOM_{name}", default)) for name, default in (("SEED", 1), ("COUNT", 300)))
OPSET, REWRITTEN_OPSET = 21, 23  # nodes may be put there that the model's has not
LARGEST = 4096  # elements of a value


class Drawn:
    """A graph that grows: each step appends what reads one of its values. `shapes` are those of the values,
    `hidden` are values that only who drew them reads."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants, self.shapes, self.hidden = [], [], {}, set()
        channels = self.choose(2, 4, 8, 16)
        self.shapes["x"] = [self.choose(1, 2), channels, *self.rng.integers(3, 8, self.choose(1, 2, 2, 2)).tolist()]
        self.layer("x")
        for _ in range(self.rng.integers(3, 14)):
            steps = (self.layer, self.view, self.view, self.view, self.factor, self.factor, self.sum, self.sum, self.activation,
                     self.pool, self.pad, self.normalization, self.idle, self.product, self.again,
                     self.crop, self.parts)
            self.choose(*steps)(self.pick())

    # ---- What is drawn

    def choose(self, *items):
        return items[self.rng.integers(len(items))]

    def pick(self):
        """Mostly the last value."""
        names = [name for name in self.shapes if name not in self.hidden]
        return names[-1] if self.rng.random() < 0.8 else self.choose(*names)

    def constant(self, array):
        self.constants.append(numpy_helper.from_array(np.asarray(array), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def numbers(self, *shape, low=0.3):
        """Away from 0, so that they can divide."""
        return self.constant((self.rng.uniform(low, 1.5, shape) * self.rng.choice([-1, 1], shape)).astype(np.float32))

    def add(self, operator, inputs, shape, **attributes):
        if np.prod(shape) > LARGEST or np.prod(shape) < 1:
            return inputs[0]
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        self.shapes[name] = [int(size) for size in shape]
        return name

    # ---- Steps

    def layer(self, x):
        shape = self.shapes[x]
        channels = self.choose(4, 8, 16, shape[1] if len(shape) > 1 else 4)
        bias = self.choose(True, False)
        if len(shape) in (3, 4) and self.rng.random() < 0.6:
            kernel = [int(min(size, self.choose(1, 1, 2, 3))) for size in shape[2:]]
            w = self.numbers(channels, shape[1], *kernel)
            pads = [self.choose(0, 0, 1) for _ in kernel * 2]
            points = [size - k + 1 + before + after for size, k, before, after
                      in zip(shape[2:], kernel, pads, pads[len(kernel):])]
            return self.add("Conv", [x, w, *([self.numbers(channels)] if bias else [])], [shape[0], channels, *points], pads=pads)
        if len(shape) < 2:
            return x
        made = self.add("MatMul", [x, self.numbers(shape[-1], channels)], [*shape[:-1], channels])
        return self.add("Add", self.choose([made, self.numbers(channels)], [self.numbers(channels), made]), self.shapes[made]) \
            if bias and made != x else made

    def view(self, x):
        shape = self.shapes[x]
        if self.rng.random() < 0.5 and len(shape) > 1:
            order = self.rng.permutation(len(shape)).tolist()
            return self.add("Transpose", [x], [shape[axis] for axis in order], perm=order)
        sizes = list(shape)
        place = int(self.rng.integers(len(sizes)))
        if self.rng.random() < 0.5 and len(sizes) > 1:
            place = max(place, 1)
            sizes[place - 1:place + 1] = [sizes[place - 1] * sizes[place]]
        elif len(sizes) < 5:
            part = self.choose(*(size for size in range(1, sizes[place] + 1) if sizes[place] % size == 0))
            sizes[place:place + 1] = [part, sizes[place] // part]
        return self.add("Reshape", [x, self.constant(np.int64(sizes))], sizes)

    def factor(self, x):
        shape = self.shapes[x]
        kind = self.choose("one", "axis", "axis", "axis", "all", "last")
        sizes = [1] * len(shape)
        if kind == "axis":
            axis = int(self.rng.integers(len(shape)))
            sizes[axis] = shape[axis]
            sizes = sizes[axis if self.choose(True, False) else 0:]
        elif kind == "all":
            sizes = list(shape)
        elif kind == "last":
            sizes = shape[-1:]
        elif self.choose(True, False):
            sizes = []
        operator = self.choose("Mul", "Add", "Sub", "Div")
        inputs = [x, self.numbers(*sizes)]
        if operator in ("Mul", "Add") and self.choose(True, False):
            inputs.reverse()
        self.add(operator, inputs, shape)

    def sum(self, x):
        """With another value of this shape, or one that is brought to it, or is broadcast."""
        shape = self.shapes[x]
        others = [name for name, other in self.shapes.items() if np.prod(other) == np.prod(shape) and name not in self.hidden]
        other = self.choose(*others)
        if self.shapes[other] != shape:
            other = self.add("Reshape", [other, self.constant(np.int64(shape))], shape)
        if self.rng.random() < 0.2:
            axis = int(self.rng.integers(len(shape)))
            shape_of_mean = [1 if place == axis else size for place, size in enumerate(shape)]
            other = self.add("ReduceMean", [other, self.constant(np.int64([axis]))], shape_of_mean, keepdims=1)
        self.add("Add", self.choose([x, other], [other, x]), shape)

    def activation(self, x):
        kind = self.choose("Relu", "LeakyRelu", "Sigmoid", "Silu", "Clip", "Tanh")
        if kind == "Silu":
            return self.add("Mul", [x, self.add("Sigmoid", [x], self.shapes[x])], self.shapes[x])
        more = [self.constant(np.float32(0)), self.constant(np.float32(6))] if kind == "Clip" else []
        return self.add(kind, [x, *more], self.shapes[x])

    def pad(self, x):
        """By zeros or others, with what reads it behind it, or a Transpose between."""
        shape = self.shapes[x]
        if len(shape) not in (3, 4):
            return
        begin, end = ([self.choose(0, 0, 1, 2) for _ in shape] for _ in range(2))
        fill = self.choose([], [0.0], [-np.inf], [float(np.finfo(np.float32).min)], [1.0])
        if self.choose(True, True, False) or (fill and fill[0] < 0):
            begin[:2], end[:2] = [0, 0], [0, 0]
        made = self.add("Pad", [x, self.constant(np.int64([*begin, *end])), *(self.constant(np.float32(number)) for number in fill)],
                        [a + b + c for a, b, c in zip(shape, begin, end)])
        if fill and fill[0] < 0 and made != x:
            pooled = self.pool(made, "MaxPool")
            self.hidden.update([made, pooled])  # what is computed of such would overflow in more than one way
            if pooled not in (None, made):
                limits = [self.constant(np.float32(number)) for number in (-9, 9)]
                self.add("Clip", [pooled, *limits], self.shapes[pooled])
            return
        self.choose(self.pool, self.pool, self.layer, self.view)(made)

    def pool(self, x, operator=None):
        shape = self.shapes[x]
        if len(shape) not in (3, 4):
            return None
        kernel, strides = ([self.choose(*numbers) for _ in shape[2:]] for numbers in ((1, 2, 3), (1, 2)))
        pads = [int(self.choose(0, 0, min(1, size - 1))) for size in kernel * 2]
        operator = operator or self.choose("MaxPool", "AveragePool")
        more = {"count_include_pad": 1} if operator == "AveragePool" and self.choose(True, False) else {}
        room = [size + before + after - k for size, k, before, after in zip(shape[2:], kernel, pads, pads[len(kernel):])]
        if min(room) < 0:
            return None
        points = [number // stride + 1 for number, stride in zip(room, strides)]
        return self.add(operator, [x], [*shape[:2], *points], kernel_shape=kernel, strides=strides, pads=pads, **more)

    def normalization(self, x):
        shape = self.shapes[x]
        kind = self.choose("layer", "group", "batch")
        if kind == "layer":
            return self.layer_normalization(x, shape)
        if len(shape) < 3:
            return None
        if kind == "batch":
            numbers = [self.numbers(shape[1]) for _ in range(3)]
            variance = self.constant(self.rng.uniform(0.5, 2, shape[1]).astype(np.float32))
            return self.add("BatchNormalization", [x, *numbers, variance], shape)
        groups = self.choose(*(number for number in (1, 2, 4, shape[1]) if shape[1] % number == 0))
        sizes = [shape[0], groups, int(np.prod(shape[1:])) // groups]
        y = self.add("Reshape", [x, self.constant(np.int64(self.choose(sizes, [0, groups, -1])))], sizes)
        y = self.add("InstanceNormalization", [y, self.numbers(groups), self.numbers(groups)], sizes)
        y = self.add("Reshape", [y, self.constant(np.int64(shape))], shape)
        ones = [1] * (len(shape) - 2)
        y = self.add("Mul", [y, self.numbers(shape[1], *ones)], shape)
        return self.add("Add", [self.numbers(1, shape[1], *ones), y], shape)

    def layer_normalization(self, x, shape):
        axes = list(range(int(self.rng.integers(len(shape))), len(shape)))
        name = self.constant(np.int64(axes))
        small = [1 if axis in axes else size for axis, size in enumerate(shape)]
        difference = self.add("Sub", [x, self.add("ReduceMean", [x, name], small)], shape)
        square = self.add("Mul", [difference, difference], shape) if self.choose(True, False) else \
            self.add("Pow", [difference, self.constant(np.float32(2))], shape)
        variance = self.add("ReduceMean", [square, name], small)
        root = self.add("Sqrt", [self.add("Add", [variance, self.constant(np.float32(1e-3))], small)], small)
        y = self.add("Div", [difference, root], shape)
        y = self.add("Mul", [y, self.numbers(*shape[axes[0]:])], shape)
        return self.add("Add", [y, self.numbers(*shape[axes[0]:])], shape) if self.choose(True, False) else y

    def product(self, x):
        """Of a value with another one, or with itself turned; numbers and views around."""
        shape = self.shapes[x]
        if len(shape) < 2:
            return
        turned = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        sides = [x, self.add("Transpose", [x], [shape[axis] for axis in turned], perm=turned)]
        if self.shapes[sides[1]][-2:] != shape[:-3:-1]:
            return
        for place in (0, 1):
            if self.rng.random() < 0.6:
                sides[place] = self.scaled(sides[place])
            if self.rng.random() < 0.3:
                name, sizes = sides[place], self.shapes[sides[place]]
                flat = self.add("Reshape", [name, self.constant(np.int64([-1]))], [int(np.prod(sizes))])
                sides[place] = self.add("Reshape", [flat, self.constant(np.int64(sizes))], sizes)
        made = self.add("MatMul", sides, [*shape[:-1], shape[-2]])
        if self.rng.random() < 0.5 and made != sides[0]:
            self.scaled(made)

    def scaled(self, x):
        number = self.constant(np.float32(self.rng.uniform(0.3, 1.2)))
        operator = self.choose("Mul", "Mul", "Div")
        return self.add(operator, [number, x] if operator == "Mul" and self.choose(True, False) else [x, number], self.shapes[x])

    def idle(self, x):
        shape = self.shapes[x]
        kinds = [("Identity", [x]), ("Mul", [x, self.constant(np.ones([1], np.float32))]),
                 ("Concat", [x]), ("Transpose", [x])]
        operator, inputs = self.choose(*kinds)
        more = {"Concat": {"axis": 0}, "Transpose": {"perm": list(range(len(shape)))}}.get(operator, {})
        self.add(operator, inputs, shape, **more)

    def crop(self, x):
        """Behind a layer, mostly."""
        if len(self.shapes[x]) not in (3, 4) or self.rng.random() < 0.7:
            x = self.layer(x)
        for axis in range(2, len(self.shapes[x])):
            shape = self.shapes[x]
            begin, end = self.choose(0, 0, 1), self.choose(0, 1, 1, 2)
            last = self.choose(-end, shape[axis] - end) if end else 999
            bounds = [self.constant(np.int64([number])) for number in (begin, last, axis)]
            sizes = [size - begin - end if place == axis else size for place, size in enumerate(shape)]
            x = self.add("Slice", [x, *bounds], sizes)

    def parts(self, x):
        """Some of a tensor's, side by side again."""
        shape = self.shapes[x]
        axis = int(self.rng.integers(len(shape)))
        sizes = [self.choose(1, 1, 2) for _ in range(shape[axis])]
        while sum(sizes) > shape[axis]:
            sizes.pop()
        names = [f"v{len(self.nodes)}{letter}" for letter in "abcdefghijklmnopqrst"[:len(sizes)]]
        if sum(sizes) < shape[axis] or len(names) < len(sizes):
            return
        self.nodes.append(helper.make_node("Split", [x, self.constant(np.int64(sizes))], names, axis=axis))
        self.shapes.update({name: [*shape[:axis], size, *shape[axis + 1:]] for name, size in zip(names, sizes)})
        first, last = sorted(self.rng.integers(0, len(names) + 1, 2).tolist())
        chosen = [*names[first:last], *self.choose([], [self.choose(*names)], [x])]
        if chosen:
            whole = sum(self.shapes[name][axis] for name in chosen)
            self.add("Concat", chosen, [whole if place == axis else size for place, size in enumerate(shape)], axis=axis)

    def again(self, x):
        """A node that computes what an earlier one does."""
        node = self.choose(*self.nodes)
        if len(node.output) == 1 and node.output[0] not in self.hidden and node.op_type != "QuantizeLinear":
            copy = self.add(node.op_type, list(node.input), self.shapes[node.output[0]])
            if self.nodes[-1].output[0] == copy:
                self.nodes[-1].attribute.extend(node.attribute)

    def model(self):
        """Its outputs are what nobody reads, and a value or two more."""
        read = {name for node in self.nodes for name in node.input}
        made = [name for node in self.nodes for name in node.output]
        outputs = [name for name in made if name not in read or self.rng.random() < 0.08]
        return model_of(self.nodes, [value("x", self.shapes["x"])], [self.output(name) for name in outputs],
                        self.constants, OPSET)

    def output(self, name):
        return value(name, self.shapes[name])


class DrawnBytes(Drawn):
    """A graph of what quantises, moves elements and computes each by itself: nothing of it may change a bit."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants, self.hidden, self.quantised = [], [], set(), {}
        self.shapes = {"x": [self.choose(1, 2), self.choose(2, 4, 8), *self.rng.integers(3, 8, self.choose(1, 2)).tolist()]}
        self.schemes = [(self.constant(np.float32(scale)), self.constant(zero_point)) for scale, zero_point in
                        ((0.03, np.int8(3)), (0.03, np.int8(0)), (0.11, np.int8(3)), (0.03, np.uint8(90)))]
        self.pair("x")
        for _ in range(self.rng.integers(4, 20)):
            self.choose(self.pair, self.pair, self.pair, self.view, self.part, self.part, self.pick_places, self.more,
                        self.blocks, self.concat, self.concat, self.largest, self.activation, self.idle)(self.pick())

    def pair(self, x):
        """Mostly both of one scheme, of few that there are; by channels, or one of the two alone."""
        shape = self.shapes[x]
        scheme, axis = self.schemes[int(self.rng.integers(len(self.schemes)))], {}
        if self.rng.random() < 0.1 and len(shape) > 1:
            scheme, axis = (self.constant(self.rng.uniform(0.02, 0.1, shape[1]).astype(np.float32)),
                            self.constant(np.arange(shape[1]).astype(np.int8))), {"axis": 1}
        name = f"q{len(self.nodes)}"
        self.nodes.append(helper.make_node("QuantizeLinear", [x, *scheme], [name], **axis))
        self.quantised[name] = value(name, shape, TensorProto.UINT8 if scheme == self.schemes[3] else TensorProto.INT8)
        other = self.schemes[0] if scheme == self.schemes[2] and self.rng.random() < 0.3 else scheme
        self.add("DequantizeLinear", [name, *other], shape, **axis)

    def output(self, name):
        return self.quantised[name] if name in self.quantised else super().output(name)

    def part(self, x):
        shape = self.shapes[x]
        axis = int(self.rng.integers(len(shape)))
        cut = int(self.rng.integers(1, max(shape[axis], 2)))
        if self.rng.random() < 0.5 and cut < shape[axis]:
            sizes = [cut, shape[axis] - cut]
            names = [f"v{len(self.nodes)}", f"w{len(self.nodes)}"]
            self.nodes.append(helper.make_node("Split", [x, self.constant(np.int64(sizes))], names, axis=axis))
            self.shapes.update({name: [*shape[:axis], size, *shape[axis + 1:]] for name, size in zip(names, sizes)})
            return
        bounds = [self.constant(np.int64([number])) for number in (0, cut, axis)]
        self.add("Slice", [x, *bounds], [*shape[:axis], min(cut, shape[axis]), *shape[axis + 1:]])

    def pick_places(self, x):
        shape = self.shapes[x]
        axis = int(self.rng.integers(len(shape)))
        places = self.constant(self.rng.integers(0, shape[axis], self.choose(1, 3, shape[axis])))
        self.add("Gather", [x, places], [*shape[:axis], self.constants[-1].dims[0], *shape[axis + 1:]], axis=axis)

    def more(self, x):
        shape = self.shapes[x]
        times = [self.choose(1, 1, 2) for _ in shape]
        sizes = [size * count for size, count in zip(shape, times)]
        kind = self.choose("Tile", "Resize", "linear", "Expand")
        if kind == "Tile":
            self.add("Tile", [x, self.constant(np.int64(times))], sizes)
        elif kind == "Expand":
            self.add("Expand", [x, self.constant(np.int64([2, *shape]))], [2, *shape])
        elif len(shape) > 2:
            scales = self.constant(np.float32([1, 1, *times[2:]]))
            self.add("Resize", [x, "", scales], [*shape[:2], *sizes[2:]], mode="nearest" if kind == "Resize" else kind)

    def blocks(self, x):
        shape = self.shapes[x]
        if len(shape) == 4 and shape[1] % 4 == 0:
            self.add("DepthToSpace", [x], [shape[0], shape[1] // 4, shape[2] * 2, shape[3] * 2], blocksize=2)
        elif len(shape) == 4 and shape[2] % 2 == 0 and shape[3] % 2 == 0:
            self.add("SpaceToDepth", [x], [shape[0], shape[1] * 4, shape[2] // 2, shape[3] // 2], blocksize=2)

    def concat(self, x):
        shape = self.shapes[x]
        others = [name for name, other in self.shapes.items() if other == shape]
        parts = [x, *(self.choose(*others) for _ in range(self.rng.integers(1, 3)))]
        if self.rng.random() < 0.2:
            parts.append(self.numbers(*shape))
        axis = int(self.rng.integers(len(shape)))
        self.add("Concat", parts, [*shape[:axis], shape[axis] * len(parts), *shape[axis + 1:]], axis=axis)

    def largest(self, x):
        self.pool(x, "MaxPool")


def rewritten(model):
    """The model whose nodes are those that a network's importer goes on with."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = Graph(Folder(copy, "", True, True), [])
    rewrite(graph)
    nodes = []
    for node in graph.nodes:  # those that make constants are none of a network
        if not set(node.output) <= graph.constants:
            nodes.append(onnx.NodeProto())
            nodes[-1].CopyFrom(node)
            nodes[-1].name = ""
    read = {name for node in nodes for name in node.input if name in graph.constants}
    constants = [numpy_helper.from_array(np.asarray(graph.value(name)), name) for name in sorted(read)]
    types = [helper.make_tensor_value_info(name, TensorProto.FLOAT, graph.shape(name))
             for node in nodes for name in node.output if graph.element_type(name) == "FLOAT"]
    whole = model_of(nodes, list(model.graph.input), list(model.graph.output), constants, REWRITTEN_OPSET)
    whole.ir_version = 11
    whole.graph.value_info.extend(types)
    whole.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.checker.check_model(whole)
    return whole


def run(model, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})


class Random(unittest.TestCase):
    def run_both(self, model, seed, changed):
        """How many nodes of each kind a model has before and after rewriting, and each output's name and both its values. `changed`
        counts the kinds of which there are more or fewer."""
        shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
        x, other = np.random.default_rng(seed).standard_normal(shape).astype(np.float32), rewritten(model)
        counts = [collections.Counter(node.op_type for node in each.graph.node) for each in (model, other)]
        changed.update({kind: 1 for kind in {*counts[0], *counts[1]} if counts[0][kind] != counts[1][kind]})
        return counts, list(zip((value.name for value in model.graph.output), run(model, x), run(other, x)))

    def test_what_is_computed_stays(self):
        changed, compared = collections.Counter(), 0
        for seed in range(SEED, SEED + COUNT):
            with self.subTest(f"KILN_RANDOM_SEED={seed} KILN_RANDOM_COUNT=1"), np.errstate(all="ignore"):
                _, results = self.run_both(Drawn(seed).model(), seed, changed)
                for name, before, after in results:
                    if np.abs(before).max(initial=0) < 1e6:  # else it overflows in more than one way
                        self.compare(name, before, after)
                        compared += 1
        self.assertGreater(compared, COUNT)
        # What the passes put there, and take away: else the graphs that are drawn try nothing.
        for kind in ("Conv", "MatMul", "Pad", "LayerNormalization", "GroupNormalization", "Reshape", "Identity",
                     "FusedMatMul"):
            self.assertGreater(changed[kind], COUNT // 100, changed)

    def test_bytes_are_the_same(self):
        changed, fewer = collections.Counter(), 0
        for seed in range(SEED, SEED + COUNT):
            with self.subTest(f"KILN_RANDOM_SEED={seed} KILN_RANDOM_COUNT=1"):
                counts, results = self.run_both(DrawnBytes(seed).model(), seed, changed)
                fewer += counts[1]["QuantizeLinear"] < counts[0]["QuantizeLinear"]
                for name, before, after in results:
                    np.testing.assert_array_equal(before, after, name)
        for kind in ("QuantizeLinear", "DequantizeLinear", "Identity"):
            self.assertGreater(changed[kind], COUNT // 100, changed)
        self.assertGreater(fewer, COUNT // 10)

    def compare(self, name, before, after):
        self.assertEqual(before.shape, after.shape, name)
        most = np.abs(before).max(initial=0.1)
        np.testing.assert_allclose(after, before, rtol=0, atol=1e-2 * most, err_msg=name)


if __name__ == "__main__":
    unittest.main()
