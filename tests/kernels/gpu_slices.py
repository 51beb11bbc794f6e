"""Sums that threads of a GPU's block share (generators/moves/sliced_sum.h), with PoCL: slices that are whole and that are not, of
channels and of taps, of every algorithm that has them."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

import kiln_run
import parts

# Channels that slices do not divide, groups, rows that tiles do not, padding, phases, one axis and three, layouts, float16.
LAYERS = """
[defaults]
bias = true
layouts = { x = "NXC", y = "NXC" }

[[layer]]
name = "plain"
operator = "Conv"
x = [2, 32, 9, 14]
w = [16, 32, 3, 3]
pads = [1, 1, 1, 1]
residual = true
[[layer]]
name = "odd"
operator = "Conv"
x = [1, 21, 7, 11]
w = [12, 21, 3, 2]
strides = [2, 1]
pads = [1, 0, 1, 1]
layouts = { x = "NCX", y = "NCX" }
[[layer]]
name = "stem"
operator = "Conv"
x = [1, 3, 20, 22]
w = [8, 3, 7, 7]
strides = [2, 2]
layouts = { x = "NCX", y = "NXC" }
[[layer]]
name = "turns"
operator = "Conv"
x = [1, 20, 6, 12]
w = [8, 20, 2, 1]
strides = [1, 2]
[[layer]]
name = "pointwise"
operator = "Conv"
x = [1, 18, 6, 8]
w = [8, 18, 1, 1]
layouts = { x = "NCX", y = "NCX" }
[[layer]]
name = "pairs"
operator = "Conv"
x = [1, 3, 4, 2]
w = [5, 3, 1, 1]
pads = [1, 0, 0, 0]
layouts = { x = "NCX", y = "NCX" }
[[layer]]
name = "grouped"
operator = "Conv"
x = [1, 24, 10, 8]
w = [16, 12, 3, 3]
group = 2
layouts = { x = "NXC", y = "NCX" }
[[layer]]
name = "row"
operator = "Conv"
x = [1, 40, 37]
w = [24, 40, 3]
dilations = [2]
[[layer]]
name = "volume"
operator = "Conv"
x = [1, 8, 4, 5, 6]
w = [8, 8, 2, 3, 2]
pads = [1, 1, 0, 0, 1, 1]
[[layer]]
name = "up"
operator = "ConvTranspose"
x = [1, 16, 6, 7]
w = [16, 8, 4, 4]
strides = [2, 2]
[[layer]]
name = "cropped"
operator = "ConvTranspose"
x = [1, 8, 6, 7]
w = [8, 6, 3, 5]
strides = [3, 2]
dilations = [1, 2]
layouts = { x = "NXC", y = "NCX" }
[[layer]]
name = "deformed"
operator = "DeformConv"
x = [1, 12, 8, 9]
w = [16, 12, 3, 3]
offset_group = 2
mask = true

