"""Runs the demo on ResNet-50's first layers, and looks at everything it writes: demo_test.py ROOT BUILD [PREFIX].

Five layers have all there is to a layer: a stride, a pool, a residual sum, with and without a ReLU.
"""

import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from PIL import Image

ROOT, BUILD, *PREFIX = sys.argv[1:]
LAYERS = ["n0", "n4", "n7", "n10", "n12"]
DEMO = os.path.join(ROOT, "tools", "demo", "demo.py")


def run_demo(*options):
    return subprocess.run([sys.executable, DEMO, *options], capture_output=True, text=True, check=False)


class Page(html.parser.HTMLParser):
    """Counts elements, keeps what they refer to, and checks that they are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.counts, self.references, self.mismatched = [], {}, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.references += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.mismatched.append(tag)


class Demo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        options = ["--kiln", PREFIX[0]] if PREFIX else []
        cls.done = run_demo(BUILD, "--output", cls.folder.name, "--layers", str(len(LAYERS)), "--quick", *options)
        if cls.done.returncode != 0:
            raise AssertionError(f"the demo ended with status {cls.done.returncode}:\n{cls.done.stderr}")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def results(self):
        with open(self.path("resnet50.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_every_layer_is_within_its_bound(self):
        rows = self.results()["rows"]
        self.assertEqual([row["layer"] for row in rows], LAYERS)
        for row in rows:
            with self.subTest(row["problem"]):
                self.assertEqual(row["verdict"], "ok")
                self.assertLess(0, row["error"])
                self.assertLess(row["error"], row["bound"])
                self.assertLess(0, row["ms"])

    def test_layers_are_fused_and_channels_last(self):
        problems = [row["problem"] for row in self.results()["rows"]]
        self.assertTrue(all("-nxc,nxc-bias" in problem for problem in problems), problems)
        self.assertEqual([problem.endswith("-relu") for problem in problems], [True, True, True, False, True])
        self.assertTrue(problems[4].endswith("-residual-relu"), problems[4])

    def test_network_agrees_with_onnxruntime(self):
        network = self.results()["network"]
        self.assertLess(network["difference"], 1e-5)
        self.assertEqual(network["steps"], {"layer": len(LAYERS), "operation": 1})  # the pool
        self.assertLessEqual(network["arena_bound_bytes"], network["arena_bytes"])
        self.assertLess(0, network["kiln"]["ms"])
        self.assertLess(0, network["onnxruntime"]["ms"])

    def test_table(self):
        lines = self.done.stdout.splitlines()
        for row in self.results()["rows"]:
            found = [line for line in lines if line.startswith(row["layer"] + " ")]
            self.assertEqual(len(found), 1, self.done.stdout)
            self.assertIn(row["problem"], found[0])

    def test_intensity(self):
        # 3x3 convolution of 64 by 64 channels, 56 x 56: 231 MFLOP, on two activations, the weights and the bias.
        row = self.results()["rows"][2]
        self.assertAlmostEqual(row["intensity"], 2 * 64 * 64 * 9 * 56**2 / (4 * (2 * 64 * 56**2 + 64 * 64 * 9 + 64)), 2)

    def test_page(self):
        with open(self.path("resnet50.html"), encoding="utf-8") as file:
            text = file.read()
        page = Page(text)
        self.assertEqual((page.open, page.mismatched), ([], []))
        figures = [json.loads(words) for words in re.findall(r'<script type="application/json">(.*?)</script>', text)]
        self.assertEqual(len(figures), 3)
        roofline = [trace for trace in figures[1]["data"] if trace["mode"] == "markers"]
        self.assertEqual(sum(len(trace["x"]) for trace in roofline), len(LAYERS))
        bars = [trace for trace in figures[2]["data"] if trace["type"] == "bar"]
        self.assertEqual(len({trace["marker"]["color"] for trace in bars}), len(bars))
        self.assertIn("Plotly", text)
        self.assertEqual(page.counts["img"], 2)
        self.assertTrue(all(reference.startswith("data:") for reference in page.references))
        own = re.sub(r'"data:[^"]*"|<script class="library"[^>]*>.*?</script>', "", text, flags=re.DOTALL)
        self.assertNotRegex(own, r"\b(nan|inf|None)\b")

    def test_picture(self):
        small = Image.open(os.path.join(ROOT, "examples", "pictures", "cat.png")).convert("RGB")
        large = Image.open(self.path("upscaled.png"))
        expected = small.resize((4 * small.width, 4 * small.height), Image.Resampling.BILINEAR)
        difference = np.abs(np.asarray(large, np.int32) - np.asarray(expected, np.int32))
        self.assertLessEqual(difference.max(), 1)  # Pillow computes in whole numbers


class Errors(unittest.TestCase):
    def test_no_build(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run_demo(folder, "--layers", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{folder} is no folder in which Kiln was built", done.stderr)

    def test_layers_out_of_range(self):
        done = run_demo(BUILD, "--layers", "54")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--layers is 54: it must be 1 to 53", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
