"""Tests of tools/onnx_import, run as the `kiln` command runs it: as a program."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
import onnxruntime.quantization
from onnx import TensorProto, helper, numpy_helper
from onnx_models import model_of, qdq_model, random_tensor, tensor, value
from onnx.reference import ReferenceEvaluator

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "onnx_import"
LIGHT = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


class ImportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def save(self, model, name="net.onnx"):
        path = self.folder / name
        onnx.save(model, path)
        return path

    def start(self, model, *arguments):
        path = model if isinstance(model, pathlib.Path) else self.save(model)
        return subprocess.run([sys.executable, SCRIPT, path, self.folder / "answer.json", *arguments],
                              capture_output=True, text=True)

    def read(self, model, *arguments):
        result = self.start(model, *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads((self.folder / "answer.json").read_text())

    def refused(self, model, *arguments):
        """The message of an import that fails as a whole."""
        result = self.start(model, *arguments)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        return result.stderr


class Networks(ImportTest):
    def test_resnet50(self):
        answer = self.read(LIGHT / "light_resnet50.onnx")
        layers = answer["layers"]
        self.assertEqual(answer["name"], "light_resnet50")
        self.assertEqual(answer["failures"], [])
        self.assertEqual(len(layers), 53)
        self.assertEqual(sum("residual" in layer for layer in layers), 16)
        self.assertEqual(sum(layer.get("activation") == "Relu" for layer in layers), 49)
        self.assertTrue(all(layer["bias"] for layer in layers))
        self.assertEqual((layers[0]["x"], layers[0]["w"]), ([1, 3, 224, 224], [64, 3, 7, 7]))
        self.assertEqual((layers[-1]["x"], layers[-1]["w"]), ([1, 512, 7, 7], [2048, 512, 1, 1]))
        notes = answer["notes"]
        self.assertIn("folded: BatchNormalization x53", notes)
        self.assertIn("fused: residual sum x16", notes)
        self.assertIn("fused: Relu x49", notes)
        self.assertIn("skipped: MaxPool x1, AveragePool x1, Reshape x1, Gemm x1, Softmax x1", notes)
        # One at the head of each of the four stages.
        self.assertEqual(sum("the sum is fused into" in note for note in notes), 4)

    def test_every_network_of_the_wheel(self):
        counts = {"bvlc_alexnet": 5, "densenet121": 121, "inception_v1": 57, "inception_v2": 69, "shufflenet": 49,
                  "squeezenet": 26, "vgg19": 16, "zfnet512": 5}
        for name, count in counts.items():
            with self.subTest(name):
                answer = self.read(LIGHT / f"light_{name}.onnx")
                self.assertEqual((len(answer["layers"]), answer["failures"]), (count, []))

    def test_resnet50_weights(self):
        weights = self.folder / "weights"
        answer = self.read(LIGHT / "light_resnet50.onnx", "--weights", weights)
        for layer in answer["layers"]:
            self.assertEqual(list(np.load(layer["weights"], mmap_mode="r").shape), layer["w"])
            self.assertEqual(np.load(layer["bias_values"]).shape, (layer["w"][0],))


class Folding(ImportTest):
    """What the layers' own numbers compute must be what the model computes."""

    def check(self, model, layer, convolve):
        rng = np.random.default_rng(5)
        x = rng.standard_normal(layer["x"]).astype(np.float32)
        w, b = np.load(layer["weights"]), np.load(layer["bias_values"])
        self.assertEqual((w.dtype, b.dtype), (np.float32, np.float32))
        inputs = {"x": x}
        if len(model.graph.input) > 1:
            sizes = [dim.dim_value for dim in model.graph.input[1].type.tensor_type.shape.dim]
            inputs["r"] = rng.standard_normal(sizes, dtype=np.float32)
        expected = ReferenceEvaluator(model).run(None, inputs)[0]
        result = convolve(x, w, b) + inputs.get("r", 0)
        if layer.get("activation") == "Relu":
            result = np.maximum(result, 0)
        elif layer.get("activation") == "Clip":
            result = np.clip(result, *layer["activation_params"])
        else:
            self.assertNotIn("activation", layer)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)

    def normalization(self, rng, channels, source, target, **attributes):
        names = ["scale", "shift", "mean", "variance"]
        initializers = [random_tensor(rng, name, channels) for name in names[:3]]
        initializers.append(tensor("variance", rng.uniform(0.5, 2, channels)))
        node = helper.make_node("BatchNormalization", [source, *names], [target], epsilon=1e-3, **attributes)
        return node, initializers

    def one_node(self, op, **attributes):
        """A function that runs a single convolution in the reference implementation."""
        def convolve(x, w, b):
            node = helper.make_node(op, ["x", "w", "b"], ["y"], **attributes)
            inputs = [value(name, array.shape) for name, array in (("x", x), ("w", w), ("b", b))]
            model = model_of([node], inputs, [value("y", None)])
            return ReferenceEvaluator(model).run(None, {"x": x, "w": w, "b": b})[0]
        return convolve

    def test_conv_with_bias_residual_and_relu(self):
        rng = np.random.default_rng(1)
        norm, initializers = self.normalization(rng, 6, "c", "n")
        initializers += [random_tensor(rng, "w", 6, 2, 3, 3), random_tensor(rng, "b", 6)]
        model = model_of([helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", group=2, pads=[1, 1, 1, 1]), norm,
                          helper.make_node("Add", ["r", "n"], ["s"]), helper.make_node("Relu", ["s"], ["y"])],
                         [value("x", [1, 4, 5, 5]), value("r", [1, 6, 5, 5])], [value("y", [1, 6, 5, 5])], initializers)
        answer = self.read(model, "--weights", self.folder)
        layer, = answer["layers"]
        self.assertEqual((layer["residual"], layer["activation"], layer["bias"]), (True, "Relu", True))
        self.assertEqual(answer["notes"], ["folded: BatchNormalization x1", "fused: residual sum x1", "fused: Relu x1"])
        self.check(model, layer, self.one_node("Conv", group=2, pads=[1, 1, 1, 1]))

    def test_grouped_transposed_without_bias(self):
        # Not by the reference implementation of the package: its ConvTranspose takes no groups of several channels.
        def transposed(x, w, group, stride):
            y = np.zeros((1, w.shape[1] * group, *(stride * size for size in x.shape[2:])))
            for c, m, i, j in np.ndindex(x.shape[1], w.shape[1], *x.shape[2:]):
                channel = c // (x.shape[1] // group) * w.shape[1] + m
                y[0, channel, i * stride:i * stride + 2, j * stride:j * stride + 2] += x[0, c, i, j] * w[c, m]
            return y

        rng = np.random.default_rng(2)
        norm, initializers = self.normalization(rng, 6, "c", "y")
        scale, shift, mean, variance = (numpy_helper.to_array(item).reshape(6, 1, 1) for item in initializers)
        initializers.append(random_tensor(rng, "w", 4, 3, 2, 2))
        model = model_of([helper.make_node("ConvTranspose", ["x", "w"], ["c"], "up", group=2, strides=[2, 2]), norm],
                         [value("x", [1, 4, 3, 3])], [value("y", [1, 6, 6, 6])], initializers)
        layer, = self.read(model, "--weights", self.folder)["layers"]
        x = rng.standard_normal([1, 4, 3, 3])
        plain = transposed(x, numpy_helper.to_array(initializers[-1]), 2, 2)
        expected = (plain - mean) / np.sqrt(variance + 1e-3) * scale + shift
        folded = transposed(x, np.load(layer["weights"]), 2, 2) + np.load(layer["bias_values"]).reshape(6, 1, 1)
        np.testing.assert_allclose(folded, expected, rtol=1e-4, atol=1e-5)

    def test_products_and_sums_with_constants(self):
        rng = np.random.default_rng(4)
        initializers = [random_tensor(rng, "w", 4, 2, 3), random_tensor(rng, "b", 4),
                        random_tensor(rng, "factor", 4, 1), random_tensor(rng, "shift", 1, 4, 1), tensor("one", 1.5),
                        tensor("quarter", [[[4]]])]
        nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv"),
                 helper.make_node("Mul", ["factor", "c"], ["d"]), helper.make_node("Add", ["d", "shift"], ["e"]),
                 helper.make_node("Sub", ["one", "e"], ["f"]), helper.make_node("Div", ["f", "quarter"], ["g"]),
                 helper.make_node("Sub", ["g", "shift"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
        model = model_of(nodes, [value("x", [2, 2, 7])], [value("y", [2, 4, 5])], initializers)
        answer = self.read(model, "--weights", self.folder)
        self.assertEqual(answer["notes"], ["folded: Mul x1", "folded: Add x1", "folded: Sub x2", "folded: Div x1",
                                           "fused: Relu x1"])
        self.check(model, answer["layers"][0], self.one_node("Conv"))

    def test_sum_where_weights_are_not_constants(self):
        model = model_of([helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
                          helper.make_node("Add", ["c", "shift"], ["y"])],
                         [value("x", [1, 1, 4]), value("w", [2, 1, 2])], [value("y", [1, 2, 3])],
                         [tensor("shift", [[3], [4]])])
        layer, = self.read(model, "--weights", self.folder)["layers"]
        np.testing.assert_array_equal(np.load(layer["bias_values"]), np.array([3, 4], np.float32))
        self.assertNotIn("weights", layer)

    def test_deformable_with_normalization_residual_and_activation(self):
        rng = np.random.default_rng(6)
        norm, initializers = self.normalization(rng, 2, "c", "n")
        initializers.append(random_tensor(rng, "w", 2, 3, 2, 2))
        nodes = [helper.make_node("DeformConv", ["x", "w", "o"], ["c"], "deform"), norm,
                 helper.make_node("Add", ["n", "r"], ["s"]), helper.make_node("HardSwish", ["s"], ["y"])]
        inputs = [value("x", [1, 3, 4, 4]), value("o", [1, 8, 3, 3]), value("r", [1, 2, 3, 3])]
        model = model_of(nodes, inputs, [value("y", [1, 2, 3, 3])], initializers, opset=19)
        layer, = self.read(model, "--weights", self.folder)["layers"]
        self.assertEqual((layer["offset"], layer["bias"], layer["residual"], layer["activation"]),
                         (True, True, True, "HardSwish"))
        scale, shift, mean, variance, w = (numpy_helper.to_array(item).astype(np.float64) for item in initializers)
        factor = scale / np.sqrt(variance + 1e-3)
        np.testing.assert_allclose(np.load(layer["weights"]), w * factor.reshape(2, 1, 1, 1), rtol=1e-6)
        np.testing.assert_allclose(np.load(layer["bias_values"]), shift - mean * factor, rtol=1e-5, atol=1e-6)

    def test_half_precision_is_rounded_again(self):
        half = TensorProto.FLOAT16
        weights, large = (numpy_helper.from_array(np.array(array, np.float16), name)
                          for name, array in (("w", [[[3]]]), ("k", 30000)))
        model = model_of([helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
                          helper.make_node("Mul", ["c", "k"], ["y"])],
                         [value("x", [1, 1, 4], half)], [value("y", [1, 1, 4], half)], [weights, large])
        self.assertIn("what is folded into conv is rounded to float16 with the weights", self.read(model)["notes"])
        failure, = self.read(model, "--weights", self.folder)["failures"]
        self.assertEqual((failure["code"], failure["message"]),
                         ("unsupported", "weights with what is folded into it does not fit float16"))

    def test_weights_from_constant_nodes_and_clip(self):
        rng = np.random.default_rng(3)
        norm, initializers = self.normalization(rng, 2, "c", "n")
        weights = random_tensor(rng, "", 1, 2, 3)
        initializers += [tensor("b", [1, 2]), tensor("low", 0), tensor("high", 6)]
        model = model_of([helper.make_node("Constant", [], ["stored"], value=weights),
                          helper.make_node("Transpose", ["stored"], ["w"], perm=[1, 0, 2]),
                          helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv"), norm,
                          helper.make_node("Clip", ["n", "low", "high"], ["y"])],
                         [value("x", [1, 1, 9])], [value("y", [1, 2, 7])], initializers)
        answer = self.read(model, "--weights", self.folder)
        layer, = answer["layers"]
        self.assertEqual((layer["activation"], layer["activation_params"]), ("Clip", [0, 6]))
        self.assertIn("computed as constants: Constant x1, Transpose x1", answer["notes"])
        self.check(model, layer, self.one_node("Conv"))

    def test_clip_of_opset_6_has_attributes(self):
        model = model_of([helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
                          helper.make_node("Clip", ["c"], ["y"], min=-1.0)],
                         [value("x", [1, 1, 4])], [value("y", [1, 1, 4])], [tensor("w", [[[1]]])], opset=6)
        layer, = self.read(model)["layers"]
        self.assertEqual(layer["opset"], 6)
        self.assertEqual(layer["activation_params"], [-1, float(np.finfo(np.float32).max)])

    def test_bfloat16_weights_travel_as_bits(self):
        weights = helper.make_tensor("w", TensorProto.BFLOAT16, [1, 1, 2], [1.0, -2.5])
        model = model_of([helper.make_node("Conv", ["x", "w"], ["y"], "conv")],
                         [value("x", [1, 1, 4], TensorProto.BFLOAT16)], [value("y", [1, 1, 3], TensorProto.BFLOAT16)],
                         [weights], opset=22)
        layer, = self.read(model, "--weights", self.folder)["layers"]
        self.assertEqual(layer["dtype"], "bfloat16")
        np.testing.assert_array_equal(np.load(layer["weights"]), np.array([[[0x3F80, 0xC020]]], np.uint16))


class NotFused(ImportTest):
    """What must stay outside, because somebody else reads it or it is not what it seems."""

    W = tensor("w", np.ones((4, 4, 1, 1)))
    X = value("x", [1, 4, 5, 5])
    CONV = helper.make_node("Conv", ["x", "w"], ["c"], "conv")

    def layer(self, nodes, outputs=("y",), inputs=(), initializers=()):
        answer = self.read(model_of([self.CONV, *nodes], [self.X, *inputs], [value(name, None) for name in outputs],
                                    [self.W, *initializers]))
        self.notes = answer["notes"]
        return answer["layers"][0]

    def test_the_value_is_an_output_too(self):
        layer = self.layer([helper.make_node("Relu", ["c"], ["y"])], outputs=("c", "y"))
        self.assertNotIn("activation", layer)
        self.assertEqual(self.notes, ["skipped: Relu x1"])

    def test_two_readers(self):
        layer = self.layer([helper.make_node("Relu", ["c"], ["y"]), helper.make_node("Neg", ["c"], ["z"])], ("y", "z"))
        self.assertNotIn("activation", layer)

    def test_the_value_is_read_in_a_branch(self):
        branch = helper.make_graph([helper.make_node("Neg", ["c"], ["inner"])], "b", [], [value("inner", None)])
        layer = self.layer([helper.make_node("Relu", ["c"], ["y"]),
                            helper.make_node("If", ["p"], ["z"], then_branch=branch, else_branch=branch)], ("y", "z"),
                           inputs=[value("p", [], TensorProto.BOOL)])
        self.assertNotIn("activation", layer)

    def test_sum_with_itself(self):
        self.assertNotIn("residual", self.layer([helper.make_node("Add", ["c", "c"], ["y"])]))

    def test_sum_that_broadcasts(self):
        self.assertNotIn("residual", self.layer([helper.make_node("Add", ["c", "r"], ["y"])],
                                                inputs=[value("r", [1, 4, 1, 1])]))

    def test_sum_behind_relu(self):
        layer = self.layer([helper.make_node("Relu", ["c"], ["a"]), helper.make_node("Add", ["a", "r"], ["y"])],
                           inputs=[value("r", [1, 4, 5, 5])])
        self.assertEqual(layer["activation"], "Relu")
        self.assertNotIn("residual", layer)

    def test_factors_that_differ_within_a_channel(self):
        for shape in ((4, 5, 5), (1, 1, 1, 5), (5, 1), (1, 1, 4, 1, 1)):
            layer = self.layer([helper.make_node("Mul", ["c", "k"], ["y"])], initializers=[tensor("k", np.ones(shape))])
            self.assertNotIn("bias", layer)
            self.assertEqual(self.notes, ["skipped: Mul x1"])

    def test_factors_that_are_not_constants(self):
        self.layer([helper.make_node("Mul", ["c", "k"], ["y"])], inputs=[value("k", [1, 4, 1, 1])])
        self.assertEqual(self.notes, ["skipped: Mul x1"])

    def test_one_divided_by_it(self):
        self.layer([helper.make_node("Div", ["k", "c"], ["y"])], initializers=[tensor("k", 1)])
        self.assertEqual(self.notes, ["skipped: Div x1"])

    def test_division_by_zero(self):
        self.layer([helper.make_node("Div", ["c", "k"], ["y"])], initializers=[tensor("k", 0)])
        self.assertIn("the Div behind conv stays outside: its factors are not all finite", self.notes)

    def test_second_sum(self):
        sums = [helper.make_node("Add", ["c", "r"], ["a"]), helper.make_node("Add", ["a", "r"], ["y"])]
        self.assertTrue(self.layer(sums, inputs=[value("r", [1, 4, 5, 5])])["residual"])
        self.assertIn("skipped: Add x1", self.notes)

    def test_clip_with_bounds_that_are_not_constants(self):
        self.assertNotIn("activation", self.layer([helper.make_node("Clip", ["c", "low"], ["y"])],
                                                  inputs=[value("low", [])]))

    def test_normalization_in_training_form(self):
        numbers = [tensor(name, np.ones(4)) for name in "sbmv"]
        layer = self.layer([helper.make_node("BatchNormalization", ["c", *"sbmv"], ["y", "m2", "v2"], training_mode=1)],
                           initializers=numbers)
        self.assertNotIn("bias", layer)
        self.assertIn("the BatchNormalization behind conv stays outside: it is in training form", self.notes)

    def test_normalization_by_inputs(self):
        self.layer([helper.make_node("BatchNormalization", ["c", *"sbmv"], ["y"])],
                   inputs=[value(name, [4]) for name in "sbmv"])
        self.assertIn("not all constants", self.notes[0])

    def test_the_later_of_two_convolutions_takes_the_sum(self):
        answer = self.read(model_of([self.CONV, helper.make_node("Conv", ["x", "w"], ["d"], "later"),
                                     helper.make_node("Add", ["d", "c"], ["s"]),
                                     helper.make_node("Relu", ["s"], ["y"])],
                                    [self.X], [value("y", None)], [self.W]))
        first, later = answer["layers"]
        self.assertEqual((later["residual"], later["activation"]), (True, "Relu"))
        self.assertFalse("residual" in first or "activation" in first)
        self.assertIn("later and conv are summed: the sum is fused into later, the later one, as its residual",
                      answer["notes"])


class Activations(ImportTest):
    def test_each_with_its_parameters(self):
        nodes = {"Relu": [], "LeakyRelu": [0.01], "Tanh": [], "Sigmoid": [], "HardSigmoid": [0.2, 0.5], "HardSwish": []}
        for op, parameters in nodes.items():
            layer = self.fused(helper.make_node(op, ["c"], ["y"]))
            self.assertEqual((layer["activation"], layer.get("activation_params", [])), (op, parameters))
        layer = self.fused(helper.make_node("LeakyRelu", ["c"], ["y"], alpha=0.25))
        self.assertEqual(layer["activation_params"], [0.25])
        layer = self.fused(helper.make_node("HardSigmoid", ["c"], ["y"], alpha=0.125, beta=0.75))
        self.assertEqual(layer["activation_params"], [0.125, 0.75])

    def fused(self, node):
        layer, = self.read(model_of([helper.make_node("Conv", ["x", "w"], ["c"], "conv"), node],
                                    [value("x", [1, 1, 4])], [value("y", None)], [tensor("w", [[[1]]])]))["layers"]
        return layer

    def test_others_stay_outside(self):
        self.assertNotIn("activation", self.fused(helper.make_node("Elu", ["c"], ["y"])))


class Quantised(ImportTest):
    """DequantizeLinear, operator, QuantizeLinear become a layer whose integers are what ONNX Runtime's are."""

    def check(self, model):
        """That a layer is made, and computes what the model does. Returns it and the notes."""
        answer = self.read(model, "--weights", self.folder)
        self.assertEqual(answer["failures"], [])
        layer, = answer["layers"]
        x_type = np.dtype(layer["dtype"])
        limits = np.iinfo(x_type)
        x = np.random.default_rng(9).integers(limits.min, limits.max + 1, layer["x"]).astype(x_type)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        expected = session.run(None, {"x": x})[0]
        result = self.computed(layer, x)
        self.assertEqual(result.dtype, expected.dtype)
        if result.dtype == np.float32:
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
        else:
            # Where ONNX Runtime computes in float32 and rounds a half the other way, by one.
            difference = np.abs(result.astype(int) - expected.astype(int))
            self.assertLessEqual(difference.max(), 1)
            self.assertLess((difference > 0).mean(), 0.01)
        return layer, answer["notes"]

    def computed(self, layer, x):
        """The formula of a quantised layer, on the numbers of its table."""
        q = layer["quantization"]
        transposed = layer["operator"] == "ConvTranspose"
        w = np.load(layer["weights"])
        self.assertEqual(w.dtype, np.dtype(q["w_dtype"]))
        bias = np.load(layer["bias_values"]) if "bias_values" in layer else np.zeros(1, np.int32)
        self.assertEqual(bias.dtype, np.int32)
        group = layer.get("group", 1)
        points = np.broadcast_to(np.array(q["w_zero_point"], np.float64),
                                 [w.shape[1] * group if transposed else w.shape[0]])
        shape = (group, 1, -1, 1, 1) if transposed else (-1, 1, 1, 1)
        w = w.reshape(group, w.shape[0] // group, *w.shape[1:]) if transposed else w
        w = (w - points.reshape(shape)).reshape(-1, *w.shape[-3:])
        sums = self.convolved(layer, x.astype(np.float64) - q["x_zero_point"], w) + bias.reshape(-1, 1, 1)
        x_scale, w_scale = np.float32(q["x_scale"]), np.array(q["w_scale"], np.float32).reshape(-1, 1, 1)
        result = sums.astype(np.float32) * (x_scale * w_scale / np.float32(q.get("y_scale", 1)))
        if layer.get("activation") == "Relu":
            result = np.maximum(result, 0)
        if q["y_dtype"] == "float32":
            return result
        limits = np.iinfo(q["y_dtype"])
        return np.clip(np.round(result) + q["y_zero_point"], limits.min, limits.max).astype(q["y_dtype"])

    def convolved(self, layer, x, w):
        attributes = {key: layer[key] for key in ("group", "strides", "pads", "dilations") if key in layer}
        node = helper.make_node(layer["operator"], ["x", "w"], ["y"], **attributes)
        model = model_of([node], [value(name, array.shape, TensorProto.FLOAT) for name, array in (("x", x), ("w", w))],
                         [value("y", None)])
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return session.run(None, {"x": x.astype(np.float32), "w": w.astype(np.float32)})[0]  # exact below 2^24

    def test_conv(self):
        layer, notes = self.check(qdq_model(pads=[1, 1, 1, 1], strides=[2, 2]))
        self.assertEqual((layer["operator"], layer["dtype"], layer["bias"]), ("Conv", "uint8", True))
        expected = {"x_scale": 0.03, "x_zero_point": 120, "w_scale": [0.02], "w_zero_point": [0], "w_dtype": "int8",
                    "y_scale": 0.1, "y_zero_point": 7, "y_dtype": "uint8"}
        for key, number in layer["quantization"].items():
            np.testing.assert_equal(np.float32(number) if "scale" in key else number,
                                    np.float32(expected[key]) if "scale" in key else expected[key])
        self.assertEqual(set(layer["quantization"]), set(expected))
        self.assertEqual(notes, ["folded: QuantizeLinear x1", "folded: DequantizeLinear x3"])

    def test_scales_and_zero_points_for_each_channel(self):
        layer, _ = self.check(qdq_model(w_scale=[0.01, 0.02, 0.03, 0.04], w_zero_point=np.uint8([1, 2, 3, 100]),
                                        x_zero_point=np.int8(-3), y_zero_point=np.int8(5), group=2))
        self.assertEqual((layer["dtype"], layer["quantization"]["w_zero_point"]), ("int8", [1, 2, 3, 100]))
        self.assertEqual((layer["quantization"]["w_dtype"], layer["quantization"]["y_dtype"]), ("uint8", "int8"))

    def test_transposed_in_groups(self):
        layer, _ = self.check(qdq_model("ConvTranspose", (4, 3, 2, 2), [0.01, 0.02, 0.03], np.zeros(3, np.int8), 1,
                                        group=2, strides=[2, 2]))
        np.testing.assert_array_equal(np.float32(layer["quantization"]["w_scale"]), np.float32([0.01, 0.02, 0.03] * 2))

    def test_without_bias_and_with_relu(self):
        layer, notes = self.check(qdq_model(bias=None, behind=[helper.make_node("Relu", ["c"], ["a"])]))
        self.assertEqual((layer["activation"], layer.get("bias")), ("Relu", None))
        self.assertIn("fused: Relu x1", notes)

    def test_float_bias_is_rounded(self):
        _, notes = self.check(qdq_model(bias="float"))
        self.assertIn("the bias of conv is rounded to a multiple of x_scale * w_scale", notes)

    def test_float_result(self):
        layer, notes = self.check(qdq_model(y=False, behind=[helper.make_node("Relu", ["c"], ["a"])]))
        self.assertEqual(layer["quantization"]["y_dtype"], "float32")
        self.assertNotIn("y_scale", layer["quantization"])

    def test_weights_quantised_by_the_model(self):
        weights = [helper.make_node("QuantizeLinear", ["wf", "ws", "wz"], ["wq"])]
        model = qdq_model()
        values = numpy_helper.to_array(next(item for item in model.graph.initializer if item.name == "wq"))
        kept = [item for item in model.graph.initializer if item.name != "wq"]
        del model.graph.initializer[:]
        model.graph.initializer.extend([*kept, tensor("wide", values * 0.02)])
        weights = helper.make_node("QuantizeLinear", ["wide", "ws", "wz"], ["wq"])
        nodes = [weights, *model.graph.node]
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        self.check(model)

    def stays(self, model, reason):
        answer = self.read(model)
        layer, = answer["layers"]
        self.assertEqual((layer["dtype"], "quantization" in layer), ("float32", False))
        self.assertIn(f"conv stays float32, though its input is quantised: {reason}", answer["notes"])

    def test_what_keeps_it_float32(self):
        self.stays(qdq_model(w_scale=[0.1] * 3, w_zero_point=np.zeros(3, np.int8), axis=2),
                   "the weights are quantised along another axis than the output channels")
        self.stays(qdq_model(x_zero_point=np.uint16(3)), "its input is quantised to UINT16")
        self.stays(qdq_model(behind=[helper.make_node("Mul", ["c", "k"], ["a"])], extra=[tensor("k", 2)]),
                   "what is folded or summed behind it would be rounded in between")
        plain = qdq_model()
        plain.graph.node.remove(plain.graph.node[1])
        plain.graph.initializer.append(tensor("wf", np.ones((4, 2, 3, 3))))
        self.stays(plain, "its weights are not")
        computed = qdq_model()
        for item in list(computed.graph.initializer):
            if item.name == "xs":
                computed.graph.initializer.remove(item)
        computed.graph.input.append(value("xs", []))
        self.stays(computed, "scale and zero point of its input are not constants")

    def test_two_readers_of_the_result(self):
        model = qdq_model()
        model.graph.node.append(helper.make_node("Neg", ["c"], ["z"]))
        model.graph.output.append(value("z", None))
        layer, = self.read(model)["layers"]
        self.assertEqual(layer["quantization"]["y_dtype"], "float32")

    def test_qlinear_and_integer(self):
        constants = {"s": np.float32(0.5), "t": np.array([0.25, 2], np.float32), "z": np.uint8(3),
                     "v": np.array([-1, 4], np.int8), "y": np.int8(-9), "w": np.ones((2, 1, 2, 2), np.int8),
                     "b": np.array([5, 6], np.int32)}
        nodes = [helper.make_node("QLinearConv", ["x", "s", "z", "w", "t", "v", "s", "y", "b"], ["a"], "qlinear"),
                 helper.make_node("ConvInteger", ["x", "w", "z", "v"], ["c"], "integer"),
                 helper.make_node("ConvInteger", ["x", "w"], ["d"], "plain")]
        model = model_of(nodes, [value("x", [1, 1, 4, 4], TensorProto.UINT8)], [value(name, None) for name in "acd"],
                         [numpy_helper.from_array(np.asarray(item), name) for name, item in constants.items()])
        qlinear, integer, plain = self.read(model, "--weights", self.folder)["layers"]
        self.assertEqual(qlinear["quantization"],
                         {"x_scale": 0.5, "x_zero_point": 3, "w_scale": [0.25, 2.0], "w_zero_point": [-1, 4],
                          "y_scale": 0.5, "y_zero_point": -9, "y_dtype": "int8", "w_dtype": "int8"})
        self.assertEqual(integer["quantization"],
                         {"x_zero_point": 3, "w_zero_point": [-1, 4], "w_dtype": "int8", "y_dtype": "int32"})
        self.assertEqual(plain["quantization"], {"w_dtype": "int8", "y_dtype": "int32"})
        self.assertEqual(np.load(qlinear["bias_values"]).dtype, np.int32)

    def test_scales_that_are_not_constants(self):
        constants = {"z": np.uint8(3), "w": np.ones((2, 1, 2, 2), np.uint8)}
        node = helper.make_node("QLinearConv", ["x", "s", "z", "w", "s", "z", "s", "z"], ["y"], "qlinear")
        model = model_of([node], [value("x", [1, 1, 4, 4], TensorProto.UINT8), value("s", [])],
                         [value("y", None, TensorProto.UINT8)],
                         [numpy_helper.from_array(np.asarray(item), name) for name, item in constants.items()])
        failure, = self.read(model)["failures"]
        self.assertEqual((failure["code"], failure["message"]), ("unsupported", 'its x_scale "s" is not a constant'))

    def test_models_of_the_quantiser(self):
        rng = np.random.default_rng(12)
        initializers = [random_tensor(rng, "w1", 8, 3, 3, 3), random_tensor(rng, "b1", 8),
                        random_tensor(rng, "w2", 8, 1, 3, 3), random_tensor(rng, "w3", 4, 8, 1, 1)]
        nodes = [helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "first", pads=[1, 1, 1, 1]),
                 helper.make_node("Relu", ["c1"], ["r1"]),
                 helper.make_node("Conv", ["r1", "w2"], ["c2"], "depthwise", group=8),
                 helper.make_node("Conv", ["c2", "w3"], ["y"], "last")]
        path = self.save(model_of(nodes, [value("x", [1, 3, 8, 8])], [value("y", [1, 4, 6, 6])], initializers))

        class Data(onnxruntime.quantization.CalibrationDataReader):
            left = 4

            def get_next(self):
                self.left -= 1
                return {"x": rng.standard_normal([1, 3, 8, 8], np.float32)} if self.left > 0 else None

        for form in (onnxruntime.quantization.QuantFormat.QDQ, onnxruntime.quantization.QuantFormat.QOperator):
            for per_channel in (False, True):
                target = self.folder / f"{form.name}{per_channel}.onnx"
                onnxruntime.quantization.quantize_static(path, target, Data(), form, per_channel=per_channel)
                answer = self.read(target, "--weights", self.folder)
                self.assertEqual(answer["failures"], [])
                self.assertEqual(len(answer["layers"]), 3)
                for layer in answer["layers"]:
                    self.assertEqual((layer["quantization"]["w_dtype"], layer["quantization"]["y_dtype"]),
                                     ("int8", layer["dtype"]), layer)
                    self.assertEqual(len(layer["quantization"]["w_scale"]), layer["w"][0] if per_channel else 1)
                    self.assertEqual(np.load(layer["weights"]).dtype, np.int8)


class ChannelsLast(ImportTest):
    NHWC = "com.ms.internal.nhwc"

    def imported(self, nodes, inputs, outputs, initializers):
        model = model_of(nodes, inputs, outputs, initializers)
        model.opset_import.append(helper.make_opsetid(self.NHWC, 1))
        return self.read(model)

    def test_transposed(self):
        nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["a"], "first", domain=self.NHWC, strides=[2, 2],
                                  activation="LeakyRelu", activation_params=[0.25]),
                 helper.make_node("ConvTranspose", ["a", "v"], ["c"], "second", domain=self.NHWC),
                 helper.make_node("Add", ["c", "k"], ["d"]), helper.make_node("Add", ["d", "r"], ["s"]),
                 helper.make_node("Sigmoid", ["s"], ["y"])]
        answer = self.imported(nodes, [value("x", [1, 5, 6, 3]), value("r", [1, 10, 12, 2])], [value("y", None)],
                               [tensor("w", np.ones((3, 4, 2, 2))), tensor("v", np.ones((4, 2, 1, 1))),
                                tensor("k", [1, 2])])
        first, second = answer["layers"]
        self.assertEqual((first["dialect"], first["x"], first["w"]), ("ms-nhwc", [1, 5, 6, 3], [3, 4, 2, 2]))
        self.assertEqual((first["activation"], first["activation_params"]), ("LeakyRelu", [0.25]))
        self.assertEqual((second["x"], second["bias"], second["residual"]), ([1, 10, 12, 4], True, True))
        self.assertEqual(second["activation"], "Sigmoid")
        self.assertNotIn("opset", first)

    def test_what_is_behind_an_activation_stays_outside(self):
        nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["c"], domain=self.NHWC, activation="Relu"),
                 helper.make_node("Sigmoid", ["c"], ["y"])]
        answer = self.imported(nodes, [value("x", [1, 5, 6, 3])], [value("y", None)],
                               [tensor("w", np.ones((3, 4, 2, 2)))])
        self.assertEqual(answer["layers"][0]["activation"], "Relu")
        self.assertEqual(answer["notes"], ["skipped: Sigmoid x1"])

    def test_conv_is_onnx_in_another_layout(self):
        norm = helper.make_node("BatchNormalization", ["c", *"sbmv"], ["y"])
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv", domain=self.NHWC, pads=[1, 1, 1, 1]), norm]
        answer = self.imported(nodes, [value("x", [1, 5, 6, 3])], [value("y", None)],
                               [tensor("w", np.ones((4, 3, 3, 3))), *(tensor(name, np.ones(5)) for name in "sbmv")])
        layer, = answer["layers"]
        self.assertEqual((layer["dialect"], layer["x"], layer["w"]), ("onnx", [1, 3, 5, 6], [4, 3, 3, 3]))
        self.assertEqual(layer["layouts"], {"x": "NXC", "y": "NXC"})
        self.assertIn("the BatchNormalization behind conv stays outside: it does not scale whole channels",
                      answer["notes"])


