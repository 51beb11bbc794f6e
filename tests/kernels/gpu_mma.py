"""Matrix instructions of CUDA without a GPU: kernels run on an emulated one (ptx_threads.py), by several schedules, and ptxas takes
them. KILN_EMULATED is the folder of a driver that runs them so."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import gpu_ptx
import kiln_run
import parts

HERE = Path(__file__).parent
CASES = HERE.parent / "cases/mma.toml"
# A schedule, and the layers that are tried by it, all where none is named.
SCHEDULES = (
    ("", ()),
    (
        "channels:1;columns:2;rows:1;warps_c:1;warps_x:2;slices:1;unroll:1",
        ("pointwise", "strided", "up_uneven", "to_channels_first", "volume_bfloat16", "channels_first_float32"),
    ),
)


def decisions(folder, schedule):
    line = {"problem": "*", "algorithm": "gpu_mma", **({"schedule": schedule} if schedule else {})}
    path = Path(folder) / "decisions.jsonl"
    path.write_text(json.dumps(line) + "\n")
    return ["--target", "cuda", kiln_run.NO_FALLBACK, "--decisions", path]


def named(layers):
    return [word for layer in layers for word in ("--layer", layer)]


class Mma(unittest.TestCase):
    def verify(self, *arguments):
        own = {"KILN_EMULATOR": f"{sys.executable} {HERE / 'ptx_threads.py'}", "LD_LIBRARY_PATH": os.environ["KILN_EMULATED"]}
        command = [kiln_run.kiln(), "verify", *arguments, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **own})
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        self.assertTrue(rows, done.stderr[-2000:])
        return rows

    def test_emulated(self):
        for schedule, layers in SCHEDULES:
            only = named(parts.part(layers)) if layers else parts.part_of_layers(CASES)
            with tempfile.TemporaryDirectory() as folder:
                rows = self.verify(CASES, *decisions(folder, schedule), *only)
            self.assertGreaterEqual(len(rows), only.count("--layer") or 26)
            kiln_run.check_rows(self, rows, "gpu_mma")

    def test_samples(self):
        layers = ["deform_eights", "deform_eights_float16", "deform_eights_bfloat16"]
        rows = self.verify(HERE.parent / "cases/gpu.toml", "--target", "cuda", kiln_run.NO_FALLBACK, *named(layers))
        self.assertEqual([row["layer"] for row in rows], layers)
        kiln_run.check_rows(self, rows, "gpu_mma_samples")

    def test_packed_samples(self):
        """Weights are packed in their own type, without anything between: they fill whole tiles here."""
        layers = ["deform_eights", "deform_eights_float16", "deform_eights_bfloat16"]
        with tempfile.TemporaryDirectory() as folder:
            kiln_run.compile_layers(HERE.parent / "cases/gpu.toml", "-o", folder, "--name", "samples", "--target", "cuda", *named(layers))
            manifest = json.loads((Path(folder) / "samples.json").read_text())
            codes = gpu_ptx.device_code(Path(folder) / "libsamples.a")
        for layer, code in zip(manifest["layers"], codes, strict=True):
            with self.subTest(layer["name"]):
                self.assertEqual(layer["packed_bytes"], layer["weight_bytes"])
                is_wide = layer["name"] == "deform_eights"
                # A thread's weights are one load: 16 bytes, or 8.
                self.assertEqual([code.count(load) for load in (b"ld.global.nc.v2.b64", b"ld.global.nc.v2.b32")], [is_wide, not is_wide])

    def test_assembled(self):
        with tempfile.TemporaryDirectory() as folder:
            kiln_run.compile_layers(CASES, "-o", folder, "--name", "mma", *decisions(folder, ""))
            codes = gpu_ptx.device_code(Path(folder) / "libmma.a")
        self.assertGreaterEqual(len(codes), 26)
        for code in codes:
            self.assertRegex(code, rb"mma\.sync\.aligned\.m16n8k(16|8)\.")
            for entry in gpu_ptx.assemble(code, "sm_80").values():
                self.assertEqual(entry["spill_bytes"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
