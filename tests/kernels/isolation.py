"""One kernel that does not compile or link loses nothing else: it is found and named, and all others are answered."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import kiln_run
import numpy as np

# Fails at the programs that hold what a test names (it tells how).
COMPILER = Path(__file__).resolve().parent / "refusing_cxx.sh"
TARGET = "x86-64-avx2"
LAYER = """
[[layer]]
name = "a{size}"
operator = "Conv"
x = [1, 8, {size}, 7]
w = [8, 8, 3, 3]
layouts = {{ x = "NXC", y = "NXC" }}
"""


def height(size):
    """What the problem of the layer or the case of that height has in its text."""
    return f"-i{size}x7-"


class Isolation(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.log = self.folder / "programs"

    def kiln(self, *arguments, refused, names=False):
        self.log.write_text("")
        environment = {**os.environ, "KILN_TEST_REFUSED": "\n".join(refused), "KILN_TEST_LOG": str(self.log),
                       "KILN_TEST_NAMES": "1" if names else ""}
        command = [kiln_run.kiln(), *arguments, "--target", TARGET, "--cxx", COMPILER]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, env=environment)

    def programs(self):
        return len(self.log.read_text().splitlines())

    def spec(self, *sizes):
        path = self.folder / "net.toml"
        path.write_text("".join(LAYER.format(size=size) for size in sizes))
        return path

    def run_cases(self, sizes, refused, **options):
        cases = [{"name": f"a{size}", "operator": "Conv", "attributes": {},
                  "inputs": {"X": np.ones((1, 1, size, 7), np.float32), "W": np.ones((1, 1, 3, 3), np.float32)}}
                 for size in sizes]
        path = kiln_run.write_cases(cases, self.folder)
        process = self.kiln("run", path, "-o", self.folder / "out", refused=[height(size) for size in refused], **options)
        answers = [json.loads(line) for line in (self.folder / "out/results.jsonl").read_text().splitlines()]
        self.assertEqual([answer["name"] for answer in answers], [case["name"] for case in cases], process.stderr)
        for size, answer in zip(sizes, answers):
            if size in refused:
                self.assertEqual((answer["status"], answer["code"]), ("error", "failed"), answer)
                self.assertIn("no program can be built with it: the C++ compiler", answer["message"])
                self.assertIn("ld: refused", answer["message"])
            else:
                self.assertEqual(answer["status"], "ok", answer)
                output = np.load(self.folder / "out" / answer["output"])
                np.testing.assert_array_equal(output, np.full((1, 1, size - 2, 5), 9, np.float32))
        self.assertEqual(process.returncode, 1)

    def test_run(self):
        self.run_cases(range(5, 10), refused=[6, 9])
        self.run_cases(range(5, 10), refused=[7], names=True)
        self.assertEqual(self.programs(), 4)  # of all, of none, of all others, of the one that is named
        self.run_cases([5, 6], refused=[5, 6])

    def test_verify_and_bench(self):
        spec = self.spec(5, 6, 8)
        process = self.kiln("verify", spec, "--json", refused=[height(6)])
        self.assertEqual(process.returncode, 1, process.stderr)
        verdicts = {row["layer"]: row["verdict"] for row in map(json.loads, process.stdout.splitlines())}
        self.assertRegex(verdicts.pop("a6"), "^failed: no program can be built with it: ")
        self.assertEqual(verdicts, {"a5": "ok", "a8": "ok"})
        self.assertIn("kiln: layer a6: no program can be built with it: ", process.stderr)
        process = self.kiln("bench", spec, "--json", self.folder / "bench.json", refused=[height(8)])
        self.assertEqual(process.returncode, 1, process.stderr)
        self.assertIn("kiln: layer a8: no program can be built with it: ", process.stderr)
        rows = json.loads((self.folder / "bench.json").read_text())["rows"]
        self.assertEqual([row["layer"] for row in rows], ["a5", "a6"])

    def tune(self, *sizes, refused):
        timings = self.folder / "timings.jsonl"
        timings.unlink(missing_ok=True)
        process = self.kiln("tune", self.spec(*sizes), "--budget", f"{3 * len(sizes)}c", "--timings", timings,
                            "--decisions", self.folder / "decisions.jsonl", refused=refused)
        records = [json.loads(line) for line in timings.read_text().splitlines()]
        return process, [record for record in records if not record.get("final")]

    def test_tune(self):
        _, records = self.tune(5, refused=["nothing"])
        self.assertEqual({record["verdict"] for record in records}, {"ok"})
        schedules = [record["schedule"] for record in records]
        process, records = self.tune(5, refused=[schedules[2]])
        self.assertEqual(process.returncode, 0, process.stderr)
        verdicts = {record["schedule"]: record["verdict"] for record in records}
        self.assertRegex(verdicts.pop(schedules[2]), "^failed: no program can be built with it: ")
        self.assertEqual(verdicts, {schedule: "ok" for schedule in schedules if schedule != schedules[2]})

    def test_tune_with_a_problem_that_cannot_be_timed(self):
        process, records = self.tune(5, 6, refused=[height(5)])
        self.assertEqual(process.returncode, 1, process.stdout)
        self.assertIn("kiln: a5: no program can be built with it: ", process.stderr)
        self.assertEqual({record["verdict"] for record in records}, {"ok"})
        decided = [json.loads(line) for line in (self.folder / "decisions.jsonl").read_text().splitlines()]
        self.assertEqual([height(6) in line["problem"] for line in decided], [True])

    def test_compile(self):
        # Of these kernels one takes 29 KB, which its compiler may not write, and one 6.
        layers = ('[defaults]\noperator = "Conv"\nlayouts = { x = "NXC", y = "NXC" }\n'
                  '[[layer]]\nname = "bad"\nx = [1, 64, 28, 28]\nw = [64, 64, 3, 3]\n'
                  '[[layer]]\nname = "good"\nx = [1, 3, 8, 8]\nw = [4, 3, 3, 3]\n')
        spec = self.folder / "net.toml"
        spec.write_text(layers)
        command = [*kiln_run.file_limit(20), kiln_run.kiln(), "compile", spec, "-o", self.folder, "--target", TARGET,
                   kiln_run.NO_FALLBACK]  # fmt: skip
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(process.returncode, 1, process.stdout)
        self.assertIn(f"layer bad: failed: compiling it for {TARGET} failed: ", process.stderr)
        manifest = json.loads((self.folder / "net.json").read_text())
        self.assertEqual([layer["name"] for layer in manifest["layers"]], ["good"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
