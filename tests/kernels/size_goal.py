"""optimize = "size": the kernel that is chosen is no larger than the one for speed, computes the same, and what it costs is told."""

import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import kiln_run

# Dense, where Winograd's weights are several times as large; depthwise, where code outweighs them; 8 bits; a ConvTranspose.
LAYERS = """
[[layer]]
name = "dense"
operator = "Conv"
x = [1, 64, 28, 28]
w = [64, 64, 3, 3]
pads = [1, 1, 1, 1]
bias = true
activation = "Relu"
layouts = { x = "NXC", y = "NXC" }

[[layer]]
name = "narrow"
operator = "Conv"
x = [1, 32, 14, 14]
w = [32, 1, 3, 3]
pads = [1, 1, 1, 1]
group = 32

[[layer]]
name = "bytes"
operator = "Conv"
dtype = "uint8"
x = [1, 16, 12, 12]
w = [32, 16, 3, 3]
quantization = { x_scale = 0.02, x_zero_point = 128, w_scale = 0.01, y_scale = 0.05, y_zero_point = 3 }

[[layer]]
name = "up"
operator = "ConvTranspose"
x = [1, 16, 7, 7]
w = [16, 24, 4, 4]
strides = [2, 2]
pads = [1, 1, 1, 1]
"""
TARGET = ("--target", "x86-64-avx2")
# What a decision says of a kernel.
DECIDED = ("problem", "target", "algorithm", "revision", "schedule")


