"""Sums in float16, where accuracy is fast: within their bound, and nowhere else."""

import unittest
from pathlib import Path

import kiln_run

LAYERS = Path(__file__).resolve().parents[1] / "cases/half.toml"


class Half(unittest.TestCase):
    def test_layers(self):
        rows = kiln_run.verify(LAYERS)
        self.assertEqual(len(rows), LAYERS.read_text().count("[[layer]]"))
        kiln_run.check_rows(self, rows, "f16_accumulate")


if __name__ == "__main__":
    unittest.main(verbosity=2)