[[variant]]
dtype = "float16"
layers = ["plain", "odd", "pairs"]
"""

DIRECT = "channels:{};pixels:{};vector:{};threads_c:{};threads_x:{};threads_y:{};unroll:{};in_shared:{};slices:{}"
DEFORMABLE = "channels:4;points:5;vector:4;threads_c:2;threads_p:3;unroll:{};slices:{}"
WINOGRAD = "channels:4;tiles:3;vector:4;threads_c:4;threads_t:3;unroll:4;tile_x:2;tile_y:2;slices:{}"

# By layer, and its algorithm: schedules.
CASES = {
    ("plain", "gpu_direct"): [DIRECT.format(8, 4, 4, 2, 2, 2, 4, 0, 8), DIRECT.format(4, 3, 2, 3, 2, 2, 4, 1, 4),
                              DIRECT.format(1, 1, 1, 16, 4, 1, 1, 0, 2), DIRECT.format(2, 2, 2, 2, 1, 1, 8, 0, 32)],
    ("odd", "gpu_direct"): [DIRECT.format(4, 4, 4, 2, 2, 2, 1, 0, 8), DIRECT.format(3, 2, 1, 4, 2, 2, 3, 1, 4)],
    ("stem", "gpu_direct"): [DIRECT.format(8, 2, 4, 1, 4, 2, 3, 0, 4), DIRECT.format(4, 3, 4, 2, 2, 2, 1, 1, 8)],
    ("turns", "gpu_direct"): [DIRECT.format(4, 3, 4, 2, 2, 2, 4, 0, 4), DIRECT.format(8, 2, 4, 1, 3, 2, 2, 1, 8)],
    ("pointwise", "gpu_direct"): [DIRECT.format(4, 4, 4, 2, 4, 1, 2, 0, 4), DIRECT.format(8, 8, 4, 1, 3, 1, 2, 0, 1)],
    ("pairs", "gpu_direct"): [DIRECT.format(1, 2, 1, 4, 1, 4, 3, 0, 1)],
    ("grouped", "gpu_direct"): [DIRECT.format(4, 4, 4, 2, 2, 2, 4, 0, 2), DIRECT.format(8, 1, 4, 2, 4, 2, 2, 0, 4)],
    ("row", "gpu_direct"): [DIRECT.format(8, 4, 4, 2, 4, 1, 4, 1, 4), DIRECT.format(4, 5, 4, 4, 2, 1, 8, 0, 8)],
    ("volume", "gpu_direct"): [DIRECT.format(4, 3, 4, 2, 2, 2, 4, 0, 4), DIRECT.format(8, 2, 4, 1, 2, 4, 2, 1, 4)],
    ("up", "gpu_polyphase"): [DIRECT.format(8, 4, 4, 1, 2, 4, 4, 0, 4), DIRECT.format(4, 3, 2, 2, 2, 2, 2, 1, 8)],
    ("cropped", "gpu_polyphase"): [DIRECT.format(1, 4, 1, 2, 4, 2, 1, 0, 2), DIRECT.format(6, 3, 2, 1, 2, 2, 2, 0, 4)],
    ("deformed", "gpu_deformable"): [DEFORMABLE.format(4, 2), DEFORMABLE.format(1, 8), DEFORMABLE.format(4, 8)],
    ("plain", "gpu_winograd"): [WINOGRAD.format(2), WINOGRAD.format(8)],
}  # fmt: skip


class GpuSlices(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.spec, self.decisions = self.folder / "layers.toml", self.folder / "d.jsonl"
        self.spec.write_text(LAYERS)

    def kiln(self, layer, algorithm, schedule, *command):
        self.decisions.write_text(json.dumps({"problem": "*", "algorithm": algorithm, "schedule": schedule}) + "\n")
        return subprocess.run([kiln_run.kiln(), *command, self.spec, "--layer", layer, "--decisions", self.decisions],
                              capture_output=True, text=True, check=False)  # fmt: skip

    def test_slices(self):
        cases = [(name, algorithm, schedule)
                 for (layer, algorithm), schedules in CASES.items()
                 for name in [layer, f"{layer}_float16"][: 2 if layer in ("plain", "odd", "pairs") else 1]
                 for schedule in schedules]  # fmt: skip
        for name, algorithm, schedule in parts.part(cases):
            with self.subTest(layer=name, algorithm=algorithm, schedule=schedule):
                done = self.kiln(name, algorithm, schedule, "verify", "--target", "opencl", kiln_run.NO_FALLBACK)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("1 checks, 0 failed, 0 skipped", done.stdout)

    def test_slices_that_a_sum_does_not_have(self):
        """A decision that does not fit is passed over."""
        for slices, is_taken in ((0, False), (3, False), (64, False), (8, True)):
            done = self.kiln("up", "gpu_polyphase", DIRECT.format(4, 2, 2, 1, 1, 1, 4, 0, slices), "explain", "--target", "opencl")
            self.assertEqual(f"slices:{slices} " in done.stdout, is_taken, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
