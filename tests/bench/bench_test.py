"""The benchmark without any of its peers: made-up libraries that are right, wrong, and that crash; tables, JSON and page.

bench_test.py ROOT BUILD"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx

BUILD, ROOT = sys.argv.pop(), sys.argv.pop()
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(ROOT, "bench"))
sys.path.insert(1, os.path.join(ROOT, "tests", "reference"))

import balance  # noqa: E402
import cliffs  # noqa: E402
import in_order  # noqa: E402
import measure  # noqa: E402
import problem as problems  # noqa: E402
import reference  # noqa: E402
import regret  # noqa: E402
import report  # noqa: E402
import run  # noqa: E402
import sides  # noqa: E402
import tensors as numbers  # noqa: E402
from networks import onnxruntime as ort  # noqa: E402

CONV = "conv2d-f32-n1-c4-i5x6-m8-o3x3-k3x3-s2x2-d1x1-p1x1,1x0-g2-ncx,ncx-bias"
TRANSPOSED = "convtranspose1d-f32-n2-c4-i5-m6-o10-k4-s2-d1-p1,1-g2-ncx,ncx-bias-relu"
DEFORMABLE = "deformconv2d-f32-n1-c4-i5x5-m3-o5x5-k3x3-s1x1-d1x1-p1x1,1x1-g1-og2-ncx,ncx-bias-mask"
TEXTS = (CONV, TRANSPOSED, DEFORMABLE,
         "conv3d-bf16-n1-c3-i4x4x4-m2-o4x4x4-k3x3x3-s1x1x1-d1x1x1-p1x1x1,1x1x1-g1-nxc,ncx-bias-leakyrelu:0.5-strict",
         "conv2d-u8.s8.u8-n1-c4-i6x6-m4-o4x4-k3x3-s1x1-d1x1-p0x0,0x0-g1-xz3-yz0-nxc,nxc-wz-bias",
         "conv1d-f16-n1-c1-i4-m1-o2-k3-s1-d1-p~1,1-g1-ncx,ncx")


class Problems(unittest.TestCase):
    def test_texts_come_back(self):
        for text in TEXTS:
            with self.subTest(text):
                self.assertEqual(problems.parse(text).text(), text)

    def test_activation_is_exchanged(self):
        problem = problems.parse(TEXTS[3])
        self.assertEqual(problem.activation, "leakyrelu:0.5")
        self.assertEqual(problem.with_activation("relu").flags, ("bias", "relu", "strict"))
        self.assertEqual(problem.with_activation("").flags, ("bias", "strict"))

    def test_open_sizes_are_refused(self):
        with self.assertRaisesRegex(ValueError, "open"):
            problems.parse(CONV.replace("n1", "n?"))


class Answers(unittest.TestCase):
    """The benchmark's reference against that of the tests."""

    def check(self, text, operator):
        problem = problems.parse(text)
        tensors = numbers.make(problem)
        attributes = {"strides": problem.strides, "dilations": problem.dilations,
                      "pads": [*problem.pads_begin, *problem.pads_end]}
        geometry = reference.onnx_conv if operator == "Conv" else reference.onnx_conv_transpose
        sizes, kernel = tensors["x"].shape[2:], tensors["w"].shape[2:]
        convolution = reference.Convolution(operator, problem.strides, problem.dilations,
                                            geometry(sizes, kernel, attributes), problem.groups)
        y = reference.compute(convolution, "float32", tensors["x"], tensors["w"], tensors["bias"],
                              activation="Relu" if problem.activation else None).y
        np.testing.assert_allclose(numbers.reference(problem, tensors), y, atol=1e-9)

    def test_conv(self):
        self.check(CONV, "Conv")
        self.check("conv1d-f32-n2-c3-i9-m4-o5-k3-s1-d2-p0,0-g1-ncx,ncx-bias", "Conv")

    def test_conv_transpose(self):
        self.check(TRANSPOSED, "ConvTranspose")
        self.check("convtranspose2d-f32-n1-c3-i4x4-m2-o9x8-k3x3-s2x2-d1x1-p0x1,0x0-g1-ncx,ncx-bias", "ConvTranspose")

    def test_deform_conv_at_rest_is_a_convolution(self):
        problem = problems.parse(DEFORMABLE)
        tensors = numbers.make(problem)
        tensors["offset"][:], tensors["mask"][:] = 0, 1
        plain = problems.parse(DEFORMABLE.replace("deformconv", "conv").replace("-og2", "").replace("-mask", ""))
        np.testing.assert_allclose(numbers.reference(problem, tensors), numbers.reference(plain, tensors), atol=1e-9)

    def test_deform_conv_samples_between_pixels(self):
        problem = problems.parse("deformconv2d-f32-n1-c1-i2x2-m1-o1x1-k1x1-s1x1-d1x1-p0x0,~1x~1-g1-og1-ncx,ncx-mask")
        tensors = {"x": np.float32([[[[1, 2], [3, 5]]]]), "w": np.float32([[[[2]]]]),
                   "offset": np.float32([0.5, 0.25]).reshape(1, 2, 1, 1), "mask": np.float32([[[[0.5]]]])}
        expected = 2 * 0.5 * (0.5 * (0.75 * 1 + 0.25 * 2) + 0.5 * (0.75 * 3 + 0.25 * 5))
        self.assertAlmostEqual(numbers.reference(problem, tensors).item(), expected)

    def test_errors(self):
        problem, eight = problems.parse(CONV), problems.parse(TEXTS[4])
        expected = np.float64([[-2.0, 1.0]])
        for of, off, right in ((problem, 1e-4, True), (problem, 1e-3, False), (problem, np.nan, False), (eight, 1, True),
                               (eight, 2, False)):
            with self.subTest(problem=of.x_type, off=off):
                self.assertEqual(numbers.error_of(of, expected + off, expected)[1], right)
        with self.assertRaisesRegex(ValueError, "shape"):
            numbers.error_of(problem, expected.T, expected)

    def test_bfloat16_rounds_to_nearest_even(self):
        values = np.float32([1, 1 + 2**-8, 1 + 3 * 2**-8, -3.5])
        np.testing.assert_array_equal(numbers.from_bf16(numbers.to_bf16(values)),
                                      np.float32([1, 1, 1 + 2**-6, -3.5]))


