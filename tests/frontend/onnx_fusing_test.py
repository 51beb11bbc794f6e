"""Tests of tools/onnx_import: which nodes around a convolution become part of its layer."""

import unittest

import numpy as np
import onnx.compose
from onnx import TensorProto, helper, numpy_helper
from onnx_importing import ImportTest
from onnx_models import model_of, random_tensor, tensor, value
from onnx.reference import ReferenceEvaluator


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

    def outside(self, op, reason):
        """That the notes are of one node of this kind, and say why it stays outside."""
        self.assertEqual(self.notes[0], f"the {op} behind conv stays outside: {reason}")
        self.assertRegex(self.notes[-1], f"^skipped: .*{op} x1")

    def test_the_value_is_an_output_too(self):
        layer = self.layer([helper.make_node("Relu", ["c"], ["y"])], outputs=("c", "y"))
        self.assertNotIn("activation", layer)
        self.outside("Relu", "the value in front of it is an output of the model")

    def test_two_readers(self):
        layer = self.layer([helper.make_node("Relu", ["c"], ["y"]), helper.make_node("Round", ["c"], ["z"])], ("y", "z"))
        self.assertNotIn("activation", layer)
        self.outside("Relu", "the value in front of it is read 2 times, by Relu, Round")

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
        self.outside("Add", "its values have the shapes [1, 4, 5, 5] and [1, 4, 1, 1], and a residual has the result's")
        self.layer([helper.make_node("Add", ["c", "r"], ["y"])], inputs=[value("r", ["n", 4, 5, 5])])
        self.outside("Add", "whether both values have one shape is not known before it runs")

    def test_sum_behind_relu(self):
        layer = self.layer([helper.make_node("Relu", ["c"], ["a"]), helper.make_node("Add", ["a", "r"], ["y"])],
                           inputs=[value("r", [1, 4, 5, 5])])
        self.assertEqual(layer["activation"], "Relu")
        self.assertNotIn("residual", layer)
        self.assertIn("the Add behind conv stays outside: it is behind an activation, which is the last that a layer does",
                      self.notes)

    def test_squeeze_and_excite(self):
        """Channels scaled by what is pooled of the same result; by what comes from elsewhere; and by constants."""
        nodes = [helper.make_node("GlobalAveragePool", ["c"], ["p"]), helper.make_node("Conv", ["p", "w"], ["g"], "gate"),
                 helper.make_node("HardSigmoid", ["g"], ["s"]), helper.make_node("Mul", ["c", "s"], ["y"])]
        self.layer(nodes)
        self.assertIn("the Mul behind conv stays outside: it scales channels by what is computed from the same result "
                      "(a GlobalAveragePool): the whole of it must be there before the first pixel can be scaled", self.notes)
        self.layer([helper.make_node("Mul", ["c", "r"], ["y"])], inputs=[value("r", [1, 4, 1, 1])])
        self.outside("Mul", "its other value is not a constant")
        self.layer([helper.make_node("Mul", ["c", "k"], ["y"])], initializers=[tensor("k", np.ones((4, 1, 1)))])
        self.assertEqual(self.notes, ["folded: Mul x1"])

    def test_factors_that_differ_within_a_channel(self):
        for shape in ((4, 5, 5), (1, 1, 1, 5), (5, 1), (1, 1, 4, 1, 1)):
            layer = self.layer([helper.make_node("Mul", ["c", "k"], ["y"])], initializers=[tensor("k", np.ones(shape))])
            self.assertNotIn("bias", layer)
            self.outside("Mul", "its constant differs within a channel")

    def test_factors_that_are_not_constants(self):
        self.layer([helper.make_node("Mul", ["c", "k"], ["y"])], inputs=[value("k", [1, 4, 1, 1])])
        self.outside("Mul", "its other value is not a constant")

    def test_one_divided_by_it(self):
        self.layer([helper.make_node("Div", ["k", "c"], ["y"])], initializers=[tensor("k", 1)])
        self.outside("Div", "it divides by the result")

    def test_division_by_zero(self):
        self.layer([helper.make_node("Div", ["c", "k"], ["y"])], initializers=[tensor("k", 0)])
        self.assertIn("the Div behind conv stays outside: its factors are not all finite", self.notes)

    def test_second_sum(self):
        sums = [helper.make_node("Add", ["c", "r"], ["a"]), helper.make_node("Add", ["a", "r"], ["y"])]
        self.assertTrue(self.layer(sums, inputs=[value("r", [1, 4, 5, 5])])["residual"])
        self.assertIn("the Add behind conv stays outside: the layer has a residual already", self.notes)
        scaled = [sums[0], helper.make_node("Mul", ["a", "k"], ["y"])]
        self.layer(scaled, inputs=[value("r", [1, 4, 5, 5])], initializers=[tensor("k", 2)])
        self.assertIn("the Mul behind conv stays outside: it is behind the residual sum, behind which a layer has an "
                      "activation only", self.notes)

    def test_clip_with_bounds_that_are_not_constants(self):
        self.assertNotIn("activation", self.layer([helper.make_node("Clip", ["c", "low"], ["y"])],
                                                  inputs=[value("low", [])]))
        self.outside("Clip", "its parameters are not constant numbers")

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
        nodes = {"Relu": [], "LeakyRelu": [0.01], "Tanh": [], "Sigmoid": [], "HardSigmoid": [0.2, 0.5], "HardSwish": [],
                 "Swish": [1], "Gelu": [], "Mish": [], "Elu": [1], "Softplus": []}
        for op, parameters in nodes.items():
            layer = self.fused(helper.make_node(op, ["c"], ["y"]))
            self.assertEqual((layer["activation"], layer.get("activation_params", [])), (op, parameters))
        layer = self.fused(helper.make_node("LeakyRelu", ["c"], ["y"], alpha=0.25))
        self.assertEqual(layer["activation_params"], [0.25])
        layer = self.fused(helper.make_node("HardSigmoid", ["c"], ["y"], alpha=0.125, beta=0.75))
        self.assertEqual(layer["activation_params"], [0.125, 0.75])
        self.assertEqual(self.fused(helper.make_node("Swish", ["c"], ["y"], alpha=1.5))["activation_params"], [1.5])
        self.assertEqual(self.fused(helper.make_node("Gelu", ["c"], ["y"], approximate="tanh"))["activation"], "GeluTanh")
        self.assertEqual(self.fused(helper.make_node("Gelu", ["c"], ["y"], approximate="none"))["activation"], "Gelu")

    def slopes(self, *shape, channels=3, opset=16):
        """The layer and the answer of a convolution to 3 channels with a PRelu of such slopes behind it."""
        slopes = tensor("k", np.arange(1, np.prod(shape, dtype=int) + 1).reshape(shape) / 8)
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), helper.make_node("PRelu", ["c", "k"], ["y"])]
        answer = self.read(model_of(nodes, [value("x", [1, 2, 4, channels])], [value("y", None)],
                                    [tensor("w", np.ones((channels, 2, 1, 1))), slopes], opset=opset))
        return answer["layers"][0], answer

    def test_prelu_of_a_slope_for_each_channel(self):
        for shape in ([3, 1, 1], [1, 3, 1, 1]):
            layer, answer = self.slopes(*shape)
            self.assertEqual((layer["activation"], layer["activation_params"]), ("PRelu", [0.125, 0.25, 0.375]))
            self.assertIn("fused: PRelu x1", answer["notes"])
        for shape in ([], [1], [1, 1, 1, 1]):
            self.assertEqual(self.slopes(*shape)[0]["activation"], "LeakyRelu")

    def test_prelu_of_other_slopes_stays_outside(self):
        for shape in ([3], [4, 3], [3, 4, 1]):  # along a row, for each position, for each row
            layer, answer = self.slopes(*shape)
            self.assertNotIn("activation", layer)
            self.assertTrue([note for note in answer["notes"] if "PRelu" in note])

    def fused(self, node):
        layer, = self.read(model_of([helper.make_node("Conv", ["x", "w"], ["c"], "conv"), node],
                                    [value("x", [1, 1, 4])], [value("y", None)], [tensor("w", [[[1]]])],
                                    opset=24))["layers"]
        return layer

    # What several nodes are: (operator, inputs) that make v0, v1, and so on of c; a number is a constant.
    FORMS = {
        "Clip [0, 6]": [[("Max", "c", 0), ("Min", "v0", 6)], [("Min", 6, "c"), ("Max", "v0", 0)],
                        [("Relu", "c"), ("Min", "v0", 6)]],
        "LeakyRelu [0.25]": [[("Mul", "c", 0.25), ("Max", "c", "v0")], [("PRelu", "c", 0.25)]],
        "Sigmoid []": [[("Neg", "c"), ("Exp", "v0"), ("Add", "v1", 1), ("Div", 1, "v2")]],
        "HardSigmoid [0.25, 0.75]": [
            [("Add", "c", 3), ("Clip", "v0", 0, 4), ("Div", "v1", 4)],
            [("Add", 3, "c"), ("Clip", "v0", 0, 4), ("Mul", 0.25, "v1")],
            [("Mul", "c", 0.25), ("Add", "v0", 0.75), ("Clip", "v1", 0, 1)],
            [("Div", "c", 4), ("Add", "v0", 0.75), ("Clip", "v1", 0, 1)],
            [("Add", "c", 3), ("Mul", "v0", 0.25), ("Clip", "v1", 0, 1)],
            [("Add", "c", 3), ("Div", "v0", 4), ("Clip", "v1", 0, 1)],
            [("Add", "c", 3), ("Max", "v0", 0), ("Min", "v1", 4), ("Div", "v2", 4)]],
        "HardSwish []": [
            [("HardSigmoid", "c"), ("Mul", "c", "v0")],
            [("Add", "c", 3), ("Clip", "v0", 0, 6), ("Mul", "c", "v1"), ("Div", "v2", 6)],
            [("Add", "c", 3), ("Clip", "v0", 0, 6), ("Div", "v1", 6), ("Mul", "v2", "c")],
            [("Add", "c", 3), ("Relu", "v0"), ("Min", "v1", 6), ("Mul", "v2", 1 / 6), ("Mul", "c", "v3")],
            [("Add", 3, "c"), ("Clip", "v0", 0, 6), ("Mul", "v1", "c"), ("Mul", "v2", 1 / 6)],
            [("Add", 3, "c"), ("Clip", "v0", 0, 6), ("Mul", "c", 1 / 6), ("Mul", "v1", "v2")],
            [("Add", 3, "c"), ("Clip", "v0", 0, 6), ("Div", "c", 6), ("Mul", "v1", "v2")]],
        "Swish [1]": [
            [("Sigmoid", "c"), ("Mul", "c", "v0")], [("Sigmoid", "c"), ("Mul", "v0", "c")],
            [("Neg", "c"), ("Exp", "v0"), ("Add", "v1", 1), ("Div", 1, "v2"), ("Mul", "c", "v3")]],
        "Swish [1.5]": [[("Mul", "c", 1.5), ("Sigmoid", "v0"), ("Mul", "c", "v1")]],
        "Mish []": [
            [("Softplus", "c"), ("Tanh", "v0"), ("Mul", "c", "v1")],
            [("Exp", "c"), ("Add", "v0", 1), ("Log", "v1"), ("Tanh", "v2"), ("Mul", "v3", "c")]],
        "Softplus []": [
            [("Exp", "c"), ("Add", "v0", 1), ("Log", "v1")],
            [("Abs", "c"), ("Neg", "v0"), ("Exp", "v1"), ("Add", 1, "v2"), ("Log", "v3"), ("Relu", "c"), ("Add", "v5", "v4")]],
        "Elu [1]": [
            [("Greater", "c", 0), ("Exp", "c"), ("Sub", "v1", 1), ("Where", "v0", "c", "v2")],
            [("Relu", "c"), ("Min", "c", 0), ("Exp", "v1"), ("Add", "v2", -1), ("Add", "v0", "v3")],
            [("Relu", "c"), ("Exp", "c"), ("Sub", "v1", 1), ("Min", "v2", 0), ("Add", "v0", "v3")]],
        "Elu [0.5]": [
            [("Less", "c", 0), ("Exp", "c"), ("Sub", "v1", 1), ("Mul", "v2", 0.5), ("Where", "v0", "v3", "c")],
            [("Relu", "c"), ("Min", 0, "c"), ("Exp", "v1"), ("Sub", "v2", 1), ("Mul", 0.5, "v3"), ("Add", "v4", "v0")],
            [("Relu", "c"), ("Exp", "c"), ("Sub", "v1", 1), ("Mul", "v2", 0.5), ("Min", "v3", 0), ("Add", "v0", "v4")]],
        "Gelu []": [
            [("Div", "c", 2**0.5), ("Erf", "v0"), ("Add", "v1", 1), ("Mul", "c", "v2"), ("Mul", "v3", 0.5)],
            [("Mul", "c", 0.5**0.5), ("Erf", "v0"), ("Add", "v1", 1), ("Mul", "c", 0.5), ("Mul", "v3", "v2")],
            [("Div", "c", 2**0.5), ("Erf", "v0"), ("Add", 1, "v1"), ("Mul", 0.5, "v2"), ("Mul", "c", "v3")],
            [("Div", "c", 2**0.5), ("Erf", "v0"), ("Add", 1, "v1"), ("Div", "v2", 2), ("Mul", "c", "v3")],
            [("Div", "c", 2**0.5), ("Erf", "v0"), ("Mul", 0.5, "v1"), ("Add", "v2", 0.5), ("Mul", "c", "v3")]],
        "GeluTanh []": [
            [("Pow", "c", 3), ("Mul", "v0", 0.044715), ("Add", "c", "v1"), ("Mul", "v2", (2 / np.pi) ** 0.5),
             ("Tanh", "v3"), ("Add", "v4", 1), ("Mul", "c", "v5"), ("Mul", "v6", 0.5)],
            [("Mul", "c", "c"), ("Mul", "c", "v0"), ("Mul", 0.044715, "v1"), ("Add", "c", "v2"),
             ("Mul", "v3", (2 / np.pi) ** 0.5), ("Tanh", "v4"), ("Add", "v5", 1), ("Mul", "c", 0.5), ("Mul", "v7", "v6")]],
    }

    def form(self, steps):
        """A model of a convolution that passes x on, with these steps behind it."""
        nodes, constants = [helper.make_node("Conv", ["x", "w"], ["c"], "conv")], [tensor("w", [[[1]]])]
        for place, (op, *inputs) in enumerate(steps):
            names = [item if isinstance(item, str) else f"k{place}_{index}" for index, item in enumerate(inputs)]
            constants += [tensor(name, item) for name, item in zip(names, inputs) if not isinstance(item, str)]
            more = {"alpha": 1 / 6, "beta": 0.5} if op == "HardSigmoid" else {}
            nodes.append(helper.make_node(op, names, [f"v{place}"], **more))
        return model_of(nodes, [value("x", [1, 1, 64])], [value(nodes[-1].output[0], None)], constants)

    def read_forms(self, forms):
        """The answer for all of these in one model, whose layers have the forms' order."""
        graphs = [onnx.compose.add_prefix(self.form(steps), f"form{number}_").graph for number, steps in enumerate(forms)]
        every = [[item for graph in graphs for item in getattr(graph, kind)]
                 for kind in ("node", "input", "output", "initializer")]
        return self.read(model_of(*every))

    def check_values(self, layer, model):
        """That the activation's own operator computes what the model does."""
        names = {"LeakyRelu": ["alpha"], "HardSigmoid": ["alpha", "beta"], "Swish": ["alpha"],
                 "Elu": ["alpha"]}.get(layer["activation"], [])
        variant = {"approximate": "tanh"} if layer["activation"] == "GeluTanh" else {}
        parameters = layer.get("activation_params", [])
        constants = [] if names else [tensor(f"p{index}", number) for index, number in enumerate(parameters)]
        node = helper.make_node(layer["activation"].removesuffix("Tanh") or "Tanh",
                                ["x", *(item.name for item in constants)], ["y"], **dict(zip(names, parameters)), **variant)
        own = model_of([node], [value("x", [1, 1, 64])], [value("y", None)], constants, opset=24)
        x = np.linspace(-9, 9, 64, dtype=np.float32).reshape(1, 1, 64)
        got, expected = (ReferenceEvaluator(model).run(None, {"x": x})[0] for model in (own, model))
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)

    def test_forms_of_several_nodes(self):
        forms = [(expected, steps) for expected, all_steps in self.FORMS.items() for steps in all_steps]
        answer = self.read_forms([steps for _, steps in forms])
        self.assertFalse([note for note in answer["notes"] if "skipped" in note or "folded" in note])
        for (expected, steps), layer in zip(forms, answer["layers"], strict=True):
            with self.subTest(steps):
                parameters = [round(number, 6) for number in layer.get("activation_params", [])]
                self.assertEqual(f"{layer.get('activation')} {parameters}".replace(".0", ""), expected)
                self.check_values(layer, self.form(steps))

    def test_forms_with_other_numbers(self):
        answer = self.read_forms([
            [("Add", "c", 3), ("Clip", "v0", 0, 6), ("Mul", "c", "v1"), ("Div", "v2", 5)],
            [("Add", "c", 2), ("Clip", "v0", 0, 6), ("Mul", "c", "v1"), ("Div", "v2", 6)],
            [("Mul", "c", 1.5), ("Max", "c", "v0")], [("Exp", "c"), ("Add", "v0", 1), ("Div", 1, "v1")],
            [("Exp", "c"), ("Add", "v0", 2), ("Log", "v1")],
            [("Greater", "c", 1), ("Exp", "c"), ("Sub", "v1", 1), ("Where", "v0", "c", "v2")],
            # The sum goes into the bias, Clip is the activation, and the division stays.
            [("Add", "c", 3), ("Clip", "v0", 0, 6), ("Div", "v1", 5)]])
        self.assertEqual([layer.get("activation") for layer in answer["layers"]], [None] * 6 + ["Clip"])
        self.assertIn("folded: Add x1", answer["notes"])

    def test_what_several_nodes_compute_is_read_elsewhere(self):
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), helper.make_node("Add", ["c", "three"], ["a"]),
                 helper.make_node("Clip", ["a", "zero", "six"], ["b"]), helper.make_node("Mul", ["c", "b"], ["m"]),
                 helper.make_node("Div", ["m", "six"], ["y"])]
        constants = [tensor("w", [[[1]]]), tensor("zero", 0), tensor("three", 3), tensor("six", 6)]
        for extra, output in (([helper.make_node("Neg", ["b"], ["z"])], "z"), ([helper.make_node("Neg", ["c"], ["z"])], "z"),
                              ([], "m")):
            layer, = self.read(model_of([*nodes, *extra], [value("x", [1, 1, 4])],
                                        [value("y", None), value(output, None)], constants))["layers"]
            self.assertNotIn("activation", layer)

    def test_copies_in_between(self):
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), helper.make_node("Identity", ["c"], ["i"]),
                 helper.make_node("Dropout", ["i"], ["d", "mask"]), helper.make_node("Relu", ["d"], ["y"])]
        inputs, w = [value("x", [1, 1, 4])], tensor("w", [[[1]]])
        answer = self.read(model_of(nodes, inputs, [value("y", None)], [w]))
        self.assertEqual(answer["layers"][0]["activation"], "Relu")
        self.assertIn("left out, being copies: Identity x1, Dropout x1", answer["notes"])
        answer = self.read(model_of(nodes, inputs, [value("y", None), value("mask", None)], [w]))
        self.assertNotIn("activation", answer["layers"][0])
        training = numpy_helper.from_array(np.array(True), "t")
        nodes[2] = helper.make_node("Dropout", ["i", "", "t"], ["d"])
        answer = self.read(model_of(nodes, inputs, [value("y", None)], [w, training]))
        self.assertNotIn("activation", answer["layers"][0])

    def test_others_stay_outside(self):
        answer = self.read(model_of([helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
                                     helper.make_node("Softsign", ["c"], ["y"])],
                                    [value("x", [1, 1, 4])], [value("y", None)], [tensor("w", [[[1]]])]))
        self.assertNotIn("activation", answer["layers"][0])
        self.assertIn("the Softsign behind conv stays outside: Kiln has no such activation", answer["notes"])

    def test_reasons_name_few_layers(self):
        nodes = []
        for i in range(5):
            nodes += [helper.make_node("Conv", ["x", "w"], [f"c{i}"], f"conv{i}"),
                      helper.make_node("Softsign", [f"c{i}"], [f"y{i}"])]
        answer = self.read(model_of(nodes, [value("x", [1, 1, 4])], [value(f"y{i}", None) for i in range(5)],
                                    [tensor("w", [[[1]]])]))
        self.assertIn("the Softsign behind conv0, conv1, conv2 and 2 more stays outside: Kiln has no such activation",
                      answer["notes"])


if __name__ == "__main__":
    unittest.main()
