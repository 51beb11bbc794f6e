"""What the tests of whole models share."""

import json
import pathlib
import sys
import unittest

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/frontend"), str(ROOT / "tests/kernels")]
import parts  # noqa: E402
from commands_test import kiln  # noqa: E402
from onnx_importing import ImportTest  # noqa: E402


def load_tests(_loader, suites, _pattern):
    """Of a module that has this name: of its tests, each a model of its own, the part that this run is for."""
    return unittest.TestSuite(parts.part([test for suite in suites for test in suite]))


def integers(name, *numbers):
    return onnx.numpy_helper.from_array(np.int64(numbers), name)


class NetworkTest(ImportTest):
    def kinds(self, model, *arguments):
        """How many steps of each kind a model becomes."""
        network = self.read(model, "--network", "--weights", self.folder / "w", *arguments)["networks"][0]
        kinds = [kind for step in network["steps"] for kind in ("layer", "operation", "c", "callback", "check") if kind in step]
        return {kind: kinds.count(kind) for kind in set(kinds)}, network

    def texts(self, network):
        return [step.get("operation", "layer").partition("-")[0] for step in network["steps"]]

    def operations(self, model):
        """The texts of a network's steps, up to what they compute."""
        return ["-".join(step["operation"].split("-")[:3]) for step in self.kinds(model)[1]["steps"]]

    def verify(self, model, *arguments):
        path = self.folder / "model.onnx"
        onnx.save(model, path)
        process = kiln("verify", path, "--network", "--json", *arguments, ok=(0, 1))
        rows = [json.loads(line) for line in process.stdout.splitlines()]
        self.assertTrue(rows, process.stderr)
        self.assertEqual({row["verdict"] for row in rows}, {"ok"}, process.stderr)
        return rows
