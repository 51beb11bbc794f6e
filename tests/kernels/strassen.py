"""Strassen's kernels against the reference, by several schedules, between guard pages and on two threads; and how far they
err where halves differ in magnitude."""

import json
import os
import tempfile
import tomllib
import unittest
from pathlib import Path

import kiln_run
import numpy as np
import targets

LAYERS = Path(__file__).resolve().parents[1] / "cases/strassen.toml"


class Strassen(unittest.TestCase):
    def verify(self, lines):
        """The rows of kiln verify under these decisions; all must be ok, and by Strassen."""
        with tempfile.TemporaryDirectory() as folder:
            decisions = Path(folder) / "decisions.jsonl"
            decisions.write_text("".join(json.dumps(line) + "\n" for line in lines))
            rows = kiln_run.verify(LAYERS, "--decisions", decisions)
        self.assertEqual(len(rows), len(tomllib.loads(LAYERS.read_text())["layer"]))
        kiln_run.check_rows(self, rows, "strassen")
        return rows

    def test_schedules(self):
        """The default, which takes small images whole; chunks, blocks and tiles that do not fit the image."""
        rows = self.verify([{"problem": "*", "algorithm": "strassen"}])
        for pattern, replacement in (
            ("vectors:[0-9]+;pixels:[2-9][0-9]*;rows:[0-9]+(.*)chunk:[0-9]+", r"vectors:1;pixels:3;rows:1\1chunk:2"),
            ("rows:[2-9](.*)chunk:[0-9]+;parallel:0", r"rows:2\1chunk:1;parallel:1"),
        ):
            decisions = kiln_run.changed_decisions(rows, 1, pattern, replacement)
            self.assertTrue(any(row["schedule"] != d["schedule"] for row, d in zip(rows, decisions)), pattern)
            for row, decision in zip(self.verify(decisions), decisions):
                self.assertEqual(row["schedule"], decision["schedule"])

    def test_unequal_halves(self):
        """Halves that are 10000 times as large: errors are small beside the largest x times the largest w."""
        channels, width = 1024, 784
        rng = np.random.default_rng(3)
        cases, expected = [], []
        for number in range(4):
            x = rng.uniform(-1, 1, (1, channels, width)).astype(np.float32)
            w = rng.uniform(-1, 1, (channels, channels, 1)).astype(np.float32)
            x[:, (number % 2) * channels // 2 :][:, : channels // 2] *= 1e4
            w[(number // 2) * channels // 2 :][: channels // 2] *= 1e4
            layouts = {"x": "NXC", "y": "NXC"}
            name = f"halves{number}"
            cases.append({"name": name, "operator": "Conv", "layouts": layouts, "inputs": {"X": x, "W": w}})
            expected.append(w[:, :, 0].astype(np.float64) @ x[0].astype(np.float64))
        with tempfile.TemporaryDirectory() as folder:
            answers, outputs, _ = kiln_run.run(cases, folder)
        for answer, y in zip(answers, expected):
            with self.subTest(answer["name"]):
                self.assertIn("strassen", answer["kernel"])
                error = np.abs(outputs[answer["name"]][0] - y).max()
                # tests/reference/error_bound.h: 3.2 times as far as sums of products as large as the largest.
                bound = 3.2 * 8 * np.sqrt(channels / 2 + 8) * 2.0**-24 * channels * 1e8
                self.assertLess(error, bound)
                self.assertGreater(error, 0)


if __name__ == "__main__":
    targets.end_if_done_by_name(os.environ["KILN_TARGET"], "x86-64-avx2")
    unittest.main(verbosity=2)
