"""Random single nodes of the operators that operations take, in random orders of their tensors, against onnx's own evaluator.

OPERATION_TARGET names a target whose programs an emulator runs; else kernels run here. KILN_RANDOM_SEED chooses the draw.
"""

import os
import tempfile
import unittest
import warnings

import numpy as np
import onnx
import operation_program
import operation_runs
import network_doubles  # operation_runs says where it lies
import onnxruntime
from onnx import TensorProto, helper
from terms import ModelError, NodeError

SEED = int(os.environ.get("KILN_RANDOM_SEED", "1"))
COUNT = int(os.environ.get("KILN_RANDOM_COUNT", "160"))
TARGET = os.environ.get("OPERATION_TARGET", "")
TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16,
         "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64, "int32": TensorProto.INT32, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8,
         "bool": TensorProto.BOOL}
# What is computed in float32.
HALVES = ("float16", "bfloat16")


class Draw:
    """One node: its model, the values of its inputs, and how near results are to be."""

    def __init__(self, number):
        self.rng = np.random.default_rng([SEED, number])
        self.constants = {}

    def choose(self, *items):
        return items[self.rng.integers(len(items))]

    def size(self, most=40):
        return int(self.choose(1, 2, 3, 4, 7, 8, 16, 17, 31, 33, 64, 65, int(self.rng.integers(1, most + 1))))

    def shape(self, rank, most_elements=20000):
        while True:
            shape = [self.size() for _ in range(rank)]
            if np.prod(shape) <= most_elements:
                return shape

    def values(self, shape, dtype="float32", hostile=False):
        if dtype == "bool":
            return self.rng.integers(0, 2, shape).astype(bool)
        if dtype in ("int64", "int32", "int8", "uint8"):
            return self.rng.integers(-20 if dtype != "uint8" else 0, 100, shape).astype(dtype)
        x = (self.rng.standard_normal(shape) * self.choose(1, 1, 3)).astype(dtype)
        if hostile and x.size:
            flat = x.reshape(-1)
            for value in (np.nan, np.inf, -np.inf, 0.0, -0.0):
                flat[self.rng.integers(flat.size)] = value
        return x

    def model(self, op_type, inputs, constants=(), opset=21, outputs=1, **attributes):
        """`inputs` are arrays, those whose index is in `constants` being so in the model."""
        names = [f"in{i}" if value is not None else "" for i, value in enumerate(inputs)]
        node = helper.make_node(op_type, names, [f"out{i}" for i in range(outputs)], **attributes)
        kept = [i for i, value in enumerate(inputs) if value is not None]
        graph = helper.make_graph(
            [node], "g", [helper.make_tensor_value_info(names[i], TYPES[inputs[i].dtype.name], inputs[i].shape)
                          for i in kept if i not in constants],
            [onnx.ValueInfoProto(name=name) for name in node.output],
            [onnx.numpy_helper.from_array(np.asarray(inputs[i]), names[i]) for i in kept if i in constants])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        return model, {names[i]: inputs[i] for i in kept if i not in constants}


def unary(draw):
    op_type = draw.choose("Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Neg", "Sqrt", "Floor", "Ceil", "Round", "Erf", "Softplus",
                          "HardSwish", "Sign", "Gelu", "Mish", "LeakyRelu", "Elu", "Selu", "HardSigmoid", "Softsign", "Log",
                          "Sin", "Cos", "Atan", "Reciprocal", "Celu", "ThresholdedRelu", "Sinh", "Asinh", "Tan")
    # Of an infinite x some are defined by their limits, which the evaluator's formulas do not have.
    x = draw.values(draw.shape(draw.choose(1, 2, 3, 4)), draw.choose("float32", *HALVES),
                    hostile=op_type not in ("Gelu", "Mish", "HardSwish", "Softsign"))
    return draw.model(op_type, [np.abs(x) + x.dtype.type(0.01) if op_type == "Log" else x], opset=22)


