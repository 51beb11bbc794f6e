"""Matrix-tile kernels of every kind against the reference, between guard pages and on two threads; and their machine code.

Where the processor has none, or the operating system does not permit them, they are compiled only.
"""

import json
import random
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import kiln_run
import numpy as np
import targets

LAYERS = Path(__file__).resolve().parents[1] / "cases/tiles.toml"
TARGET, F16_TARGET = "x86-64-amx", "x86-64-amx-fp16"


def runs_here(target):
    if targets.way(target) == targets.RUN:
        return True
    print(f"{target} does not run here: compiled only", flush=True)
    return False


def layers_of_f16():
    """The layers of bfloat16, in float16."""
    head, *layers = LAYERS.read_text().split("[[layer]]")
    layers = [layer.replace("bfloat16", "float16") for layer in layers if '"bfloat16"' in layer]
    return "[[layer]]".join([head, *layers])


# One product of whose operands streams past the other, in each layout; and one where both stay in the first cache.
STREAMS = """
[defaults]
operator = "Conv"
dtype = "uint8"
bias = true
layouts = { x = "NXC", y = "NXC" }
[[layer]]
name = "pixels"
x = [1, 128, 16, 28]
w = [64, 128, 1, 1]
[[layer]]
name = "weights"
x = [1, 256, 14, 14]
w = [32, 256, 3, 3]
pads = [1, 1, 1, 1]
[[layer]]
name = "rows_of_pixels"
x = [1, 128, 16, 28]
w = [64, 128, 1, 1]
layouts = { x = "NCX", y = "NCX" }
[[layer]]
name = "unequal_tasks"
x = [1, 512, 28, 28]
w = [128, 512, 1, 1]
[[layer]]
name = "neither"
x = [1, 64, 14, 14]
w = [32, 64, 3, 3]
pads = [1, 1, 1, 1]
"""


