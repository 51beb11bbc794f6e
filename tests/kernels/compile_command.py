"""kiln compile: what it writes, and what it says when something is wrong with its input or its surroundings."""

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import kiln_run

LAYER = """
[[layer]]
name = "{name}"
operator = "Conv"
x = [1, {channels}, 8, 8]
w = [4, 3, 3, 3]
strides = [{stride}, 1]
"""
GOOD = LAYER.format(name="good", channels=3, stride=1)
PROBLEM = "conv2d-f32-n1-c3-i8x8-m4-o6x6-k3x3-s1x1-d1x1-p0x0,0x0-g1-ncx,ncx"


class CompileCommand(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def command(self, layers, *options, output=None):
        spec = self.folder / "net.toml"
        spec.write_text(layers)
        return [kiln_run.kiln(), "compile", str(spec), "-o", str(output or self.folder / "out"), *options]

    def compile(self, layers, *options, output=None, environment=None, wrapper=()):
        command = [*wrapper, *self.command(layers, *options, output=output)]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})}
        )

    def manifest(self):
        return json.loads((self.folder / "out/net.json").read_text())

    def test_a_bad_layer_leaves_the_others(self):
        bad = LAYER.format(name="bad", channels=5, stride=1) + LAYER.format(name="worse", channels=3, stride=-2)
        process = self.compile(bad + GOOD)
        self.assertEqual(process.returncode, 1)
        self.assertIn("layer bad: invalid_argument: x[1] is 5", process.stderr)
        self.assertIn("layer worse: invalid_argument: strides[0] is -2", process.stderr)
        self.assertEqual([layer["name"] for layer in self.manifest()["layers"]], ["good"])

    def test_layers_are_chosen_and_left_out(self):
        bad = GOOD.replace('"good"', '"bad"') + "flavour = 1\n"
        process = self.compile(bad + GOOD, "--skip-unsupported")
        self.assertEqual(process.returncode, 1, "what is wrong in a layers file is to be mended there")
        self.assertIn("layer bad: invalid_argument: ", process.stderr)
        self.assertIn("1 of 2 layers, ", process.stdout)
        self.assertEqual([row["layer"] for row in self.manifest()["left_out"]], ["bad"])
        process = self.compile(bad + GOOD, "--layer", "good")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertNotIn("bad", process.stderr)
        self.assertIn("1 of 2 layers, ", process.stdout)
        process = self.compile(bad + GOOD, "--layer", "goot")
        self.assertEqual(process.returncode, 1)
        self.assertIn("there is no layer goot: did you mean good?", process.stderr)

        refused = GOOD.replace('"good"', '"wide"') + 'dtype = "float64"\n'
        options = ("--target", "opencl")
        self.assertEqual(self.compile(refused + GOOD, *options).returncode, 1)
        process = self.compile(refused + GOOD, *options, "--skip-unsupported")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("layer wide: left out: unsupported: ", process.stderr)
        process = self.compile(refused, *options, "--skip-unsupported")
        self.assertEqual(process.returncode, 1, "nothing is left")

    def test_names_that_are_long(self):
        name = "n" * 300
        process = self.compile(GOOD.replace("good", name))
        self.assertEqual(process.returncode, 0, process.stderr)
        (layer,) = self.manifest()["layers"]
        self.assertEqual(len(layer["name"]), 63)
        self.assertIn(f"{name} to {layer['name']}", process.stdout)
        self.assertEqual(layer["function"], f"net_{layer['name']}")

    def test_targets_of_one_architecture_share_a_library(self):
        process = self.compile(GOOD, "--target", "x86-64-avx2", "--target", "x86-64-avx512")
        self.assertEqual(process.returncode, 0, process.stderr)
        kernels = self.manifest()["kernels"]
        self.assertEqual([k["target"] for k in kernels], ["x86-64-avx512", "x86-64-avx2"])  # the better one first
        for kernel in kernels:
            self.assertEqual(kernel["problem"], PROBLEM)
            self.assertGreater(kernel["packed_bytes"], 0)
            self.assertGreater(kernel["stack_bytes"], 0)
        self.assertEqual(self.manifest()["layers"][0]["output_shape"], [1, 4, 6, 6])

    def test_what_stands_in_for_missing_arithmetic_is_said(self):
        layers = GOOD + GOOD.replace('"good"', '"half"') + 'dtype = "float16"\n'
        process = self.compile(layers, "--target", "x86-64-avx2")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("note: float16 is computed in float32 on x86-64-avx2: half", process.stdout)

    def test_targets_unknown_to_kiln_or_halide(self):
        for target, part in (("z80", "nor a Halide target string"), ("powerpc-64-linux", "has no schedules")):
            process = self.compile(GOOD, "--target", target)
            self.assertEqual(process.returncode, 1)
            self.assertIn(f'target "{target}"', process.stderr)
            self.assertIn(part, process.stderr)

    def test_a_kernel_that_takes_too_long(self):
        process = self.compile(GOOD, "--time-limit", "0.001")
        self.assertEqual(process.returncode, 1)
        self.assertIn("layer good: failed: compiling it for", process.stderr)
        self.assertIn("took more than the 0.001 seconds allowed", process.stderr)

    def test_a_kernel_that_waits_for_the_processor(self):
        """What counts is the time that it computes: here its process is stopped for longer than the limit."""
        limit = 2
        command = self.command(GOOD, "--time-limit", str(limit), "--jobs", "1")
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as kiln:
            children = Path(f"/proc/{kiln.pid}/task/{kiln.pid}/children")
            while kiln.poll() is None and not (found := children.read_text().split()):
                pass
            os.kill(int(found[0]), signal.SIGSTOP)
            time.sleep(limit + 0.5)
            os.kill(int(found[0]), signal.SIGCONT)
            _, words = kiln.communicate()
        self.assertEqual(kiln.returncode, 0, words)

    def test_a_kernel_that_does_not_compile_is_made_by_a_plainer_algorithm(self):
        # Winograd's kernel takes 29 KB, which its compiler may not write; the direct algorithm's 6.
        layer = GOOD.replace("[1, 3, 8, 8]", "[1, 64, 28, 28]").replace("[4, 3, 3, 3]", "[64, 64, 3, 3]")
        options = ("--target", "x86-64-avx2")
        layer += 'layouts = { x = "NXC", y = "NXC" }\n'
        process = self.compile(layer, *options, "--no-fallback", wrapper=kiln_run.file_limit(20))
        self.assertEqual(process.returncode, 1, process.stdout)
        self.assertIn("layer good: failed: compiling it for x86-64-avx2 failed: ", process.stderr)
        process = self.compile(layer, *options, wrapper=kiln_run.file_limit(20))
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("warning: layer good: compiling it for x86-64-avx2 by winograd failed, direct is taken: ", process.stderr)
        self.assertEqual(self.manifest()["kernels"][0]["algorithm"], "direct")
        self.assertRegex(process.stdout, r"1 of 1 layers, .* took \d+\.\d\d s to compile: good for x86-64-avx2")

    def test_a_kernel_without_registers_is_made_by_plainer_means(self):
        # LLVM 21 runs out of tile registers in this one.
        layer = GOOD.replace("[1, 3, 8, 8]", "[1, 64, 26, 26]").replace("[4, 3, 3, 3]", "[72, 64, 3, 3]")
        layer += 'pads = [1, 1, 1, 1]\ndtype = "bfloat16"\n'
        process = self.compile(layer, "--target", "x86-64-amx", "--no-fallback")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("warning: layer good: LLVM found registers for it by plainer means alone, for x86-64-amx", process.stderr)
        self.assertEqual(self.manifest()["kernels"][0]["algorithm"], "amx")

    def test_an_output_folder_that_cannot_be_made(self):
        (self.folder / "file").write_text("")
        process = self.compile(GOOD, output=self.folder / "file/out")
        self.assertEqual(process.returncode, 1)
        self.assertIn("file/out cannot be written", process.stderr)

    def test_a_full_disk(self):
        # A kernel, or the archive of all, is larger than that.
        for kilobytes, part in (1, "layer good: failed"), (4, "the archive cannot be written"):
            process = self.compile(GOOD, "--target", "x86-64-avx2", wrapper=kiln_run.file_limit(kilobytes))
            self.assertEqual(process.returncode, 1, process.stderr)
            self.assertIn(part, process.stderr)
            self.assertIn("File too large", process.stderr)
            self.assertEqual(list((self.folder / "out").iterdir()), [])

    def test_decisions(self):
        entry = {
            "problem": PROBLEM,
            "target": "x86-64-avx2",
            "algorithm": "direct",
            "revision": 1,
            "schedule": "lanes:4;vectors:1;pixels:6;rows:1;unroll:1;dot_width:1;panels_outside:0;parallel:0",
        }
        decisions = self.folder / "decisions.jsonl"
        options = ("--target", "x86-64-avx2", "--decisions", str(decisions))
        decisions.write_text(json.dumps(entry) + "\n")
        process = self.compile(GOOD, *options)
        self.assertEqual((process.returncode, process.stderr.count("warning")), (0, 0), process.stderr)
        self.assertEqual(self.manifest()["kernels"][0]["schedule"], entry["schedule"])

        for change, part in (
            ({"revision": 7}, "direct is at revision 1, the decision at 7"),
            ({"schedule": entry["schedule"].replace("pixels:6", "pixels:60")}, "larger than the image"),
            ({"algorithm": "fast"}, '"fast" is not one of'),
        ):
            decisions.write_text(json.dumps({**entry, **change}) + "\n")
            process = self.compile(GOOD, *options)
            self.assertEqual(process.returncode, 0, process.stderr)
            self.assertIn(
                f"decision for {PROBLEM} on x86-64-avx2 ({decisions}:1) refused, the default is taken", process.stderr
            )
            self.assertIn(part, process.stderr)
            self.assertNotEqual(self.manifest()["kernels"][0]["schedule"], entry["schedule"])

        # Names of one release before: a number of a schedule's,
        decisions.write_text(json.dumps({**entry, "schedule": entry["schedule"].replace("dot_width:", "dot:")}) + "\n")
        process = self.compile(GOOD, *options)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn(f"warning: {decisions}:1: a schedule's dot is called dot_width now", process.stderr)
        self.assertEqual(self.manifest()["kernels"][0]["schedule"], entry["schedule"])

        # an algorithm.
        decisions.write_text('{"problem":"*","algorithm":"sampled"}\n')
        process = self.compile(GOOD.replace("Conv", "DeformConv"), *options)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn(f"warning: {decisions}:1: algorithm sampled is called deformable now", process.stderr)
        self.assertEqual(self.manifest()["kernels"][0]["algorithm"], "deformable")

        decisions.write_text("\n{\n")
        process = self.compile(GOOD, *options)
        self.assertEqual(process.returncode, 1)
        self.assertIn("decisions.jsonl:2: not a decision", process.stderr)

        # What a newer release may write.
        decisions.write_text('{"format":2,"problem":"*","algorithm":"direct"}\n')
        process = self.compile(GOOD, *options)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(process.stderr, r"decisions.jsonl:1: format is 2: this Kiln, [0-9.]+, reads decisions of format 1")


if __name__ == "__main__":
    unittest.main(verbosity=2)
