"""Layers of networks in 8 bits compile by the schedules that are their defaults, none by a plainer one."""

import os
import tempfile
import unittest
from pathlib import Path

import kiln_run

NETWORKS = Path(__file__).resolve().parents[2] / "bench" / "networks.toml"
CHANNELS_LAST = 'layouts = { x = "NXC", y = "NXC" }'


class NetworksInBytes(unittest.TestCase):
    def compile(self, layouts):
        text = NETWORKS.read_text()
        self.assertEqual(text.count("[defaults]\n"), 1)
        with tempfile.TemporaryDirectory() as folder:
            layers = Path(folder) / "layers.toml"
            layers.write_text(text.replace("[defaults]\n", f'[defaults]\ndtype = "uint8"\n{layouts}\n'))
            kiln_run.compile_layers(layers, "-o", Path(folder) / "library", "--target", os.environ["KILN_TARGET"])

    def test_channels_first(self):
        self.compile("")

    def test_channels_last(self):
        self.compile(CHANNELS_LAST)


if __name__ == "__main__":
    unittest.main()
