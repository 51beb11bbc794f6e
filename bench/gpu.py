#!/usr/bin/env python3
"""On a machine with a GPU: times Kiln's kernels of the suite there, beside PyTorch's (cuDNN, TF32 off) where that is.

    python3 bench/gpu.py [--target cuda|opencl] [--layers C1,C2] [--kiln build/bin/kiln] [--decisions FILE] [--jobs 16]
                         [--kiln-only | --peers-only] [--rounds 3] [--json FILE] [--markdown docs/GPU.md]
    python3 bench/gpu.py --from-json FILE [--markdown docs/GPU.md]     # a table of an earlier run; needs no GPU

All layers have bias and ReLU, those of 8 bits no peer; tensors and packed weights are on the device and, being small, in its caches. With CUDA both sides'
calls are captured in graphs of 20, and timed by the device's events: the median of 50 graphs, in turns of Kiln and PyTorch, the
median of the turns. PyTorch's time is that of its fastest way (gpu_peers.py). The ratio is PyTorch's time over Kiln's in its
better layout; of FMA is the share of the device's float32 multiply-adds that the definition's products would take, of bandwidth
that of a copy's bytes that x, w and y have. Kernels are verified first. Exits with 1 where a kernel is wrong or has no time.
"""

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gpu_layers
import gpu_peers
import gpu_report

ROOT = Path(__file__).resolve().parents[1]
CEILINGS = ROOT / "bench/native/gpu_ceilings.cu"
STATE = ("name", "driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem", "temperature.gpu", "power.draw")
SECONDS = 0.1  # of a round of a layer with OpenCL; CUDA's take what they take


def gpu_state():
    """What nvidia-smi says of the GPU, by STATE's names; {} without one."""
    command = ["nvidia-smi", "-i", os.environ.get("KILN_GPU", "0"), f"--query-gpu={','.join(STATE)}", "--format=csv,noheader,nounits"]
    try:
        line = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return {}
    return dict(zip(STATE, map(str.strip, line.split(","))))


def native_ceilings(folder):
    """What gpu_ceilings.cu finds where there is an nvcc; else {}."""
    program = folder / "gpu_ceilings"
    try:
        subprocess.run(["nvcc", "-O3", "-arch=native", CEILINGS, "-o", program], check=True, capture_output=True)
        return json.loads(subprocess.run([program], check=True, capture_output=True, text=True).stdout)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        print(f"no ceilings by nvcc: {error}", file=sys.stderr)
        return {}


def require_cuda():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        sys.exit("not run: there is no CUDA driver here")


class Kiln:
    """The layers in one layout: a program that kiln builds, kept so that it runs once a round."""

    def __init__(self, options, layers, layout, folder, jobs):
        self.layout, self.folder = layout, folder / layout
        self.folder.mkdir()
        self.program = self.folder / "program"
        spec = self.folder / "layers.toml"
        spec.write_text(gpu_layers.as_toml(layers, layout))
        # Kiln gives the program that it has built to a runner, which keeps it.
        keeper = self.folder / "keep"
        keeper.write_text(f'#!/bin/sh\ncp "$1" "{self.program}"\n')
        keeper.chmod(0o755)
        command = [options.kiln, "bench", spec, "--target", options.target, "--jobs", str(jobs), "--runner", keeper]
        if options.decisions:
            command += ["--decisions", options.decisions]
        self.building = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def wait(self):
        self.building.wait()
        if not self.program.exists():
            sys.exit(f"kiln built no program of the layers in {self.layout}")

    def start_verifying(self):
        self.verifying = subprocess.Popen([self.program, "verify", "--json"], stdout=subprocess.PIPE, text=True)

    def verdicts(self):
        output, _ = self.verifying.communicate()
        return {row["layer"]: row["verdict"] for row in map(json.loads, output.splitlines())}

    def round(self, seconds):
        """The rows of kiln bench by layer, and its totals."""
        answer = self.folder / "answer.json"
        answer.unlink(missing_ok=True)
        subprocess.run([self.program, "bench", "--rounds", "1", "--seconds", str(seconds), "--json", answer],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)  # fmt: skip
        if not answer.exists():
            sys.exit(f"the layers in {self.layout} were not timed")
        result = json.loads(answer.read_text())
        return {row["layer"]: row for row in result["rows"]}, result["total"]