class Names(ImportTest):
    def test_made_identifiers_and_unique(self):
        names = ["a/b:0", "a b 0", "1st", "", "conv", "Conv", "conv_pack", "library", "é"]
        nodes = [helper.make_node("Conv", ["x", "w"], [f"out.{i}"], name) for i, name in enumerate(names)]
        outputs = [value(f"out.{i}", None) for i in range(len(names))]
        answer = self.read(model_of(nodes, [value("x", [1, 1, 4])], outputs, [tensor("w", [[[1]]])]))
        made = [layer["name"] for layer in answer["layers"]]
        self.assertEqual(made, ["a_b_0", "a_b_0_2", "layer_1st", "out_3", "conv", "Conv_2", "conv_pack_2", "library_2",
                                "_"])
        notes = "\n".join(answer["notes"])
        self.assertIn('renamed, to be C identifiers: "a/b:0" to a_b_0', notes)
        self.assertIn('renamed, because another layer has the name: "a b 0" to a_b_0_2', notes)
        self.assertIn('"Conv" to Conv_2', notes)

    def test_the_library_is_named_after_the_file(self):
        model = model_of([helper.make_node("Conv", ["x", "w"], ["y"])], [value("x", [1, 1, 4])], [value("y", None)],
                         [tensor("w", [[[1]]])])
        self.assertEqual(self.read(self.save(model, "my-net v2.onnx"))["name"], "my_net_v2")