class Suite(unittest.TestCase):
    """One run of three layers beside four made-up libraries; the tests look at what came of it."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        log = os.path.join(cls.folder, "log")
        environment = {"FAKE_LOG": log, "PYTHONPATH": os.path.join(HERE, "fakes")}
        modules = {"kiln": "right", "fast": "fast", "wrong": "wrong", "crashing": "crashing", "gone": "no_such_module"}
        everyone = [sides.Side(name, module, environment=environment) for name, module in modules.items()]
        running, facts = run.start(everyone)
        cls.running = [side.name for side in running]
        layers = [(name, problems.parse(text)) for name, text in (("A", CONV), ("B", TRANSPOSED), ("D", DEFORMABLE))]
        peaks = run.Peaks(running[0], False)
        cls.rows = run.run_suite([*layers, ("E", "refused")], running, peaks, rounds=3, seconds=0.0)
        calls = run.call_times(running[:1])
        for side in everyone:
            side.stop()
        with open(log, encoding="utf-8") as file:
            cls.log = file.read().split("\n")
        cls.result = {"processor": "<None>", "cpu": 0, "held": None, "amx": False, "peaks": peaks.medians(),
                      "bandwidth": 5.0, "rounds": 3, "sides": facts, "calls": calls, "rows": cls.rows,
                      "means": report.means(cls.rows)}

    def setting(self, row, key):
        return self.rows[row]["settings"][key]

    def verdicts(self, row, side):
        return {(entry["layout"], entry["epilogue"]): entry["verdict"] for entry in self.rows[row]["sides"][side]}

    def test_a_library_that_is_not_there_is_said(self):
        self.assertEqual(self.running, ["kiln", "fast", "wrong", "crashing"])
        self.assertIn("gone: not there: No module named", report.text(self.result))

    def test_the_fastest_right_answer_counts(self):
        for key in ("best/plain", "best/relu", "ncx/plain", "ncx/relu"):
            with self.subTest(key):
                self.assertAlmostEqual(self.setting(0, key)["ours"]["ms"], 0.1)
        self.assertEqual(self.setting(0, "best/relu")["best"], "fast")
        self.assertAlmostEqual(self.setting(0, "best/relu")["ratio"], 0.5)

    def test_a_wrong_answer_has_no_time(self):
        self.assertEqual(self.verdicts(0, "wrong"), {("nxc", ""): "ok", ("ncx", ""): "ok", ("nxc", "relu"): "wrong",
                                                     ("ncx", "relu"): "wrong"})
        self.assertEqual(self.setting(0, "best/plain")["best"], "wrong")  # it is right there
        self.assertNotIn("wrong", self.setting(0, "best/relu")["peers"])
        self.assertRegex(report.text(self.result), r"A: wrong \(nxc relu\): wrong: error \d")

    def test_a_crash_ends_nothing_else(self):
        self.assertEqual(self.verdicts(0, "crashing"), {("nxc", ""): "ok", ("ncx", ""): "ok", ("nxc", "relu"): "crashed",
                                                        ("ncx", "relu"): "crashed"})
        self.assertAlmostEqual(self.setting(0, "best/plain")["peers"]["crashing"]["ms"], 0.1)
        self.assertIn("A: crashing (nxc relu): crashed: crashed: SIGSEGV", report.text(self.result))
        self.assertEqual(set(self.verdicts(1, "crashing").values()), {"failed"})
        self.assertIn("no such thing", report.text(self.result))
        self.assertIn("ok", self.verdicts(2, "crashing").values())

    def test_a_case_that_is_lacked_is_said(self):
        self.assertEqual(set(self.verdicts(1, "fast").values()), {"unsupported"})
        self.assertIn("D: kiln (nxc): unsupported: it has no deformable convolution", report.text(self.result))
        self.assertFalse(report.is_right(self.rows[2]))  # right.py, which stands for Kiln, lacks it
        self.assertFalse(report.is_right(self.rows[3]))
        self.assertTrue(report.is_right(self.rows[0]))

    def test_rounds_are_interleaved(self):
        plain = [line.split()[0] for line in self.log if line.endswith("ncx ") or line.endswith("nxc ")]
        plain = plain[:plain.index("fast") + 200]
        self.assertGreater(sum(a != b for a, b in zip(plain, plain[1:])), 6)
        rounds = {len(entry["rounds_ms"]) for side in self.rows[0]["sides"].values() for entry in side
                  if entry["verdict"] == "ok"}
        self.assertEqual(rounds, {3})

    def test_ratios_compare_within_rounds(self):
        """A slow minute within the rounds, and a round in which one side alone is slow, move no ratio."""
        ours, peer, hopeless = (measure.Candidate(side, "nxc", False, "", None, "ok", seconds=seconds) for side, seconds in (
            (None, [4, 4, 8, 12, 4]), (None, [5, 5, 10, 5, 5]), (None, [7])))
        self.assertEqual(measure.times_over(peer, ours), 1.25)
        self.assertEqual(measure.times_over(hopeless, ours), 1.75)
        self.assertIs(measure.fastest_beside([hopeless, peer], ours), peer)
        self.assertIsNone(measure.fastest_beside([], ours))

    def test_means_and_losses(self):
        group = self.result["means"]["ncx/plain"]["f32"]
        self.assertEqual(group["losses"], ["A", "B"])
        self.assertEqual(group["layers"], 2)
        self.assertAlmostEqual(report.geometric_mean([2.0, 8.0]), 4.0)
        self.assertIn("2 lost: A, B", report.text(self.result))

    def test_table(self):
        lines = report.text(self.result).split("\n")
        start = next(i for i, line in enumerate(lines) if line.startswith("each in its best layout, with ReLU"))
        self.assertEqual(lines[start + 1].split(), ["layer", "algorithm", "layout", "ms", "peak", "best", "peer", "ms",
                                                    "ratio", "fast", "wrong", "crashing"])
        fields = lines[start + 2].split()
        self.assertEqual(fields[:4], ["A", "naive", "nxc", "0.1000"])
        self.assertEqual(fields[5:], ["fast", "0.0500", "0.50", "LOSS", "0.0500", "wrong", "crashed"])
        self.assertIn("E: refused", lines)

    def test_markdown(self):
        lines = report.markdown(self.result).split("\n")
        self.assertEqual(lines[2], "| A | naive | 0.1 | fast 0.05 | 0.50 | 0.1 | fast 0.05 | 0.50 |")
        self.assertFalse([line for line in lines if line.startswith("| E ")])
        self.assertIn("plain NCX in and out, with ReLU: f32: 0.50 times the best peer in geometric mean of 1; 1 lost: A", lines)

    def test_json(self):
        again = json.loads(json.dumps(self.result))
        self.assertEqual(again["peaks"], {"f32": 10.0, "int8": 40.0, "bf16": 20.0})
        self.assertEqual(set(again["rows"][0]), {"layer", "problem", "type", "gflop", "intensity", "sides", "settings"})
        self.assertAlmostEqual(again["rows"][0]["gflop"], 2e-9 * 9 * 8 * 2 * 9)
        self.assertEqual(report.text(again), report.text(self.result))

    def test_page(self):
        path = os.path.join(self.folder, "page.html")
        report.write_page(path, self.result)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        figures = [json.loads(words) for words in re.findall(r'<script type="application/json">(.*?)</script>', text)]
        roofline, first = figures[0]["data"], figures[1]["data"]
        self.assertEqual(sum(len(trace["x"]) for trace in roofline if trace["mode"] == "markers"), 2)  # D lacks a time
        self.assertIn("slower", [trace["name"] for trace in first])
        text = re.sub(r'<script class="library"[^>]*>.*?</script>', "", text, flags=re.DOTALL)
        self.assertIn("&lt;None&gt;", text)
        self.assertNotIn("<None>", text)


class Processes(unittest.TestCase):
    def test_no_answer_in_time(self):
        with tempfile.TemporaryDirectory() as folder:
            side = sides.Side("silent", "silent", environment={"PYTHONPATH": os.path.join(HERE, "fakes")}, timeout=5.0)
            self.addCleanup(side.stop)
            self.assertEqual(side.start()["version"], "0")
            found = measure.Layer(problems.parse(CONV), [side], folder)
            found.candidates = found.candidates[:1]
            side.timeout, side.start = 0.2, lambda: None
            found.prepare()
            self.assertEqual([(one.verdict, one.note) for one in found.candidates], [("crashed", "no answer in 0.2 s")])

    def test_held_to_avx2(self):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            if "cpuid_fault" not in file.read():
                self.skipTest("this processor cannot make CPUID fault")
        with tempfile.TemporaryDirectory() as folder:
            library = run.hold_library(folder)
            program = os.path.join(folder, "features")
            source = ("#include <cpuid.h>\n#include <stdio.h>\nint kiln_bench_hold(int);\nint main(int n, char **v) {\n"
                      "unsigned a, b, c, d;\nint worked = n > 1 ? kiln_bench_hold(1) : 0;\n"
                      "__cpuid_count(7, 0, a, b, c, d);\nprintf(\"%d %u %u\", worked, b >> 16 & 1, b >> 5 & 1);\n}\n")
            subprocess.run([os.environ.get("CC") or "gcc", "-x", "c", "-", "-x", "none", library, "-o", program],
                           input=source, text=True, check=True)
            said = [subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout.split()
                    for arguments in ([], ["held"])]
            if said[1][0] != "0":
                self.skipTest("this system does not let CPUID fault")
            self.assertEqual(said[1], ["0", "0", said[0][2]])  # no AVX-512 F; AVX2 as before


class CommandLine(unittest.TestCase):
    def run_bench(self, *arguments):
        return subprocess.run([sys.executable, os.path.join(ROOT, "bench", "run.py"), *arguments], capture_output=True,
                              text=True, check=False)

    def test_kiln_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            suite, answer = (os.path.join(folder, name) for name in ("suite.toml", "answer.json"))
            with open(suite, "w", encoding="utf-8") as file:
                file.writelines(f'[[layer]]\nname = "{name}"\nproblem = "{text}"\n' for name, text in (
                    ("deformable", DEFORMABLE + "-residual"), ("eight", TEXTS[4].replace("-wz", "")),
                    ("open", CONV.replace("n1", "n?")), ("unwanted", TRANSPOSED)))
            done = self.run_bench("--build", BUILD, suite, "--layers", "eight,deformable,open", "--peers=", "--rounds", "1",
                                  "--seconds", "0", "--avx2", "--json", answer, "--page", os.path.join(folder, "page"))
            self.assertEqual(done.returncode, 1, done.stderr)  # for "open"
            with open(answer, encoding="utf-8") as file:
                answer = json.load(file)
            self.assertEqual([row["layer"] for row in answer["rows"]], ["eight", "deformable", "open"])
            for row in answer["rows"][:2]:
                self.assertEqual([(entry["layout"], entry["epilogue"], entry["verdict"]) for entry in row["sides"]["kiln"]],
                                 [(layout, epilogue, "ok") for epilogue in ("", "relu") for layout in ("nxc", "ncx")])
            self.assertEqual(answer["rows"][2]["failed"], "sizes are left open")
            self.assertGreater(answer["peaks"]["f32"], 1)

    def test_a_whole_model(self):
        """A network by itself: its time and its sizes; a model whose sizes are open is told how to give them."""
        node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
        w = onnx.numpy_helper.from_array(np.ones([4, 3, 3, 3], np.float32), "w")
        value = lambda name, shape: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        graph = onnx.helper.make_graph([node], "net", [value("x", ["n", 3, 8, 8])], [value("y", None)], [w])
        with tempfile.TemporaryDirectory() as folder:
            model, times = os.path.join(folder, "net.onnx"), os.path.join(folder, "times.json")
            onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), model)
            words = ("--build", BUILD, "--network", model, "--peers=", "--rounds", "1", "--seconds", "0.01", "--json", times)
            done = self.run_bench(*words)
            self.assertEqual(done.returncode, 1)
            self.assertIn("--shape x=", done.stderr)
            done = self.run_bench(*words, "--shape", "x=2x3x8x8")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("kiln", done.stdout)
            with open(times, encoding="utf-8") as file:
                result = json.load(file)
        self.assertGreater(result["ways"][0]["ms"], 0)
        self.assertGreater(result["facts"]["code_bytes"], 0)

    def test_convolutions_in_order(self):
        """Of Kiln alone: each convolution's time in the network and warm, the rest of the network not among them, such as products
        of matrices, which are layers."""
        nodes = [onnx.helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), onnx.helper.make_node("Softmax", ["a"], ["b"]),
                 onnx.helper.make_node("Conv", ["b", "v"], ["c"], "second"), onnx.helper.make_node("Relu", ["c"], ["r"]), onnx.helper.make_node("MatMul", ["r", "u"], ["y"])]
        constants = [onnx.numpy_helper.from_array(np.ones(shape, np.float32), name)
                     for name, shape in (("w", [4, 3, 3, 3]), ("v", [5, 4, 1, 1]), ("u", [8, 8]))]
        value = lambda name, shape: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        graph = onnx.helper.make_graph(nodes, "net", [value("x", [1, 3, 8, 8])], [value("y", None)], constants)
        with tempfile.TemporaryDirectory() as folder:
            model, times = os.path.join(folder, "net.onnx"), os.path.join(folder, "times.json")
            onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), model)
            done = self.run_bench("--build", BUILD, model, "--in-order", "--peers=", "--rounds", "2", "--calls", "3", "--seconds",
                                  "0.01", "--json", times)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(times, encoding="utf-8") as file:
                result, = json.load(file)
        self.assertEqual([row["node"] for row in result["nodes"]], ["Conv_0", "second"])
        ours = result["ways"]["kiln"]
        self.assertEqual(ours["convolutions"], 2)
        for key in ("kiln_ms", "warm_ms"):
            self.assertTrue(all(row[key] > 0 for row in result["nodes"]))
        self.assertAlmostEqual(ours["convolutions_ms"], sum(row["kiln_ms"] for row in result["nodes"]))
        self.assertAlmostEqual(ours["warm_ms"], sum(row["warm_ms"] for row in result["nodes"]))
        self.assertGreater(ours["nodes_ms"], ours["convolutions_ms"])
        self.assertIn("net.onnx", done.stdout)
        done = self.run_bench("none.onnx", "--in-order", "--peers", "emx")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no peer emx whose nodes are timed", done.stderr)

    def test_unknown_layer(self):
        done = self.run_bench("--build", BUILD, "--layers", "C1,C99", "--peers=")
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no layer C99; there are C1, C2", done.stderr)

    def test_unknown_peer(self):
        done = self.run_bench("--peers", "onednn,tensorrt")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no peer tensorrt; there are onnxruntime, openvino", done.stderr)


class InOrder(unittest.TestCase):
    """What onnxruntime's profiles have of nodes, and which convolutions they are."""

    def test_a_profile(self):
        """Of three runs the first does not count; a node's times are of the runs that it is in."""
        event = lambda name, ts, dur, cat="Session", **args: {"name": name, "ts": ts, "dur": dur, "cat": cat, "args": args}
        events = [event("model_loading_uri", 0, 5)]
        for run_at, each in ((100, 9), (200, 3), (300, 5)):
            events += [event("model_run", run_at, 50), event("SequentialExecutor::Execute", run_at + 1, 48),
                       event("fused stem_kernel_time", run_at + 2, each, "Node", op_name="FusedConv", node_index="1"),
                       event("fused stem_fence_before", run_at + 2, 1, "Node", op_name="FusedConv"),
                       event("r2_nchwc_kernel_time", run_at + 20, 2 * each, "Node", op_name="Conv", node_index="2")]
        first, second = ort.nodes_of(events, [False, True, True])
        np.testing.assert_allclose(first["seconds"], [3e-6, 5e-6])
        np.testing.assert_allclose(second["seconds"], [6e-6, 10e-6])
        self.assertEqual((first["kind"], second["kind"]), ("FusedConv", "Conv"))
        self.assertIn("stem", first["names"])
        self.assertIn("r2", second["names"])

    def test_whose_a_node_is(self):
        """By its name, by the value that it makes with what is fused, and of two behind a sum the one that is left."""
        node = onnx.helper.make_node
        nodes = [node("Conv", ["x", "w"], ["a"], "stem"), node("Relu", ["a"], ["b"], "r"), node("Conv", ["b", "v"], ["c"], "left"),
                 node("Conv", ["b", "u"], ["d"], "right"), node("Add", ["c", "d"], ["e"], "sum"), node("Relu", ["e"], ["f"], "end"),
                 node("ConvTranspose", ["f", "t"], ["g"], "up"), node("ConvertNothing", ["g"], ["y"], "no")]
        model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [], []))
        convolutions = in_order.Convolutions(model)
        self.assertEqual(convolutions.names, ["stem", "left", "right", "up"])
        owners = convolutions.owners({"1": ["b"], "2": ["f"], "3": ["d"], "4": ["up/WithoutBiases", "up"], "5": ["elsewhere"]})
        self.assertEqual(owners, {"stem": "1", "left": "2", "right": "3", "up": "4"})


