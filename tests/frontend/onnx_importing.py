"""What the tests of tools/onnx_import share: it is run as the `kiln` command runs it, as a program."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import onnx

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "onnx_import"
LIGHT = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


class ImportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def save(self, model, name="net.onnx"):
        path = self.folder / name
        onnx.save(model, path)
        return path

    def start(self, model, *arguments):
        path = model if isinstance(model, pathlib.Path) else self.save(model)
        return subprocess.run([sys.executable, SCRIPT, path, self.folder / "answer.json", *arguments],
                              capture_output=True, text=True)

    def read(self, model, *arguments):
        result = self.start(model, *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads((self.folder / "answer.json").read_text())

    def refused(self, model, *arguments):
        """The message of an import that fails as a whole."""
        result = self.start(model, *arguments)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        return result.stderr