class Operators(ImportTest):
    def test_others_are_counted(self):
        nodes = [helper.make_node("Conv", ["x", "w"], ["a"], "conv"), helper.make_node("Softplus", ["a"], ["b"]),
                 helper.make_node("Softplus", ["b"], ["c"]), helper.make_node("Fancy", ["c"], ["y"], domain="my.own")]
        model = model_of(nodes, [value("x", [1, 1, 4])], [value("y", None)], [tensor("w", [[[1]]])])
        model.opset_import.append(helper.make_opsetid("my.own", 1))
        self.assertEqual(self.read(model)["notes"], ["skipped: Softplus x2, my.own.Fancy x1"])

    def test_convolutions_in_branches_are_told(self):
        branch = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["inner"])], "b", [], [value("inner", None)])
        nodes = [helper.make_node("Conv", ["x", "w"], ["y"], "conv"),
                 helper.make_node("If", ["p"], ["z"], then_branch=branch, else_branch=branch)]
        model = model_of(nodes, [value("x", [1, 1, 4]), value("p", [], TensorProto.BOOL)],
                         [value("y", None), value("z", None)], [tensor("w", [[[1]]])])
        self.assertIn("skipped inside If, Loop or Scan: Conv x2", self.read(model)["notes"])

    def test_functions_are_inlined(self):
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])]
        function = helper.make_function("my.own", "Block", ["x", "w"], ["y"], nodes, [helper.make_opsetid("", 17)])
        model = model_of([helper.make_node("Block", ["x", "w"], ["y"], domain="my.own")], [value("x", [1, 1, 4])],
                         [value("y", None)], [tensor("w", [[[1]]])])
        model.opset_import.append(helper.make_opsetid("my.own", 1))
        model.functions.append(function)
        layer, = self.read(model)["layers"]
        self.assertEqual((layer["x"], layer["activation"]), ([1, 1, 4], "Relu"))

    def test_quantised_and_deformable_are_passed_on(self):
        byte = TensorProto.UINT8
        scales = [tensor("s", 0.5), numpy_helper.from_array(np.uint8(3), "z"),
                  numpy_helper.from_array(np.ones((1, 1, 2, 2), np.uint8), "wq")]
        nodes = [helper.make_node("QLinearConv", ["q", "s", "z", "wq", "s", "z", "s", "z"], ["a"], "qlinear"),
                 helper.make_node("ConvInteger", ["q", "wq", "z"], ["b"], "integer"),
                 helper.make_node("DeformConv", ["x", "w", "o", "", "m"], ["c"], "deform", offset_group=1)]
        model = model_of(nodes, [value("q", [1, 1, 4, 4], byte), value("x", [1, 1, 4, 4]), value("o", [1, 8, 3, 3]),
                                 value("m", [1, 4, 3, 3])],
                         [value(name, None) for name in "abc"], [*scales, tensor("w", np.ones((1, 1, 2, 2)))], opset=19)
        qlinear, integer, deform = self.read(model)["layers"]
        self.assertEqual((qlinear["operator"], qlinear["dtype"], qlinear["w"]), ("QLinearConv", "uint8", [1, 1, 2, 2]))
        self.assertEqual((integer["operator"], integer["dtype"]), ("ConvInteger", "uint8"))
        self.assertEqual((deform["offset"], deform["mask"], deform["offset_group"], deform.get("bias")),
                         (True, True, 1, None))

    def test_weights_that_are_not_constants(self):
        model = model_of([helper.make_node("Conv", ["x", "w", "b"], ["y"], "conv")],
                         [value("x", [1, 1, 4]), value("w", [2, 1, 3]), value("b", [2])], [value("y", None)])
        layer, = self.read(model, "--weights", self.folder)["layers"]
        self.assertEqual((layer["w"], layer["bias"]), ([2, 1, 3], True))
        self.assertFalse("weights" in layer or "bias_values" in layer)

    def test_one_bad_node_leaves_the_others(self):
        nodes = [helper.make_node("Conv", ["x", "w"], ["a"], "good"),
                 helper.make_node("Conv", ["x", "w"], ["b"], "odd", flavour=3),
                 helper.make_node("Conv", ["i", "w"], ["c"], "typed"),
                 helper.make_node("Mystery", ["x"], ["m"], domain="my.own"),
                 helper.make_node("Conv", ["m", "w"], ["d"], "shapeless")]
        model = model_of(nodes, [value("x", [1, 1, 4]), value("i", [1, 1, 4], TensorProto.INT64)],
                         [value(name, None) for name in "abcd"], [tensor("w", [[[1]]])])
        model.opset_import.append(helper.make_opsetid("my.own", 1))
        answer = self.read(model)
        self.assertEqual([layer["name"] for layer in answer["layers"]], ["good"])
        failures = {failure["layer"]: failure for failure in answer["failures"]}
        self.assertEqual(failures["odd"]["message"], "unknown attribute flavour")
        self.assertEqual(failures["typed"]["message"], 'its input "i" is of type INT64')
        self.assertEqual(failures["typed"]["code"], "unsupported")
        self.assertIn('the shape of its input "m" is not known', failures["shapeless"]["message"])

    def test_normalization_of_another_size(self):
        numbers = [tensor(name, np.ones(3)) for name in "sbmv"]
        model = model_of([helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
                          helper.make_node("BatchNormalization", ["c", *"sbmv"], ["y"])],
                         [value("x", [1, 1, 4])], [value("y", None)], [tensor("w", [[[1]]]), *numbers])
        self.assertIn("the BatchNormalization behind conv stays outside: it has [3] scales for 1 channels",
                      self.read(model, "--weights", self.folder)["notes"])

    def test_a_fill_too_large_to_compute(self):
        size = numpy_helper.from_array(np.array([1 << 20, 1 << 20, 3], np.int64), "size")
        model = model_of([helper.make_node("ConstantOfShape", ["size"], ["w"]),
                          helper.make_node("Conv", ["x", "w"], ["y"], "conv")],
                         [value("x", [1, 1 << 20, 4])], [value("y", None)], [size])
        failure, = self.read(model, "--weights", self.folder)["failures"]
        self.assertIn('constant "w" of shape [1048576, 1048576, 3] is too large', failure["message"])