class Cliffs(unittest.TestCase):
    def test_drawn_layers_are_problems_in_both_layouts(self):
        text = cliffs.layers_file(3, 25, ["float32", "bfloat16", "uint8"])
        self.assertEqual(text, cliffs.layers_file(3, 25, ["float32", "bfloat16", "uint8"]))
        self.assertNotEqual(text, cliffs.layers_file(4, 25, ["float32", "bfloat16", "uint8"]))
        with tempfile.TemporaryDirectory() as folder:
            spec = os.path.join(folder, "drawn.toml")
            with open(spec, "w", encoding="utf-8") as file:
                file.write(text)
            layers = run.read_suite(os.path.join(BUILD, "bin", "kiln"), spec, [], "x86-64-avx2")
        self.assertEqual([name for name, problem in layers if isinstance(problem, str)], [])
        self.assertEqual([name for name, _ in layers], [f"r{i}_{layout}" for i in range(25) for layout in ("nxc", "ncx")])
        self.assertEqual({problem.operator for _, problem in layers}, {"conv", "convtranspose"})

    def test_tells_small_shares_layouts_apart_and_definitions(self):
        def rows(name, nxc, ncx, algorithm="direct"):
            return [{"layer": f"{name}_{layout}", "ms": ms, "peak_share": share, "algorithm": algorithm, "problem": f"p-{layout},{layout}"}
                    for layout, (ms, share) in (("nxc", nxc), ("ncx", ncx))]

        good, far = rows("good", (1, 0.9), (1.1, 0.8)), rows("far", (1, 0.9), (3, 0.35))
        low, plain = rows("low", (1, 0.1), (1, 0.1)), rows("plain", (1, 0.5), (1, 0.5), "definition")
        failed = [{"layer": "failed_nxc", "error": "it crashed"}, *rows("failed", (1, 0.1), (1, 0.1))[1:]]
        found = cliffs.cliffs([*good, *far, *low, *plain, *failed], 0.3, 1.8)
        self.assertEqual([both["nxc"]["layer"] for _, _, both in found], ["low_nxc", "far_nxc", "plain_nxc"])
        self.assertEqual([round(ratio, 1) for _, ratio, _ in found], [1, 3, 1])


