"""Every activation of kiln/activation.h, over its whole range, infinities too, in every type and through both engines.

KILN_TARGET, KILN_CXX and KILN_RUNNER choose a target, as for the other tests.
"""

import importlib
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import kiln_run
import layers
import numpy as np
import problems
import reference

FLOATS = ("float32", "float16") if os.environ.get("KILN_TARGET") in ("opencl", "cuda") else problems.FLOATS
ENGINES = ("specialized",) if os.environ.get("KILN_TARGET") in ("opencl", "cuda") else ("specialized", "generic")


def names():
    """Those of Kiln's own table, as its message for an unknown one lists them."""
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "layers.toml"
        spec.write_text('[[layer]]\nname = "a"\noperator = "Conv"\nx = [1, 1, 1]\nw = [1, 1, 1]\nactivation = "?"\n')
        process = subprocess.run([kiln_run.kiln(), "explain", spec], capture_output=True, text=True, check=False)
    return re.search(r"It may be (.*)", process.stderr).group(1).split(", ")


def importers():
    """The importer's own table."""
    sys.path.append(str(Path(__file__).resolve().parents[2] / "tools/onnx_import"))
    return importlib.import_module("convolutions.activations")


def inputs(dtype):
    """Dense where activations bend, then over all exponents, both signs, up to the largest number and infinity."""
    dense = np.arange(-2048, 2049) / 128.0
    largest = 3.38e38 if dtype in ("float32", "bfloat16") else 1.79e308 if dtype == "float64" else 65504.0
    powers = 2.0 ** np.arange(-60 if dtype != "float16" else -20, np.log2(largest), 0.37)
    return np.concatenate([dense, powers, -powers, [largest, -largest, 0.0, np.inf, -np.inf]])


def parameters(name):
    """Of a few layers with this activation: the default ones where it has any, and those of random problems."""
    drawn = list(reference.ACTIVATIONS[name].drawn)
    if reference.ACTIVATIONS[name].takes_slopes:
        return [[slope] for slope in drawn]  # of layers of one channel
    return [drawn] if name == "Clip" or not drawn else [[], drawn]


def float_case(name, dtype, params, x):
    case = {"operator": "Conv", "dialect": "onnx", "opset": 22, "dtype": dtype, "attributes": {}, "activation": name,
            "inputs": {"X": layers.encode(x.reshape(1, 1, -1), dtype),
                       "W": layers.encode(np.ones((1, 1, 1)), dtype)}}  # fmt: skip
    if params:
        case["activation_params"] = params
    return case


def integer_case(name, params, y_dtype):
    """All sums that an 8-bit input can make, in steps of 1/16 to +-8."""
    x = np.arange(-128, 128, dtype=np.int8).reshape(1, 1, -1)
    case = {"operator": "Conv", "dialect": "onnx", "opset": 22, "dtype": "int8", "attributes": {}, "activation": name,
            "inputs": {"X": x, "W": np.ones((1, 1, 1), np.int8)},
            "quantization": {"x_scale": 0.0625, "x_zero_point": 0, "w_scale": [1.0], "w_zero_point": [0],
                             "y_scale": 0.0625, "y_zero_point": 3, "y_dtype": y_dtype}}  # fmt: skip
    if y_dtype == "float32":
        case["quantization"]["y_zero_point"] = 0
    if params:
        case["activation_params"] = params
    return case


class Activations(unittest.TestCase):
    def test_every_table_has_the_same(self):
        """A row that is forgotten in one of them fails here."""
        known = set(names())
        self.assertEqual(known, set(reference.ACTIVATIONS) - {None})
        self.assertEqual(known, set(importers().ACTIVATIONS))

    def cases(self):
        for name in names():
            defaults = self.defaults(name)
            for params in parameters(name):
                for dtype in FLOATS:
                    yield float_case(name, dtype, params, inputs(dtype)), params or defaults
                if FLOATS == problems.FLOATS:
                    for y_dtype in ("int8", "float32"):
                        yield integer_case(name, params, y_dtype), params or defaults

    @staticmethod
    def defaults(name):
        """By ONNX's documents."""
        values = {"LeakyRelu": [0.01], "HardSigmoid": [0.2, 0.5], "Swish": [1], "Elu": [1]}.get(name, [])
        return [float(np.float32(value)) for value in values]

    def expected(self, case, params):
        x, dtype = case["inputs"]["X"], case["dtype"]
        c = reference.Convolution("Conv", [1], [1], reference.onnx_conv([x.size], [1], {}), 1, 1)
        if dtype == "int8":
            q = case["quantization"]
            scales = (q["x_scale"], q["w_scale"], q["y_scale"])
            return reference.compute_quantised(
                c, x, case["inputs"]["W"], 0, [0], None, np.dtype(q["y_dtype"]).type, scales, q["y_zero_point"],
                case["activation"], params,
            )  # fmt: skip
        tensors = {key: layers.decode(case["inputs"][key], dtype) for key in "XW"}
        return reference.compute(c, dtype, tensors["X"], tensors["W"], activation=case["activation"], parameters=params)

    def check(self, case, params, answer, output):
        self.assertEqual(answer["status"], "ok", answer)
        expected = self.expected(case, params)
        y = layers.decode(output, case["dtype"]) if case["dtype"] != "int8" else output
        x = layers.decode(case["inputs"]["X"], case["dtype"]).astype(np.float64)
        finite = np.isfinite(x)
        with np.errstate(invalid="ignore", over="ignore"):
            # At an infinity y is what the activation tends to; in between, within the bound.
            limit = reference.ACTIVATIONS[case["activation"]].at(np.sign(x) * 1e300, params)
            at_limit = abs(y.astype(np.float64) - limit) <= 1e-15
            right = np.where(finite, abs(y.astype(expected.y.dtype) - expected.y) <= expected.bound, at_limit)
        overflows = np.isinf(y) & (np.sign(y) == np.sign(expected.y)) & (abs(expected.y) > 0.999 * abs(x[finite]).max())
        wrong = np.flatnonzero(~(right | overflows))
        self.assertEqual(wrong.size, 0, [(x.flat[i], y.flat[i], expected.y.flat[i]) for i in wrong[:5]])

    def test_values(self):
        for engine in ENGINES:
            cases, params = zip(*self.cases())
            cases = [{"name": f"a{number}", **case} for number, case in enumerate(cases)]
            with tempfile.TemporaryDirectory() as folder:
                answers, outputs, _ = kiln_run.run(cases, folder, "--engine", engine)
            for case, numbers, answer in zip(cases, params, answers):
                with self.subTest(engine=engine, activation=case["activation"], dtype=case["dtype"], params=numbers):
                    self.check(case, numbers, answer, outputs.get(answer["name"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
