"""The examples that the operators' documents print, by their printed values, through both engines.

tests/cases/document_examples.jsonl holds them; those of ONNX's DeformConv stand in its node cases, and oneDNN Graph's
document has none. ms-nhwc's are printed channels first, and meant channels last.
"""

import json
import tempfile
import unittest
from pathlib import Path

import kiln_run
import numpy as np

EXAMPLES = Path(__file__).resolve().parents[1] / "cases/document_examples.jsonl"


def load():
    examples = [json.loads(line) for line in EXAMPLES.read_text().splitlines()]
    for example in examples:
        for name in ("x", "w", "y"):
            example[name] = np.array(example[name], np.float32)
        if example["dialect"] == "ms-nhwc":
            example |= {name: np.moveaxis(example[name], 1, -1) for name in ("x", "y")}
    return examples


def to_line(example):
    names = ("input", "kernel") if example["dialect"] == "tensorrt" else ("X", "W")
    line = {key: value for key, value in example.items() if key not in ("x", "w", "y")}
    return {**line, "inputs": dict(zip(names, (example["x"], example["w"])))}


class DocumentExamples(unittest.TestCase):
    def check(self, engine):
        examples = load()
        with tempfile.TemporaryDirectory() as folder:
            answers, outputs, process = kiln_run.run([to_line(e) for e in examples], folder, "--engine", engine)
        for example, answer in zip(examples, answers):
            with self.subTest(example["name"]):
                self.assertEqual(answer["status"], "ok", answer)
                y = outputs[example["name"]]
                self.assertEqual(y.shape, example["y"].shape)
                np.testing.assert_allclose(y, example["y"], rtol=1e-6, atol=1e-5)
        self.assertEqual(process.returncode, 0, process.stderr)

    def test_specialized(self):
        self.check("specialized")

    def test_generic(self):
        self.check("generic")


if __name__ == "__main__":
    unittest.main(verbosity=2)
