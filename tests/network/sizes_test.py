"""Networks of several sizes: one library whose function takes sizes as arguments. A minute or two: each combination is compiled."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/frontend"), str(ROOT / "tests/kernels")]
from commands_test import kiln  # noqa: E402
from models import Builder  # noqa: E402
from network_testing import NetworkTest, load_tests  # noqa: E402
from onnx_models import integers, model_of, random_tensor, value  # noqa: E402

SIZES = ["--size", "width=16,32,48", "--size", "batch=1,2"]
WIDTHS, BATCHES = (16, 32, 48), (1, 2)


def reader():
    """A reader of lines in small: convolutions, one column for each place, what it is likely to be."""
    b = Builder()
    b.channels["line"] = 3
    x = b.node("Relu", b.conv("line", 16, 3, 2))
    x = b.node("Add", x, b.node("Relu", b.conv(x, 16, 3)))
    b.channels[x] = 16
    gate = b.node("Sigmoid", b.conv(b.node("GlobalAveragePool", x), 16, 1))
    x = b.node("MaxPool", b.node("Mul", x, gate), kernel_shape=[4, 1], strides=[4, 1])
    x = b.node("Transpose", b.node("Squeeze", x, b.constant(np.int64([2]))), perm=[0, 2, 1])
    weights = b.constant((b.rng.standard_normal((16, 300)) / 4).astype(np.float32))
    y = b.node("Softmax", b.node("MatMul", x, weights), axis=2)
    return b.model({"line": ["batch", 3, 8, "width"]}, {y: ["batch", None, 300]}), y


def few_steps(factor=1.0):
    """For what needs no more than a few: the weights are larger by a factor."""
    b = Builder()
    b.channels["line"] = 3
    kernel = b.constant((factor * b.rng.standard_normal((8, 3, 8, 3))).astype(np.float32))
    y = b.node("Softmax", b.node("Conv", "line", kernel, pads=[0, 1, 0, 1]), axis=1)
    return b.model({"line": ["batch", 3, 8, "width"]}, {y: ["batch", 8, 1, "width"]}), y


class SeveralSizes(NetworkTest):
    def setUp(self):
        super().setUp()
        self.model, self.output = reader()
        self.path = self.save(self.model)

    def line(self, batch, width):
        return np.random.default_rng(width).standard_normal([batch, 3, 8, width]).astype(np.float32)

    def expected(self, line):
        session = onnxruntime.InferenceSession(self.model.SerializeToString(), providers=["CPUExecutionProvider"])
        return session.run(None, {"line": line})[0]

    # ---- What the importer says

    def test_what_is_the_same_is_there_once(self):
        answer = self.read(self.model, "--network", "--weights", self.folder / "w", *SIZES)
        self.assertEqual(answer["sizes"], [{"name": "width", "field": "width", "values": list(WIDTHS)},
                                           {"name": "batch", "field": "batch", "values": list(BATCHES)}])
        self.assertEqual([network["sizes"] for network in answer["networks"]],
                         [{"width": width, "batch": batch} for width in WIDTHS for batch in BATCHES])
        names = [layer["name"] for layer in answer["layers"]]
        self.assertEqual(len(names), len(set(names)))
        by_weights = {}
        for layer in answer["layers"]:
            by_weights.setdefault(layer["weights"], []).append(layer["name"])
        # The gate knows no width, and the product is the same for two short lines and for one that is twice as long.
        self.assertEqual(sorted(map(len, by_weights.values())), [2, 5, 6, 6], by_weights)
        self.assertLess({"conv0_width16_batch1", "conv6_batch1", "conv6_batch2"}, set(names))
        files = [path for path in (self.folder / "w").rglob("*.npy")]
        self.assertEqual(len({path.read_bytes() for path in files}), len(files))

    def test_layers_of_one_bias_that_equals_another(self):
        """Several layers name one file, whose bytes another has too: all are that one's."""
        rng = np.random.default_rng(1)
        kernels = [random_tensor(rng, f"w{place}", 4, 4, 3) for place in range(3)]
        zeros = [onnx.numpy_helper.from_array(np.zeros(4, np.float32), name) for name in ("a", "b")]
        nodes = [helper.make_node("Conv", [x, f"w{place}", bias], [y])
                 for place, (x, bias, y) in enumerate([("x", "a", "s"), ("s", "b", "t"), ("t", "b", "y")])]
        model = model_of(nodes, [value("x", [1, 4, 16])], [value("y", None)], [*kernels, *zeros])
        answer = self.read(model, "--network", "--weights", self.folder / "w")
        biases = {layer["bias_values"] for layer in answer["layers"]}
        self.assertEqual([np.load(path).tolist() for path in biases], [[0] * 4])

    def test_one_value_is_a_fixed_size(self):
        answer = self.read(self.model, "--network", "--weights", self.folder / "w", "--size", "width=32", "--size", "line.0=1")
        self.assertEqual((answer["sizes"], len(answer["networks"])), ([], 1))
        shaped = self.read(self.model, "--network", "--weights", self.folder / "w", "--shape", "line=1x3x8x32")
        self.assertEqual(answer["networks"][0]["steps"], shaped["networks"][0]["steps"])

    def test_dimensions_without_a_name(self):
        model = model_of([helper.make_node("Relu", ["x"], ["y"])], [value("x", [None, "?", 4])], [value("y", None)])
        answer = self.read(model, "--network", "--weights", self.folder / "w", "--size", "x.0=1,2", "--size", "x.1=3")
        self.assertEqual(answer["sizes"], [{"name": "x.0", "field": "x_0", "values": [1, 2]}])
        self.assertEqual([network["tensors"][0]["shape"] for network in answer["networks"]], [[1, 3, 4], [2, 3, 4]])

    def test_names_that_clash(self):
        """A size that is called as an input is gets another field."""
        model = model_of([helper.make_node("Relu", ["n"], ["y"])], [value("n", ["n", 4])], [value("y", None)])
        answer = self.read(model, "--network", "--weights", self.folder / "w", "--size", "n=1,2")
        self.assertEqual((answer["networks"][0]["inputs"][0]["field"], answer["sizes"][0]["field"]), ("n", "n_2"))

    def test_what_makes_no_sense_is_told(self):
        start = ["--network", "--weights", self.folder / "w"]
        for sizes, said in ((["height=8"], 'no dimension "height" to give a size: it leaves open "batch" (line.0), "width" (line.3)'),
                            (["width="], "write it like --size width=160,320,640"),
                            (["width=0"], "write it like"),
                            (["width=16,x"], "write it like"),
                            (["width=16,16"], "it has a value twice"),
                            (["width=16", "width=32"], '"width" was given before'),
                            (["width=16", "line.3=32"], 'it is the same dimension as "width"'),
                            (["line.1=4"], "it is 3 already, by the model or by --shape"),
                            (["width=" + ",".join(map(str, range(16, 49))), "batch=1,2"], "33 x 2 values are 66 networks: at most 64"),
                            (["width=16,32"], 'with --size width=16: a network\'s sizes are fixed: input "line"')):
            with self.subTest(sizes):
                told = self.refused(self.model, *start, *(word for size in sizes for word in ("--size", size)))
                self.assertIn(said, told)

    def test_a_size_at_which_the_model_does_not_fit(self):
        model = model_of([helper.make_node("Reshape", ["x", "rows"], ["r"], "in rows")], [value("x", ["n"])], [value("r", None)],
                         [integers("rows", [4, -1])])
        told = self.refused(model, "--network", "--weights", self.folder / "w", "--size", "n=8,10")
        self.assertIn("with --size n=10:", told)
        self.assertIn("in rows", told)

    # ---- What the command makes of them

    def test_every_combination_is_verified(self):
        rows = [json.loads(line) for line in kiln("verify", self.path, "--network", "--json", *SIZES).stdout.splitlines()]
        self.assertEqual([(row["sizes"], row["verdict"], row["shape"]) for row in rows],
                         [({"width": width, "batch": batch}, "ok", [batch, width // 2, 300])
                          for width in WIDTHS for batch in BATCHES])

    @unittest.skipUnless(shutil.which("qemu-aarch64") and shutil.which("aarch64-linux-gnu-g++"), "no emulator")
    def test_every_combination_is_verified_on_arm(self):
        said = kiln("verify", self.path, "--network", *SIZES[:2], "--size", "batch=1", "--target", "arm-64-linux", "--runner",
                    "qemu-aarch64 -L /usr/aarch64-linux-gnu", "--cxx", "aarch64-linux-gnu-g++").stdout
        self.assertEqual(said.count(": ok"), 3, said)
        self.assertTrue(all(f"width={width}\n" in said for width in WIDTHS), said)

    def test_what_differs_first_is_told_at_its_size(self):
        path, other = self.save(few_steps()[0]), self.save(few_steps(1.5)[0], "other.onnx")
        process = kiln("verify", path, "--network", "--size", "width=16,32", "--size", "batch=1", "--reference", other, ok=(1,))
        self.assertEqual(process.stderr.count("the first tensor that differs is"), 2, process.stderr)

    def test_run_takes_the_sizes_of_its_inputs(self):
        self.model, self.output = few_steps()
        self.save(self.model)
        line = self.line(1, 32)
        np.savez(self.folder / "in.npz", line=line)
        arguments = ["run", self.path, "--network", "--inputs", self.folder / "in.npz", "-o", self.folder / "out",
                     "--size", "width=16,32", "--size", "batch=1"]
        kiln(*arguments)
        result = np.load(self.folder / "out" / f"{self.output}.npy")
        np.testing.assert_allclose(result, self.expected(line), rtol=1e-4, atol=1e-6)
        np.savez(self.folder / "in.npz", line=self.line(1, 20))
        self.assertIn('"line" is [1, 3, 8, 20]: at the sizes that are given it may be [1, 3, 8, 16] or [1, 3, 8, 32]',
                      kiln(*arguments, ok=(1,)).stderr)
        self.assertIn("give --inputs", kiln("run", self.path, "--network", "-o", self.folder / "out", *SIZES[:2],
                                            "--size", "batch=1", ok=(1,)).stderr)

    def test_bench_times_each(self):
        times = self.folder / "times.json"
        self.save(few_steps()[0])
        said = kiln("bench", self.path, "--network", "--size", "width=16,32", "--size", "batch=1", "--seconds", "0.05", "--json",
                    times, "--report", self.folder / "page.html").stdout
        self.assertEqual([result["sizes"] for result in json.loads(times.read_text())], [{"width": 16}, {"width": 32}])
        self.assertEqual(said.count("the whole: "), 2)
        self.assertIn("net.onnx at width=32", (self.folder / "page.html").read_text())

    def test_a_program_of_ones_own(self):
        out = self.folder / "lib"
        said = kiln("compile", self.path, "--network", "--name", "net", "-o", out, "--target", "x86-64-avx2", *SIZES).stdout
        network = json.loads((out / "net.json").read_text())["network"]
        self.assertEqual(network["arena_bytes"], max(each["arena_bytes"] for each in network["networks"]))
        self.assertIn("at width=48, batch=2: arena ", said)
        self.check_weights(network, said)
        program = self.folder / "program"
        sources = [ROOT / "runtime" / name for name in ("cpu.cpp", "message.cpp", "network.cpp", "parallel_for.cpp")]
        flags = [f"-I{ROOT / 'runtime/include'}", f"-I{out}", f"-DOUTPUT={network['networks'][0]['outputs'][0]['field']}"]
        cc, cxx = (os.environ.get(name, name.lower().replace("cxx", "c++")).split() for name in ("CC", "CXX"))
        main, strict = self.folder / "main.o", ["-Wall", "-Wextra", "-Werror", "-pedantic"]
        subprocess.run([*cc, "-std=c11", *strict, *flags, "-c", ROOT / "tests/network/sized_calls.c", "-o", main], check=True)
        subprocess.run([*cxx, "-std=c++17", *strict, *flags, "-x", "c++", "-fsyntax-only", out / "net.h", "-Wno-pragma-once-outside-header"],
                       check=True, stderr=subprocess.DEVNULL)
        subprocess.run([*cxx, "-std=c++17", *flags, main, *sources, out / "libnet.a", "-lm", "-o", program], check=True)
        for width in WIDTHS:
            for batch in BATCHES:
                line = self.line(batch, width)
                line.tofile(self.folder / "line.bin")
                process = subprocess.run([program, str(width), str(batch), self.folder / "line.bin", self.folder / "out.bin"],
                                         capture_output=True, text=True, check=False)
                self.assertEqual((process.returncode, process.stderr), (0, ""))
                want = self.expected(line)
                np.testing.assert_allclose(np.fromfile(self.folder / "out.bin", np.float32).reshape(want.shape), want, rtol=1e-4,
                                           atol=1e-6)

    def check_weights(self, network, said):
        """They are there once. Those of the first convolution: kernels have vectors of output channels, for which its weights
        stand in a row."""
        weights = onnx.numpy_helper.to_array(self.model.graph.initializer[0])
        library = (self.folder / "lib/libnet.a").read_bytes()
        self.assertEqual(library.count(np.ascontiguousarray(weights[:8, 0, 0, 0]).tobytes()), 1)
        self.assertIn("weights 30.4 KB", said)  # as the model has them
        for each in network["networks"]:
            self.assertGreaterEqual(each["kernel_bytes"], each["own_kernel_bytes"])
            self.assertGreater(each["own_kernel_bytes"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
