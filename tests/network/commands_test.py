"""kiln compile, run, verify and bench of whole models: a small network of most operators, and one of onnx's light models with
weights. About a minute on two idle cores, most of it for compiling kernels."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/frontend"), str(ROOT / "tests/kernels")]
import kiln_run  # noqa: E402
from onnx_importing import LIGHT  # noqa: E402
from onnx_models import integers, model_of, random_tensor, tensor, value  # noqa: E402

node = helper.make_node


def weights(rng, name, *shape):
    """Of a size at which values keep theirs."""
    return tensor(name, rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:])))


def small_network():
    """A detector's parts in small: a stem, squeeze-and-excite, two scales, heads in the model's order."""
    rng = np.random.default_rng(3)
    nodes = [
        node("Conv", ["image", "w1"], ["c1"], "stem", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", ["c1", "scale", "shift", "mean", "variance"], ["n1"]), node("Relu", ["n1"], ["r1"]),
        node("MaxPool", ["r1"], ["p1"], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", ["p1", "w2", "b2"], ["c2"], "silu", pads=[1, 1, 1, 1]), node("Sigmoid", ["c2"], ["g2"]),
        node("Mul", ["c2", "g2"], ["s2"]),
        node("GlobalAveragePool", ["s2"], ["q1"]), node("Conv", ["q1", "w3"], ["q2"], "squeeze"), node("Relu", ["q2"], ["q3"]),
        node("Conv", ["q3", "w4"], ["q4"], "excite"), node("Sigmoid", ["q4"], ["q5"]), node("Mul", ["s2", "q5"], ["e"], "gate"),
        node("Conv", ["e", "w5"], ["c5"], "sum", pads=[1, 1, 1, 1]), node("Add", ["c5", "p1"], ["a"]),
        node("LRN", ["a"], ["l"], "lrn", size=3), node("Resize", ["l", "", "scales"], ["u"], "up", mode="nearest"),
        node("Concat", ["u", "r1"], ["k"], "join", axis=1), node("Conv", ["k", "w6", "b6"], ["head"], "head"),
        node("Transpose", ["head"], ["t"], perm=[0, 2, 3, 1]), node("Reshape", ["t", "rows"], ["boxes"], "boxes"),
        node("Split", ["boxes", "parts"], ["corners", "logits"], axis=2), node("Exp", ["corners"], ["sizes"]),
        node("Softmax", ["logits"], ["classes"], axis=-1), node("ReduceMean", ["a"], ["m"], axes=[2, 3], keepdims=0),
        node("Gemm", ["m", "w7", "b7"], ["f"], "fc", transB=1), node("Tanh", ["f"], ["summary"]),
    ]
    constants = [
        weights(rng, "w1", 8, 3, 3, 3), random_tensor(rng, "scale", 8), random_tensor(rng, "shift", 8),
        random_tensor(rng, "mean", 8), tensor("variance", rng.uniform(0.5, 2, 8)), weights(rng, "w2", 8, 8, 3, 3),
        random_tensor(rng, "b2", 8), weights(rng, "w3", 4, 8, 1, 1), weights(rng, "w4", 8, 4, 1, 1),
        weights(rng, "w5", 8, 8, 3, 3), weights(rng, "w6", 6, 16, 1, 1), random_tensor(rng, "b6", 6),
        weights(rng, "w7", 5, 8), random_tensor(rng, "b7", 5), tensor("scales", [1, 1, 2, 2]),
        integers("rows", [1, -1, 6]), integers("parts", [2, 4]),
    ]  # fmt: skip
    return model_of(nodes, [value("image", [1, 3, 16, 16])], [value(name, None) for name in ("sizes", "classes", "summary")],
                    constants)


def few_steps(factor=1.0):
    """For what needs no more than a few: of two convolutions the second's weights are larger by a factor."""
    rng = np.random.default_rng(8)
    first, second = (rng.standard_normal((4, 4, 3, 3)).astype(np.float32) / 6 for _ in range(2))
    nodes = [node("Conv", ["x", "w1"], ["c1"], "first", pads=[1, 1, 1, 1]), node("Relu", ["c1"], ["r"]),
             node("Conv", ["r", "w2"], ["c2"], "second", pads=[1, 1, 1, 1]), node("Add", ["c2", "r"], ["a"]),
             node("Softmax", ["a"], ["y"], "last", axis=1)]
    return model_of(nodes, [value("x", [1, 4, 8, 8])], [value("y", None)], [tensor("w1", first), tensor("w2", factor * second)])


