"""What GPUs have no kernels for: errors that name it, for one layer and no other."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import kiln_run
import numpy as np

LAYER = """
[[layer]]
name = "{name}"
operator = "Conv"
x = {x}
w = [8, 4, 3, 3]
{more}
"""


class Limits(unittest.TestCase):
    def compile(self, layers, *options):
        with tempfile.TemporaryDirectory() as folder:
            spec = Path(folder) / "layers.toml"
            spec.write_text(layers)
            np.save(Path(folder) / "w.npy", np.ones([8, 4, 3, 3], np.float32))
            command = [kiln_run.kiln(), "compile", spec, "-o", Path(folder) / "out", "--target", "opencl", *options]
            return subprocess.run(command, capture_output=True, text=True, check=False)

    def check(self, process, message):
        self.assertEqual(process.returncode, 1, process.stderr)
        self.assertRegex(process.stderr, message)

    def test_embedded_weights(self):
        layer = LAYER.format(name="fixed", x=[1, 4, 9, 9], more='weights = "w.npy"')
        self.check(self.compile(layer, "--embed-weights"), "layer fixed: unsupported: weights cannot be embedded for opencl")
        self.assertEqual(self.compile(layer).returncode, 0)

    def test_open_sizes(self):
        layer = LAYER.format(name="open", x='[1, 4, "?", "?"]', more="")
        self.check(self.compile(layer), r'layer open: unsupported: sizes left open \("\?"\) have no kernels on opencl')

    def test_types(self):
        layer = LAYER.format(name="wide", x=[1, 4, 9, 9], more='dtype = "float64"')
        self.check(self.compile(layer), "layer wide: unsupported: .*type f64 has no kernels on opencl")


if __name__ == "__main__":
    unittest.main(verbosity=2)
