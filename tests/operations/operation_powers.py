"""Powers of integers of every type: bases and exponents at the edges, each with each, as tensors and as constants."""

import tempfile
import unittest

import numpy as np
import operation_runs
from onnx import helper, numpy_helper
from operations.base import type_text

INTEGERS = [np.dtype(name) for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")]


def edges(dtype):
    """Small numbers, those about every power of two, and both ends."""
    limits, numbers = np.iinfo(dtype), {*range(-9, 10), 100, -100}
    for digit in range(limits.bits):
        numbers |= {sign * (1 << digit) + by for sign in (1, -1) for by in (-1, 0, 1)}
    return np.array(sorted(n for n in numbers if limits.min <= n <= limits.max), dtype)


class OperationPowers(unittest.TestCase):
    def test_tensors(self):
        with tempfile.TemporaryDirectory() as folder:
            calls = {}
            for dtype in INTEGERS:
                numbers, name = edges(dtype), type_text(dtype)
                size = numbers.size
                calls[f"map-{name}[{size}x1],{name}[{size}]-{name}[{size}x{size}]-pow(a,b)"] = numbers
            kernels = operation_runs.Kernels(list(calls), folder)
            for text, numbers in calls.items():
                with self.subTest(text):
                    shape = [numbers.size, numbers.size]
                    result = kernels.run(text, [numbers.reshape(-1, 1), numbers], numbers.dtype, shape)
                    expected = operation_runs.power_of_integers(numbers.reshape(-1, 1), numbers)
                    np.testing.assert_array_equal(result, expected)

    def test_constants(self):
        with tempfile.TemporaryDirectory() as folder:
            calls = {}
            for dtype in INTEGERS:
                bases, name, limits = edges(dtype), type_text(dtype), np.iinfo(dtype)
                for exponent in {0, 1, 2, 3, 63, 64, limits.max, limits.max - 1, limits.min, max(-1, limits.min), max(-2, limits.min)}:
                    calls[f"map-{name}[{bases.size}]-{name}[{bases.size}]-pow(a,{exponent})"] = bases, exponent
            kernels = operation_runs.Kernels(list(calls), folder)
            for text, (bases, exponent) in calls.items():
                with self.subTest(text):
                    result = kernels.run(text, [bases], bases.dtype, [bases.size])
                    np.testing.assert_array_equal(result, operation_runs.power_of_integers(bases, np.array(exponent, object)))

    def test_nodes_of_two_types(self):
        """An exponent of another type is not made the base's before."""
        plans = []
        for base in ("int32", "int64"):
            for exponent in INTEGERS:
                for is_constant in (False, True):
                    exponents = edges(exponent)[[-1, 0, 1]] if is_constant else edges(exponent)
                    plans += [self.plan(edges(np.dtype(base)), np.asarray(e)) for e in (exponents if is_constant else [exponents])]
        with tempfile.TemporaryDirectory() as folder:
            kernels = operation_runs.Kernels([text for plan, _, _ in plans for text in plan.texts()], folder)
            for plan, inputs, expected in plans:
                with self.subTest(plan.texts()):
                    np.testing.assert_array_equal(plan.run(kernels, inputs)[0], expected)

    def test_whole_exponents_of_floats(self):
        """By logarithms 7^2 is 48.99999."""
        base, plans = np.arange(60, dtype=np.int32), []
        for dtype in (np.float16, np.float32, np.float64):
            for exponents in (np.array([2, 3, 5, 0], dtype), np.array(2, dtype)):
                plans.append(self.plan(base, exponents))
        with tempfile.TemporaryDirectory() as folder:
            kernels = operation_runs.Kernels([text for plan, _, _ in plans for text in plan.texts()], folder)
            for plan, inputs, expected in plans:
                with self.subTest(plan.texts()):
                    np.testing.assert_array_equal(plan.run(kernels, inputs)[0], expected)

    def plan(self, base, exponent):
        """A Pow's plan, its inputs and its result; an exponent of one number is a constant of the model."""
        base, types = base.reshape(-1, 1), [helper.np_dtype_to_tensor_dtype(value.dtype) for value in (base, exponent)]
        is_constant, expected = exponent.ndim == 0, operation_runs.power_of_integers(base, exponent)
        given = [helper.make_tensor_value_info("a", types[0], base.shape)]
        if not is_constant:
            given.append(helper.make_tensor_value_info("b", types[1], exponent.shape))
        graph = helper.make_graph([helper.make_node("Pow", ["a", "b"], ["y"])], "g", given,
                                  [helper.make_tensor_value_info("y", types[0], expected.shape)],
                                  [numpy_helper.from_array(exponent, "b")] if is_constant else [])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=10)
        return operation_runs.Plan(model, {}), {"a": base} if is_constant else {"a": base, "b": exponent}, expected


if __name__ == "__main__":
    unittest.main()
