"""Quantizing and dequantizing in expressions: every integer type, values at ties, limits and beyond, and what is computed by a table
of a byte's 256 values."""

import tempfile
import unittest

import numpy as np
import operation_program
import operation_runs
import targets
from operations.base import type_text

INTEGERS = [np.dtype(name) for name in ("int8", "uint8", "int16", "uint16")]
SCALE = np.float32(0.037)


def zero_points(dtype):
    limits = np.iinfo(dtype)
    return sorted({limits.min, limits.max, 0, 7, limits.max // 2 + 1})


def values():
    """Ties and their neighbours, what saturates, and what is no number."""
    ties = (np.arange(-400, 400) + 0.5).astype(np.float32) * SCALE
    large = np.float32([1e-45, 1e5, 3e9, 1e30, np.inf])
    return np.concatenate([ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), large, -large,
                           np.linspace(-70000, 70000, 999, dtype=np.float32) * SCALE]).astype(np.float32)


def quantized(x, zero_point, dtype, scale=SCALE):
    """As ONNX's QuantizeLinear; NaN is the least number."""
    limits = np.iinfo(dtype)
    whole = np.rint(x / scale).astype(np.float64) + zero_point
    return np.clip(np.nan_to_num(whole, nan=limits.min), limits.min, limits.max).astype(dtype)


def quantize_text(x, zero_point, dtype, scale=SCALE):
    rounded = f"saturate_s32(div({x},{scale}))"
    return f"saturate_{type_text(dtype)}({f'add({rounded},{zero_point})' if zero_point else rounded})"


def dequantize_text(x, zero_point, scale=SCALE):
    wide = f"cast_s32({x})"
    return f"mul(cast_f32({f'sub({wide},{zero_point})' if zero_point else wide}),{scale})"


def near(x, steps):
    """Numbers, and so many to both sides of each."""
    below = above = x
    result = [x]
    for _ in range(steps):
        below, above = np.nextafter(below, np.float32(-np.inf)), np.nextafter(above, np.float32(np.inf))
        result += [below, above]
    return np.concatenate(result)


class OperationQuantization(unittest.TestCase):
    def check(self, calls):
        """`calls` are texts, and their inputs and expected results."""
        for target in ("host", "x86-64-avx2"):
            with tempfile.TemporaryDirectory() as folder:
                kernels = operation_runs.Kernels(list(calls), folder, target)
                for text, (inputs, expected) in calls.items():
                    with self.subTest(text, target=target):
                        result = kernels.run(text, inputs, expected.dtype, list(expected.shape))
                        np.testing.assert_array_equal(result, expected)

    def test_values(self):
        calls, x = {}, np.append(values(), np.float32(np.nan))
        for dtype in INTEGERS:
            for point in zero_points(dtype):
                text = f"map-f32[{x.size}]-{type_text(dtype)}[{x.size}]-{quantize_text('a', point, dtype)}"
                calls[text] = [x], quantized(x, point, dtype)
        self.check(calls)

    def test_scales(self):
        """Numbers that divide to ties, and the next to them: whether it divides or multiplies by a reciprocal, a kernel rounds as
        a quotient does."""
        calls, draw = {}, np.random.default_rng(5)
        scales = [*np.exp(draw.uniform(-12, 3, 24)), 1 / 255, 2 ** -7, 0.1, 1, 1e-30, 1e30, 3e-38]
        for scale in np.float32(scales):
            for dtype in (np.dtype("int8"), np.dtype("uint16")):
                whole = np.arange(-300, 300) if dtype.itemsize == 1 else np.linspace(-200, 70000, 5000).astype(np.int64)
                x = near(((whole + 0.5) * float(scale)).astype(np.float32), 3)
                text = f"map-f32[{x.size}]-{type_text(dtype)}[{x.size}]-{quantize_text('a', 7, dtype, scale)}"
                calls[text] = [x], quantized(x, 7, dtype, scale)
        self.check(calls)

    def test_there_and_back(self):
        """With the zero point that was added, with another one, and where the integers are read besides."""
        calls, x = {}, values()
        for dtype in INTEGERS:
            for point in zero_points(dtype):
                there = quantize_text("a", point, dtype)
                for other in {point, 0, 5}:
                    back = (quantized(x, point, dtype).astype(np.float32) - np.float32(other)) * SCALE
                    calls[f"map-f32[{x.size}]-f32[{x.size}]-{dequantize_text(there, other)}"] = [x], back
                    calls[f"map-f32[{x.size}]-f32[{x.size}]-{there}:add({dequantize_text('t0', other)},cast_f32(t0))"] = \
                        [x], back + quantized(x, point, dtype).astype(np.float32)
        self.check(calls)

    def test_zero_points_that_are_tensors(self):
        """And zero points beside doubles: neither is computed in float32."""
        x, points = values(), np.int8([3])
        saturated = np.clip(np.rint(x / SCALE), -2 ** 31, 2 ** 31 - 200).astype(np.float32)
        inside = x[np.abs(saturated) < 2 ** 30]
        text = f"map-f32[{inside.size}],s8[1]-s8[{inside.size}]-saturate_s8(add(saturate_s32(div(a,{SCALE})),cast_s32(b)))"
        doubles = inside.astype(np.float64)
        of_doubles = f"map-f64[{inside.size}]-u8[{inside.size}]-saturate_u8(add(saturate_s32(div(a,0.5)),9))"
        self.check({text: ([inside, points], quantized(inside, 3, np.int8)),
                    of_doubles: ([doubles], quantized(doubles, 9, np.dtype("uint8"), 0.5))})

    def test_tables(self):
        """A function of one byte that is a series, in tensors of more and of fewer elements than a table has."""
        calls = {}
        for dtype in INTEGERS[:2]:
            numbers = np.arange(256, dtype=np.uint8).view(dtype)
            for repeats, tail in ((1, 0), (3, 5), (9, 1)):
                x = np.concatenate([np.tile(numbers, repeats), numbers[:tail]])
                real = np.tanh(np.float32(x.astype(np.float32) - 5) * SCALE)
                size, tanh = x.size, f"tanh({dequantize_text('a', 5)})"
                head = f"map-{type_text(dtype)}[{size}]-"
                close = np.abs(real) / np.float32(0.01) % 1  # not so near to a tie that the function's rounding decides
                usual = np.abs(close - 0.5) > 1e-3
                self.assertGreater(usual.mean(), 0.9)
                calls[head + f"{type_text(dtype)}[{size}]-{quantize_text(f'abs({tanh})', 2, dtype, 0.01)}"] = \
                    [x], quantized(np.abs(real), 2, dtype, 0.01), usual
        with tempfile.TemporaryDirectory() as folder:
            kernels = operation_runs.Kernels(list(calls), folder)
            for text, (inputs, expected, usual) in calls.items():
                with self.subTest(text):
                    result = kernels.run(text, inputs, expected.dtype, list(expected.shape))
                    np.testing.assert_array_equal(result[usual], expected[usual])

    def test_tables_of_vectors(self):
        """A byte of a byte by plain arithmetic, which processors look up by vectors: on each that is at hand or emulated, in
        tensors that end within vectors and in rows of a few bytes."""
        calls, expected = [], []
        for types in (("u8", "s8"), ("s8", "s8"), ("s8", "u8"), ("u8", "u8")):
            given, made = (np.dtype("uint8" if name == "u8" else "int8") for name in types)
            numbers = np.arange(256, dtype=np.uint8).view(given)
            text = quantize_text(f"mul(abs({dequantize_text('a', 3)}),{dequantize_text('a', 9)})", 2, made, np.float32(0.11))
            for size, rows in ((512, 1), (1000, 1), (1031, 1), (9, 67), (40, 25)):
                x = np.resize(np.random.default_rng(size).permutation(numbers), [size, 1 if rows == 1 else rows])
                real = (np.abs((x - np.float32(3)) * SCALE) * ((x - np.float32(9)) * SCALE)).astype(np.float32)
                y = quantized(real, 2, made, np.float32(0.11))
                if rows > 1:  # every other one of the elements
                    x, y = x[:, :, None], np.broadcast_to(y[:, :, None], [*y.shape, 3])
                shape = ["x".join(map(str, array.shape)) for array in (x, y)]
                calls.append((f"map-{types[0]}[{shape[0]}]-{types[1]}[{shape[1]}]-{text}", [x], made, list(y.shape)))
                expected.append(y)
        for target in targets.cpu_targets():
            with self.subTest(target), tempfile.TemporaryDirectory() as folder:
                if operation_program.tools_for(target):
                    for result, wanted in zip(operation_program.run(calls, target, folder), expected):
                        np.testing.assert_array_equal(result, wanted)
                else:
                    facts = operation_runs.compile_texts([text for text, *_ in calls], folder, target)
                    self.assertEqual([], [answer for answer in facts.values() if "error" in answer])

    def test_tables_of_rows(self):
        """A byte of each row, and results of other types."""
        x = np.arange(-128, 128, 2).astype(np.int8)
        expected = np.ascontiguousarray(np.broadcast_to((np.abs(x.astype(np.float32)) + 1)[:, None], (128, 9)))
        text = "add(abs(cast_f32(cast_s32(a))),exp(mul(cast_f32(a),0)))"
        x = x.reshape(-1, 1)
        self.check({f"map-s8[128x1]-f32[128x9]-{text}": ([x], expected),
                    f"map-s8[128x1]-bool[128x9]-less({text},20)": ([x], expected < 20),
                    f"map-s8[128x1]-f64[128x9]-cast_f64({text})": ([x], expected.astype(np.float64))})


if __name__ == "__main__":
    unittest.main()
