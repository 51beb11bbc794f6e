"""kiln tune for GPUs: candidates of every algorithm are right on PoCL, and what CUDA's would be is assembled by ptxas; no GPU is
needed."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

import gpu_ptx
import kiln_run

CASES = Path(__file__).resolve().parents[1] / "cases/gpu.toml"
# Of every algorithm, groups, output phases, rows and volumes among them.
TUNED = ("conv_nxc", "grouped", "up", "depthwise", "winograd", "deform")
MOST_THREADS, MOST_SHARED = 256, {"opencl": 32 << 10, "cuda": 48 << 10}
DRAWS = 2


class GpuTuning(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def kiln(self, *words):
        return subprocess.run([kiln_run.kiln(), *map(str, words)], capture_output=True, text=True, check=False)

    def tune(self, *options):
        return self.kiln("tune", CASES, "--timings", self.folder / "t.jsonl", "--decisions", self.folder / "d.jsonl", "--json",
                         *options)

    def test_candidates_on_opencl(self):
        layers = [word for name in TUNED for word in ("--layer", name)]
        process = self.tune("--target", "opencl", "--budget", "3c/layer", *layers)
        self.assertEqual(process.returncode, 0, process.stderr)
        answer = json.loads(process.stdout)
        self.assertIn(", on ", answer["machine"])  # a device's name, and the processor's
        records = [json.loads(line) for line in (self.folder / "t.jsonl").read_text().splitlines()]
        self.assertEqual({record["verdict"] for record in records}, {"ok"})
        self.assertEqual({record["algorithm"] for record in records},
                         {"gpu_direct", "gpu_polyphase", "gpu_depthwise", "gpu_winograd", "gpu_deformable", "gpu_staged",
                          "gpu_staged_samples"})
        for problem in answer["problems"]:
            self.assertEqual(problem["tried"], 3)
            tried = {candidate["schedule"] for candidate in problem["candidates"]}
            self.assertEqual(len(tried), 1 + 3, problem)
        done = self.kiln("verify", CASES, "--target", "opencl", *layers, "--decisions", self.folder / "d.jsonl", kiln_run.NO_FALLBACK)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_drawn_candidates_keep_the_limits(self):
        """Points of the spaces, of all cases in float32: each compiles, and asks for no more than every such GPU has."""
        spec = self.folder / "cases.toml"
        spec.write_text(CASES.read_text().partition("[[variant]]")[0])
        for target in ("opencl", "cuda"):
            schedules = set()
            for draw in range(1, DRAWS + 1):
                (self.folder / "draw.jsonl").write_text(json.dumps({"problem": "*", "draw": draw}) + "\n")
                out = self.folder / f"{target}{draw}"
                done = self.kiln("compile", spec, "-o", out, "--name", "net", "--target", target, "--decisions",
                                 self.folder / "draw.jsonl", kiln_run.NO_FALLBACK)
                self.assertEqual(done.returncode, 0, done.stderr)
                kernels = json.loads((out / "net.json").read_text())["kernels"]
                for kernel in kernels:
                    schedules.add((kernel["problem"], kernel["algorithm"], kernel["schedule"]))
                    for launch in kernel["launches"]:
                        self.assertLessEqual(launch["threads"], MOST_THREADS, kernel)
                        self.assertLessEqual(launch["shared_bytes"], MOST_SHARED[target], kernel)
                if target == "cuda" and draw == 1:
                    codes = gpu_ptx.device_code(out / "libnet.a")
                    self.assertEqual(len(codes), len(kernels))
                    for code in codes:
                        self.assertTrue(gpu_ptx.assemble(code, "sm_80"))
            self.assertGreater(len(schedules), 1.5 * len(kernels), "draws are of many schedules")

    def test_what_cannot_be_is_told(self):
        runs_here = kiln_run.targets()["cuda"]["runs_here"]
        process = self.tune("--target", "cuda", "--budget", "1c", "--layer", "conv_nxc")
        if not runs_here:
            self.assertEqual(process.returncode, 1)
            self.assertIn("this machine cannot run cuda: give --runner CMD", process.stderr)
        for option, part in ((("--cold",), "--cold has no meaning for opencl"),
                             (("--predict", "haswell"), "--predict has no meaning for opencl")):
            process = self.tune("--target", "opencl", "--budget", "1c", *option)
            self.assertEqual(process.returncode, 1)
            self.assertIn(part, process.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