def add_round(rows, kiln, seconds):
    """A round of Kiln's in one layout. Returns what all layers take in a row, or None."""
    found, total = kiln.round(seconds)
    for row in rows:
        told, ours = found.get(row["layer"], {}), row["kiln"][kiln.layout]
        if told.get("ms"):
            ours["us"].append(told["ms"] * 1e3)
            ours |= {"algorithm": told["algorithm"], "schedule": told["schedule"]}
        elif ours["verdict"] == "ok":
            ours["verdict"] = told.get("error", "not compiled")
    return {**total["in_a_row"], "alone_ms": total["ms"]} if "in_a_row" in total else None


def measure(options, layers):
    """The results, as --json writes them."""
    rows = [{"layer": layer["name"], "dtype": layer["dtype"], "products": gpu_layers.products(layer),
             "bytes": gpu_layers.least_bytes(layer), "kiln": {}, "peers": {}} for layer in layers]  # fmt: skip
    result = {"target": options.target, "before": gpu_state(), "rows": rows, "rounds": options.rounds, "ceilings": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kilns = [] if options.peers_only else [Kiln(options, layers, layout, folder, max(1, options.jobs // 2))
                                               for layout in gpu_report.LAYOUTS]  # fmt: skip
        found = peers = None
        if options.target == "cuda":
            result["ceilings"] = native_ceilings(folder)
            found = None if options.kiln_only else gpu_peers.load()
            if found is None and not options.kiln_only:
                print("PyTorch with CUDA is not here: Kiln's times alone", file=sys.stderr)
            if found:
                result["versions"] = gpu_peers.versions(*found)
                result["ceilings"] = {**gpu_peers.ceilings(found[0]), **result["ceilings"]}
        for kiln in kilns:
            kiln.wait()
        if found:  # now that the processors are idle: cuDNN chooses by timings
            peers = gpu_peers.Peers(*found, [layer for layer in layers if layer["dtype"] in gpu_peers.WRONG])
        for kiln in kilns:
            if options.verify:
                kiln.start_verifying()
        for kiln in kilns:
            verdicts = kiln.verdicts() if options.verify else {}
            for row in rows:
                row["kiln"][kiln.layout] = {"us": [], "verdict": verdicts.get(row["layer"], "not verified" if options.verify else "ok")}
        for _ in range(options.rounds):
            for kiln in kilns:
                in_a_row = add_round(rows, kiln, SECONDS)
                if in_a_row:
                    result.setdefault("in_a_row", {})[kiln.layout] = in_a_row
            for layer, found in peers.round().items() if peers else ():
                row = next(row for row in rows if row["layer"] == layer)
                row["errors"] = peers.errors[layer]
                for words, us in found.items():
                    row["peers"].setdefault(words, []).append(us)
            result["after"] = gpu_state()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cuda", choices=["cuda", "opencl"])
    parser.add_argument("--layers", help="these alone, by the suite's names; C1_float16 is C1 in float16")
    parser.add_argument("--kiln", default=os.environ.get("KILN", shutil.which(ROOT / "build/bin/kiln") or "kiln"))
    parser.add_argument("--decisions")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-verify", dest="verify", action="store_false", help="time kernels without checking them first")
    parser.add_argument("--kiln-only", action="store_true")
    parser.add_argument("--peers-only", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--from-json", metavar="FILE")
    parser.add_argument("--markdown", metavar="DOCUMENT", help=f"renew the part `{gpu_report.PART}` of it")
    options = parser.parse_args()
    if options.from_json:
        result = json.loads(Path(options.from_json).read_text())
    else:
        if options.target == "cuda":
            require_cuda()
        layers = gpu_layers.load()
        names = options.layers.split(",") if options.layers else [layer["name"] for layer in layers]
        unknown = set(names) - {layer["name"] for layer in layers}
        if unknown:
            sys.exit(f"the suite has no layer {', '.join(sorted(unknown))}")
        result = measure(options, [layer for layer in layers if layer["name"] in names])
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    print(gpu_report.text(result))
    if options.markdown:
        gpu_report.write(options.markdown, result)
    return 1 if gpu_report.failures(result) else 0


if __name__ == "__main__":
    sys.exit(main())