def listings(folder):
    """Of each layer of a library: the instructions of its kernel's tiles, (address, name, operands)."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "-M", "intel", folder / "libtiles.a"],
                          capture_output=True, text=True, check=True).stdout  # fmt: skip
    functions = dict(re.findall(r"<(\w+)>:\n(.*?)(?=\n\n|\Z)", text, re.DOTALL))
    instruction = re.compile(r"^ *([0-9a-f]+):\t(\w+) *(.*)$", re.MULTILINE)
    result = {}
    for layer in json.loads((folder / "tiles.json").read_text())["layers"]:
        for symbol in layer["kernels"]:
            # Where tasks are shared they have a function of their own.
            text = max((f for name, f in functions.items() if name.startswith(symbol)), key=lambda f: f.count("tdp"))
            result[layer["name"]] = [(int(at, 16), *rest) for at, *rest in instruction.findall(text)]
    return result


def loads_of_operands(code):
    """What loads the rows and the lanes of products."""
    result = {"rows": set(), "lanes": set()}
    for i, (_, name, operands) in enumerate(code):
        if name.startswith("tileload"):
            tile = operands.split(",")[0]
            for _, later, registers in code[i + 1 :]:
                if later.startswith("tdp") and tile in registers.split(","):
                    at = registers.split(",").index(tile)
                    if at > 0:
                        result["rows" if at == 1 else "lanes"].add(name)
                    break
    return result


def loops(code):
    """The instructions of each loop."""
    for at, name, operands in code:
        target = int(operands.split()[0], 16) if name.startswith("j") and operands[:1].isalnum() else at + 1
        if target < at:
            yield [instruction for instruction in code if target <= instruction[0] <= at]


class Tiles(unittest.TestCase):
    def rows(self, target, layers, lines):
        with tempfile.TemporaryDirectory() as folder:
            decisions, file = Path(folder) / "decisions.jsonl", Path(folder) / "layers.toml"
            decisions.write_text("".join(json.dumps(line) + "\n" for line in lines))
            file.write_text(layers)
            if not runs_here(target):
                out = ["-o", folder, "--name", "tiles", "--target", target, "--decisions", decisions]
                kiln_run.compile_layers(file, *out)
                manifest = json.loads((Path(folder) / "tiles.json").read_text())
                self.assertIn("amx", {kernel["algorithm"] for kernel in manifest["kernels"]})
                return None
            rows = kiln_run.verify(file, "--target", target, "--decisions", decisions)
        self.assertEqual(len(rows), layers.count("[[layer]]"))
        kiln_run.check_rows(self, rows, "amx")
        return rows

    def test_schedules(self):
        self.try_schedules(TARGET, LAYERS.read_text())

    def test_schedules_of_f16(self):
        self.try_schedules(F16_TARGET, layers_of_f16())

    def try_schedules(self, target, layers):
        """The default, and other tiles, as many as fit."""
        rows = self.rows(target, layers, [{"problem": "*", "algorithm": "amx"}])
        rng = random.Random(1)
        if not rows:
            return
        decisions = []
        for row in rows:
            schedule = {name: int(number) for name, number in (pair.split(":") for pair in row["schedule"].split(";"))}
            schedule["vectors"] = rng.choice([1, 2])
            schedule["rows"] = rng.randint(1, min(schedule["rows"], 2))
            schedule["blocks"] = 1
            schedule["pixels"] = rng.randint(1, schedule["pixels"])
            # A divisor: what is beyond a group's floats is another's.
            schedule["steps"] = rng.choice([n for n in range(1, schedule["steps"] + 1) if schedule["steps"] % n == 0])
            if schedule["joined_taps"]:
                schedule["joined_taps"] = rng.choice([0, 1])
                schedule["steps"] = schedule["steps"] if schedule["joined_taps"] else 1
            schedule["panels_outside"] = rng.choice([0, 1])
            text = ";".join(f"{name}:{number}" for name, number in schedule.items())
            decisions.append({"problem": row["problem"], "target": row["kernel"], "algorithm": "amx", "revision": 2,
                              "schedule": text})  # fmt: skip
        for row, decision in zip(self.rows(target, layers, decisions), decisions):
            self.assertEqual(row["schedule"], decision["schedule"])

    def test_machine_code(self):
        """The operand that passes the first cache is loaded so, and channels-last sums are used among products."""
        with tempfile.TemporaryDirectory() as folder:
            layers = Path(folder) / "streams.toml"
            layers.write_text(STREAMS)
            out = ["-o", folder, "--name", "tiles", "--target", TARGET]
            kiln_run.compile_layers(layers, *out)
            kernels = listings(Path(folder))
        plain, once = {"tileloadd"}, {"tileloaddt1"}
        expected = {
            "pixels": {"rows": once, "lanes": plain},
            "weights": {"rows": plain, "lanes": once},
            "rows_of_pixels": {"rows": plain, "lanes": once},
            "unequal_tasks": {"rows": once, "lanes": plain},
            "neither": {"rows": plain, "lanes": plain},
        }
        self.assertEqual({name: loads_of_operands(code) for name, code in kernels.items()}, expected)
        for name in ["pixels", "weights", "unequal_tasks", "neither"]:
            with self.subTest(name):
                names = [{instruction for _, instruction, _ in loop} for loop in loops(kernels[name])]
                self.assertTrue(any({"tdpbusd", "tilestored", "vcvtdq2ps"} <= loop for loop in names))

    def test_machine_code_of_f16(self):
        """Products are of float16, all of them."""
        with tempfile.TemporaryDirectory() as folder:
            layers = Path(folder) / "f16.toml"
            layers.write_text(layers_of_f16())
            kiln_run.compile_layers(layers, "-o", folder, "--name", "tiles", "--target", F16_TARGET)
            kernels = listings(Path(folder))
        products = {name: {i for _, i, _ in code if i.startswith("tdp")} for name, code in kernels.items()}
        self.assertEqual(set(map(frozenset, products.values())), {frozenset({"tdpfp16ps"})}, products)

    def test_subnormal_f16(self):
        """Numbers of float16 that are subnormal count."""
        if not runs_here(F16_TARGET):
            return
        rng = np.random.default_rng(1)
        x = rng.integers(-1023, 1024, (1, 64, 5, 20)).astype(np.float16) * np.float16(2**-24)
        w = rng.integers(-1000, 1000, (32, 64, 1, 1)).astype(np.float16)
        case = {"name": "subnormal", "operator": "Conv", "dtype": "float16", "attributes": {}, "inputs": {"X": x, "W": w}}
        with tempfile.TemporaryDirectory() as folder:
            answers, outputs, _ = kiln_run.run([case], folder, target=F16_TARGET)
        self.assertEqual(answers[0]["status"], "ok", answers)
        self.assertRegex(answers[0]["kernel"], "^amx@")
        expected = np.einsum("ncyx,mc->nmyx", x.astype(np.float64), w[:, :, 0, 0].astype(np.float64))
        self.assertGreater(np.abs(expected).max(), 0.1)
        np.testing.assert_allclose(outputs["subnormal"], expected, rtol=2**-11, atol=64 * 2**-24 * 0.1)

    def test_infinities_of_other_groups(self):
        """What is no number in one group's channels is none in that group's outputs alone."""
        if not runs_here(F16_TARGET):
            return
        rng = np.random.default_rng(1)
        shapes = {  # x, w, strides, pads: a row's taps in one sum, apart, none; and tiles of rows of pixels
            "joined": ([1, 64, 9, 12], [64, 16, 3, 3], [1, 1], [1, 1, 1, 1]),
            "strided": ([1, 32, 9, 12], [32, 8, 3, 3], [2, 2], [1, 1, 1, 1]),
            "apart": ([1, 96, 9, 12], [96, 24, 3, 3], [1, 1], [1, 1, 1, 1]),
            "pointwise": ([1, 72, 9, 12], [72, 18, 1, 1], [1, 1], [0, 0, 0, 0]),
        }
        cases = []
        for layout in ["NXC", "NCX"]:
            for name, (x_shape, w_shape, strides, pads) in shapes.items():
                x = rng.standard_normal(x_shape).astype(np.float16)
                group = x_shape[1] // w_shape[1]
                for at, value in enumerate([np.inf, np.nan]):
                    x[:, (2 * at) * w_shape[1] : (2 * at + 1) * w_shape[1]] = value
                w = rng.standard_normal(w_shape).astype(np.float16)
                cases.append({"name": f"{name}_{layout}", "operator": "Conv", "dtype": "float16", "inputs": {"X": x, "W": w},
                              "layouts": {"x": layout, "y": layout},
                              "attributes": {"group": group, "strides": strides, "pads": pads}})  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            answers, outputs, _ = kiln_run.run(cases, folder, target=F16_TARGET)
        for case, answer in zip(cases, answers):
            with self.subTest(case["name"]):
                self.assertEqual(answer["status"], "ok", answer)
                self.assertRegex(answer["kernel"], "^amx@")
                y = outputs[case["name"]]
                of_groups = np.isfinite(y).reshape(y.shape[0], case["attributes"]["group"], -1, *y.shape[2:])
                self.assertEqual([bool(of_groups[:, g].all()) for g in range(4)], [False, True, False, True])


if __name__ == "__main__":
    unittest.main(verbosity=2)