class Regret(unittest.TestCase):
    NAMES = [f"layer_{i}" for i in range(6)]
    DIRECT = ("direct", "lanes:8;rows:1", 2.0)

    def test_a_third_is_held_back_whatever_the_order(self):
        names = [f"layer_{i}" for i in range(60)]
        held = regret.held_back(names)
        self.assertEqual(len(held), 20)
        self.assertEqual(regret.held_back(names[::-1], "bench/networks.toml"), held)
        self.assertEqual(regret.held_back(names, "bench/suite.toml"), set())

    def tuned(self, layer, gain, default, chosen, candidates=()):
        decisions = [dict(zip(("algorithm", "schedule", "ms"), one)) for one in (default, chosen)]
        keys = ("algorithm", "schedule", "estimated_cycles", "ratio", "verdict")
        return {"layers": [layer], "error": "", "gain": gain, "default": decisions[0], "chosen": decisions[1],
                "tried": len(candidates), "candidates": [dict(zip(keys, (*one, "ok"))) for one in candidates]}

    def answer(self):
        held = min(regret.held_back(self.NAMES))
        open_one = min(set(self.NAMES) - regret.held_back(self.NAMES))
        tried = [("direct", f"lanes:8;rows:{rows}", 10.0 * rows, ratio) for rows, ratio in ((1, 1), (2, .8), (3, 1.5), (4, 2))]
        return held, open_one, {"machine": "M", "target": "T", "problems": [
            self.tuned(open_one + "_ncx", 1.25, self.DIRECT, ("direct", "lanes:8;rows:2", 1.6), tried),
            self.tuned(held + "_ncx", 2.0, self.DIRECT, ("winograd", "tile_x:4", 1.0)),
            self.tuned(open_one + "_nxc", 1.0, self.DIRECT, self.DIRECT)]}

    def test_table(self):
        held, open_one, answer = self.answer()
        lines = regret.table(answer, {held}).split("\n")
        self.assertEqual(lines[2:5], ["| NXC, looked at | 1 | 1.000 | 1.00 | 0 | - | - |",
                                      "| NCX, looked at | 1 | 1.250 | 1.25 | 1 | 0.80 of 1 | - |",
                                      "| NCX, held back | 1 | 2.000 | 2.00 | 1 | - | - |"])
        self.assertEqual(lines[8:], [f"| {held} (held back) | NCX | 2.00 | 2 | winograd for direct |",
                                     f"| {open_one} | NCX | 1.25 | 2 | direct: rows 2 for 1 |"])

    def test_what_could_not_be_timed_is_named_and_the_rest_is_told(self):
        held, open_one, answer = self.answer()
        answer["problems"][0]["error"] = "it crashed"
        lines = regret.table(answer, {held}).split("\n")
        self.assertEqual(lines[2:4], ["| NXC, looked at | 1 | 1.000 | 1.00 | 0 | - | - |",
                                      "| NCX, held back | 1 | 2.000 | 2.00 | 1 | - | - |"])
        self.assertEqual(lines[-2:], ["", f"- {open_one} NCX was not timed: it crashed"])
        for problem in answer["problems"]:
            problem["error"] = "the budget was spent before its turn"
        page = regret.page([("bench/networks.toml", answer, {held})], "./dev regret --report F")
        self.assertIn("0 problems, 0.0 candidates each.", page)
        self.assertIn(f"- {held} (held back) NCX was not timed: the budget was spent before its turn\n", page)

    def test_ranks(self):
        self.assertEqual(regret.ranks([3, 1, 3, 2]), [3.5, 1, 3.5, 2])
        self.assertAlmostEqual(regret.rank_correlation([(1, 10), (2, 20), (3, 30), (4, 400)]), 1)
        self.assertAlmostEqual(regret.rank_correlation([(1, 4), (2, 3), (3, 2), (4, 1)]), -1)
        self.assertIsNone(regret.rank_correlation([(1, 1), (2, 2), (3, 3)]))
        self.assertIsNone(regret.rank_correlation([(1, 1), (1, 2), (1, 3), (1, 4)]))

    def test_candidates_that_fail_or_have_no_estimate_do_not_count(self):
        tried = [("direct", "a:1", 10.0, 1), ("direct", "a:2", None, .5), ("direct", "a:1", 10.0, 1.1)]
        tuned = self.tuned("l_ncx", 1, ("direct", "a:1", 1.0), ("direct", "a:1", 1.0), tried)
        tuned["candidates"].append({**tuned["candidates"][0], "schedule": "a:3", "verdict": "failed: it crashed"})
        self.assertEqual(regret.estimates_of(tuned), [(10.0, 1.1)])
        self.assertEqual(regret.estimate_of_default(tuned), 10.0)

    def test_command_says_what_to_ask_and_nothing_of_the_machine(self):
        usual = {"suites": [], "layers": [], "layouts": ["nxc", "ncx"], "part": "all", "budget": "12c", "target": "host", "seed": 1,
                 "report": "/tmp/REGRET.md", "runner": "/opt/on_board.sh", "timings": "/tmp/t.jsonl"}
        self.assertEqual(regret.command(argparse.Namespace(**usual)), "./dev regret --report REGRET.md")
        asked = {"report": os.path.join(ROOT, "docs", "REGRET.md"), "suites": [os.path.join(ROOT, "bench", "suite.toml")],
                 "layers": ["a", "b"], "layouts": ["nxc"], "budget": "5c"}
        self.assertEqual(regret.command(argparse.Namespace(**{**usual, **asked})),
                         "./dev regret bench/suite.toml --layers a,b --layouts nxc --budget 5c --report docs/REGRET.md")

    def test_page(self):
        held, _, answer = self.answer()
        answer["machine"] += "; by /opt/on_board.sh"
        text = regret.page([("bench/suite.toml", answer, set()), ("bench/networks.toml", answer, {held})], "./dev regret --report F")
        self.assertIn("$ ./dev regret --report F\n", text)
        self.assertIn("M, target T.", text)
        suite, networks = text[text.index("## suite.toml"):].split("## networks.toml")
        self.assertIn("| NXC | 1 | 1.000 |", suite)
        self.assertIn(f"| {held} (held back) |", networks)


class Balance(unittest.TestCase):
    def test_the_table_has_long_kernels_that_are_uneven(self):
        def row(ms, shares):
            told = [{"workers": workers, "largest_share": share, "speed_up": workers / share} for workers, share in shares]
            return {"in_pieces_ms": ms, "algorithm": "direct", "pieces": [14, 8], "balance": told}

        rows = {("even", "nxc"): row(0.5, [(2, 1.0), (4, 1.04)]), ("uneven", "ncx"): row(2.0, [(2, 1.0), (4, 1.5)]),
                ("short", "ncx"): row(0.49, [(2, 1.9), (4, 3.9)])}
        lines = balance.table({"machine": {"processor": "P"}}, rows, [2, 4]).split("\n")
        self.assertEqual(lines[0], "P, 3 kernels, 2 of which take 0.5 ms or more in one thread.")
        self.assertEqual(lines[4:6], ["| 2 | 2 | 1.000 | 1.00 | 2.00 |", "| 4 | 1 | 1.249 | 1.50 | 3.20 |"])
        self.assertEqual(lines[9:], ["| uneven | NCX | 2.00 | direct | 14, 8 | 1.00 | 1.50 |"])


if __name__ == "__main__":
    unittest.main()
