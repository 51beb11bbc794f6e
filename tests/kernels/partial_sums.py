"""Sums of partial sums against the reference, by vectors of channels and of rows; and that they err less than one chain."""

import json
import os
import re
import tempfile
import unittest
from pathlib import Path

import kiln_run
import targets

LAYERS = Path(__file__).resolve().parents[1] / "cases/partial_sums.toml"
TILES = {  # of few positions, which fit into each layer's image
    "channels": "lanes:4;vectors:2;pixels:3;rows:1;unroll:1;dot_width:1;panels_outside:0;parallel:1;channels:0",
    "rows": "lanes:8;vectors:2;pixels:1;rows:1;unroll:1;dot_width:1;panels_outside:0;parallel:1;channels:1",
}


def algorithm_of(problem):
    return "polyphase" if problem.startswith("convtranspose") else "direct"


class PartialSums(unittest.TestCase):
    def rows(self, *options):
        rows = kiln_run.verify(LAYERS, *options)
        self.assertEqual(len(rows), LAYERS.read_text().count("[[layer]]"))
        return rows

    def by(self, schedule):
        """The rows of kiln verify by this schedule."""
        decisions = [{"problem": problem, "target": target, "algorithm": algorithm_of(problem), "revision": 1, "schedule": schedule}
                     for problem, target in self.problems]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "decisions.jsonl"
            path.write_text("".join(json.dumps(line) + "\n" for line in decisions))
            rows = self.rows("--decisions", path)
        for row in rows:
            with self.subTest(row["layer"]):
                self.assertEqual((row["verdict"], row["algorithm"]), ("ok", algorithm_of(row["problem"])), row)
                self.assertTrue(row["schedule"].startswith(schedule.partition("channels:")[0]), row)
                self.assertEqual(re.search("partial_sums:[0-9]+", row["schedule"])[0], re.search("partial_sums:[0-9]+", schedule)[0])
        return {row["layer"]: row for row in rows}

    def test_every_tile(self):
        self.problems = [(row["problem"], row["kernel"]) for row in self.rows()]
        for kind, tile in TILES.items():
            one, two, four = (self.by(f"{tile};partial_sums:{count}") for count in (1, 2, 4))
            with self.subTest(kind):
                # Errors of 256 products that are added one after the other, and of 64 at most.
                self.assertLess(two["halves"]["max_error"], one["halves"]["max_error"])
                self.assertLess(four["halves"]["max_error"], 0.7 * one["halves"]["max_error"])


if __name__ == "__main__":
    targets.end_if_done_by_name(os.environ["KILN_TARGET"], "x86-64-avx2")
    unittest.main(verbosity=2)
