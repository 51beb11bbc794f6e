"""What the tests of tools/onnx_import share: it is run in processes of its own, whose parent has loaded it (import_server.py)."""

import atexit
import functools
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import onnx

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "onnx_import"
LIGHT = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@functools.cache
def server():
    """It ends when its stdin does."""
    command = [sys.executable, pathlib.Path(__file__).with_name("import_server.py"), SCRIPT]
    started = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(started.communicate)
    return started


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
        words = [str(word) for word in (path, self.folder / "answer.json", *arguments)]
        server().stdin.write(json.dumps(words) + "\n")
        server().stdin.flush()
        answer = json.loads(server().stdout.readline())
        return subprocess.CompletedProcess(words, answer["status"], answer["stdout"], answer["stderr"])

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