def binary(draw):
    op_type = draw.choose("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Less", "Equal", "GreaterOrEqual", "Mod", "PRelu")
    shape, dtype = draw.shape(draw.choose(1, 2, 3, 4)), draw.choose("float32", *HALVES, "int32", "int64")
    if op_type == "PRelu":
        dtype = draw.choose("float32", *HALVES)
    is_float = dtype in ("float32", *HALVES)
    other = [size if draw.rng.random() < 0.6 else 1 for size in shape][int(draw.rng.integers(0, 2)):]
    if op_type == "Pow" and not is_float:
        return integer_power(draw, shape, other, dtype)
    a, b = draw.values(shape, dtype, op_type not in ("Pow", "Mod")), draw.values(other, dtype)
    if op_type in ("Mod", "Div") and not is_float:
        a, b = np.abs(a), np.abs(b) + b.dtype.type(1)
    if op_type == "Mod" and is_float:
        return draw.model(op_type, [a, np.abs(b) + b.dtype.type(0.1)], fmod=1)
    if op_type == "Pow":
        a = np.abs(a)
    return draw.model(op_type, [a, b] if draw.rng.random() < 0.7 or op_type in ("PRelu", "Pow", "Mod", "Div") else [b, a])


def integer_power(draw, shape, other, dtype):
    exponents = draw.choose(dtype, "int64", "int32", "uint8")
    a, limits = draw.values(shape, dtype), np.iinfo(exponents)
    a = np.where(draw.rng.random(shape) < 0.5, draw.rng.integers(-3, 4, shape), a).astype(dtype)
    small = draw.rng.integers(max(-3, limits.min), 8, other)
    b = np.where(draw.rng.random(other) < 0.5, small, draw.rng.integers(limits.min, limits.max, other, exponents)).astype(exponents)
    return draw.model("Pow", [a, b])


def windows(draw):
    rank = draw.choose(1, 2, 2, 2, 3)
    shape = [draw.choose(1, 2), draw.choose(1, 3, 8, 20, 33), *(int(draw.rng.integers(3, 14)) for _ in range(rank))]
    kernel = [int(draw.rng.integers(1, 4)) for _ in range(rank)]
    op_type = draw.choose("MaxPool", "AveragePool", "LpPool")
    attributes = {"kernel_shape": kernel, "strides": [int(draw.rng.integers(1, 4)) for _ in range(rank)]}
    attributes["dilations"] = [int(draw.rng.integers(1, 3)) if size > 6 else 1 for size in shape[2:]]
    if draw.rng.random() < 0.3:
        attributes["auto_pad"] = draw.choose("SAME_UPPER", "SAME_LOWER", "VALID")
        attributes.pop("dilations")
    else:
        # No window lies in the padding alone.
        attributes["pads"] = [int(draw.rng.integers(0, size)) for size in kernel * 2]
        attributes["ceil_mode"] = int(draw.rng.integers(0, 2)) if op_type != "LpPool" else 0
    if op_type == "AveragePool":
        attributes["count_include_pad"] = int(draw.rng.integers(0, 2))
    if op_type == "LpPool":
        attributes["p"] = int(draw.rng.integers(1, 4))
    dtype = draw.choose("float32", *HALVES, *(("uint8", "int8") if op_type == "MaxPool" else ()))
    return draw.model(op_type, [draw.values(shape, dtype)], opset=22, **attributes)


def reduction(draw):
    op_type = draw.choose(*operation_runs.operations.gathering.REDUCTIONS)
    rank = draw.choose(1, 2, 3, 4)
    shape = draw.shape(rank)
    axes = np.array(sorted(draw.rng.choice(rank, int(draw.rng.integers(1, rank + 1)), replace=False)), np.int64)
    dtype = draw.choose("float32", *HALVES, "int32") if op_type not in ("ReduceLogSum", "ReduceProd") else "float32"
    x = draw.values(shape, dtype)
    if op_type in ("ReduceLogSum", "ReduceProd"):
        x = np.abs(x) + np.float32(0.5)
        x = x ** np.float32(1 / x.size) if op_type == "ReduceProd" else x
    if dtype == "int32" and op_type in ("ReduceL2", "ReduceLogSumExp", "ReduceMean"):
        x = x.astype(np.float32)
    return draw.model(op_type, [x, axes], [1], keepdims=int(draw.rng.integers(0, 2)))


def place(draw):
    rank = draw.choose(1, 2, 3)
    x = draw.rng.integers(-4, 5, draw.shape(rank)).astype(np.float32)
    return draw.model(draw.choose("ArgMax", "ArgMin"), [x], axis=int(draw.rng.integers(-rank, rank)),
                      keepdims=int(draw.rng.integers(0, 2)), select_last_index=int(draw.rng.integers(0, 2)))


