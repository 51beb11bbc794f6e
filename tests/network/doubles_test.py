"""Whose a difference is, by the model in doubles: what the reference rounds is told, what the network does wrong is a failure."""

import pathlib
import sys
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/frontend"), str(ROOT / "tests/kernels"), str(ROOT / "tools/onnx_import")]
import network_doubles  # noqa: E402
from models import Builder  # noqa: E402
from network_testing import NetworkTest  # noqa: E402
from network_values import compared  # noqa: E402
from onnx_models import model_of, value  # noqa: E402

node = helper.make_node
RNG = np.random.default_rng(5)


class Off:
    """A reference that computes x * x, off by what is given."""

    def __init__(self, error, has_doubles=True):
        self.error, self.has_doubles = np.float32(error), has_doubles

    def run(self, inputs, names):
        return {name: inputs["x"] ** 2 + self.error for name in names}

    def in_doubles(self, inputs, names):
        return {name: inputs["x"].astype(np.float64) ** 2 for name in names} if self.has_doubles else {}


class Judgement(unittest.TestCase):
    X = np.linspace(-1, 1, 7, dtype=np.float32)

    def judged(self, reference, ours):
        return compared(reference, {"x": self.X}, {"y": ours}, 1e-4)[0]

    def test_the_reference_is_off(self):
        row = self.judged(Off(0.01), self.X**2)
        self.assertEqual(row.row()["verdict"], "ok")
        self.assertAlmostEqual(row.row()["reference_error"], 0.01, 6)
        self.assertLess(row.row()["error"], 1e-6)
        self.assertIn("ok: it differs by 0.01, its largest value is 1.01; beside the model in doubles it is off by", row.text())

    def test_the_network_is_off(self):
        row = self.judged(Off(0), self.X**2 + np.float32(0.01))
        self.assertIn("failed: it differs by 0.01", row.row()["verdict"])
        self.assertIn("off by 0.01, the reference by", row.row()["verdict"])

    def test_both_are_off(self):
        """The network may be no further off than the reference."""
        self.assertTrue(self.judged(Off(0.02), self.X**2 - np.float32(0.01)).is_ok())
        self.assertFalse(self.judged(Off(0.01), self.X**2 - np.float32(0.02)).is_ok())

    def test_nobody_is(self):
        row = self.judged(Off(1e-6), self.X**2)
        self.assertTrue(row.is_ok())
        self.assertNotIn("error", row.row())

    def test_no_doubles(self):
        self.assertFalse(self.judged(Off(0.01, has_doubles=False), self.X**2).is_ok())

    def test_infinities(self):
        ours = self.X**2
        ours[0] = np.inf
        self.assertFalse(self.judged(Off(np.inf), ours).is_ok())