class SizeGoal(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def kiln(self, command, layers, *options):
        spec = self.folder / "net.toml"
        spec.write_text(layers)
        process = subprocess.run([kiln_run.kiln(), command, str(spec), *options], capture_output=True, text=True, check=False)
        self.assertEqual(process.returncode, 0, process.stderr)
        return process

    def compile(self, layers, *options):
        process = self.kiln("compile", layers, "-o", str(self.folder / "out"), *options)
        manifest = json.loads((self.folder / "out/net.json").read_text())
        kernels = {kernel["symbol"]: kernel for kernel in manifest["kernels"]}
        return process, {layer["name"]: [kernels[symbol] for symbol in layer["kernels"]] for layer in manifest["layers"]}

    def test_chosen_kernels_are_smaller_and_right(self):
        process, usual = self.compile(LAYERS, *TARGET)
        self.assertNotIn("for size:", process.stdout)
        self.assertFalse([kernel for (kernel,) in usual.values() if "size" in kernel])
        process, small = self.compile(LAYERS, *TARGET, "--optimize=size")
        told = re.search(r"^for size: 4 kernels, code ([\d.]+) KB in place of ([\d.]+), packed ([\d.]+) KB in place of "
                         r"([\d.]+); up to ([\d.]+) times the operations: \w+ for x86-64-avx2$", process.stdout, re.M)
        self.assertTrue(told, process.stdout)
        code, code_before, packed, packed_before, times = map(float, told.groups())
        self.assertLess(code + packed, 0.75 * (code_before + packed_before))
        self.assertLessEqual(times, 4)
        for name, (kernel,) in small.items():
            size, before = kernel["size"], kernel["size"]["for_speed"]
            with self.subTest(layer=name):
                self.assertEqual((before["algorithm"], before["packed_bytes"]),
                                 (usual[name][0]["algorithm"], usual[name][0]["packed_bytes"]))
                self.assertEqual(size["packed_bytes"], kernel["packed_bytes"])
                self.assertLessEqual(size["code_bytes"] + size["packed_bytes"], before["code_bytes"] + before["packed_bytes"])
                self.assertLessEqual(size["times_operations"], 4)
                self.assertGreater(size["candidates"], 1)
        self.assertEqual(usual["dense"][0]["algorithm"], "winograd")
        self.assertEqual(small["dense"][0]["algorithm"], "direct")
        self.assertLess(small["narrow"][0]["size"]["code_bytes"], small["narrow"][0]["size"]["for_speed"]["code_bytes"])
        again = self.compile(LAYERS, *TARGET, "--optimize=size", "--jobs", "1", "--layer", "narrow")[1]
        self.assertEqual(again["narrow"], small["narrow"], "the same layer has the same answer")

        # By the same goal where the choice takes little, and by what was chosen of the others.
        decisions = self.folder / "decisions.jsonl"
        decisions.write_text("".join(json.dumps({key: kernel[key] for key in DECIDED}) + "\n"
                                     for (kernel,) in small.values()))
        goal, named = ["--optimize=size"], [word for name in ("narrow", "up") for word in ("--layer", name)]
        told = self.kiln("verify", LAYERS, *TARGET, *goal, *named, "--json").stdout
        others = [word for name in ("dense", "bytes") for word in ("--layer", name)]
        told += self.kiln("verify", LAYERS, *TARGET, *others, "--decisions", str(decisions), "--json").stdout
        rows = [json.loads(line) for line in told.splitlines()]
        checked = {(row["layer"], row["algorithm"]): row["verdict"] for row in rows}
        self.assertEqual(checked, {(name, kernel["algorithm"]): "ok" for name, (kernel,) in small.items()})

    def test_a_layers_own_word_counts(self):
        dense = LAYERS.split("\n[[layer]]")[1]
        both = "[[layer]]" + dense.replace('"dense"', '"own"') + 'optimize = "speed"\n\n[[layer]]' + dense
        kernels = self.compile(both, *TARGET, "--optimize=size")[1]
        self.assertEqual([kernels[name][0]["algorithm"] for name in ("own", "dense")], ["winograd", "direct"])
        self.assertNotIn("size", kernels["own"][0])
        kernels = self.compile("[[layer]]" + dense + 'optimize = "size"\n', *TARGET, "--target", "x86-64-avx512")[1]
        self.assertEqual([(kernel["target"], kernel["algorithm"]) for kernel in kernels["dense"]],
                         [("x86-64-avx512", "direct"), ("x86-64-avx2", "direct")])

    def test_a_decisions_file_is_what_it_is_compared_with(self):
        decisions = self.folder / "decisions.jsonl"
        decisions.write_text('{"problem": "*", "algorithm": "direct"}\n')
        kernels = self.compile(LAYERS, *TARGET, "--layer", "dense", "--optimize=size", "--decisions", str(decisions))[1]
        self.assertEqual(kernels["dense"][0]["size"]["for_speed"]["algorithm"], "direct")

    def test_explain_tells(self):
        options = (*TARGET, "--layer", "dense", "--optimize", "size")
        text = self.kiln("explain", LAYERS, *options).stdout
        self.assertRegex(text, r"direct, schedule \S+ \(for size\)\n")
        self.assertRegex(text, r"\n    for size: code [\d.]+ KB, packed 144\.0 KB; for speed winograd: code [\d.]+ KB, packed "
                               r"[\d.]+ KB; [\d.]+ times its operations\n")
        (layer,) = json.loads(self.kiln("explain", LAYERS, *options, "--json").stdout)["layers"]
        self.assertRegex(layer["size"], r"^for size: code ")
        self.assertNotIn("size", json.loads(self.kiln("explain", LAYERS, *TARGET, "--json").stdout)["layers"][0])

    def test_where_it_cannot_be_a_goal(self):
        opened = LAYERS.split("\n[[layer]]")[1].replace("28, 28]", '"?", "?"]')
        process, kernels = self.compile("[[layer]]" + opened, *TARGET, "--optimize=size")
        self.assertIn("warning: layer dense: it is not optimized for size: its sizes are open", process.stderr)
        self.assertNotIn("size", kernels["dense"][0])
        self.assertIn("it is not optimized for size: opencl is a GPU",
                      self.kiln("explain", LAYERS, "--layer", "dense", "--target", "opencl", "--optimize=size").stdout)


if __name__ == "__main__":
    unittest.main()