def softmax(draw):
    rank = draw.choose(1, 2, 3, 4)
    x = draw.values(draw.shape(rank), draw.choose("float32", *HALVES))
    if draw.rng.random() < 0.3:
        x = (x * x.dtype.type(20)).astype(x.dtype)
    return draw.model(draw.choose("Softmax", "LogSoftmax", "Hardmax"), [x], opset=draw.choose(21, 21, 11),
                      axis=int(draw.rng.integers(0, rank)))


def normalization(draw):
    op_type = draw.choose("InstanceNormalization", "LayerNormalization", "GroupNormalization", "MeanVarianceNormalization",
                          "LpNormalization", "LRN", "BatchNormalization")
    shape = [draw.choose(1, 2), draw.choose(2, 6, 8, 24), draw.size(12) % 13 + 2, draw.size(12) % 13 + 2]
    x, channels = draw.values(shape), shape[1]
    scale, shift = draw.values([channels]), draw.values([channels])
    if op_type == "LayerNormalization":
        axis = int(draw.rng.integers(1, 4))
        return draw.model(op_type, [x, draw.values(shape[axis:]), draw.values(shape[axis:])], axis=axis)
    if op_type == "GroupNormalization":
        return draw.model(op_type, [x, scale, shift], num_groups=2)
    if op_type == "InstanceNormalization":
        return draw.model(op_type, [x, scale, shift], draw.choose([], [1, 2]))
    if op_type == "BatchNormalization":
        return draw.model(op_type, [x, scale, shift, draw.values([channels]), np.abs(draw.values([channels])) + np.float32(0.1)],
                          draw.choose([], [1, 2, 3, 4]))
    if op_type == "LRN":
        return draw.model(op_type, [x], size=int(draw.choose(3, 5, 7)), beta=float(draw.choose(0.75, 0.5, 0.6)), alpha=0.1)
    if op_type == "LpNormalization":
        return draw.model(op_type, [x], axis=int(draw.rng.integers(0, 4)), p=2)
    return draw.model(op_type, [x])