class Shapes(ImportTest):
    NODES = [helper.make_node("Conv", ["data", "w"], ["c"], "conv"), helper.make_node("Relu", ["c"], ["y"])]
    W = tensor("w", np.ones((2, 3, 1, 1)))

    def model(self, shape):
        return model_of(self.NODES, [value("data", shape)], [value("y", None)], [self.W])

    def test_symbols_must_be_given(self):
        message = self.refused(self.model(["batch", 3, "h", None]))
        self.assertIn('input "data" has [batch, 3, h, ?]; give it one, for example --shape data=1x3x224x224', message)

    def test_no_shape_at_all(self):
        self.assertIn('input "data" has no shape; give it one', self.refused(self.model(None)))

    def test_given_shapes(self):
        for shape in (["batch", 3, "h", None], None, [8, 3, 7, 7]):
            layer, = self.read(self.model(shape), "--shape", "data=1x3x5x6")["layers"]
            self.assertEqual(layer["x"], [1, 3, 5, 6])

    def test_given_shapes_overrule_stale_ones(self):
        model = onnx.shape_inference.infer_shapes(
            model_of([*self.NODES, helper.make_node("Conv", ["y", "v"], ["z"], "second")],
                     [value("data", [8, 3, 7, 7])], [value("z", [8, 2, 7, 7])],
                     [self.W, tensor("v", np.ones((2, 2, 1, 1)))]))
        self.assertEqual(self.read(model, "--shape", "data=1x3x5x6")["layers"][1]["x"], [1, 2, 5, 6])

    def test_bad_shapes(self):
        model = self.model(["n", 3, 5, 5])
        self.assertIn("has no input \"dat\" to give a shape: its inputs are \"data\"",
                      self.refused(model, "--shape", "dat=1x3x5x5"))
        self.assertIn("the model says it has 4 dimensions", self.refused(model, "--shape", "data=1x3x5"))
        self.assertIn("write it like", self.refused(model, "--shape", "data=1x?x5x5"))
        self.assertIn("write it like", self.refused(model, "--shape", "1x3x5x5"))

    def test_an_open_input_that_no_convolution_needs(self):
        model = model_of([*self.NODES, helper.make_node("Neg", ["other"], ["z"])],
                         [value("data", [1, 3, 5, 5]), value("other", ["n"])],
                         [value("y", None), value("z", None)], [self.W])
        self.assertEqual(len(self.read(model)["layers"]), 1)


