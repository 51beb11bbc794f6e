"""Tests of tools/onnx_import: quantised models."""

import unittest

import numpy as np
import onnxruntime
import onnxruntime.quantization
from onnx import TensorProto, helper, numpy_helper
from onnx_importing import ImportTest
from onnx_models import model_of, qdq_model, random_tensor, tensor, value


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

    def test_weights_that_are_moved(self):
        """Between DequantizeLinear and the convolution, as from another framework's order of axes: the bytes are moved."""
        def moved(axis, scale, node, shape, *constants):
            model = qdq_model(w_scale=scale, w_zero_point=np.zeros(np.shape(scale), np.int8), axis=axis)
            number = next(place for place, item in enumerate(model.graph.initializer) if item.name == "wq")
            bytes_ = numpy_helper.to_array(model.graph.initializer[number])
            order = [2, 3, 1, 0] if node.op_type == "Transpose" else [0, 1, 2, 3]
            model.graph.initializer[number].CopyFrom(numpy_helper.from_array(bytes_.transpose(order).reshape(shape), "wq"))
            dequantize = next(item for item in model.graph.node if item.output[0] == "wf")
            dequantize.output[0], dequantize.attribute[0].i = "wm", order.index(axis)
            model.graph.node.insert(2, node)
            model.graph.initializer.extend(constants)
            return model

        turn = helper.make_node("Transpose", ["wm"], ["wf"], perm=[3, 2, 0, 1])
        shape = helper.make_node("Reshape", ["wm", "whole"], ["wf"])
        whole = numpy_helper.from_array(np.int64([4, 2, 3, 3]), "whole")
        # Of weights of 64 and less ONNX Runtime's pairs of products do not saturate by AVX2 without VNNI.
        each = [0.03, 0.025, 0.04, 0.035]
        for scale in (0.03, each):
            layer, _ = self.check(moved(0, scale, turn, [3, 3, 2, 4]))
            self.assertEqual((layer["w"], len(layer["quantization"]["w_scale"])), ([4, 2, 3, 3], np.size(scale)))
            layer, _ = self.check(moved(0, scale, shape, [4, 18], whole))
            self.assertEqual((layer["w"], len(layer["quantization"]["w_scale"])), ([4, 2, 3, 3], np.size(scale)))

    def test_what_keeps_it_float32(self):
        self.stays(qdq_model(w_scale=[0.1] * 3, w_zero_point=np.zeros(3, np.int8), axis=2),
                   "the weights are quantised along another axis than the output channels")
        self.stays(qdq_model(x_zero_point=np.uint16(3)), "its input is quantised to UINT16")
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

    def test_what_changes_channels_behind_it(self):
        """It becomes part of the weights' scales and the bias, where it leaves these above 0."""
        normalization = helper.make_node("BatchNormalization", ["c", "n1", "n2", "n3", "n4"], ["n"])
        numbers = [tensor("n1", [0.5, 2, 1, 3]), tensor("n2", [1, -2, 0, 0.5]), tensor("n3", [0.1, 0, -1, 1]),
                   tensor("n4", [1, 2, 0.5, 1])]
        behind = [normalization, helper.make_node("Relu", ["n"], ["a"])]
        each = {"w_scale": [0.02, 0.01, 0.015, 0.03], "w_zero_point": np.zeros(4, np.int8)}
        turned = {"op": "ConvTranspose", "w_shape": (4, 2, 3, 3), "group": 2, "w_scale": [0.02, 0.01], "axis": 1,
                  "w_zero_point": np.zeros(2, np.int8)}
        for models in ({}, {"bias": None}, each, turned):
            layer, notes = self.check(qdq_model(behind=behind, extra=numbers, **models))
            self.assertEqual((layer["activation"], len(layer["quantization"]["w_scale"])), ("Relu", 4))
            self.assertIn("the bias of conv is rounded to a multiple of x_scale * w_scale", notes)
        layer, _ = self.check(qdq_model(behind=[helper.make_node("Mul", ["c", "k"], ["a"])], extra=[tensor("k", 2)]))
        self.assertEqual(len(layer["quantization"]["w_scale"]), 4)
        outside = [qdq_model(behind=[helper.make_node("Mul", ["c", "k"], ["a"])], extra=[tensor("k", -2)]),
                   qdq_model(behind=behind, extra=numbers, y=False)]  # whose floats would tell that the bias is rounded
        for model in outside:
            layer, = self.read(model)["layers"]
            self.assertEqual((layer["dtype"], layer["quantization"]["y_dtype"], len(layer["quantization"]["w_scale"])),
                             ("uint8", "float32", 1))

    def test_sums_behind_it(self):
        """They are added to its floats by a node of their own; another layer takes them where it can."""
        behind = [helper.make_node("Add", ["c", "r"], ["a"])]
        model = qdq_model(behind=behind, extra=[tensor("r", np.ones((1, 4, 6, 6)))])
        layer, = self.read(model)["layers"]
        self.assertEqual((layer["quantization"]["y_dtype"], layer.get("residual")), ("float32", None))

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

    def dynamic(self, w_zero_point, **attributes):
        """A convolution as quantize_dynamic() writes it: DynamicQuantizeLinear, ConvInteger, and its factors behind."""
        constants = {"w": np.random.default_rng(3).integers(0, 256, (4, 2, 3, 3)).astype(w_zero_point.dtype),
                     "wz": w_zero_point, "ws": np.float32(0.01)}
        nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
                 helper.make_node("ConvInteger", ["q", "w", "z", "wz"], ["c"], "dynamic", **attributes),
                 helper.make_node("Cast", ["c"], ["f"], to=TensorProto.FLOAT), helper.make_node("Mul", ["s", "ws"], ["t"]),
                 helper.make_node("Mul", ["f", "t"], ["y"])]
        return model_of(nodes, [value("x", [1, 2, 6, 6])], [value("y", None)],
                        [numpy_helper.from_array(np.asarray(item), name) for name, item in constants.items()])

    def test_zero_points_that_the_model_computes(self):
        for points in (np.uint8(7), np.int8(0), np.array([3, 0, 255, 128], np.uint8)):
            layer, = self.read(self.dynamic(points), "--weights", self.folder)["layers"]
            self.assertEqual((layer["operator"], layer["dtype"], layer["x"]), ("ConvInteger", "uint8", [1, 2, 6, 6]))
            self.assertEqual(layer["quantization"], {
                "x_zero_point": "?", "w_zero_point": points.reshape(-1).tolist(), "w_dtype": points.dtype.name,
                "y_dtype": "int32"})

    def test_weights_whose_zero_points_the_model_computes(self):
        nodes = [helper.make_node("DynamicQuantizeLinear", ["v"], ["w", "s", "wz"]),
                 helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], "conv")]
        model = model_of(nodes, [value("x", [1, 2, 4], TensorProto.UINT8), value("v", [3, 2, 1])],
                         [value("y", None, TensorProto.INT32)], [numpy_helper.from_array(np.uint8(1), "xz")])
        failure, = self.read(model)["failures"]
        self.assertEqual((failure["code"], failure["message"]),
                         ("unsupported", 'its w_zero_point "wz" is not a constant, but weights are packed with theirs'))

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


if __name__ == "__main__":
    unittest.main()