def resize(draw):
    rank = draw.choose(1, 2, 2)
    shape = [1, draw.choose(1, 3, 16), *(int(draw.rng.integers(2, 12)) for _ in range(rank))]
    mode = draw.choose("nearest", "linear", "cubic") if rank == 2 else draw.choose("nearest", "linear")
    attributes = {"mode": mode, "coordinate_transformation_mode": draw.choose(
        "half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric")}
    if mode == "nearest":
        attributes["nearest_mode"] = draw.choose("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    # Corners of sizes that are not whole are aligned by those sizes, as ONNX's cases have it, or by what is left of them.
    # What is nearest is known where a scale's bits are few.
    aligns = attributes["coordinate_transformation_mode"] == "align_corners"
    numbers = (1, 2, 3) if aligns else (0.5, 1, 2, 4, 1.5, 0.75) if mode == "nearest" else (0.5, 1, 2, 3, 1.7, 0.8)
    scales = np.array([1, 1, *(draw.choose(*numbers) for _ in range(rank))], np.float32)
    dtype = draw.choose("float32", *HALVES, *(("uint8",) if mode == "nearest" else ()))
    return draw.model("Resize", [draw.values(shape, dtype), None, scales], [2], opset=19, **attributes)


def movement(draw):
    rank = draw.choose(2, 3, 4)
    shape = draw.shape(rank)
    x = draw.values(shape, draw.choose("float32", *HALVES, "uint8", "int64", "bool"))
    kind = draw.choose("Transpose", "Slice", "Pad", "Tile", "Expand", "Gather", "Concat")
    if kind == "Transpose":
        return draw.model(kind, [x], perm=[int(axis) for axis in draw.rng.permutation(rank)])
    if kind == "Slice":
        steps = draw.rng.choice([1, 1, 2, -1, -2], rank)
        starts = [int(draw.rng.integers(0, size)) for size in shape]
        ends = [size if step > 0 else -size - 1 for size, step in zip(shape, steps)]
        return draw.model(kind, [x, *(np.array(v, np.int64) for v in (starts, ends, range(rank), steps))], [1, 2, 3, 4])
    if kind == "Pad":
        x = x if x.dtype != bool else x.astype(np.float32)
        mode = draw.choose("constant", "edge", "reflect")
        most = [3 if mode != "reflect" else min(3, size) for size in shape]
        pads = np.array([int(draw.rng.integers(0, size)) for size in most * 2], np.int64)
        return draw.model(kind, [x, pads, np.asarray(7, x.dtype)], [1, 2], mode=mode)
    if kind == "Tile":
        return draw.model(kind, [x, draw.rng.integers(1, 3, rank).astype(np.int64)], [1])
    if kind == "Expand":
        x = draw.values([size if draw.rng.random() < 0.5 else 1 for size in shape])
        return draw.model(kind, [x, np.array(shape, np.int64)], [1])
    axis = int(draw.rng.integers(0, rank))
    if kind == "Gather":
        indices = draw.rng.integers(-shape[axis], shape[axis], [draw.size(9) for _ in range(draw.choose(0, 1, 1, 2))])
        return draw.model(kind, [x, indices.astype(np.int64)], draw.choose([], [1]), axis=axis)
    parts = [x]
    for _ in range(draw.choose(1, 2, 3)):
        parts.append(draw.values([draw.size() if place == axis else size for place, size in enumerate(shape)], x.dtype.name))
    return draw.model(kind, parts, axis=axis)


def product(draw):
    m, n, k = draw.size(), draw.size(), draw.size()
    if draw.rng.random() < 0.4:
        a, b = draw.choose([m, k], [k, m]), draw.choose([k, n], [n, k])
        attributes = {"transA": int(a == [k, m] and a != [m, k]), "transB": int(b == [n, k] and b != [k, n])}
        inputs = [draw.values(a), draw.values(b), *draw.choose([], [draw.values([n])], [draw.values([m, 1])])]
        return draw.model("Gemm", inputs, **attributes, alpha=float(draw.choose(1, 0.5)), beta=float(draw.choose(1, 2)))
    if draw.rng.random() < 0.3:
        a, b = draw.values([m, k], draw.choose("uint8", "int8")), draw.values([k, n], draw.choose("uint8", "int8"))
        return draw.model("MatMulInteger", [a, b, np.asarray(3, a.dtype), np.asarray(5, b.dtype)])
    batch, dtype = draw.choose([], [3], [2, 3]), draw.choose("float32", *HALVES)
    return draw.model("MatMul", [draw.values([*batch, m, k], dtype), draw.values([*draw.choose([], batch), k, n], dtype)])


def quantization(draw):
    shape = draw.shape(4)
    kind, dtype = draw.choose("QuantizeLinear", "DequantizeLinear"), draw.choose("uint8", "int8")
    channels = draw.choose([], [shape[1]] if shape[1] > 1 else [])
    scale = (np.abs(draw.values(channels)) + np.float32(0.05)).astype(np.float32)
    point = draw.rng.integers(0, 50, channels).astype(dtype)
    x = draw.values(shape, "float32" if kind == "QuantizeLinear" else dtype)
    return draw.model(kind, [x * x.dtype.type(10) if x.dtype == np.float32 else x, scale, point], draw.choose([], [1, 2]), axis=1)


KINDS = [unary, unary, binary, binary, windows, windows, reduction, reduction, place, softmax, normalization, resize, movement,
         movement, product, quantization]


def pooled(attributes, op_type, x):
    """A pooling node in loops: onnx's evaluator fails at some padding. The result's size is by ONNX's formulas."""
    rank = x.ndim - 2
    kernel, strides = attributes["kernel_shape"], attributes["strides"]
    dilations, pads = attributes.get("dilations", [1] * rank), attributes.get("pads", [0] * 2 * rank)
    begin, end, sizes = list(pads[:rank]), list(pads[rank:]), []
    for i, size in enumerate(x.shape[2:]):
        reach, auto = (kernel[i] - 1) * dilations[i] + 1, attributes.get("auto_pad")
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            sizes.append(-(-size // strides[i]))
            total = max((sizes[-1] - 1) * strides[i] + reach - size, 0)
            begin[i] = total // 2 if auto == "SAME_UPPER" else total - total // 2
            end[i] = total - begin[i]
            continue
        steps = (size + begin[i] + end[i] - reach) / strides[i]
        sizes.append(int(np.ceil(steps) if attributes.get("ceil_mode") else np.floor(steps)) + 1)
        if attributes.get("ceil_mode") and (sizes[-1] - 1) * strides[i] >= size + begin[i]:
            sizes[-1] -= 1  # no window begins in the padding behind
    result = np.zeros([*x.shape[:2], *sizes])
    for at in np.ndindex(*sizes):
        values, counted = [], 0
        for tap in np.ndindex(*kernel):
            place = [at[i] * strides[i] + tap[i] * dilations[i] - begin[i] for i in range(rank)]
            counted += all(-begin[i] <= place[i] < x.shape[2 + i] + end[i] for i in range(rank))
            if all(0 <= place[i] < x.shape[2 + i] for i in range(rank)):
                values.append(x[(slice(None), slice(None), *place)].astype(np.float64))
        values = np.array(values)
        p = attributes.get("p", 2)
        result[(slice(None), slice(None), *at)] = values.max(0) if op_type == "MaxPool" else \
            (np.abs(values) ** p).sum(0) ** (1 / p) if op_type == "LpPool" else \
            values.sum(0) / (counted if attributes.get("count_include_pad") else len(values))
    return result.astype(x.dtype)


def softmax_of(op_type, axis, x, is_flattened):
    """Along an axis, or as opsets below 13 have it, over all axes from one on. The evaluator's LogSoftmax is the logarithm of what
    may be 0."""
    lying = x if is_flattened else np.moveaxis(x, axis, -1)
    length = int(np.prod(x.shape[axis:] if is_flattened else x.shape[axis]))
    rows = lying.astype(np.float64).reshape(-1, length)
    if op_type == "Hardmax":
        result = np.eye(rows.shape[1])[rows.argmax(1)]
    else:
        logarithms = rows - rows.max(1, keepdims=True)
        logarithms -= np.log(np.exp(logarithms).sum(1, keepdims=True))
        result = logarithms if op_type == "LogSoftmax" else np.exp(logarithms)
    result = result.reshape(lying.shape).astype(x.dtype)
    return result if is_flattened else np.moveaxis(result, -1, axis)


def resized(model, x):
    """By onnxruntime, in float32: the evaluator decides in doubles what is nearest, and has other places where the sizes that are
    asked for are not whole."""
    wide, dtype = onnx.ModelProto(), "uint8" if x.dtype == np.uint8 else "float32"
    wide.CopyFrom(model)
    for description in (*wide.graph.input, *wide.graph.output):
        description.type.tensor_type.elem_type = TYPES[dtype]
    session = onnxruntime.InferenceSession(wide.SerializeToString())
    return session.run(None, {"in0": x.astype(dtype)})[0].astype(x.dtype)


def local_response(attributes, x):
    """LRN, of which the evaluator computes the first channels alone."""
    size, reach = attributes["size"], (attributes["size"] - 1) // 2
    squares = np.stack([(x[:, max(0, c - reach):c + size - reach] ** 2).sum(1) for c in range(x.shape[1])], 1)
    return x / (1 + attributes["alpha"] / size * squares) ** attributes["beta"]


def order_of(draw, rank):
    """The model's, channels last, or any."""
    return draw.choose(tuple(range(rank)), operation_runs.channels_last(rank), tuple(int(i) for i in draw.rng.permutation(rank)))


class Case:
    def __init__(self, number):
        self.draw = Draw(number)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            self.model, self.inputs = KINDS[number % len(KINDS)](self.draw)
            self.op_type = self.model.graph.node[0].op_type
            node = self.model.graph.node[0]
            attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
            if self.op_type == "LRN":
                self.expected = [local_response(attributes, self.inputs["in0"]).astype(np.float32)]
            elif self.op_type in ("MaxPool", "AveragePool", "LpPool"):
                attributes["auto_pad"] = attributes.get("auto_pad", b"").decode()
                self.expected = [pooled(attributes, self.op_type, next(iter(self.inputs.values())))]
            elif self.op_type == "Resize":
                self.expected = [resized(self.model, self.inputs["in0"])]
            elif self.op_type in ("Softmax", "LogSoftmax", "Hardmax"):
                is_flattened = self.model.opset_import[0].version < 13
                self.expected = [softmax_of(self.op_type, attributes["axis"], self.inputs["in0"], is_flattened)]
            elif self.op_type == "Pow" and self.inputs["in0"].dtype.kind == "i":
                self.expected = [operation_runs.power_of_integers(self.inputs["in0"], self.inputs["in1"])]
            elif self.inputs["in0"].dtype.name in HALVES:  # the evaluator rounds between steps
                value = network_doubles.evaluate(self.model, self.inputs, ["out0"])["out0"]
                self.expected = [value.astype(self.inputs["in0"].dtype) if value.dtype == np.float64 else value]
            else:
                self.expected = [np.asarray(value) for value in operation_runs.reference(self.model, self.inputs)]
            if self.op_type.startswith("Reduce"):  # the evaluator widens integers
                self.expected = [value.astype(self.inputs["in0"].dtype) for value in self.expected]
        for value, description in zip(self.expected, self.model.graph.output):
            description.type.CopyFrom(helper.make_tensor_type_proto(TYPES[value.dtype.name], value.shape))
        orders = {}
        for value in self.model.graph.input:
            orders[value.name] = order_of(self.draw, len(value.type.tensor_type.shape.dim))
        if self.op_type in ("MatMul", "Gemm", "MatMulInteger"):
            orders = {name: tuple(range(len(order))) for name, order in orders.items()}
        elif self.op_type != "Gather":
            ranks = {len(order): order for order in orders.values()}  # those of one rank lie alike
            orders = {name: ranks[len(order)] for name, order in orders.items()}
        self.plan = operation_runs.Plan(self.model, orders)


class OperationRandom(unittest.TestCase):
    def test_random(self):
        cases = []
        for number in range(COUNT):
            try:
                cases.append((number, Case(number)))
            except (NodeError, ModelError) as error:
                self.fail(f"{number}: {error}")
        if TARGET:  # a program makes its calls one by one: nodes of several steps are tried here alone
            cases = [(number, case) for number, case in cases if len(case.plan.steps) == 1]
            self.assertGreater(len(cases), 0.9 * COUNT)
        with tempfile.TemporaryDirectory() as folder:
            results = self.run_there(cases, folder) if TARGET else self.run_here(cases, folder)
            for (number, case), result in zip(cases, results):
                with self.subTest(number=number, node=case.op_type, texts=case.plan.texts()):
                    self.check(case, result)

    def run_here(self, cases, folder):
        kernels = operation_runs.Kernels([text for _, case in cases for text in case.plan.texts()], folder)
        for _, case in cases:
            yield lambda case=case: case.plan.run(kernels, case.inputs)

    def run_there(self, cases, folder):
        if not operation_program.tools_for(TARGET):
            self.skipTest(f"nothing here compiles and runs programs for {TARGET}")
        calls = [case.plan.call(case.plan.steps[0], case.inputs) for _, case in cases]
        results = operation_program.run(calls, TARGET, folder)
        for (_, case), result in zip(cases, results):
            yield lambda case=case, result=result: [case.plan.result(case.plan.steps[0], result)]

    def check(self, case, result):
        for value, expected in zip(result(), case.expected):
            self.assertEqual(value.dtype, expected.dtype)
            self.assertEqual(list(value.shape), list(expected.shape))
            if expected.dtype.kind in "iub" and case.op_type not in ("QuantizeLinear", "Resize"):
                np.testing.assert_array_equal(value, expected)
                continue
            coarse = {"float16": 4e-3, "bfloat16": 1.6e-2}.get(expected.dtype.name)
            one = 1 if case.op_type == "QuantizeLinear" else 0  # a product that is rounded may fall to either side
            finite = np.abs(expected.astype(np.float64)[np.isfinite(expected.astype(np.float64))])
            largest = finite.max() if finite.size else 0
            rounds = 1e-3 if case.op_type == "ReduceProd" else 2e-5  # thousands of factors, each rounded
            np.testing.assert_allclose(value.astype(np.float64), expected.astype(np.float64), rtol=coarse or rounds,
                                       atol=max(one, (coarse or 2e-6) * largest))


if __name__ == "__main__":
    unittest.main()
