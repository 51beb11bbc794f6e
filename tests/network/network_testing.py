"""What the tests of whole models share."""

import json
import pathlib
import sys

import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/frontend"), str(ROOT / "tests/kernels")]
from commands_test import kiln  # noqa: E402
from onnx_importing import ImportTest  # noqa: E402


class NetworkTest(ImportTest):
    def kinds(self, model, *arguments):
        """How many steps of each kind a model becomes."""
        network = self.read(model, "--network", "--weights", self.folder / "w", *arguments)["networks"][0]
        kinds = [kind for step in network["steps"] for kind in ("layer", "operation", "c", "callback", "check") if kind in step]
        return {kind: kinds.count(kind) for kind in set(kinds)}, network

    def verify(self, model, *arguments):
        path = self.folder / "model.onnx"
        onnx.save(model, path)
        process = kiln("verify", path, "--network", "--json", *arguments, ok=(0, 1))
        rows = [json.loads(line) for line in process.stdout.splitlines()]
        self.assertTrue(rows, process.stderr)
        self.assertEqual({row["verdict"] for row in rows}, {"ok"}, process.stderr)
        return rows
