"""Copies of x of a batch are of one image at a time: kernels of several images take no more workspace than those of one, and
are right, whichever copy it is."""

import json
import tempfile
import unittest
from pathlib import Path

import kiln_run

NXC = 'layouts = { x = "NXC", y = "NXC" }'
# Whose padding is summed, and so copied.
ZERO_POINT = ("quantization = { x_scale = 0.02, x_zero_point = 7, w_scale = [0.01], y_scale = 0.05, y_zero_point = 3, "
              'y_dtype = "uint8" }')

# Name: x without the batch, w, what else the layer has, and the algorithm whose copy it is.
LAYERS = {
    "padded_bytes": ([16, 13, 11], [24, 16, 3, 3], f'pads = [1, 1, 1, 1]\ndtype = "uint8"\n{NXC}\n{ZERO_POINT}', "direct"),
    "interleaved_bytes": ([3, 24, 24], [32, 3, 3, 3], 'pads = [1, 1, 1, 1]\ndtype = "uint8"', "direct"),
    "transposed_planes": ([512, 14, 14], [768, 512, 1, 1], "", "direct"),
    "padded_planes": ([48, 12, 12], [40, 48, 3, 3], "pads = [1, 1, 1, 1]\nstrides = [2, 2]", "direct"),
    "uneven_phases": ([24, 9, 9], [24, 24, 3, 3], 'operator = "ConvTranspose"\nstrides = [2, 2]\npads = [1, 1, 1, 1]', "polyphase"),
    "few_outputs": ([32, 20, 20], [2, 32, 3, 3], f"pads = [1, 1, 1, 1]\n{NXC}", "kn2row"),
    "threefold_depthwise": ([16, 14, 14], [48, 1, 5, 5], f"group = 16\npads = [2, 2, 2, 2]\n{NXC}", "depthwise"),
}


def spec(batch, algorithm):
    return '[defaults]\noperator = "Conv"\nbias = true\n' + "".join(
        f'\n[[layer]]\nname = "{name}"\nx = {[batch, *x]}\nw = {w}\n{more}\n'
        for name, (x, w, more, by) in LAYERS.items() if by == algorithm)


class BatchCopies(unittest.TestCase):
    def workspaces(self, batch, algorithm):
        """Of each of the algorithm's layers, whose kernels are right: bytes for one thread."""
        with tempfile.TemporaryDirectory() as folder:
            layers, decisions, library = (Path(folder) / name for name in ("layers.toml", "decisions.jsonl", "library"))
            layers.write_text(spec(batch, algorithm))
            decisions.write_text(json.dumps({"problem": "*", "algorithm": algorithm}) + "\n")
            kiln_run.check_rows(self, kiln_run.verify(layers, "--decisions", decisions), algorithm)
            kiln_run.compile_layers(layers, "--decisions", decisions, "-o", library, *kiln_run.target_option())
            manifest = json.loads(next(library.glob("*.json")).read_text())
            return {layer["name"]: layer["workspace_bytes"] for layer in manifest["layers"]}

    def test_workspace_is_that_of_one_image(self):
        for algorithm in sorted({by for *_, by in LAYERS.values()}):
            of_one, of_four = (self.workspaces(batch, algorithm) for batch in (1, 4))
            for name, one in of_one.items():
                with self.subTest(name):
                    self.assertGreater(one, 0)
                    self.assertLessEqual(of_four[name], one + 64)


if __name__ == "__main__":
    unittest.main()
