"""Models in the forms that others write: onnxruntime's quantisers and its optimiser, and exporters of older operator sets. What
they become, and that it computes what onnxruntime does. Minutes on two idle cores."""

import collections
import json
import pathlib
import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, compose, helper, numpy_helper
from onnxruntime import quantization

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/frontend"), str(ROOT / "tests/kernels")]
from commands_test import kiln  # noqa: E402
from models import Builder  # noqa: E402
from network_testing import NetworkTest, integers, load_tests  # noqa: E402
from onnx_models import model_of, random_tensor, value  # noqa: E402

SHAPE = [1, 3, 16, 16]


def small_network():
    """Of every kind of node that the quantisers have an operator for."""
    b = Builder()
    b.channels["x"] = 3
    y = b.node("LeakyRelu", b.conv("x", 16, 3, 2), alpha=0.1)
    z = b.node("Sigmoid", b.conv(b.node("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2]), 16))
    up = b.node("Resize", z, "", b.constant(np.float32([1, 1, 2, 2])), mode="nearest")
    joined = b.conv(b.node("Mul", b.concat(up, y), b.constant(np.float32(0.5))), 16, 1)
    total = b.node("Add", joined, y)
    dense = b.dense(b.node("Flatten", b.node("GlobalAveragePool", total)), 16, 8)
    b.node("Softmax", dense, axis=1)
    return b.model({"x": SHAPE}, {b.nodes[-1].output[0]: [1, 8]})


class Reader(quantization.CalibrationDataReader):
    def __init__(self):
        rng = np.random.default_rng(1)
        self.rows = iter([{"x": rng.standard_normal(SHAPE).astype(np.float32)} for _ in range(3)])

    def get_next(self):
        return next(self.rows, None)


class Forms(NetworkTest):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "float.onnx"
        onnx.save(small_network(), self.path)

    def quantized(self, name):
        target = self.folder / f"{name}.onnx"
        if name == "dynamic":
            quantization.quantize_dynamic(self.path, target)
        else:
            quantization.quantize_static(self.path, target, Reader(), quant_format=quantization.QuantFormat[name])
        return onnx.load(target)

    def test_quantised(self):
        """Operators of bytes, and sizes of steps that are computed when it runs; none of them is left to C."""
        models = [self.quantized("QOperator"), self.quantized("dynamic")]
        operators = {node.op_type for model in models for node in model.graph.node}
        self.assertLess({"QLinearAdd", "QLinearMul", "QLinearLeakyRelu", "QLinearSigmoid", "QLinearConcat", "QGemm",
                         "QLinearAveragePool", "QLinearSoftmax", "DynamicQuantizeLinear", "ConvInteger"}, operators)
        for model in models:
            kinds, _ = self.kinds(model)
            self.assertEqual(set(kinds), {"layer", "operation"})
            self.assertGreaterEqual(kinds["layer"], 3)
        first, second = (compose.add_prefix(model, f"{name}/") for name, model in zip("qd", models))
        both = helper.make_graph([*first.graph.node, *second.graph.node], "both", [*first.graph.input, *second.graph.input],
                                 [*first.graph.output, *second.graph.output],
                                 [*first.graph.initializer, *second.graph.initializer])
        self.verify(helper.make_model(both, opset_imports=first.opset_import, ir_version=8))

    def test_resized_bytes(self):
        """Linearly, as quantisers to operators leave a Resize; ONNX Runtime's differ by one where floats are near whole."""
        for dtype, coordinates, scales in ((TensorProto.UINT8, "half_pixel", [1, 1, 2, 2]),
                                           (TensorProto.INT8, "asymmetric", [1, 1, 1.5, 2])):
            nodes = [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear",
                                      coordinate_transformation_mode=coordinates)]
            model = model_of(nodes, [value("x", [1, 3, 6, 8], dtype)], [value("y", None, dtype)],
                             [numpy_helper.from_array(np.float32(scales), "scales")])
            self.assertEqual(set(self.kinds(model)[0]), {"operation"})
            row, = self.verify(model)
            self.assertLessEqual(row["difference"], 1)

    def test_nearest_by_scales_that_are_rounded(self):
        """Where a position is whole but for its scale's rounding, ONNX Runtime's element is taken, which is PyTorch's."""
        nodes, outputs, constants = [], [], []
        modes = [("asymmetric", "floor"), ("asymmetric", "ceil"), ("asymmetric", "round_prefer_ceil"), ("half_pixel", "floor"),
                 ("half_pixel", "round_prefer_floor")]
        cases = [(scale, *mode) for scale in (0.6, 0.8, 1.2, 1.7, 1 / 3) for mode in modes]
        for place, (scale, coordinates, nearest) in enumerate(cases):
            nodes.append(helper.make_node("Resize", ["x", "", f"s{place}"], [f"y{place}"], mode="nearest", nearest_mode=nearest,
                                          coordinate_transformation_mode=coordinates))
            outputs.append(value(f"y{place}", None))
            constants.append(numpy_helper.from_array(np.float32([1, 1, scale, scale]), f"s{place}"))
        rows = self.verify(model_of(nodes, [value("x", [1, 2, 30, 31])], outputs, constants))
        self.assertEqual({row["difference"] for row in rows}, {0})

    def test_resized_along_several_axes(self):
        """One after the other where an element is made of many: of a volume, or of a picture that shrinks; not where it is
        copied, nor where floats of 16 bits would be rounded between."""
        half = TensorProto.FLOAT16
        cases = [([1, 2, 3, 4, 5], TensorProto.FLOAT, [1, 1, 2, 2, 3], {"mode": "linear"}, ["-a2", "-a3", "-a4"]),
                 ([1, 2, 3, 4, 6], TensorProto.FLOAT, [1, 1, 2, 1, 0.5], {"mode": "linear"}, ["-a2,4"]),
                 ([1, 2, 3, 4, 6], TensorProto.FLOAT, [1, 2, 2, 1, 0.5], {"mode": "linear"}, ["-a4", "-a1", "-a2"]),
                 ([1, 2, 3, 4, 5], TensorProto.FLOAT, [1, 1, 2, 2, 3], {"mode": "nearest"}, ["-a2,3,4"]),
                 ([1, 2, 3, 4, 5], half, [1, 1, 2, 2, 3], {"mode": "linear"}, ["-a2,3,4"]),
                 ([1, 2, 9, 16], TensorProto.FLOAT, [1, 1, 0.4, 0.25], {"mode": "linear", "antialias": 1}, ["-a3", "-a2"]),
                 ([1, 2, 9, 16], TensorProto.FLOAT, [1, 1, 2, 1.5], {"mode": "cubic"}, ["-a2,3"])]
        nodes, inputs, outputs, constants = [], [], [], []
        for place, (shape, dtype, scales, attributes, wanted) in enumerate(cases):
            nodes.append(helper.make_node("Resize", [f"x{place}", "", f"s{place}"], [f"y{place}"], **attributes))
            inputs.append(value(f"x{place}", shape, dtype))
            outputs.append(value(f"y{place}", None, dtype))
            constants.append(numpy_helper.from_array(np.float32(scales), f"s{place}"))
            _, network = self.kinds(model_of(nodes[-1:], inputs[-1:], outputs[-1:], constants[-1:], opset=18))
            self.assertEqual([step["operation"][step["operation"].rindex("-a"):] for step in network["steps"]], wanted)
        self.verify(model_of(nodes, inputs, outputs, constants, opset=18))

    def test_constants_of_truths(self):
        """A causal mask, as exporters of attention write it."""
        mask = numpy_helper.from_array(np.tril(np.ones([5, 5], bool)), "mask")
        low = numpy_helper.from_array(np.float32(-1e9), "low")
        nodes = [helper.make_node("Where", ["mask", "x", "low"], ["m"]), helper.make_node("Softmax", ["m"], ["y"])]
        self.verify(model_of(nodes, [value("x", [2, 5, 5])], [value("y", [2, 5, 5])], [mask, low]))

    def test_dynamic_convolutions(self):
        """Layers of bytes whose zero point is 0: what pads is the one that the model computes, and its share is taken off."""
        rng = np.random.default_rng(3)
        for w_points, attributes in ((np.int8(0), {"pads": [1, 1, 1, 1]}), (np.int8([1, -2, 0, 5]), {"pads": [0, 2, 1, 0]}),
                                     (np.int8(2), {"group": 2, "strides": [2, 2]}), (None, {"dilations": [2, 2]}),
                                     (np.int8([1, -2, 0, 5]), {"auto_pad": "SAME_UPPER"})):
            weights = rng.integers(-127, 128, [4, 4 // attributes.get("group", 1), 3, 3], np.int8)
            constants = [numpy_helper.from_array(weights, "w"),
                         *([] if w_points is None else [numpy_helper.from_array(w_points, "wz")])]
            nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["u", "us", "uz"]),
                     helper.make_node("ConvInteger", ["u", "w", "uz", *(["wz"] if constants[1:] else [])], ["y"], **attributes)]
            model = model_of(nodes, [value("x", [1, 4, 7, 6])], [value("y", None, TensorProto.INT32)], constants)
            layer, = self.read(model, "--network", "--weights", self.folder / "w")["layers"]
            self.assertEqual((layer["operator"], layer["dtype"]),
                             ("Conv", "float32") if "auto_pad" in attributes else ("ConvInteger", "uint8"))
            self.assertEqual(self.verify(model)[0]["difference"], 0)

    def test_optimised(self):
        """What onnxruntime's optimiser makes of attention and a Gelu."""
        nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), helper.make_node("MatMul", ["x", "t"], ["m"]),
                 helper.make_node("Mul", ["m", "half"], ["n"]), helper.make_node("MatMul", ["n", "x"], ["p"]),
                 helper.make_node("Div", ["p", "root"], ["d"]), helper.make_node("Erf", ["d"], ["e"]),
                 helper.make_node("Add", ["e", "one"], ["f"]), helper.make_node("Mul", ["p", "f"], ["g"]),
                 helper.make_node("Mul", ["g", "half"], ["y"])]
        numbers = [numpy_helper.from_array(np.float32(number), name)
                   for name, number in (("half", 0.5), ("root", 2**0.5), ("one", 1))]
        onnx.save(model_of(nodes, [value("x", [2, 5, 6])], [value("y", [2, 5, 6])], numbers), self.path)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(self.folder / "optimised.onnx")
        onnxruntime.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
        model = onnx.load(self.folder / "optimised.onnx")
        self.assertLessEqual({"FusedMatMul", "Gelu"}, {node.op_type for node in model.graph.node})
        self.assertEqual(set(self.kinds(model)[0]), {"operation"})
        self.verify(model)

    def test_optimised_halves(self):
        """The numbers that its operators have as attributes are float16 where the tensors are, constants too."""
        nodes = [helper.make_node("QuickGelu", ["x"], ["g"], domain="com.microsoft"),
                 helper.make_node("FusedMatMul", ["w", "g"], ["y"], domain="com.microsoft", transB=1, alpha=0.5)]
        w = numpy_helper.from_array(np.linspace(-1, 1, 24).reshape(4, 6).astype(np.float16), "w")
        model = model_of(nodes, [value("x", [2, 5, 6], TensorProto.FLOAT16)], [value("y", None, TensorProto.FLOAT16)], [w])
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        self.assertEqual(set(self.kinds(model)[0]), {"operation"})
        self.verify(model)

    def test_bfloat16(self):
        """Operations read and make it as layers do; what is known is bfloat16 too. onnxruntime has none of these nodes: what
        is compared with is the model in doubles."""
        rng = np.random.default_rng(1)
        kind = TensorProto.BFLOAT16
        numbers = lambda name, *shape: numpy_helper.from_array(
            rng.standard_normal(shape).astype(helper.tensor_dtype_to_np_dtype(kind)), name)
        node = helper.make_node
        nodes = [node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), node("Add", ["c", "shift"], ["a"]),
                 node("HardSwish", ["a"], ["h"]), node("MaxPool", ["h"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
                 node("Resize", ["p", "", "scales"], ["r"], mode="linear"), node("Concat", ["r", "h"], ["cat"], axis=1),
                 node("Pow", ["cat", "two"], ["sq"]), node("Clip", ["sq", "", "two"], ["u"]),
                 node("ReduceMean", ["u", "axes"], ["m"], keepdims=0), node("Gemm", ["m", "f"], ["g"]),
                 node("Softmax", ["g"], ["s"]), node("Cast", ["cat"], ["wide"], to=TensorProto.FLOAT),
                 node("Less", ["r", "h"], ["less"]), node("Where", ["less", "r", "two"], ["z"]),
                 node("DequantizeLinear", ["bytes", "scale"], ["d"]), node("Add", ["d", "s"], ["y"])]
        constants = [numbers("w", 8, 4, 3, 3), numbers("shift", 8, 1, 1), numbers("f", 16, 5), numbers("two"), numbers("scale"),
                     numpy_helper.from_array(np.float32([1, 1, 2, 2]), "scales"), integers("axes", 2, 3)]
        inputs = [value("x", [1, 4, 6, 6], kind), value("bytes", [1, 5], TensorProto.INT8)]
        outputs = [value("y", None, kind), value("z", None, kind), value("wide", None)]
        model = model_of(nodes, inputs, outputs, constants, opset=22)
        self.assertEqual(set(self.kinds(model)[0]), {"layer", "operation"})
        self.verify(model)
        # Products are older than convolutions of bfloat16.
        product = model_of([node("MatMul", ["x", "f"], ["m"]), node("Relu", ["m"], ["y"])], [value("x", [1, 7, 16], kind)],
                           [value("y", None, kind)], constants[2:3], opset=13)
        self.assertEqual(self.kinds(product)[0], {"layer": 1})
        self.verify(product)

    def test_layer_normalization_before_it_was_an_operator(self):
        """One kernel for all of its nodes, with differences written once or twice, and squares as powers or products; another
        mean's axis is another thing."""
        gamma, beta = (numpy_helper.from_array(np.linspace(low, 2, 8, dtype=np.float32), name)
                       for low, name in ((1, "gamma"), (-1, "beta")))
        constants = [gamma, beta, numpy_helper.from_array(np.float32(1e-5), "e"), numpy_helper.from_array(np.float32(2), "two")]

        def model(x, square, axes, doubled):
            node = helper.make_node
            other = "d2" if doubled else "d"
            nodes = [node("ReduceMean", [x], ["m"], axes=[-1]), node("Sub", [x, "m"], ["d"]),
                     *([node("Sub", [x, "m"], ["d2"])] if doubled else []),
                     node(square, [other, "two" if square == "Pow" else other], ["s"]), node("ReduceMean", ["s"], ["v"], axes=axes),
                     node("Add", ["e", "v"], ["w"]), node("Sqrt", ["w"], ["r"]), node("Div", ["d", "r"], ["q"]),
                     node("Mul", ["gamma", "q"], ["g"]), node("Add", ["g", "beta"], ["y"])]
            return model_of(nodes, [value(x, [2, 5, 8])], [value("y", [2, 5, 8])], constants, opset=13)

        for square, doubled in (("Pow", False), ("Mul", True)):
            kinds, network = self.kinds(model("x", square, [-1], doubled))
            self.assertEqual(kinds, {"operation": 1})
            self.assertTrue(network["steps"][0]["operation"].startswith("normalize-f32[2x5x8],f32[8],f32[8]-"))
        self.assertGreater(self.kinds(model("x", "Pow", [-2], False))[0]["operation"], 3)
        self.verify(model("x", "Mul", [-1], True))

    def test_batch_normalization_in_training_mode(self):
        """It is by the batch's own mean and variance, if nobody reads those that it would go on with."""
        rng = np.random.default_rng(1)
        constants = [random_tensor(rng, name, 3) for name in "sbm"] + [numpy_helper.from_array(np.float32([1, 2, 3]), "v")]
        for shape in ([2, 3, 4, 5], [1, 3, 6]):
            nodes = [helper.make_node("BatchNormalization", ["x", *"sbmv"], ["n", "m2", "v2"], training_mode=1, epsilon=1e-3),
                     helper.make_node("Relu", ["n"], ["y"])]
            model = model_of(nodes, [value("x", shape)], [value("y", shape)], constants, opset=15)
            self.assertEqual(set(self.kinds(model)[0]), {"operation"})
            self.verify(model)

    def test_root_mean_squares(self):
        """One kernel for all of its nodes, as a quotient or a product with the root's inverse; another tensor's stays."""
        node = helper.make_node
        constants = [random_tensor(np.random.default_rng(1), "gamma", 8), numpy_helper.from_array(np.float32(1e-5), "e"),
                     numpy_helper.from_array(np.float32(1), "one"), numpy_helper.from_array(np.float32(2), "two")]
        means = [node("Pow", ["x", "two"], ["s"]), node("ReduceMean", ["s"], ["v"], axes=[-1]), node("Add", ["e", "v"], ["w"]),
                 node("Sqrt", ["w"], ["r"])]
        for behind in ([node("Div", ["x", "r"], ["q"])], [node("Reciprocal", ["r"], ["i"]), node("Mul", ["i", "x"], ["q"])],
                       [node("Div", ["one", "r"], ["i"]), node("Mul", ["x", "i"], ["q"])], [node("Div", ["z", "r"], ["q"])]):
            nodes = [*means, *behind, node("Mul", ["gamma", "q"], ["g"]), node("Neg", ["g"], ["y"])]
            inputs = [value("x", [2, 5, 8]), *([value("z", [2, 5, 8])] if "z" in behind[0].input else [])]
            model = model_of(nodes, inputs, [value("y", [2, 5, 8])], constants, opset=13)
            texts = [step["operation"].partition("-f32")[0] for step in self.kinds(model)[1]["steps"]]
            self.assertEqual(texts, ["map", "reduce-mean", "map", "map"] if inputs[1:] else ["normalize-rms"])
            self.verify(model)

    def test_layer_normalization_of_channels(self):
        """As ConvNeXt has it in front of its convolutions with strides: one kernel where channels lie last; numbers that are not
        the channels' stay behind it."""
        rng, node = np.random.default_rng(1), helper.make_node
        constants = [random_tensor(rng, "k", 8, 3, 2, 2), random_tensor(rng, "gamma", 8, 1, 1), random_tensor(rng, "beta", 1, 8, 1, 1),
                     random_tensor(rng, "row", 1, 8), numpy_helper.from_array(np.float32(1e-5), "e"),
                     numpy_helper.from_array(np.float32(2), "two")]
        for factor, steps in (("gamma", ["layer", "normalize", "layer"]), ("row", ["layer", "normalize", "map", "layer"])):
            nodes = [node("Conv", ["x", "k"], ["c"], strides=[2, 2]), node("ReduceMean", ["c"], ["m"], axes=[1]),
                     node("Sub", ["c", "m"], ["d"]), node("Pow", ["d", "two"], ["s"]),
                     node("ReduceMean", ["s"], ["v"], axes=[1]), node("Add", ["v", "e"], ["w"]), node("Sqrt", ["w"], ["r"]), node("Div", ["d", "r"], ["q"]),
                     node("Mul", [factor, "q"], ["g"]), node("Add", ["g", "beta"], ["h"]), node("Conv", ["h", "l"], ["y"])]
            model = model_of(nodes, [value("x", [2, 3, 12, 16])], [value("y", None)],
                             [*constants, random_tensor(rng, "l", 4, 8, 2, 2)], opset=13)
            _, network = self.kinds(model)
            self.assertEqual([step.get("operation", "layer").partition("-")[0] for step in network["steps"]][:len(steps)], steps)
            self.verify(model)

    def test_einsum(self):
        """Sums, transpositions and products of matrices; what has no such form is left to C."""
        shapes = {"x": [2, 3, 4], "y": [2, 4, 5], "v": [4], "q": [2, 3, 4, 6], "k": [2, 5, 4, 6]}
        cases = ["x,y:bij,bjk->kbi", "x:abc->b", "x,v:abc,c->ab", "v,v:i,j->ij", "q,k:blhd,bmhd->bhlm", "x,y:bij,bjk", "v,v:i,i->"]
        nodes = [helper.make_node("Einsum", case.partition(":")[0].split(","), [f"o{place}"], equation=case.partition(":")[2])
                 for place, case in enumerate(cases)]
        model = model_of(nodes, [value(name, shape) for name, shape in shapes.items()],
                         [value(node.output[0], None) for node in nodes], opset=13)
        self.assertEqual(set(self.kinds(model)[0]), {"operation"})
        self.verify(model)

    def test_shapes_that_onnx_infers_by_version(self):
        """A ReduceMean whose axes are an input, and a Resize without scales."""
        axes, sizes = numpy_helper.from_array(np.int64([1]), "axes"), numpy_helper.from_array(np.int64([1, 2, 7, 9]), "sizes")
        mean = model_of([helper.make_node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)], [value("x", [2, 7, 5])],
                        [value("y", None)], [axes], opset=18)
        resize = model_of([helper.make_node("Resize", ["x", "", "", "sizes"], ["y"])], [value("x", [1, 2, 5, 5])],
                          [value("y", None)], [sizes], opset=11)
        for model, shape in ((mean, [2, 5]), (resize, [1, 2, 7, 9])):
            self.assertEqual(self.kinds(model)[1]["outputs"][0]["shape"], shape)

    def test_loops_that_run_a_known_number_of_times(self):
        """A Loop around a convolution, and a Scan that reads and writes along several axes, forwards and backwards: copies of
        their bodies, which may call their values as others are called outside."""
        ports = lambda names, shape: [value(name, shape) for name in names]
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1]), helper.make_node("Relu", ["c"], ["x2"]),
                 helper.make_node("Cast", ["i"], ["place"], to=1), helper.make_node("ReduceSum", ["x2"], ["sum"], keepdims=0),
                 helper.make_node("Mul", ["sum", "place"], ["t"]),
                 helper.make_node("Constant", [], ["go"], value=numpy_helper.from_array(np.True_))]
        loop = helper.make_graph(nodes, "loop", [value("i", [], TensorProto.INT64), value("was", [], TensorProto.BOOL),
                                                 *ports("x", None)],
                                 [value("go", [], TensorProto.BOOL), *ports(["x2", "t"], None)])
        nodes = [helper.make_node("Add", ["s", "p"], ["a"]), helper.make_node("Tanh", ["a"], ["s2"]),
                 helper.make_node("Mul", ["s2", "q"], ["o"]), helper.make_node("Identity", ["s2"], ["b"])]
        scan = helper.make_graph(nodes, "scan", ports("spq", [1, 4]), [value(name, [1, 4]) for name in ("s2", "o", "b")])
        constants = [random_tensor(np.random.default_rng(1), "w", 4, 4, 3), numpy_helper.from_array(np.int64(3), "n")]
        for opset in (11, 13):
            model = model_of([helper.make_node("Loop", ["n", "", "x"], ["y", "t"], body=loop),
                              helper.make_node("Transpose", ["y"], ["turned"], perm=[2, 0, 1]),
                              helper.make_node("Scan", ["z", "y", "turned"], ["s", "o", "b"], body=scan, num_scan_inputs=2,
                                               scan_input_axes=[2, 0], scan_input_directions=[1, 0],
                                               scan_output_axes=[1, 0], scan_output_directions=[0, 1])],
                             [value("x", [1, 4, 6]), value("z", [1, 4])],
                             [value(name, None) for name in ("y", "t", "s", "o", "b")], constants, opset=opset)
            kinds = self.kinds(model)[0]
            self.assertEqual((kinds["layer"], set(kinds)), (3, {"layer", "operation"}))
        self.verify(model)

    def test_sequences_of_known_lengths(self):
        """Split, picked from, put together again and joined, in a Loop too: none of it is left to C, and what reads an element is
        fused with what makes it."""
        node, sequence = helper.make_node, helper.make_tensor_sequence_value_info
        nodes = [node("Gather", ["x", "i"], ["g"], axis=2), node("Tanh", ["g"], ["h"]), node("SequenceInsert", ["s", "h"], ["s2"]),
                 node("Identity", ["was"], ["is"])]
        body = helper.make_graph(nodes, "body", [value("i", [], TensorProto.INT64), value("was", [], TensorProto.BOOL),
                                                 sequence("s", TensorProto.FLOAT, None)],
                                 [value("is", [], TensorProto.BOOL), sequence("s2", TensorProto.FLOAT, None)])
        nodes = [node("Conv", ["x", "k"], ["c"]), node("SplitToSequence", ["c", "sizes"], ["p"], axis=1),
                 node("SplitToSequence", ["x", "two"], ["q"], axis=-1), node("SplitToSequence", ["x"], ["r"], axis=2, keepdims=0),
                 node("SequenceAt", ["p", "last"], ["p1"]), node("SequenceAt", ["q", "zero"], ["q0"]),
                 node("SequenceAt", ["r", "one"], ["r1"]), node("Relu", ["r1"], ["t"]), node("SequenceConstruct", ["t", "r1"], ["u"]),
                 node("SequenceInsert", ["u", "t", "one"], ["v"]), node("SequenceErase", ["v", "last"], ["w"]),
                 node("ConcatFromSequence", ["w"], ["y"], axis=1, new_axis=1), node("SequenceLength", ["v"], ["n"]),
                 node("Cast", ["n"], ["f"], to=TensorProto.FLOAT), node("Mul", ["p1", "f"], ["z"]), node("SequenceEmpty", [], ["none"]),
                 node("Loop", ["two", "", "none"], ["rows"], body=body), node("ConcatFromSequence", ["rows"], ["all"], axis=-1)]
        constants = [random_tensor(np.random.default_rng(1), "k", 4, 4, 1), numpy_helper.from_array(np.int64([1, 3]), "sizes"),
                     *(numpy_helper.from_array(np.int64(number), name)
                       for name, number in (("two", 2), ("one", 1), ("zero", 0), ("last", -1)))]
        model = model_of(nodes, [value("x", [1, 4, 5])], [value(name, None) for name in ("z", "q0", "y", "all")], constants, opset=13)
        self.assertEqual(set(self.kinds(model)[0]), {"layer", "operation"})
        self.verify(model)
        older = [node("SplitToSequence", ["x", "two"], ["p"], axis=1), node("SequenceAt", ["p", "last"], ["a"]),
                 node("SequenceConstruct", ["a", "a"], ["b"]), node("ConcatFromSequence", ["b"], ["y"], axis=1, new_axis=1)]
        self.verify(model_of(older, [value("x", [1, 4, 5])], [value("y", None)], constants, opset=11))

    def test_bodies_in_bodies_that_run_again(self):
        """The results of an If and of a Loop in a Loop's body have names of their own in each round."""
        node = helper.make_node
        ports = [value("i", [], TensorProto.INT64), value("was", [], TensorProto.BOOL), value("s", None)]
        branches = [helper.make_graph([node(kind, ["s"], [f"in{kind}"])], kind, [], [value(f"in{kind}", None)])
                    for kind in ("Relu", "Sigmoid")]
        inner = helper.make_graph([node("Mul", ["t", "t"], ["square"]), node("Identity", ["again"], ["more"])], "inner",
                                  [value("j", [], TensorProto.INT64), value("again", [], TensorProto.BOOL), value("t", None)],
                                  [value("more", [], TensorProto.BOOL), value("square", None)])
        nodes = [node("Equal", ["i", "one"], ["second"]), node("Identity", ["was"], ["is"]),
                 node("If", ["second"], ["q"], then_branch=branches[0], else_branch=branches[1]),
                 node("Loop", ["two", "", "q"], ["p"], body=inner), node("Sub", ["p", "s"], ["next"])]
        body = helper.make_graph(nodes, "body", ports, [value("is", [], TensorProto.BOOL), value("next", None)])
        model = model_of([node("Loop", ["three", "", "x"], ["y"], body=body)], [value("x", [2, 3])], [value("y", [2, 3])],
                         [numpy_helper.from_array(np.int64(number), name)
                          for name, number in (("one", 1), ("two", 2), ("three", 3))])
        self.assertEqual(set(self.kinds(model)[0]), {"operation"})
        self.verify(model)

    def test_bodies_that_copy_values(self):
        """A Scan whose body hands on the same value twice, and reads its copy; and a Loop that never runs."""
        nodes = [helper.make_node("Conv", ["s", "w"], ["c"], pads=[1, 1]), helper.make_node("Identity", ["c"], ["same"]),
                 helper.make_node("Add", ["same", "p"], ["s2"]), helper.make_node("Identity", ["s2"], ["row"])]
        ports = [value(name, [1, 4, 6]) for name in ("s", "p", "s2", "row")]
        scan = helper.make_graph(nodes, "scan", ports[:2], ports[2:])
        loop = helper.make_graph([helper.make_node("Abs", ["before"], ["after"]), helper.make_node("Identity", ["was"], ["is"])], "loop",
                                 [value("i", [], TensorProto.INT64), value("was", [], TensorProto.BOOL), value("before", [1, 4, 6])],
                                 [value("is", [], TensorProto.BOOL), value("after", [1, 4, 6])])
        constants = [random_tensor(np.random.default_rng(1), "w", 4, 4, 3), numpy_helper.from_array(np.int64(0), "none")]
        model = model_of([helper.make_node("Loop", ["none", "", "z"], ["first"], body=loop),
                          helper.make_node("Scan", ["first", "x"], ["y", "rows"], body=scan, num_scan_inputs=1)],
                         [value("z", [1, 4, 6]), value("x", [3, 1, 4, 6])], [value("y", [1, 4, 6]), value("rows", [3, 1, 4, 6])],
                         constants, opset=17)
        kinds = self.kinds(model)[0]
        self.assertEqual((kinds["layer"], set(kinds)), (3, {"layer", "operation"}))
        self.verify(model)

    def test_a_convolution_that_was_fused_with_a_clip(self):
        """Whose bounds are attributes of onnxruntime's node, and inputs of ONNX's since operator set 11."""
        for opset in (10, 17):
            model = model_of([helper.make_node("FusedConv", ["x", "w"], ["y"], domain="com.microsoft", activation="Clip",
                                               activation_params=[-0.5, 1.0])],
                             [value("x", [1, 4, 6])], [value("y", [1, 4, 4])], [random_tensor(np.random.default_rng(1), "w", 4, 4, 3)],
                             opset=opset)
            model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
            self.assertEqual(self.kinds(model)[0], {"layer": 1})
        self.verify(model)

    def test_recurrent_nodes(self):
        """Both ways, with all that they may have: steps, whose weights are there once, and none of it left to C. One that has
        more steps than are written out is."""
        steps, batch, width, hidden = 3, 2, 5, 8
        rng, nodes, constants, outputs = np.random.default_rng(1), [], [], []

        def add(operator, ways, bias=True, states=0, peepholes=False, results=1, x="x", **attributes):
            name, gates = f"n{len(nodes)}", {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
            shapes = {1: [ways, gates * hidden, width], 2: [ways, gates * hidden, hidden]}
            shapes.update({3: [ways, 2 * gates * hidden]} if bias else {})
            first = batch if attributes.get("layout", 0) else ways
            shapes.update({5 + place: [first, ways + batch - first, hidden] for place in range(states)})
            shapes.update({7: [ways, 3 * hidden]} if peepholes else {})
            inputs = [x] + [""] * max(shapes)
            for place, shape in shapes.items():
                inputs[place] = f"{name}/{place}"
                constants.append(random_tensor(rng, inputs[place], *shape))
            made = [f"{name}/y{place}" for place in range(results)]
            nodes.append(helper.make_node(operator, inputs, made, name, hidden_size=hidden, **attributes))
            outputs.extend(value(result, None) for result in made)

        add("LSTM", 2, states=2, peepholes=True, results=3, direction="bidirectional")
        add("LSTM", 1, bias=False, results=2, direction="reverse", activations=["Sigmoid", "Relu", "Tanh"])
        add("GRU", 2, direction="bidirectional", results=2)
        add("GRU", 1, states=1, linear_before_reset=1)
        add("RNN", 1, states=1, activations=["Relu"], results=2)
        model = model_of(nodes, [value("x", [steps, batch, width])], outputs, constants, opset=14)
        kinds, network = self.kinds(model)
        self.assertEqual(set(kinds), {"layer", "operation"})
        used = collections.Counter(step["layer"] for step in network["steps"] if "layer" in step)
        self.assertEqual(sorted(used.values()), [1] * 22 + [2] * 10 + [3] * 12)
        self.assertEqual(network["copies"], [])
        # In a batch gates have products of their own, so that none of their rows is moved: two last states are outputs, and
        # the last of all states too.
        copies = [step["operation"] for step in network["steps"] if step.get("operation", "").startswith("copy")]
        self.assertEqual(copies, [f"copy-f32[1x{batch}x{hidden}]-f32[1x{batch}x{hidden}]-n1x2x8-i0,16x8x1"] * 2)
        self.verify(model)
        del nodes[:], constants[:], outputs[:]
        add("LSTM", 1, states=2, layout=1, results=3)
        rows = self.verify(model_of(nodes, [value("x", [batch, steps, width])], outputs, constants, opset=14))
        self.assertIn("reference evaluator", rows[0]["reference"])  # onnxruntime has no layout
        del nodes[:], constants[:], outputs[:]
        add("RNN", 1)
        self.assertEqual(self.kinds(model_of(nodes, [value("x", [600, 1, width])], outputs, constants, opset=14))[0], {"c": 1})

    def test_values_that_are_outputs_in_place_of_the_models(self):
        nodes = [helper.make_node("Exp", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["b"]),
                 helper.make_node("NonZero", ["b"], ["y"])]
        model = model_of(nodes, [value("x", [4])], [helper.make_empty_tensor_value_info("y")], [])
        self.assertEqual([row["output"] for row in self.verify(model, "--output-name", "b", "--output-name", "a")], ["b", "a"])

    def test_names_that_are_too_long(self):
        """Of layers, which are shortened, alike but in the middle; of the values between."""
        long = "model/" + "stage/" * 20
        nodes = [helper.make_node("Conv", ["x", "w"], [long + "c"], long + "1/block/stage/stage/stage/stage/conv"),
                 helper.make_node("Conv", [long + "c", "w"], ["y"], long + "2/block/stage/stage/stage/stage/conv")]
        self.verify(model_of(nodes, [value("x", [1, 4, 6])], [value("y", None)],
                             [random_tensor(np.random.default_rng(1), "w", 4, 4, 1)]))

    def test_a_resize_before_nearest_had_a_mode(self):
        """It rounds up where it shrinks, and down where it grows."""
        scales = numpy_helper.from_array(np.float32([1, 1, 0.6, 1.7]), "scales")
        node = helper.make_node("Resize", ["x", "scales"], ["y"])
        self.verify(model_of([node], [value("x", [1, 2, 10, 10])], [value("y", None)], [scales], opset=10))

    def test_no_reference(self):
        """A model that runs nowhere else: told in words."""
        node = helper.make_node("Dropout", ["x"], ["y"], is_test=1)
        model = model_of([node, helper.make_node("Relu", ["y"], ["z"])], [value("x", [4])], [value("z", [4])], opset=6)
        onnx.save(model, self.path)
        process = kiln("verify", self.path, "--network", ok=(1,))
        self.assertIn("cannot run the model", process.stderr)
        self.assertNotIn("Traceback", process.stderr)

    def test_a_program_for_another_processor(self):
        """Built by a compiler for something that does not run here: told what runs it."""
        compiler = self.folder / "cxx"
        compiler.write_text('#!/bin/sh\n${CXX:-c++} "$@" || exit\n'
                            'for word; do [ "$before" = -o ] && made=$word; before=$word; done\n'
                            'case $made in */program) printf "\\177other" > "$made";; esac\n')
        compiler.chmod(0o755)
        onnx.save(model_of([helper.make_node("Relu", ["x"], ["y"])], [value("x", [4])], [value("y", [4])]), self.path)
        process = kiln("verify", self.path, "--network", "--cxx", compiler, ok=(1,))
        self.assertIn("--runner names an emulator", process.stderr)

    def test_parts_that_are_assigned(self):
        """Scatters to places that are constants: a box of the tensor, and any places, the last of several counting. None of it
        is left to C, and a box takes no gather."""
        node, rng = helper.make_node, np.random.default_rng(1)
        box = np.stack(np.meshgrid(np.arange(2), np.arange(1, 5), np.arange(2, 6), indexing="ij"), -1)
        places = np.broadcast_to(rng.permutation(7)[:2][:, None], [2, 6, 2, 3]).copy()
        shapes = {"x": [2, 6, 7, 3], "u": [2, 4, 4, 3], "v": [3, 7, 3], "w": [2, 6, 2, 3], "r": [6, 7, 3]}
        inputs = [value(name, shape) for name, shape in shapes.items()]
        constants = [numpy_helper.from_array(np.asarray(array, np.int64), name)
                     for name, array in (("box", box), ("rows", [[1, 0], [0, 3], [-1, 0]]), ("places", places), ("whole", [1]))]
        box_node = node("ScatterND", ["x", "box", "u"], ["a"])
        others = [node("ScatterND", ["x", "rows", "v"], ["b"]), node("ScatterElements", ["x", "places", "w"], ["c"], axis=2),
                  node("ScatterND", ["x", "whole", "r"], ["d"])]
        kinds, network = self.kinds(model_of([box_node], inputs, [value("a", None)], constants, opset=16))
        self.assertEqual(set(kinds), {"operation"})
        self.assertFalse(any("-t" in step["operation"] for step in network["steps"]))
        model = model_of([box_node, *others], inputs, [value(name, None) for name in "abcd"], constants, opset=16)
        self.assertEqual(set(self.kinds(model)[0]), {"operation"})
        self.verify(model)

    def test_scatters_that_stay(self):
        """Those that add, and those to places that the model computes."""
        node = helper.make_node
        inputs = [value("x", [4, 3]), value("u", [2, 3]), value("i", [2, 1], TensorProto.INT64)]
        constants = [numpy_helper.from_array(np.int64([[1], [1]]), "k")]
        for nodes in ([node("ScatterND", ["x", "k", "u"], ["y"], reduction="add")], [node("ScatterND", ["x", "i", "u"], ["y"])]):
            self.assertIn("c", self.kinds(model_of(nodes, inputs, [value("y", None)], constants, opset=16))[0])

    def test_nodes_that_give_what_they_read(self):
        """They are nothing, so that what is behind them is fused; others of their kind stay."""
        node = helper.make_node
        nodes = [node("Pad", ["x", "none"], ["a"]), node("Conv", ["a", "k"], ["b"], pads=[1, 1]),
                 node("Slice", ["b", "from", "to", "axis"], ["c"]), node("Mul", ["c", "one"], ["d"]),
                 node("Cast", ["d"], ["e"], to=TensorProto.FLOAT), node("Expand", ["e", "shape"], ["f"]),
                 node("Concat", ["f"], ["g"], axis=1), node("Add", ["g", "x"], ["h"]), node("Relu", ["h"], ["y"])]
        constants = [random_tensor(np.random.default_rng(1), "k", 4, 4, 3), numpy_helper.from_array(np.float32([1]), "one"),
                     *(numpy_helper.from_array(np.int64(array), name) for name, array in
                       (("none", [0] * 6), ("from", [0]), ("to", [99]), ("axis", [2]), ("shape", [1, 1, 8])))]
        model = model_of(nodes, [value("x", [1, 4, 8])], [value("y", None)], constants)
        self.assertEqual(self.kinds(model)[0]["layer"], 1)
        self.assertFalse(any(not step["operation"].startswith("copy") for step in self.kinds(model)[1]["steps"]
                             if "operation" in step))
        self.verify(model)
        back = [node("Slice", ["x", "last", "before", "axis", "down"], ["y"])]
        constants = [numpy_helper.from_array(np.int64(array), name) for name, array in
                     (("last", [-1]), ("before", [-99]), ("axis", [2]), ("down", [-1]))]
        self.verify(model_of(back, [value("x", [1, 4, 8])], [value("y", None)], constants))

    def test_an_accuracy_for_all_layers(self):
        """Strict ones are plain sums of products; those of bytes are that anyway."""
        b = Builder()
        b.channels["x"] = 3
        b.node("Relu", b.conv(b.conv("x", 16, 3, 2), 8, 1))
        onnx.save(b.model({"x": SHAPE}, {b.nodes[-1].output[0]: [1, 8, 8, 8]}), self.path)
        for path in (self.path, self.save(self.quantized("QOperator"))):
            kiln("compile", path, "--network", "--accuracy", "strict", "-o", self.folder / "out", "--name", "net")
            layers = json.loads((self.folder / "out/net.json").read_text())["layers"]
            self.assertTrue(all("-strict" in layer["problem"] for layer in layers), layers)
        self.assertIn("it may be normal, strict or fast",
                      kiln("verify", self.path, "--network", "--accuracy", "exact", ok=(2,)).stderr)
        self.verify(onnx.load(self.path), "--accuracy", "strict")

    def test_types_that_onnxruntime_lacks(self):
        """Convolutions of doubles are compared with onnx's own evaluator."""
        w = numpy_helper.from_array(np.random.default_rng(3).standard_normal([4, 3, 3, 3]), "w")
        model = model_of([helper.make_node("Conv", ["x", "w"], ["y"])], [value("x", [1, 3, 6, 6], TensorProto.DOUBLE)],
                         [value("y", None, TensorProto.DOUBLE)], [w])
        self.assertIn("reference evaluator", self.verify(model)[0]["reference"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
