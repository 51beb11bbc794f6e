"""The Conv and ConvTranspose node cases that the onnx package carries, against their own expected outputs."""

import tempfile
import unittest
import warnings

import kiln_run
import numpy as np
import onnx


def collect():
    """The cases of models that are a single Conv or ConvTranspose."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # other operators' cases overflow on purpose
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    return [c for c in cases if [n.op_type for n in c.model.graph.node] in (["Conv"], ["ConvTranspose"])]


def to_line(case):
    node = case.model.graph.node[0]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    attributes = {n: v.decode() if isinstance(v, bytes) else v for n, v in attributes.items()}
    opset = next(o.version for o in case.model.opset_import if o.domain == "")
    inputs = dict(zip("XWB", case.data_sets[0][0]))
    return {
        "name": case.name,
        "operator": node.op_type,
        "opset": opset,
        "dtype": str(inputs["X"].dtype),
        "attributes": attributes,
        "inputs": inputs,
        "output": case.name + ".npy",
    }


class OnnxNodeCases(unittest.TestCase):
    def test_all(self):
        cases = collect()
        # onnx 1.23.2 has 17; fewer would mean that collecting them broke.
        self.assertGreaterEqual(len(cases), 17)
        with tempfile.TemporaryDirectory() as folder:
            answers, outputs, process = kiln_run.run([to_line(c) for c in cases], folder)
        for case, answer in zip(cases, answers):
            with self.subTest(case.name):
                self.assertEqual(answer["status"], "ok", answer)
                expected = case.data_sets[0][1][0]
                self.assertEqual(answer["output_shape"], list(expected.shape))
                self.assertEqual(outputs[case.name].dtype, expected.dtype)
                np.testing.assert_allclose(outputs[case.name], expected, rtol=case.rtol, atol=case.atol)
        self.assertEqual(process.returncode, 0, process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
