"""Winograd kernels of 8-bit numbers give the very sums of the definition: at the ends of all ranges, with as many
channels as tiles of a size take, and with more, where smaller tiles or another algorithm must be chosen."""

import tempfile
import unittest

import kiln_run
import numpy as np
import trials
import reference  # found by trials


def sums(x, w):
    """3x3, one row of padding, one image: float64 holds the integers, all below 2^53."""
    padded = np.pad(x[0].astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    height, width = x.shape[2:]
    y = np.zeros((1, w.shape[0], height, width))
    for i in range(3):
        for j in range(3):
            y[0] += np.tensordot(w[:, :, i, j].astype(np.float64), padded[:, i : i + height, j : j + width], 1)
    return y


# Channels, at 255 * 128 a product, and whether tiles of more than one output are still exact: of 4 by 3 sums keep
# 32 - 4 bits, of 3 by 3 and 2 by 2 32 - 2, of 2 by 1 32 - 1. No sum of more channels than the last fits 32 bits.
CASES = ((456, True), (457, True), (1827, True), (3656, False), (7310, False))


class WinogradExact(unittest.TestCase):
    def run_cases(self, inputs):
        """Outputs and kernels of ConvInteger, by inputs' names: (x, w, zero point of x, of w)."""
        cases = []
        for name, (x, w, x_zero, w_zero) in inputs.items():
            tensors = {"x": x, "w": w, "x_zero_point": np.array(x_zero, x.dtype)}
            if w_zero is not None:
                tensors["w_zero_point"] = np.array(w_zero, w.dtype)
            cases.append({"name": name, "operator": "ConvInteger", "opset": 10, "attributes": {"pads": [1, 1, 1, 1]}})
            cases[-1].update(inputs=tensors, output=f"{name}.npy")
        with tempfile.TemporaryDirectory() as folder:
            answers, outputs, process = kiln_run.run(cases, folder)
        self.assertEqual(process.returncode, 0, process.stderr)
        return outputs, {answer["name"]: answer["kernel"] for answer in answers}

    def check(self, inputs, outputs):
        for name, (x, w, x_zero, w_zero) in inputs.items():
            with self.subTest(name):
                expected = sums(x.astype(np.int64) - x_zero, w.astype(np.int64) - (w_zero or 0))
                self.assertLess(np.abs(expected).max(), 2**31)
                np.testing.assert_array_equal(outputs[name], expected)

    def test_depths(self):
        """The largest sums there are, and products of alternating signs."""
        random = np.random.default_rng(1)
        inputs = {}
        for channels, _ in CASES:
            x = np.full((1, channels, 13, 14), 255, np.uint8)
            w = np.full((16, channels, 3, 3), -128, np.int8)
            w[1::2] = random.choice(np.array([-128, 127], np.int8), (8, channels, 3, 3))
            inputs[f"largest{channels}"] = (x, w, 0, None)
        x = random.choice(np.array([0, 255], np.uint8), (1, 456, 13, 14))
        inputs["extremes"] = (x, inputs["largest456"][1], 0, None)
        outputs, kernels = self.run_cases(inputs)
        self.check(inputs, outputs)
        for channels, is_winograd in CASES:
            self.assertEqual("winograd" in kernels[f"largest{channels}"], is_winograd, kernels)

    def test_zero_points(self):
        """Numbers less their zero points are 255 at the most, and nothing beyond the image."""
        random = np.random.default_rng(2)
        inputs = {}
        for x_type, w_type in ((np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)):
            ends = [(np.iinfo(t).min, np.iinfo(t).max) for t in (x_type, w_type)]
            for at in (0, 1):
                x = random.choice(np.array(ends[0], x_type), (1, 64, 14, 15))
                w = random.choice(np.array(ends[1], w_type), (24, 64, 3, 3))
                x[:, :, :7] = ends[0][1 - at]
                w[::3] = ends[1][at]
                inputs[f"{x_type.__name__}_{w_type.__name__}_{at}"] = (x, w, ends[0][at], ends[1][1 - at])
        outputs, kernels = self.run_cases(inputs)
        self.check(inputs, outputs)
        for name, kernel in kernels.items():
            self.assertIn("winograd", kernel, name)

    def test_activation_that_rounds(self):
        """What follows the sums is within the bound that it has by any algorithm."""
        random = np.random.default_rng(3)
        x, w = (random.integers(-128, 128, shape, np.int8) for shape in ((1, 64, 13, 14), (24, 64, 3, 3)))
        scales = np.float32(0.02), np.full(24, 0.001, np.float32), np.float32(1)
        case = {"name": "hard_swish", "operator": "Convolution", "dialect": "tensorrt", "dtype": "int8",
                "attributes": {"num_output_maps": 24, "kernel_size_nd": [3, 3], "padding_nd": [1, 1]},
                "activation": "HardSwish", "inputs": {"input": x, "kernel": w},
                "quantization": {"x_scale": float(scales[0]), "w_scale": [float(s) for s in scales[1]],
                                 "y_scale": 1.0, "y_dtype": "float32"}}  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            answers, outputs, _ = kiln_run.run([case], folder)
        self.assertIn("winograd", answers[0]["kernel"], answers)
        convolution = reference.Convolution("Conv", [1, 1], [1, 1], reference.Geometry([13, 14], [1, 1], [1, 1]))
        expected = reference.compute_quantised(convolution, x, w, 0, 0, None, np.float32, scales, 0, "HardSwish")
        beyond = trials.excess(outputs["hard_swish"], expected, expected.winograd_bound)
        self.assertLessEqual(beyond.max(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
