"""Tests of tools/onnx_import: open shapes, damaged models, weights in other files."""

import os
import subprocess
import sys
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx_importing import LIGHT, SCRIPT, ImportTest
from onnx_models import model_of, tensor, value


class Shapes(ImportTest):
    NODES = [helper.make_node("Conv", ["data", "w"], ["c"], "conv"), helper.make_node("Relu", ["c"], ["y"])]
    W = tensor("w", np.ones((2, 3, 1, 1)))

    def model(self, shape):
        return model_of(self.NODES, [value("data", shape)], [value("y", None)], [self.W])

    def test_symbols_are_left_open(self):
        answer = self.read(self.model(["batch", 3, "h", None]))
        self.assertEqual(answer["layers"][0]["x"], ["?", 3, "?", "?"])
        self.assertIn('sizes of x are left to run time in 1 of 1 layers, which costs speed; input "data" has '
                      "[batch, 3, h, ?]; give it one, for example --shape data=1x3x224x224", answer["notes"])

    def test_no_shape_at_all(self):
        answer = self.read(self.model(None))
        self.assertEqual(answer["layers"][0]["x"], ["?", 3, "?", "?"])  # as the weights say
        self.assertIn('input "data" has no shape; give it one', "\n".join(answer["notes"]))

    def test_sizes_left_open_by_the_user(self):
        for shape in (["batch", 3, "h", None], None, [8, 3, 7, 7]):
            answer = self.read(self.model(shape), "--shape", "data=1x3x?x5")
            self.assertEqual(answer["layers"][0]["x"], [1, 3, "?", 5])
            self.assertIn("sizes of x are left to run time in 1 of 1 layers, which costs speed", answer["notes"])

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
        self.assertIn("write it like", self.refused(model, "--shape", "data=1x??x5x5"))
        self.assertIn("write it like", self.refused(model, "--shape", "1x3x5x5"))
        self.assertIn("write it like", self.refused(model, "--shape", "data=1x3x5x99999999999999999999"))

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