class BadModels(ImportTest):
    def bytes(self, content, name="bad.onnx"):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def test_missing_and_folder(self):
        self.assertIn("cannot be read: No such file", self.refused(self.folder / "none.onnx"))
        self.assertIn("cannot be read: Is a directory", self.refused(self.folder))

    def test_not_a_model(self):
        for content in (b"", b"this is text", bytes(range(256))):
            self.assertIn("is not an ONNX model, or is cut short", self.refused(self.bytes(content)))

    def test_cut_anywhere(self):
        whole = (LIGHT / "light_squeezenet.onnx").read_bytes()
        for part in (0.02, 0.3, 0.5, 0.9):
            self.assertIn("cut short", self.refused(self.bytes(whole[:int(len(whole) * part)])))

    def test_a_name_that_is_no_text(self):
        model = model_of([helper.make_node("Conv", ["x", "w"], ["y"], "a_name")], [value("x", [1, 1, 4])],
                         [value("y", None)], [tensor("w", [[[1]]])])
        self.refused(self.bytes(model.SerializeToString().replace(b"a_name", b"a\xff\xfeame")))

    def test_no_convolution(self):
        model = model_of([helper.make_node("Relu", ["x"], ["y"])], [value("x", [1])], [value("y", [1])])
        self.assertIn("has no convolution: skipped: Relu x1", self.refused(model))

    def test_an_answer_that_cannot_be_written(self):
        result = subprocess.run([sys.executable, SCRIPT, LIGHT / "light_squeezenet.onnx", "/nowhere/a.json"],
                                capture_output=True, text=True)
        self.assertEqual((result.returncode, "No such file" in result.stderr), (1, True))


