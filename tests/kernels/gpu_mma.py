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

HERE = Path(__file__).parent
CASES = HERE.parent / "cases/mma.toml"
SCHEDULES = (
    "",
    "channels:1;columns:2;rows:1;warps:2;side_by_side:1;unroll:1",
)


def decisions(folder, schedule):
    line = {"problem": "*", "algorithm": "gpu_mma", **({"schedule": schedule} if schedule else {})}
    path = Path(folder) / "decisions.jsonl"
    path.write_text(json.dumps(line) + "\n")
    return ["--target", "cuda", kiln_run.NO_FALLBACK, "--decisions", path]


class Mma(unittest.TestCase):
    def test_emulated(self):
        own = {"KILN_EMULATOR": f"{sys.executable} {HERE / 'ptx_threads.py'}", "LD_LIBRARY_PATH": os.environ["KILN_EMULATED"]}
        for schedule in SCHEDULES:
            with tempfile.TemporaryDirectory() as folder:
                command = [kiln_run.kiln(), "verify", CASES, "--json", *decisions(folder, schedule)]
                done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **own})
            rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
            self.assertGreaterEqual(len(rows), 20, done.stderr[-2000:])
            kiln_run.check_rows(self, rows, "gpu_mma")

    def test_assembled(self):
        with tempfile.TemporaryDirectory() as folder:
            kiln_run.compile_layers(CASES, "-o", folder, "--name", "mma", *decisions(folder, ""))
            codes = gpu_ptx.device_code(Path(folder) / "libmma.a")
        self.assertGreaterEqual(len(codes), 20)
        for code in codes:
            self.assertIn(b"mma.sync.aligned.m16n8k16", code)
            for entry in gpu_ptx.assemble(code, "sm_80").values():
                self.assertEqual(entry["spill_bytes"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
