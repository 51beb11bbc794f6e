"""kiln verify and kiln bench, from a SPEC to their rows."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

import kiln_run

LAYERS = Path(__file__).resolve().parents[1] / "cases/small.toml"
NAMES = ["conv", "stem", "depthwise", "up", "up_ncx"]


def kiln(*arguments):
    return subprocess.run([kiln_run.kiln(), *arguments], capture_output=True, text=True, check=False)


class MeasureCommands(unittest.TestCase):
    def verify(self, *options, spec=LAYERS):
        process = kiln("verify", spec, "--json", *options)
        return process, [json.loads(line) for line in process.stdout.splitlines()]

    def test_verify(self):
        for target in ("x86-64-avx2", "host"):
            process, rows = self.verify("--target", target)
            self.assertEqual(process.returncode, 0, process.stderr)
            self.assertEqual([row["layer"] for row in rows], NAMES)
            for row in rows:
                self.assertEqual(row["verdict"], "ok", row)
                self.assertLessEqual(row["max_error"], row["bound"] * 2, row)
                self.assertTrue(0 < row["ratio"] <= 1, row)
                self.assertTrue(target in (row["kernel"], "host"), row)
                known = ("winograd", "depthwise", "polyphase" if row["layer"].startswith("up") else "direct")
                self.assertIn(row["algorithm"], known)

    def test_verify_table_and_layer(self):
        process = kiln("verify", LAYERS, "--layer", "up", "--layer", "conv")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual([line.split()[0] for line in process.stdout.splitlines()], ["layer", "conv", "up", "2"])
        process = kiln("verify", LAYERS, "--layer", "upp")
        self.assertEqual(process.returncode, 1)
        self.assertIn("there is no layer upp: did you mean up?", process.stderr)

    def test_a_bad_layer_is_a_failure_but_does_not_stop_the_others(self):
        with tempfile.TemporaryDirectory() as folder:
            spec = Path(folder) / "layers.toml"
            text = "[[layer]]\nname = '{}'\noperator = 'Conv'\nx = [1, 3, 8, 8]\nw = [4, 3, 3, 3]\nstrides = [{}, 1]\n"
            spec.write_text(text.format("good", 1) + text.format("bad", -1))
            process, rows = self.verify(spec=spec)
        self.assertEqual(process.returncode, 1)
        verdicts = {row["layer"]: row["verdict"] for row in rows}
        self.assertEqual(verdicts["good"], "ok")
        self.assertRegex(verdicts["bad"], "^failed: .*strides")
        self.assertIn("bad", process.stderr)

    def test_open_sizes_are_those_that_layers_say(self):
        text = ("[[layer]]\nname = '{}'\noperator = 'Conv'\nx = [1, 8, '?', '?']\nw = [8, 8, 3, 3]\npads = [1, 1, 1, 1]\n"
                "{}\n")
        with tempfile.TemporaryDirectory() as folder:
            spec, answer = Path(folder) / "layers.toml", Path(folder) / "bench.json"
            spec.write_text(text.format("a", "sizes = [[1, 8, 40, 37]]") + text.format("b", "sizes = [[1, 8, 9, 9]]") +
                            text.format("drawn", "") + text.format("wrong", "sizes = [[1, 9, 9, 9]]"))
            process = kiln("bench", spec, "--sizes", "b=1x8x20x20", "--draws", "1", "--json", answer)
            self.assertEqual(process.returncode, 1)
            self.assertIn("layer wrong: sizes has [1, 9, 9, 9]", process.stderr)
            problems = [(row["layer"], row["problem"]) for row in json.loads(answer.read_text())["rows"]]
            self.assertEqual([layer for layer, _ in problems], ["a", "b", "b", "drawn"])
            for (_, problem), size in zip(problems, ("40x37", "9x9", "20x20"), strict=False):
                self.assertIn(f"-i{size}-", problem)
            _, rows = self.verify("--draws", "1", "--layer", "a", "--sizes", "a=1x8x17x33", spec=spec)
            self.assertEqual([row["verdict"] for row in rows], ["ok"] * 3)
            for row, size in zip(rows[1:], ("40x37", "17x33"), strict=True):
                self.assertIn(f"-i{size}-", row["problem"])

    def test_bench(self):
        with tempfile.TemporaryDirectory() as folder:
            process = kiln("bench", LAYERS, "--layer", "conv", "--layer", "up", "--threads", "2",
                           "--workers", "4,16", "--json", Path(folder) / "bench.json")
            self.assertEqual(process.returncode, 0, process.stderr)
            result = json.loads((Path(folder) / "bench.json").read_text())
        self.assertIn("2 threads\npeak: ", process.stdout)
        self.assertEqual(result["machine"]["threads"], 2)
        self.assertRegex(process.stdout, r"packing all weights: .* ms; making a plan: .* us; a plan's run adds .* ns")
        self.assertGreater(result["calls"]["plan_us"], 0)
        self.assertGreater(result["rows"][0]["pack_ms"], 0)
        self.assertEqual([row["layer"] for row in result["rows"]], ["conv", "up"])
        conv = result["rows"][0]
        self.assertAlmostEqual(conv["gflop"], 2e-9 * 20 * 20 * 48 * 32 * 9)
        # Wide limits: other work may run beside this test.
        self.assertTrue(0.01 < conv["peak_share"] < 5, conv)  # of the products of the definition: Winograd has fewer
        self.assertIn("simulated workers: ", process.stdout)
        self.assertEqual([each["workers"] for each in conv["balance"]], [4, 16])
        self.assertGreaterEqual(conv["pieces"][0], 16)
        self.assertAlmostEqual(result["total"]["ms"], sum(row["ms"] for row in result["rows"]), places=4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