class Doubles(NetworkTest):
    def test_all_floats_are(self):
        """Constants of every kind, types that nodes name, and the bodies of branches: compared with NumPy's own doubles."""
        third = np.float32(1 / 3)
        body = lambda name, *nodes: helper.make_graph(list(nodes), name, [],
                                                      [helper.make_empty_tensor_value_info(nodes[-1].output[0])])
        nodes = [node("Constant", [], ["a"], value=numpy_helper.from_array(np.float32([1 / 3]))),
                 node("Constant", [], ["b"], value_float=1 / 3), node("Constant", [], ["c"], value_floats=[1 / 3, 1 / 3]),
                 node("Constant", [], ["shape"], value_ints=[2]), node("ConstantOfShape", ["shape"], ["zeros"]),
                 node("Cast", ["n"], ["f"], to=TensorProto.FLOAT), node("Cast", ["h"], ["g"], to=TensorProto.FLOAT),
                 *(node("Add" if place else "Mul", ["x" if place == 0 else f"s{place - 1}", name], [f"s{place}"])
                   for place, name in enumerate(["a", "b", "c", "zeros", "f", "g", "w"])),
                 node("If", ["flag"], ["y"], then_branch=body("then", node("Constant", [], ["d"], value_float=1 / 3),
                                                              node("Add", ["s6", "d"], ["then/y"])),
                      else_branch=body("else", node("Neg", ["s6"], ["else/y"])))]
        w = np.float16([0.1, 0.2])
        model = model_of(nodes, [value("x", [2]), value("n", [2], TensorProto.INT64), value("h", [2], TensorProto.FLOAT16),
                                 value("flag", [], TensorProto.BOOL)], [value("y", [2])],
                         [numpy_helper.from_array(w.astype(np.float32), "w")])
        inputs = {"x": np.float32([0.7, -1.3]), "n": np.int64([3, 4]), "h": np.float16([0.3, 0.6]), "flag": np.array(True)}
        y = network_doubles.evaluate(model, inputs, ["y"])["y"]
        self.assertEqual(y.dtype, np.float64)
        thirds = np.float64(third)
        wanted = inputs["x"].astype(np.float64) * thirds + 3 * thirds + inputs["n"] + inputs["h"].astype(np.float64) + w
        np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-15)

    def test_a_network_in_doubles(self):
        """A model with convolutions, pools and normalisations: doubles are as near floats as these may be, and no nearer."""
        b = Builder()
        b.channels["x"] = 3
        y = b.node("Relu", b.norm(b.conv("x", 8, 3, 2)))
        y = b.node("Sigmoid", b.conv(b.node("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]), 8))
        model = b.model({"x": [1, 3, 16, 16]}, {y: [1, 8, 4, 4]})
        inputs = {"x": RNG.standard_normal([1, 3, 16, 16]).astype(np.float32)}
        exact = network_doubles.evaluate(model, inputs, [y])[y]
        floats = onnx.reference.ReferenceEvaluator(model).run(None, inputs)[0]
        error = np.abs(exact - floats).max()
        self.assertGreater(error, 0)
        self.assertLess(error, 1e-5)

    def test_normalisation_of_older_versions(self):
        """By the mean and variance that the model has, whatever momentum its nodes say."""
        parameters = {name: RNG.uniform(0.5, 2, 3).astype(np.float32) for name in ("scale", "bias", "mean", "var")}
        x = RNG.standard_normal([2, 3, 4, 5]).astype(np.float32)
        scale, bias, mean, var = (each.astype(np.float64).reshape(1, 3, 1, 1) for each in parameters.values())
        wanted = scale * (x - mean) / np.sqrt(var + np.float32(1e-3)) + bias
        constants = [numpy_helper.from_array(array, name) for name, array in parameters.items()]
        for opset in (7, 9, 13, 14, 15):
            nodes = [node("BatchNormalization", ["x", *parameters], ["y"], epsilon=1e-3, momentum=0.9)]
            graph = helper.make_graph(nodes, "g", [value("x", x.shape)], [value("y", x.shape)], constants)
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
            y = network_doubles.evaluate(model, {"x": x}, ["y"])["y"]
            np.testing.assert_allclose(y, wanted, rtol=1e-12, atol=1e-12, err_msg=f"opset {opset}")

    def test_a_model_that_has_no_doubles(self):
        model = helper.make_model(helper.make_graph([node("Nobody", ["x"], ["y"], domain="some.where")], "g", [value("x", [2])],
                                                    [value("y", [2])]), opset_imports=[helper.make_opsetid("some.where", 1)])
        with self.assertRaisesRegex(network_doubles.ModelError, "cannot be computed in doubles"):
            network_doubles.evaluate(model, {"x": np.zeros(2, np.float32)}, ["y"])

    def test_values_near_zero(self):
        """onnxruntime's Sigmoid is 1e-7 off there, which is as much as the values are."""
        model = model_of([node("Sigmoid", ["x"], ["y"])], [value("x", [64])], [value("y", [64])])
        path = self.folder / "in.npz"
        np.savez(path, x=np.linspace(-30, -20, 64, dtype=np.float32))
        for row in self.verify(model, "--inputs", path):
            self.assertLess(row.get("error", 0), 1e-4 * row["largest"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
