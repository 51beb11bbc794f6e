"""The convolution node cases that the onnx package carries, against their own expected outputs, through both engines."""

import tempfile
import unittest
import warnings

import kiln_run
import numpy as np
import onnx

# The operators' inputs, as their documents order them.
INPUTS = {
    "Conv": ["X", "W", "B"],
    "ConvTranspose": ["X", "W", "B"],
    "DeformConv": ["X", "W", "offset", "B", "mask"],
    "ConvInteger": ["x", "w", "x_zero_point", "w_zero_point"],
    "QLinearConv": ["x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point", "B"],
}
# How many onnx 1.23.2 has; fewer would mean that collecting them broke.
COUNTS = {"Conv": 6, "ConvTranspose": 11, "DeformConv": 4, "ConvInteger": 2, "QLinearConv": 1}


def collect():
    """The cases of models that are a single node of these operators."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # other operators' cases overflow on purpose
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    return [c for c in cases if len(c.model.graph.node) == 1 and operator(c) in INPUTS]


def operator(case):
    return case.model.graph.node[0].op_type


def to_line(case):
    node = case.model.graph.node[0]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    attributes = {n: v.decode() if isinstance(v, bytes) else v for n, v in attributes.items()}
    names = [name for name, given in zip(INPUTS[node.op_type], node.input) if given]
    inputs = dict(zip(names, case.data_sets[0][0]))
    return {
        "name": case.name,
        "operator": node.op_type,
        "opset": next(o.version for o in case.model.opset_import if o.domain == ""),
        "dtype": str(inputs[names[0]].dtype),
        "attributes": attributes,
        "inputs": inputs,
        "output": case.name + ".npy",
    }


class OnnxNodeCases(unittest.TestCase):
    def check(self, engine):
        cases = collect()
        counts = {name: sum(operator(c) == name for c in cases) for name in COUNTS}
        self.assertTrue(all(counts[name] >= COUNTS[name] for name in COUNTS), counts)
        with tempfile.TemporaryDirectory() as folder:
            answers, outputs, process = kiln_run.run([to_line(c) for c in cases], folder, "--engine", engine)
        for case, answer in zip(cases, answers):
            with self.subTest(case.name):
                self.assertEqual(answer["status"], "ok", answer)
                expected = case.data_sets[0][1][0]
                self.assertEqual(answer["output_shape"], list(expected.shape))
                self.assertEqual(outputs[case.name].dtype, expected.dtype)
                if expected.dtype.kind in "iu":
                    np.testing.assert_array_equal(outputs[case.name], expected)
                else:
                    np.testing.assert_allclose(outputs[case.name], expected, rtol=case.rtol, atol=case.atol)
        print(f"{len(answers)} computed, engine {engine}", flush=True)
        self.assertEqual(process.returncode, 0, process.stderr)

    def test_specialized(self):
        self.check("specialized")

    def test_generic(self):
        self.check("generic")


if __name__ == "__main__":
    unittest.main(verbosity=2)
