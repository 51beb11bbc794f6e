"""Expressions of bits beside choices, which AVX-512 computes by masked ternary logic, on vectors of every size: LLVM 21 takes some
of its truth tables for others (docs/HALIDE.md)."""

import tempfile
import unittest

import numpy as np
import operation_runs

BITS = ["bit_or(bit_and(a,7),bit_and(b,-8))", "bit_or(bit_and(b,7),bit_and(a,-8))", "bit_xor(bit_and(b,7),a)",
        "bit_and(bit_or(a,7),b)", "bit_or(bit_and(b,7),a)", "bit_xor(bit_xor(a,7),b)", "bit_and(bit_xor(7,b),a)",
        "bit_or(bit_xor(b,a),7)", "bit_and(bit_or(b,a),7)"]
FUNCTIONS = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor, "less": np.less, "where": np.where}


class OperationTernaryLogic(unittest.TestCase):
    def test_choices(self):
        expressions = [f"where(less({tested},5),{bits},{other})" for bits in BITS for tested in "ab" for other in "ab"]
        calls = {f"map-s32[{size}],s32[{size}]-s32[{size}]-{expression}": (size, expression)
                 for size in (4, 8, 16, 33) for expression in expressions}
        rng = np.random.default_rng(1)
        with tempfile.TemporaryDirectory() as folder:
            kernels = operation_runs.Kernels(list(calls), folder)
            for text, (size, expression) in calls.items():
                with self.subTest(text):
                    a, b = rng.integers(-99, 99, [2, size], np.int32)
                    expected = eval(expression, {}, {**FUNCTIONS, "a": a, "b": b})
                    np.testing.assert_array_equal(kernels.run(text, [a, b], np.int32, [size]), expected)


if __name__ == "__main__":
    unittest.main()
