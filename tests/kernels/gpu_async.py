"""Copies to shared memory that go on while a block computes (gpu_staged with several buffers), without a GPU: kernels run on an
emulated one (ptx_threads.py), which tells reads of what did not come yet, and ptxas takes them. KILN_EMULATED is the folder of a driver
that runs them so."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import gpu_ptx
import kiln_run

HERE = Path(__file__).parent
CASES = HERE.parent / "cases/async_copies.toml"
LAYERS = ("padded", "odd_channels", "strided", "row", "volume", "up", "up_row")
NUMBERS = "channels:4;pixels:2;vector:{};threads_c:2;threads_x:4;threads_y:4;chunk:{};unroll:{};slices:{};x_vector:{};buffers:{}"
SCHEDULES = (
    NUMBERS.format(4, 4, 4, 1, 1, 2),
    NUMBERS.format(2, 3, 1, 2, 1, 3),
)




def decisions(folder, algorithm, schedule):
    path = Path(folder) / "decisions.jsonl"
    path.write_text(json.dumps({"problem": "*", "algorithm": algorithm, "schedule": schedule}) + "\n")
    return ["--target", "cuda", kiln_run.NO_FALLBACK, "--decisions", path]


class AsyncCopies(unittest.TestCase):
    def check(self, algorithm, schedule, *layers):
        own = {"KILN_EMULATOR": f"{sys.executable} {HERE / 'ptx_threads.py'}", "LD_LIBRARY_PATH": os.environ["KILN_EMULATED"]}
        with tempfile.TemporaryDirectory() as folder:
            command = [kiln_run.kiln(), "verify", CASES, "--json", *decisions(folder, algorithm, schedule)]
            command += [f"--layer={layer}" for layer in layers]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **own})
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        self.assertEqual(len(rows), len(layers), done.stderr[-2000:])
        for row in rows:
            with self.subTest(row["layer"], schedule=schedule):
                self.assertEqual((row["verdict"], row["schedule"]), ("ok", schedule), row)

    def test_emulated(self):
        for schedule in SCHEDULES:
            self.check("gpu_staged", schedule, *LAYERS)
        self.check("gpu_staged", NUMBERS.format(4, 2, 2, 2, 2, 4), "padded")
        self.check("gpu_staged", NUMBERS.format(4, 4, 4, 1, 4, 2), "padded", "row", "up")
        self.check("gpu_staged_samples", SCHEDULES[0], "deformed")

    def test_assembled(self):
        with tempfile.TemporaryDirectory() as folder:
            kiln_run.compile_layers(CASES, "-o", folder, "--name", "copies", *decisions(folder, "gpu_staged", SCHEDULES[0]))
            codes = gpu_ptx.device_code(Path(folder) / "libcopies.a")
        self.assertEqual(len(codes), len(LAYERS) + 1)
        for code in codes[:-1]:
            self.assertIn(b"cp.async.cg.shared.global", code)
            self.assertNotIn(b"kiln_async", code)
            for entry in gpu_ptx.assemble(code, "sm_80").values():
                self.assertEqual(entry["spill_bytes"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