class ExternalData(ImportTest):
    def model(self, location, length=16):
        weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1, 1, 4], data_location=TensorProto.EXTERNAL)
        for key, content in (("location", location), ("offset", "0"), ("length", str(length))):
            weights.external_data.add(key=key, value=content)
        model = model_of([helper.make_node("Conv", ["x", "w"], ["y"], "conv")], [value("x", [1, 1, 8])],
                         [value("y", None)], [weights])
        path = self.folder / "model" / "net.onnx"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(model.SerializeToString())
        return path

    def test_beside_the_model(self):
        path = self.model("data/weights.bin")
        (path.parent / "data").mkdir()
        np.arange(4, dtype=np.float32).tofile(path.parent / "data" / "weights.bin")
        layer, = self.read(path, "--weights", self.folder)["layers"]
        np.testing.assert_array_equal(np.load(layer["weights"]), [[[0, 1, 2, 3]]])

    def test_outside_is_refused(self):
        np.zeros(4, np.float32).tofile(self.folder / "secret")
        path = self.model("here")
        os.symlink(self.folder / "secret", path.parent / "here")
        self.assertIn('tensor "w" keeps its data in "here", outside the model\'s folder: refused', self.refused(path))
        for location in ("../secret", "/etc/hostname", "data/../../secret"):
            self.assertIn(f'"{location}", outside the model\'s folder: refused', self.refused(self.model(location)))

    def test_missing_or_short(self):
        self.assertIn('keeps its data in "weights.bin", which is not there', self.refused(self.model("weights.bin")))
        path = self.model("weights.bin", length=16)
        (path.parent / "weights.bin").write_bytes(b"1234")
        self.assertIn('tensor "w" cannot be read from its file', self.refused(path))


if __name__ == "__main__":
    unittest.main()
