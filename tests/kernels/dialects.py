"""Every dialect and every quantised operator through kiln run, against definitions in NumPy."""

import itertools
import tempfile
import unittest

import kiln_run
import numpy as np

RANDOM = np.random.default_rng(7)


def normal(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def integers(dtype, *shape):
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def convolve(x, w, pad=0):
    """x (N, C, H, W) with w (M, C, h, w) in integers, stride 1; what lies outside x is 0."""
    x = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.einsum("nchwij,mcij->nmhw", windows, w.astype(np.int64))


def transpose_convolve(x, w, stride, out, begin):
    """x (H, W, C) with w (C, M, h, w): what lies outside of `out` is cut off."""
    y = np.zeros((*out, w.shape[1]))
    for i, j, a, b in itertools.product(*map(range, x.shape[:2] + w.shape[2:])):
        row, column = i * stride + a - begin[0], j * stride + b - begin[1]
        if 0 <= row < out[0] and 0 <= column < out[1]:
            y[row, column] += x[i, j] @ w[:, :, a, b].astype(np.float64)
    return y


def rescale(sums, scales, dtype, zero_point):
    """QLinearConv's and TensorRT's formula; every product is rounded to float32."""
    rounded = np.rint(sums.astype(np.float32) * scales.reshape(1, -1, 1, 1).astype(np.float32))
    return np.clip(rounded + zero_point, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)


def run(*cases):
    """The outputs of the cases, in their order, once by each engine."""
    named = [{**case, "name": str(number)} for number, case in enumerate(cases)]
    for engine in ("specialized", "generic"):
        with tempfile.TemporaryDirectory() as folder:
            answers, outputs, process = kiln_run.run(named, folder, "--engine", engine)
        for answer in answers:
            assert answer["status"] == "ok", f"{answer}\n{process.stderr[-2000:]}"
        yield [outputs[case["name"]] for case in named]


def convolution(x, kernel, bias=None, **keys):
    inputs = {"input": x, "kernel": kernel} | ({} if bias is None else {"bias": bias})
    return {"operator": "Convolution", "dialect": "tensorrt", "inputs": inputs, **keys}


class TensorRt(unittest.TestCase):
    def test_int8(self):
        x, w, bias = integers(np.int8, 1, 8, 6, 6), integers(np.int8, 5, 8, 3, 3), normal(5) * 9
        scales = {"x_scale": 0.02, "w_scale": [0.01, 0.02, 0.03, 0.04, 0.05], "y_scale": 0.7}
        cases = [
            convolution(x, w, dtype="int8", quantization=scales),
            convolution(x, w, bias, dtype="int8", quantization=scales),
            convolution(x, w, bias, dtype="int8", quantization={**scales, "y_dtype": "float32"}),
        ]
        sums, factors = convolve(x, w), np.float32(0.02) * np.array(scales["w_scale"], np.float32)
        expected = sums.astype(np.float32) * factors.reshape(1, 5, 1, 1) + bias.reshape(1, 5, 1, 1)
        for plain, biased, real in run(*cases):
            np.testing.assert_array_equal(plain, rescale(sums, factors / np.float32(0.7), np.int8, 0))
            np.testing.assert_array_equal(real, expected)  # no product is fused with the sum
            np.testing.assert_array_equal(biased, np.clip(np.rint(expected / np.float32(0.7)), -128, 127))


class Quantised(unittest.TestCase):
    def test_conv_integer_and_qlinear_conv(self):
        x, w, bias = integers(np.uint8, 1, 4, 7, 7), integers(np.int8, 6, 4, 3, 3), RANDOM.integers(-999, 999, 6)
        x_scale, y_scale = np.float32(0.02), np.float32(0.9)
        w_scale, w_zero_point = np.linspace(0.01, 0.02, 6).astype(np.float32), np.array([0, 1, -2, 3, 4, 5], np.int8)
        qlinear = {
            "x": x,
            "x_scale": x_scale,
            "x_zero_point": np.uint8(130),
            "w": w,
            "w_scale": w_scale,
            "w_zero_point": w_zero_point,
            "y_scale": y_scale,
            "y_zero_point": np.uint8(100),
            "B": bias.astype(np.int32),
        }
        integer = {"x": x, "w": w, "x_zero_point": np.uint8(130)}
        cases = [
            {"operator": "ConvInteger", "opset": 10, "inputs": integer},
            {"operator": "QLinearConv", "opset": 10, "attributes": {"pads": [1, 1, 1, 1]}, "inputs": qlinear},
        ]
        acc = convolve(x.astype(int) - 130, w.astype(int) - w_zero_point.reshape(6, 1, 1, 1), pad=1)
        acc += bias.reshape(1, 6, 1, 1)
        for sums, rescaled in run(*cases):
            np.testing.assert_array_equal(sums, convolve(x.astype(int) - 130, w))
            np.testing.assert_array_equal(rescaled, rescale(acc, x_scale * w_scale / y_scale, np.uint8, 100))

    def test_conv_transpose(self):
        x, w = integers(np.uint8, 1, 5, 4, 3), integers(np.int8, 3, 2, 3, 3)
        quantization = {"x_scale": 0.02, "x_zero_point": 7, "w_scale": 0.01, "y_scale": 0.9, "y_dtype": "int8"}
        case = {
            "operator": "ConvTranspose",
            "dtype": "uint8",
            "quantization": quantization,
            "attributes": {"strides": [2, 2]},
            "inputs": {"X": x.transpose(0, 3, 1, 2).copy(), "W": w},
        }
        acc = transpose_convolve(x[0].astype(int) - 7, w, 2, (11, 9), (0, 0)).transpose(2, 0, 1)[None]
        factor = np.float32(0.02) * np.float32(0.01) / np.float32(0.9)
        for (y,) in run(case):
            np.testing.assert_array_equal(y, rescale(acc, np.full(2, factor), np.int8, 0))


class ChannelsLast(unittest.TestCase):
    def test_ms_nhwc(self):
        x, w, bias = normal(1, 5, 6, 4), normal(4, 9, 3, 2), normal(9)
        clip = {"activation": "Clip", "activation_params": [0, 2]}
        case = {
            "operator": "ConvTranspose",
            "dialect": "ms-nhwc",
            "attributes": {"strides": [2, 2], "output_shape": [9, 11], **clip},
            "inputs": {"X": x, "W": w, "B": bias},
        }
        # Totals of 2 and 1; by the page's equation the odd one's extra is at the end.
        expected = np.clip(transpose_convolve(x[0], w, 2, (9, 11), (1, 0)) + bias, 0, 2)
        for (y,) in run(case):
            np.testing.assert_allclose(y[0], expected, atol=1e-5)

    def test_onednn_graph(self):
        x, w = normal(1, 5, 6, 4), normal(4, 9, 3, 2)
        strided = {"strides": [2, 2], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
        plain = {**strided, "strides": [1, 1]}

        def case(attributes, x_order, w_order, **formats):
            inputs = {"input": x.transpose(x_order).copy(), "filter": w.transpose(w_order).copy()}
            attributes = {**attributes, **formats}
            return {"operator": "ConvTranspose", "dialect": "onednn-graph", "attributes": attributes, "inputs": inputs}

        nxc, ncx = (0, 1, 2, 3), (0, 3, 1, 2)
        xio, xoi, iox, oix = (2, 3, 0, 1), (2, 3, 1, 0), (0, 1, 2, 3), (1, 0, 2, 3)
        same = {**strided, "auto_pad": "same_upper", "output_padding": [1, 1]}
        cases = [
            case(same, nxc, xio),
            case(same, nxc, oix, filter_format="OIX"),
            case(same, ncx, xoi, data_format="NCX", filter_format="XOI"),
            case(same, ncx, iox, data_format="NCX", filter_format="IOX"),
            case({**plain, "output_shape": [11, 12]}, nxc, xio),
        ]
        # Totals of 1 and 0, output_padding beside them; and surpluses of 4 and 5, which the equation divides.
        padded = transpose_convolve(x[0], w, 2, (11, 13), (0, 0))
        surplus = transpose_convolve(x[0], w, 1, (11, 12), (-2, -3))
        for first, second, third, fourth, last in run(*cases):
            for y in (first, second, third.transpose(0, 2, 3, 1), fourth.transpose(0, 2, 3, 1)):
                np.testing.assert_allclose(y[0], padded, atol=1e-5)
            np.testing.assert_allclose(last[0], surplus, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