class UnusualModels(ImportTest):
    W = tensor("w", np.ones((4, 4, 3, 3)))

    def conv(self, x, y, w="w", name=""):
        return helper.make_node("Conv", [x, w], [y], name or y, pads=[1, 1, 1, 1])

    def model(self, nodes, initializers=(), x=(1, 4, 8, 8)):
        return model_of(nodes, [value("x", x)], [value(nodes[-1].output[0], None)], [self.W, *initializers])

    def test_ten_thousand_nodes(self):
        nodes = [self.conv("x", "v0", name="свёртка")]
        for number in range(1, 5000):
            operator = self.conv if number % 10 == 0 else lambda x, y: helper.make_node("Relu", [x], [y])
            nodes.append(operator(f"v{number - 1}", f"v{number}"))
        # Constants that are made of each other, and a convolution by the last of them.
        weights = [helper.make_node("Neg", ["w" if number == 0 else f"w{number}"], [f"w{number + 1}"])
                   for number in range(5001)]
        model = self.model([*weights, *nodes, self.conv("v4999", "y", "w5001")])
        layers = self.read(model, "--weights", self.folder)["layers"]
        self.assertEqual(len(layers), 501)
        self.assertEqual(np.load(layers[-1]["weights"]).max(), -1)

    def test_names_of_other_scripts(self):
        model = model_of([self.conv("вход", "выход", "вес", "свёртка"), self.conv("выход", "出力", "вес", "畳み込み")],
                         [value("вход", [1, 4, "высота", 8])], [value("出力", None)],
                         [tensor("вес", np.ones((4, 4, 3, 3)))])
        path = self.save(model, "сеть.onnx")
        self.assertIn('input "вход" has [1, 4, высота, 8]', "\n".join(self.read(path)["notes"]))
        answer = self.read(path, "--shape", "вход=1x4x8x8", "--weights", self.folder)
        self.assertEqual([layer["name"] for layer in answer["layers"]], ["layer", "layer_2"])
        self.assertIn('"свёртка" to layer', "\n".join(answer["notes"]))
        self.assertEqual(answer["name"], "model")

    def test_what_crashes_the_inference_of_the_onnx_package(self):
        """As its release 1.23 does on a ConvInteger without shapes: the other layers are there all the same."""
        nodes = [helper.make_node("RegexFullMatch", ["", "x", ""], ["a"]),
                 helper.make_node("ConvInteger", ["a", "number", "point"], ["b"], "bad", pads=[1, 1, 1, 1]),
                 self.conv("x", "y", name="good")]
        constants = [onnx.numpy_helper.from_array(np.int64(5), "number"), onnx.numpy_helper.from_array(np.uint8(3), "point")]
        model = self.model(nodes, constants)
        model.opset_import[0].version = 21
        answer = self.read(model)
        self.assertEqual([layer["name"] for layer in answer["layers"]], ["good"])
        self.assertEqual([failure["layer"] for failure in answer["failures"]], ["bad"])

    def test_constants_that_are_no_tensors(self):
        nodes = [helper.make_node("SplitToSequence", ["w"], ["parts"]), self.conv("x", "y", "parts", "bad"), self.conv("x", "z")]
        answer = self.read(self.model(nodes), "--weights", self.folder)
        self.assertEqual([failure["layer"] for failure in answer["failures"]], ["bad"])

    def test_sparse_tensors(self):
        """By indices that count all elements, and by those of each axis."""
        dense = np.zeros((2, 1, 3), np.float32)
        dense[0, 0, 1], dense[1, 0, 2] = 3, -4
        places = np.argwhere(dense)
        for indices in (np.flatnonzero(dense), places):
            sparse = helper.make_sparse_tensor(onnx.numpy_helper.from_array(dense[dense != 0], "w"),
                                               onnx.numpy_helper.from_array(indices.astype(np.int64), "places"), dense.shape)
            stored = model_of([helper.make_node("Conv", ["x", "w"], ["y"])], [value("x", [1, 1, 4])], [value("y", None)], [])
            stored.graph.sparse_initializer.append(sparse)
            made = model_of([helper.make_node("Constant", [], ["w"], sparse_value=sparse), helper.make_node("Conv", ["x", "w"], ["y"])],
                            [value("x", [1, 1, 4])], [value("y", None)], [])
            for model in (stored, made):
                layer, = self.read(model, "--weights", self.folder)["layers"]
                self.assertEqual(np.load(layer["weights"]).tolist(), dense.tolist())
        sparse.indices.CopyFrom(onnx.numpy_helper.from_array(places.astype(np.int64) + 2, "places"))
        made.graph.node[0].attribute[0].sparse_tensor.CopyFrom(sparse)
        self.assertIn('sparse tensor "w" makes no sense', self.refused(made))

    def test_nodes_in_a_circle(self):
        add = helper.make_node("Add", ["a", "c"], ["b"], "add")
        circles = {
            '"add", "conv"': [add, self.conv("b", "c", name="conv"), helper.make_node("Neg", ["x"], ["a"])],
            '"relu"': [helper.make_node("Relu", ["y"], ["y"], "relu"), self.conv("y", "z")],
            '"p", "q"': [helper.make_node("Neg", ["q"], ["p"]), helper.make_node("Neg", ["p"], ["q"]),
                         self.conv("x", "y", "q")],
        }
        for names, nodes in circles.items():
            message = self.refused(self.model(nodes))
            self.assertIn("its nodes need each other's results in a circle: ", message)
            self.assertEqual(sorted(message.strip().split("circle: ")[1].split(", ")), names.split(", "))
        out_of_order = [self.conv("a", "b"), self.conv("x", "a")]
        self.assertEqual(len(self.read(self.model(out_of_order))["layers"]), 2)

    def test_tensors_of_2_31_elements(self):
        huge = TensorProto(name="huge", data_type=TensorProto.FLOAT, dims=[1 << 16, 1 << 13, 2, 2])
        shape = onnx.numpy_helper.from_array(np.array(huge.dims), "shape")
        nodes = [self.conv("x", "small"), self.conv("x", "stated", "huge"),
                 helper.make_node("ConstantOfShape", ["shape"], ["made"]), self.conv("x", "computed", "made")]
        answer = self.read(self.model(nodes, [huge, shape]), "--weights", self.folder)
        self.assertEqual([layer["name"] for layer in answer["layers"]], ["small"])
        for failure, name in zip(answer["failures"], ("huge", "made"), strict=True):
            self.assertEqual(failure["message"], f'constant "{name}" of shape [65536, 8192, 2, 2] is too large')
        # As an input it is nothing special here: the kernels' generators say what they cannot do.
        layer, = self.read(self.model([self.conv("x", "y")], x=(1, 4, 1 << 15, 1 << 14)))["layers"]
        self.assertEqual(layer["x"], [1, 4, 32768, 16384])


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
        (self.folder / "other").mkdir()
        np.zeros(4, np.float32).tofile(self.folder / "other" / "data")
        os.symlink(self.folder / "other", path.parent / "folder")
        self.assertIn("outside the model's folder: refused", self.refused(self.model("folder/data")))
        for location in ("../secret", "/etc/hostname", "data/../../secret"):
            self.assertIn(f'"{location}", outside the model\'s folder: refused', self.refused(self.model(location)))

    def test_missing_or_short(self):
        self.assertIn('keeps its data in "weights.bin", which is not there', self.refused(self.model("weights.bin")))
        path = self.model("weights.bin", length=16)
        (path.parent / "weights.bin").write_bytes(b"1234")
        self.assertIn('tensor "w" cannot be read from its file', self.refused(path))


if __name__ == "__main__":
    unittest.main()
