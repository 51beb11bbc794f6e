"""Winograd kernels of every kind against the reference, whole and in chunks, between guard pages and on two threads."""

import json
import re
import tempfile
import unittest
from pathlib import Path

import kiln_run

LAYERS = Path(__file__).resolve().parents[1] / "cases/winograd.toml"


class Winograd(unittest.TestCase):
    def verify(self, lines):
        """The rows of kiln verify under these decisions; all must be ok, and by Winograd."""
        with tempfile.TemporaryDirectory() as folder:
            decisions = Path(folder) / "decisions.jsonl"
            decisions.write_text("".join(json.dumps(line) + "\n" for line in lines))
            rows = kiln_run.verify(LAYERS, "--decisions", decisions)
        self.assertEqual(len(rows), LAYERS.read_text().count("[[layer]]"))
        for row in rows:
            with self.subTest(row["layer"]):
                self.assertEqual((row["verdict"], row["algorithm"]), ("ok", "winograd"), row)
        return rows

    def test_schedules(self):
        """The default, a row of tiles at a time, two, and the smallest tiles."""
        rows = self.verify([{"problem": "*", "algorithm": "winograd"}])
        for pattern, replacement in (
            ("rows:[0-9]+;images:[0-9]+", "rows:1;images:1"),
            ("rows:[0-9]+;images:[0-9]+", "rows:2;images:1"),
            ("tile_([xyz]):[2-9];", r"tile_\1:2;"),
        ):
            decisions = [
                {
                    "problem": row["problem"],
                    "target": row["kernel"],
                    "algorithm": "winograd",
                    "revision": 1,
                    "schedule": re.sub(pattern, replacement, row["schedule"]),
                }
                for row in rows
            ]
            for row, decision in zip(self.verify(decisions), decisions):
                self.assertEqual(row["schedule"], decision["schedule"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
