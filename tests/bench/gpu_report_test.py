"""The table of a GPU's measurements, by made-up ones."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import gpu_layers  # noqa: E402
import gpu_report  # noqa: E402


def row(layer, nxc, ncx, dtype="float32", **peers):
    return {"layer": layer, "dtype": dtype, "products": 10**9, "bytes": 10**7, "peers": peers,
            "kiln": {"NXC": {"us": nxc, "verdict": "ok"}, "NCX": {"us": ncx, "verdict": "ok"}}}  # fmt: skip


RESULT = {
    "target": "cuda",
    "before": {"name": "a GPU", "driver_version": "1.2", "clocks.sm": "300", "clocks.mem": "500"},
    "after": {"name": "a GPU", "driver_version": "1.2", "clocks.sm": "1900", "clocks.mem": "2600", "clocks.max.sm": "1980",
              "clocks.max.mem": "2619"},
    "versions": {"PyTorch": "9.9", "torchvision": None},
    "ceilings": {"fma_tflops": 60.0, "matmul_f32_tflops": 50.0, "copy_gb_s": 2500.0},
    "in_a_row": {"NXC": {"captured_ms": 0.12, "queued_ms": 0.15, "alone_ms": 0.11, "layers": 4}},
    "rows": [row("fast", [100.0, 90.0, 101.0], [200.0], first=[150.0, 50.0, 200.0], last=[160.0]),
             row("slow", [50.0], [40.0], first=[36.0]),
             row("far", [50.0], [40.0], first=[20.0]),
             row("half", [50.0], [], "float16", first=[50.0]),
             row("alone", [50.0], [40.0])],
}  # fmt: skip


class GpuReport(unittest.TestCase):
    def test_rows(self):
        cells = {row[0]: row[1:] for row in gpu_report.table(RESULT)}
        self.assertEqual(cells["fast"], ["100.00", "200.00", "150.00", "first", "1.50", "33%", "4%"])
        self.assertEqual(cells["alone"][2:5], ["-", "-", "-"])
        self.assertEqual(cells["half"][1:6], ["-", "50.00", "first", "1.00", "-"])

    def test_means(self):
        lines = gpu_report.means(RESULT["rows"])
        self.assertRegex(lines[0], r"float32: 0.88 .* of 3 layers; 2 below 1.0 \(slow, far\), 1 below 0.67 \(far\)\.")
        self.assertRegex(lines[1], r"float16: 1.00 .* of 1 layers; 0 below 1.0, 0 below 0.67\.")

    def test_words(self):
        text = gpu_report.text(RESULT)
        for words in ("a GPU, driver 1.2, PyTorch 9.9.", "300 and 500 MHz before, 1900 and 2600 MHz after; at most 1980 and 2619",
                      "60.0 TFLOP/s in float32 (a loop of FMAs), products of matrices 50.0 in float32",
                      "All 4 layers in a row, NXC: 120.0 us as one CUDA graph (+2.50 a layer), 150.0 us queued one by one "
                      "(+10.00 a layer); the sum of each by itself is 110.0 us.",
                      "WRONG: half NCX: not timed"):  # fmt: skip
            self.assertIn(words, text)
        self.assertEqual(len(gpu_report.failures(RESULT)), 1)

    def test_document(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "GPU.md"
            path.write_text("before\n<!-- gpu bench -->\nold\n<!-- end of gpu bench -->\nafter\n")
            gpu_report.write(path, RESULT)
            text = path.read_text()
        self.assertTrue(text.startswith("before\n<!-- gpu bench -->\na GPU, driver"), text)
        last = gpu_report.means(RESULT["rows"])[-1]
        self.assertTrue(text.endswith(f"\n{last}\n<!-- end of gpu bench -->\nafter\n"), text)
        self.assertNotIn("old", text)

    def test_the_document_has_the_part(self):
        self.assertIsNotNone(gpu_report.document_parts.split(ROOT / "docs/GPU.md", gpu_report.PART))

    def test_from_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "result.json"
            path.write_text(json.dumps(RESULT))
            done = subprocess.run([sys.executable, ROOT / "bench/gpu.py", "--from-json", path], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)  # for one of the made-up times is missing
        self.assertEqual(done.stdout, gpu_report.text(RESULT) + "\n")


class GpuLayers(unittest.TestCase):
    def test_suite(self):
        layers = {layer["name"]: layer for layer in gpu_layers.load()}
        self.assertEqual(len(layers), 31)
        self.assertEqual(gpu_layers.products(layers["C1"]), 64 * 56 * 56 * 64 * 9)
        self.assertEqual(gpu_layers.products(layers["T1"]), 512 * 28 * 28 * 256 * 4)
        self.assertEqual(gpu_layers.Shape(layers["T3"]).out, [280, 280])
        self.assertEqual(gpu_layers.Shape(layers["C3"]).out, [28, 28])
        self.assertEqual(gpu_layers.least_bytes(layers["C1_float16"]), 2 * (2 * 64 * 56 * 56 + 64 * 64 * 9))
        self.assertEqual(gpu_layers.least_bytes(layers["D1"]), 4 * (2 * 64 * 56 * 56 + 64 * 64 * 9 + 27 * 56 * 56))


if __name__ == "__main__":
    unittest.main(verbosity=2)
