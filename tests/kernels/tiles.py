"""Matrix-tile kernels of every kind against the reference, between guard pages and on two threads.

Where the processor has none, or the operating system does not permit them, they are compiled only.
"""

import json
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

import kiln_run

LAYERS = Path(__file__).resolve().parents[1] / "cases/tiles.toml"
TARGET = "x86-64-amx"


def runs_here():
    targets = subprocess.run([kiln_run.kiln(), "targets", "--json"], capture_output=True, text=True, check=True).stdout
    return next(target["runs_here"] for target in json.loads(targets) if target["name"] == TARGET)


class Tiles(unittest.TestCase):
    def rows(self, lines):
        with tempfile.TemporaryDirectory() as folder:
            decisions = Path(folder) / "decisions.jsonl"
            decisions.write_text("".join(json.dumps(line) + "\n" for line in lines))
            if not runs_here():
                print(f"{TARGET} does not run here: compiled only", flush=True)
                out = ["-o", folder, "--name", "tiles", "--target", TARGET, "--decisions", decisions]
                subprocess.run([kiln_run.kiln(), "compile", LAYERS, *out], check=True)
                manifest = json.loads((Path(folder) / "tiles.json").read_text())
                self.assertIn("tiles", {kernel["algorithm"] for kernel in manifest["kernels"]})
                return None
            rows = kiln_run.verify(LAYERS, "--target", TARGET, "--decisions", decisions)
        self.assertEqual(len(rows), LAYERS.read_text().count("[[layer]]"))
        kiln_run.check_rows(self, rows, "tiles")
        return rows

    def test_schedules(self):
        """The default, and other tiles, as many as fit."""
        rows = self.rows([{"problem": "*", "algorithm": "tiles"}])
        rng = random.Random(1)
        if not rows:
            return
        decisions = []
        for row in rows:
            schedule = {name: int(number) for name, number in (pair.split(":") for pair in row["schedule"].split(";"))}
            schedule["vectors"] = rng.choice([1, 2])
            schedule["rows"] = rng.randint(1, min(schedule["rows"], 2))
            schedule["blocks"] = 1
            schedule["pixels"] = rng.randint(1, schedule["pixels"])
            schedule["steps"] = rng.randint(1, schedule["steps"])
            schedule["panels_outside"] = rng.choice([0, 1])
            text = ";".join(f"{name}:{number}" for name, number in schedule.items())
            decisions.append({"problem": row["problem"], "target": row["kernel"], "algorithm": "tiles", "revision": 2,
                              "schedule": text})  # fmt: skip
        for row, decision in zip(self.rows(decisions), decisions):
            self.assertEqual(row["schedule"], decision["schedule"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
