"""Instructions counted under qemu: a direct kernel's products and little else."""

import sys
import tempfile
import unittest
from pathlib import Path

import kiln_run

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/cores"))
import instructions

LAYER = """
[[layer]]
name = "small"
operator = "Conv"
x = [1, 32, 12, 12]
w = [32, 32, 3, 3]
pads = [1, 1, 1, 1]
accuracy = "strict"
layouts = { x = "NXC", y = "NXC" }
"""


class Instructions(unittest.TestCase):
    def test_direct(self):
        with tempfile.TemporaryDirectory() as folder:
            spec = Path(folder) / "small.toml"
            spec.write_text(LAYER)
            (row,) = instructions.count(kiln_run.kiln(), spec, "arm-64-linux", None)
        self.assertEqual(row["macs"], 12 * 12 * 32 * 32 * 9)
        each = row["instructions"] / row["macs"]
        self.assertGreater(each, 0.8 * row["floor"])  # less the rows in the padding
        self.assertLess(each, 2 * row["floor"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
