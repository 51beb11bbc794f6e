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
