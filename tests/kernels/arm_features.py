"""A processor that lacks what a kernel needs: a status that says so, and the target that it has is computed on it."""

import tempfile
import unittest

import kiln_run
import numpy as np

# An ARMv8.0: neither dot products nor arithmetic on float16.
OLD = "qemu-aarch64 -cpu cortex-a53"


class Features(unittest.TestCase):
    def run_case(self, target):
        case = {"name": "small", "operator": "Conv", "dtype": "float32", "attributes": {},
                "inputs": {"X": np.ones([1, 8, 6, 6], np.float32), "W": np.ones([8, 8, 3, 3], np.float32)}}  # fmt: skip
        options = ["--target", target, "--runner", OLD]
        with tempfile.TemporaryDirectory() as folder:
            (answer,), outputs, _ = kiln_run.run([case], folder, *options)
        return answer, outputs

    def test_lacking(self):
        answer, _ = self.run_case("arm-64-linux-dotprod-fp16")
        self.assertEqual(answer.get("code"), "unsupported", answer)
        self.assertRegex(answer["message"], "the kernel for arm-64-linux-dotprod-fp16 needs features that this processor lacks")

    def test_baseline(self):
        answer, outputs = self.run_case("arm-64-linux")
        self.assertEqual(answer["status"], "ok", answer)
        np.testing.assert_array_equal(outputs["small"], np.full([1, 8, 4, 4], 72, np.float32))


if __name__ == "__main__":
    unittest.main(verbosity=2)
