"""kiln run beyond the values: bad cases beside good ones, empty tensors, filter layouts, engines, compilers."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import kiln_run
import numpy as np


def conv(name, **changes):
    """A case of a Conv with one product an element: y = 2 x + bias."""
    case = {
        "name": name,
        "operator": "Conv",
        "attributes": {},
        "inputs": {"X": np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3), "W": np.full((1, 1, 1, 1), 2, np.float32)},
    }
    case.update(changes)
    return case


class RunCommand(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def test_answer(self):
        answers, outputs, process = kiln_run.run([conv("a", output="deep/y.npy")], self.folder)
        self.assertEqual(process.returncode, 0, process.stderr)
        kernel = answers[0].pop("kernel")
        self.assertRegex(kernel, r"^\w+@x86-64-")
        self.assertEqual(
            answers[0],
            {
                "name": "a",
                "status": "ok",
                "problem": "conv2d-f32-n1-c1-i2x3-m1-o2x3-k1x1-s1x1-d1x1-p0x0,0x0-g1-ncx,ncx",
                "output_shape": [1, 1, 2, 3],
                "pads_begin": [0, 0],
                "pads_end": [0, 0],
                "output": "deep/y.npy",
            },
        )
        np.testing.assert_array_equal(outputs["a"], np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3) * 2)

    def test_bad_cases_do_not_stop_good_ones(self):
        cases = [
            conv("first"),
            conv("bad_stride", attributes={"strides": [-1, 1]}),
            conv("bad_channels", inputs={"X": np.zeros((1, 3, 4, 4), np.float32), "W": np.zeros((1, 2, 1, 1), np.float32)}),
            conv("bad_name", attributes={"stride": [1, 1]}),
            conv("twice", output="first.npy"),
            conv("last"),
        ]
        answers, outputs, process = kiln_run.run(cases, self.folder)
        self.assertEqual(process.returncode, 1)
        self.assertEqual([a["status"] for a in answers], ["ok", "error", "error", "error", "error", "ok"])
        self.assertEqual({a["code"] for a in answers if a["status"] == "error"}, {"invalid_argument"})
        self.assertIn("strides[0] is -1", answers[1]["message"])
        self.assertIn("stride", answers[3]["message"])
        self.assertIn("first.npy", answers[4]["message"])
        np.testing.assert_array_equal(outputs["first"], outputs["last"])

    def test_empty_tensors(self):
        no_batch = np.zeros((0, 1, 2, 3), np.float32)
        no_rows = np.zeros((1, 1, 0, 3), np.float32)
        w, bias = np.ones((1, 1, 2, 2), np.float32), np.array([7], np.float32)
        up = {"operator": "ConvTranspose", "attributes": {"strides": [2, 2], "output_padding": [1, 1]}}
        cases = [
            conv("no_batch", inputs={"X": no_batch, "W": np.ones((4, 1, 1, 1), np.float32)}),
            conv("no_rows", **up, inputs={"X": no_rows, "W": w, "B": bias}),
        ]
        answers, outputs, _ = kiln_run.run(cases, self.folder)
        self.assertEqual([a["status"] for a in answers], ["ok", "ok"], answers)
        self.assertEqual(outputs["no_batch"].shape, (0, 4, 2, 3))
        # Rows: stride * (0 - 1) + output_padding + kernel = 1.
        np.testing.assert_array_equal(outputs["no_rows"], np.full((1, 1, 1, 7), 7, np.float32))

    def test_filter_layouts_change_nothing(self):
        data = np.random.default_rng(1)
        inputs = {
            "X": data.standard_normal((2, 6, 5, 4)).astype(np.float32),
            "W": data.standard_normal((6, 2, 3, 2)).astype(np.float32),
        }
        for operator, group in (("Conv", 3), ("ConvTranspose", 2)):
            base = {"operator": operator, "attributes": {"group": group}, "inputs": inputs}
            cases = [{**base, "name": f"{operator}_{w}", "layouts": {"w": w}} for w in ("OIX", "IOX", "XIO", "XOI")]
            folder = self.folder / operator
            folder.mkdir()
            answers, outputs, process = kiln_run.run([{**base, "name": "own"}, *cases], folder)
            self.assertEqual(process.returncode, 0, answers)
            for case in cases:
                np.testing.assert_array_equal(outputs[case["name"]], outputs["own"], case["name"])

    def test_generic_engine_computes_what_the_specialised_one_does(self):
        cases = [conv("small"), conv("large", inputs={"X": np.ones((1, 1, 9, 7), np.float32), "W": np.ones((1, 1, 3, 3), np.float32)})]
        generic, outputs, process = kiln_run.run(cases, self.folder, "--engine", "generic")
        self.assertEqual(process.returncode, 0, generic)
        self.assertEqual({answer["kernel"].split("@")[0] for answer in generic}, {"dynamic"})
        (self.folder / "specialized").mkdir()
        _, expected, _ = kiln_run.run(cases, self.folder / "specialized")
        for name, values in expected.items():
            np.testing.assert_array_equal(outputs[name], values)

    def test_decisions(self):
        decisions = self.folder / "decisions.jsonl"
        x, w = np.ones((1, 8, 9, 7), np.float32), np.ones((8, 8, 3, 3), np.float32)
        for algorithm in ("direct", "winograd"):
            decisions.write_text(json.dumps({"problem": "*", "algorithm": algorithm}) + "\n")
            answers, _, process = kiln_run.run([conv("a", inputs={"X": x, "W": w})], self.folder, "--decisions", decisions)
            self.assertEqual(process.returncode, 0, answers)
            self.assertEqual(answers[0]["kernel"].split("@")[0], algorithm)

    def test_runner_starts_the_program(self):
        trace = self.folder / "started"
        script = self.folder / "runner"
        script.write_text(f'#!/bin/sh\necho "$@" >> {trace}\necho starting\nexec "$@"\n')
        script.chmod(0o755)
        answers, _, process = kiln_run.run([conv("a")], self.folder, "--runner", f"{script} env")
        self.assertEqual(answers[0]["status"], "ok", process.stderr)
        self.assertTrue(trace.read_text().startswith("env /"))
        self.assertIn("starting", process.stderr)

    def test_a_program_that_dies_fails_its_case_only(self):
        # Kills the first program when it is asked for more than one case: the second gets the rest.
        script = self.folder / "runner"
        script.write_text('#!/bin/sh\nif [ "$(wc -l < "$3")" -gt 1 ]; then kill -SEGV $$; fi\nexec "$@"\n')
        script.chmod(0o755)
        answers, _, process = kiln_run.run([conv("a"), conv("b")], self.folder, "--runner", str(script))
        self.assertEqual([a["status"] for a in answers], ["error", "ok"], process.stderr)
        self.assertEqual(answers[0]["message"], "the program that computes it was ended by signal 11")

    def test_compiler_that_is_missing_or_fails(self):
        for cxx, message in (("/nowhere/c++", "/nowhere/c++ cannot be started"), ("false", "false failed (exit status 1)")):
            answers, _, process = kiln_run.run([conv("a")], self.folder, "--cxx", cxx)
            self.assertEqual(process.returncode, 1)
            self.assertEqual(answers[0]["code"], "failed")
            self.assertIn(message, answers[0]["message"])

    def test_objects_are_kept_and_old_ones_removed(self):
        cache = self.folder / "kiln"
        old, other = cache / "harness-old", cache / "other"
        for folder in (old, other):
            folder.mkdir(parents=True)
            os.utime(folder, (0, 0))

        def run(cxx=kiln_run.REMEMBERING_CXX):
            process = self.run_with_cache(self.folder, cxx)
            self.assertEqual(process.returncode, 0, process.stderr)
            return {path: path.stat().st_ino for path in cache.glob("*/*")}

        first = run()
        self.assertGreater(len(first), 10)
        self.assertFalse(old.exists())
        self.assertTrue(other.exists())
        self.assertEqual(run(), first)
        # Those are the same compiler's by whatever name; what adds an option is another.
        self.assertEqual(run(os.environ.get("CXX", "c++")), first)
        other_compiler = self.folder / "cxx"
        other_compiler.write_text(f'#!/bin/sh\nexec "{kiln_run.REMEMBERING_CXX}" "$@" -DOTHER\n')
        other_compiler.chmod(0o755)
        self.assertEqual(len(run(other_compiler)), 2 * len(first))

    def test_a_home_that_cannot_be_written_is_no_obstacle(self):
        process = self.run_with_cache("/dev/null", kiln_run.REMEMBERING_CXX)
        self.assertEqual(process.returncode, 0, process.stderr)

    def run_with_cache(self, folder, cxx):
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder), kiln_run.REMEMBERED_OBJECTS: kiln_run.kept_objects()}
        cases = kiln_run.write_cases([conv("a")], self.folder)
        command = [kiln_run.kiln(), "run", cases, "-o", self.folder / "out", "--cxx", cxx]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    def test_what_stops_everything(self):
        def run(*arguments):
            environment = {**os.environ, "LC_ALL": "C"}
            return subprocess.run([kiln_run.kiln(), "run", *arguments], capture_output=True, text=True, env=environment)

        missing = run(self.folder / "none.jsonl", "-o", self.folder / "out")
        self.assertEqual(missing.returncode, 1)
        self.assertRegex(missing.stderr, "^kiln: .*none.jsonl")
        cases = kiln_run.write_cases([conv("a")], self.folder)
        target = run(cases, "-o", self.folder / "out", "--target", "z80")
        self.assertEqual(target.returncode, 1)
        self.assertIn("z80", target.stderr)
        blocked = run(cases, "-o", cases / "out")
        self.assertEqual(blocked.returncode, 1)
        self.assertIn("cases.jsonl/out", blocked.stderr)
        lonely = self.folder / "bin/kiln"  # without the sources that are installed beside it
        lonely.parent.mkdir()
        shutil.copy(kiln_run.kiln(), lonely)
        process = subprocess.run([lonely, "run", cases, "-o", self.folder / "out"], capture_output=True, text=True)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(process.stderr, "^kiln: the sources of Kiln's programs are missing: ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
