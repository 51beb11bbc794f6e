"""kiln tune of layers that leave sizes open: each candidate is checked and timed at every size of a list."""

import json
import math
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import kiln_run
import numpy as np
import onnx

TARGET = "x86-64-avx2"
LAYER = """
[[layer]]
name = "{name}"
operator = "Conv"
x = [1, 16, "?", "?"]
w = [16, 16, 3, 3]
pads = [1, 1, 1, 1]
bias = true
layouts = {{ x = "NXC", y = "NXC" }}
{more}
"""
OPEN = LAYER.format(name="a", more="sizes = [[1, 16, 12, 12], [1, 16, 7, 9]]")
SEEDED_RUNNER = Path(__file__).with_name("seeded_runner.py")
# Starts the program with another problem in place of its last size: one that the kernels are not for.
OTHER_SIZE_RUNNER = """#!{python}
import os, sys
last = len(sys.argv) - 1 - sys.argv[::-1].index("--size")
sys.argv[last + 1] = sys.argv[last + 1].replace("-c16-", "-c8-").replace("-m16-", "-m24-")
os.execv(sys.argv[1], sys.argv[1:])
"""


def key(record):
    return record["problem"], record["algorithm"], record["schedule"], record.get("final", False)


class OpenSizes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.spec, self.timings, self.decisions = (self.folder / name for name in ("net.toml", "t.jsonl", "d.jsonl"))
        self.spec.write_text(OPEN)
        self.runner = self.script(SEEDED_RUNNER.read_text())

    def script(self, text):
        path = self.folder / "runner"
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def kiln(self, *words):
        return subprocess.run([kiln_run.kiln(), *map(str, words)], capture_output=True, text=True, check=False)

    def tune(self, *options, spec=None):
        return self.kiln("tune", spec or self.spec, "--target", TARGET, "--timings", self.timings, "--decisions", self.decisions,
                         "--json", *options)

    def tuned(self, *options, spec=None):
        process = self.tune(*options, spec=spec)
        self.assertEqual(process.returncode, 0, process.stderr)
        return json.loads(process.stdout)

    def records(self):
        return [json.loads(line) for line in self.timings.read_text().splitlines()]

    def decided(self):
        return [json.loads(line) for line in self.decisions.read_text().splitlines()]

    def test_the_geometric_mean_decides(self):
        answer = self.tuned("--budget", "9c", "--runner", self.runner, "--report", self.folder / "page.html")
        problem, = answer["problems"]
        self.assertIn("-i?x?-", problem["problem"])
        records = self.records()
        self.assertEqual(len([record for record in records if not record.get("final")]), 9 + 1)
        for record in records:
            self.assertEqual(record["verdict"], "ok")
            at = [size["problem"] for size in record["sizes"]]
            self.assertEqual([("-i12x12-" in text, "-i7x9-" in text) for text in at], [(True, False), (False, True)])
            mean = math.prod(size["ms"] for size in record["sizes"]) ** 0.5
            self.assertAlmostEqual(record["ms"], mean, delta=1e-9)
            self.assertAlmostEqual(record["ratio"], math.prod(size["ratio"] for size in record["sizes"]) ** 0.5, delta=1e-9)
        # The best in the mean, though another is best at one size.
        searched = [record for record in records if not record.get("final")]
        best = min(searched, key=lambda record: record["ratio"])
        decision, = self.decided()
        self.assertEqual((decision["algorithm"], decision["schedule"]), (best["algorithm"], best["schedule"]))
        self.assertEqual(decision["problem"], problem["problem"])
        self.assertEqual(decision["sizes"], at)
        firsts = {min(searched, key=lambda record, i=i: record["sizes"][i]["ratio"])["schedule"] for i in range(2)}
        self.assertNotEqual(firsts, {best["schedule"]}, "the seed shows nothing: take another budget")
        self.assertEqual([size["ms"] for size in problem["sizes"]], [size["ms"] for size in best["sizes"]])
        page = (self.folder / "page.html").read_text()
        self.assertIn("Open sizes", page)
        self.assertIn(at[1], page)
        self.look_at_builds(decision)

    def look_at_builds(self, decision):
        """What was decided is what builds take, and it is right at sizes that nobody timed."""
        explained = self.kiln("explain", self.spec, "--target", TARGET, "--decisions", self.decisions).stdout
        self.assertIn(f"({self.decisions}:1, timed at 2 sizes)", explained)
        done = self.kiln("compile", self.spec, "-o", self.folder / "out", "--name", "net", "--target", TARGET, "--decisions",
                         self.decisions)
        self.assertEqual((done.returncode, done.stderr.count("warning")), (0, 0), done.stderr)
        kernel, = json.loads((self.folder / "out/net.json").read_text())["kernels"]
        self.assertEqual(kernel["schedule"], decision["schedule"])
        done = self.kiln("verify", self.spec, "--target", TARGET, "--decisions", self.decisions)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_resumed_and_replayed(self):
        self.tuned("--budget", "8c/layer", "--runner", self.runner)
        decided, tried = self.decisions.read_text(), {key(record) for record in self.records()}
        answer = self.tuned("--budget", "8c/layer", "--runner", self.runner, "--resume")  # all eight are there
        self.assertEqual(answer["problems"][0]["tried"], 8)
        self.assertEqual({key(record) for record in self.records()}, tried)
        self.assertEqual(self.decisions.read_text(), decided)
        finals = [record for record in self.records() if record.get("final")]
        self.assertEqual(len(finals), len({key(record) for record in finals}), "what was compared is not compared again")
        self.assertGreater(len(finals), 1)
        # A comparison that was cut off is.
        kept = [record for record in self.records() if record != finals[-1]]
        self.timings.write_text("".join(json.dumps(record) + "\n" for record in kept))
        self.tuned("--budget", "8c/layer", "--runner", self.runner, "--resume")
        self.assertEqual(len([record for record in self.records() if record.get("final")]), len(finals) - 1 + len(finals))
        self.assertEqual(self.decisions.read_text(), decided)
        recorded = self.timings.rename(self.folder / "recorded.jsonl")
        answer = self.tuned("--budget", "8c/layer", "--replay", recorded)
        self.assertEqual(answer["pool"]["drawn"], 0)
        self.assertEqual(self.decisions.read_text(), decided)
        self.assertEqual({key(record) for record in self.records()}, tried)
        # Times at other sizes are another's.
        recorded.rename(self.timings)
        count = len(self.records())
        answer = self.tuned("--budget", "2c/layer", "--runner", self.runner, "--resume", "--sizes", "a=1x16x5x5")
        self.assertEqual(answer["problems"][0]["tried"], 2)
        more = self.records()[count:]
        self.assertEqual({len(record["sizes"]) for record in more}, {3})
        self.assertGreaterEqual(len(more), 2 + 1)

    def test_measured(self):
        """Real times of real kernels: two layers that are one problem, with a list each, one of them by the command line."""
        self.spec.write_text(LAYER.format(name="a", more="sizes = [[1, 16, 10, 10]]") + LAYER.format(name="b", more=""))
        answer = self.tuned("--budget", "3c", "--sizes", "b=1x16x6x30")
        problem, = answer["problems"]
        self.assertEqual(problem["layers"], ["a", "b"])
        for record in self.records():
            self.assertEqual(record["verdict"], "ok")
            first, second = record["sizes"]
            self.assertIn("-i6x30-", second["problem"])
            self.assertTrue(min(first["ms"], second["ms"]) * 0.5 < record["ms"] < max(first["ms"], second["ms"]) * 2, record)

    def test_a_candidate_must_be_right_at_each_size(self):
        runner = self.script(OTHER_SIZE_RUNNER.format(python=sys.executable))
        process = self.tune("--budget", "1c", "--runner", runner)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(process.stderr, r"a: its default kernel failed: .*\(at conv2d-f32-n1-c8-i7x9-m24-")

    def test_a_model_at_sizes_of_its_inputs(self):
        x, y = (onnx.helper.make_tensor_value_info(name, 1, [1, channels, "h", "w"]) for name, channels in (("x", 4), ("y", 8)))
        draw = np.random.default_rng(1).standard_normal
        weights = [onnx.numpy_helper.from_array(draw(shape).astype(np.float32), name)
                   for name, shape in (("w1", [8, 4, 3, 3]), ("w2", [8, 8, 3, 3]))]
        nodes = [onnx.helper.make_node("Conv", ["x", "w1"], ["m"], "down", pads=[1, 1, 1, 1], strides=[2, 2]),
                 onnx.helper.make_node("Conv", ["m", "w2"], ["y"], "flat", pads=[1, 1, 1, 1])]
        graph = onnx.helper.make_graph(nodes, "net", [x], [y], weights)
        model = self.folder / "net.onnx"
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), model)
        answer = self.tuned("--budget", "1c/layer", "--runner", self.runner, "--sizes", "x=1x4x16x20", "--sizes", "x=1x4x9x9",
                            spec=model)
        self.assertEqual([problem["layers"] for problem in answer["problems"]], [["down"], ["flat"]])
        at = {record["problem"]: [size["problem"] for size in record["sizes"]] for record in self.records()}
        for problem, sizes in zip(answer["problems"], (("-i16x20-", "-i9x9-"), ("-i8x10-", "-i5x5-"))):
            texts = at[problem["problem"]]
            self.assertTrue(len(texts) == 2 and all(size in text for size, text in zip(sizes, texts)), texts)

    def test_what_is_wrong_is_told(self):
        for more, part in (("", "leaves sizes open, and says none to be timed at (sizes, or --sizes): it keeps its default"),
                           ("sizes = [[1, 8, 12, 12]]", "sizes has [1, 8, 12, 12]"),
                           ('sizes = [[1, 16, "?", 12]]', 'sizes has [1, 16, ?, 12]: it is none of the layer\'s sizes'),
                           ('sizes = ["conv1d"]', "sizes: "), ("sizes = []", "a list of x's shapes is needed")):
            self.spec.write_text(LAYER.format(name="a", more=more))
            process = self.tune("--budget", "1c", "--runner", self.runner)
            self.assertIn(part, process.stderr)
            self.assertEqual(process.returncode, 0 if more == "" else 1, process.stderr)
        self.spec.write_text(OPEN)
        for sizes, part in (("aa=1x16x5x5", "there is no such layer: did you mean a?"), ("a=1x?x5x5", "cannot be open"),
                            ("a", "write it like INPUT=1x3x224x224")):
            process = self.tune("--budget", "1c", "--sizes", sizes)
            self.assertNotEqual(process.returncode, 0)
            self.assertIn(part, process.stderr)
        process = self.tune("--budget", "1c", "--predict", "skylake-avx512")
        self.assertIn("how often loops run is predicted for known ones alone", process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