def seeded(path):
    """One of onnx's light models, whose weights are fills, with weights at random."""
    model, rng = onnx.load(path), np.random.default_rng(5)
    graph = model.graph
    shapes = {item.name: numpy_helper.to_array(item).tolist() for item in graph.initializer if item.data_type == TensorProto.INT64}
    fills = {item.output[0]: shapes[item.input[0]] for item in graph.node if item.op_type == "ConstantOfShape"}
    drawn = {name: (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)
             for name, shape in fills.items()}
    nodes = [item for item in graph.node if item.output[0] not in drawn]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in drawn.items())
    inputs = [item for item in graph.input if item.name not in shapes]
    del graph.input[:]
    graph.input.extend(inputs)
    model.ir_version = 8
    return model


def kiln(*arguments, ok=(0,)):
    process = subprocess.run([kiln_run.kiln(), *map(str, arguments)], capture_output=True, text=True, check=False)
    if process.returncode not in ok:
        raise AssertionError(f"kiln {arguments[0]} ended with {process.returncode}:\n{process.stdout}{process.stderr[-4000:]}")
    return process


class Commands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = small_network()
        self.path = self.folder / "net.onnx"
        onnx.save(self.model, self.path)

    def expected(self, image):
        session = onnxruntime.InferenceSession(self.model.SerializeToString(), providers=["CPUExecutionProvider"])
        return dict(zip(("sizes", "classes", "summary"), session.run(None, {"image": image})))

    def test_verify(self):
        rows = [json.loads(line) for line in kiln("verify", self.path, "--network", "--json").stdout.splitlines()]
        self.assertEqual([(row["output"], row["verdict"]) for row in rows],
                         [("sizes", "ok"), ("classes", "ok"), ("summary", "ok")])
        self.assertTrue(all(row["reference"].startswith("onnxruntime") and row["largest"] > 0 for row in rows), rows)

    def test_run(self):
        image = np.random.default_rng(4).standard_normal([1, 3, 16, 16]).astype(np.float32)
        np.savez(self.folder / "in.npz", image=image)
        out = self.folder / "out"
        kiln("run", self.path, "--network", "--inputs", self.folder / "in.npz", "-o", out, "--threads", 2)
        rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
        self.assertEqual([row["name"] for row in rows], ["sizes", "classes", "summary"])
        for row in rows:
            want = self.expected(image)[row["name"]]
            self.assertLess(np.abs(np.load(out / row["output"]) - want).max(), 1e-4 * np.abs(want).max())
        for arrays, message in (({"img": image}, '"img" is no input of the model: its inputs are "image"'),
                                ({"image": image[:, :2]}, '"image" is float32 [1, 2, 16, 16]: the model has float32 [1, 3, 16, 16]'),
                                ({"image": image.astype(np.float64)}, '"image" is float64 [1, 3, 16, 16]')):
            np.savez(self.folder / "in.npz", **arrays)
            with self.subTest(message):
                process = kiln("run", self.path, "--network", "--inputs", self.folder / "in.npz", "-o", out, ok=(1,))
                self.assertIn(message, process.stderr)

    def test_a_program_of_ones_own(self):
        """Two targets in one library; calls by C, right ones and wrong ones."""
        out = self.folder / "lib"
        targets = ["--target", "x86-64-avx2", "--target", "x86-64-avx512"]
        said = kiln("compile", self.path, "--network", "-o", out, *targets).stdout
        self.assertIn("arena", said)
        network = json.loads((out / "net.json").read_text())["network"]
        self.assertLessEqual(network["arena_bytes"], 1.1 * network["arena_bound_bytes"])
        program = self.folder / "program"
        sources = [ROOT / "runtime" / name for name in ("cpu.cpp", "message.cpp", "network.cpp", "parallel_for.cpp")]
        flags = [f"-I{ROOT / 'runtime/include'}", f"-I{out}"]
        cc, cxx = (os.environ.get(name, name.lower().replace("cxx", "c++")).split() for name in ("CC", "CXX"))
        main = self.folder / "main.o"
        subprocess.run([*cc, "-std=c11", "-Wall", "-Wextra", "-Werror", *flags, "-c", ROOT / "tests/network/calls.c", "-o", main],
                       check=True)
        subprocess.run([*cxx, "-std=c++17", *flags, main, *sources, out / "libnet.a", "-lm", "-o", program], check=True)
        image = np.random.default_rng(6).standard_normal([1, 3, 16, 16]).astype(np.float32)
        image.tofile(self.folder / "image.bin")
        process = subprocess.run([program, self.folder / "image.bin", self.folder / "classes.bin"], capture_output=True,
                                 text=True, check=False)
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        want = self.expected(image)["classes"]
        np.testing.assert_allclose(np.fromfile(self.folder / "classes.bin", np.float32), want.ravel(), rtol=1e-4, atol=1e-5)
        needed = subprocess.run(["nm", "-u", out / "libnet.a"], capture_output=True, text=True, check=True).stdout
        self.assertFalse([line for line in needed.splitlines() if "halide" in line or "malloc" in line])

    def test_layers_are_decided_for_cold_caches(self):
        """A network's layers, not those of the model by themselves, and kiln explain tells both."""
        path, out, shape = self.folder / "cold.onnx", self.folder / "cold", [1, 256, 12, 12]
        filters = weights(np.random.default_rng(7), "w", 256, 256, 3, 3)
        onnx.save(model_of([node("Conv", ["x", "w"], ["y"], "conv", pads=[1, 1, 1, 1])], [value("x", shape)],
                           [value("y", shape)], [filters]), path)
        target = ["--target", "x86-64-zen4"]
        schedules = {}
        for way, flags in (("network", ["--network"]), ("layers", [])):
            kiln("compile", path, *flags, "-o", out / way, "--name", "net", *target)
            manifest = json.loads((out / way / "net.json").read_text())
            schedules[way] = manifest["kernels"][0]["schedule"]
        self.assertNotEqual(schedules["network"], schedules["layers"])
        self.assertIn(f"{schedules['layers']} (default)", kiln("explain", path, *target).stdout)
        self.assertIn(" (default, cold caches)", kiln("explain", path, "--cold", *target).stdout)

    def test_a_light_model(self):
        """SqueezeNet is right."""
        onnx.save(seeded(LIGHT / "light_squeezenet.onnx"), self.folder / "squeezenet.onnx")
        rows = [json.loads(line) for line in
                kiln("verify", self.folder / "squeezenet.onnx", "--network", "--json").stdout.splitlines()]
        self.assertEqual([row["verdict"] for row in rows], ["ok"])
        self.assertLess(rows[0]["difference"], 1e-4 * rows[0]["largest"])

    def test_bench(self):
        """A network's time, and where it goes."""
        times, report = self.folder / "times.json", self.folder / "page.html"
        onnx.save(few_steps(), self.path)
        said = kiln("bench", self.path, "--network", "--seconds", "0.1", "--json", times, "--report", report).stdout
        result = json.loads(times.read_text())
        self.assertEqual([step["kind"] for step in result["steps"]], ["layer", "operation", "layer", "operation"])
        self.assertGreater(result["steps_ms"], 0)
        self.assertIn("the whole: ", said)
        self.assertIn('aria-label="Time of each step"', report.read_text())

    def test_what_differs_first_is_told(self):
        """A reference with another weight: verify names the tensor where it shows."""
        other = self.folder / "other.onnx"
        onnx.save(few_steps(), self.path)
        onnx.save(few_steps(1.5), other)
        process = kiln("verify", self.path, "--network", "--reference", other, ok=(1,))
        self.assertIn('the first tensor that differs is "a", made by', process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
