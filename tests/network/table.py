#!/usr/bin/env python3
"""The table of docs/NETWORKS.md: what becomes of whole models, and how far their outputs are from onnxruntime's.

    KILN=build/bin/kiln table.py [--times] [--target T] [--only NAME]... [--model FILE.onnx[,INPUT=SHAPE...]]... [--update]

Models are those of models.py, and files. --times adds the time of a call on one thread beside onnxruntime's: for an idle
machine. --update writes the table into docs/NETWORKS.md.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import models
import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT, BEGIN, END = ROOT / "docs" / "NETWORKS.md", "<!-- table -->\n", "<!-- end of table -->\n"
KILN = os.environ.get("KILN", str(ROOT / "build" / "bin" / "kiln"))


def kiln(*arguments):
    return subprocess.run([KILN, *map(str, arguments)], capture_output=True, text=True, timeout=900)


class Row:
    """What became of one model; `failed` says why nothing did."""

    def __init__(self, name, path, shapes, target, folder, times):
        self.name, self.failed, self.time = name, "", ""
        self.options = ["--network", *(["--target", target] if target else []),
                        *(word for shape in shapes for word in ("--shape", shape))]
        begin = time.monotonic()
        made = kiln("compile", path, "-o", folder, "--name", "net", *self.options)
        self.seconds = time.monotonic() - begin
        if made.returncode != 0:
            self.failed = made.stderr.strip().splitlines()[-1][:200] if made.stderr.strip() else f"status {made.returncode}"
            return
        manifest = json.loads((folder / "net.json").read_text())
        self.nodes = len(onnx.load(path, load_external_data=False).graph.node)
        self.read_manifest(manifest, folder)
        self.compare(path)
        if times and not self.failed:
            self.time = timed(path, self.options, folder)

    def read_manifest(self, manifest, folder):
        network = manifest["network"]
        kinds = [next(kind for kind in ("layer", "operation", "c", "callback") if kind in step) for step in network["steps"]]
        self.layers, self.operations, self.tail, self.callbacks = (
            kinds.count(kind) for kind in ("layer", "operation", "c", "callback"))
        self.arena, self.bound = network["arena_bytes"], network["arena_bound_bytes"]
        sizes = subprocess.run(["size", "-t", folder / "libnet.a"], capture_output=True, text=True, check=True).stdout
        text, data = (int(word) for word in sizes.splitlines()[-1].split()[:2])
        constants = sections(folder / "libnet.a")
        self.code, self.weights = text + data - constants, constants

    def compare(self, path):
        said = kiln("verify", path, "--json", *self.options)
        rows = [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")]
        if not rows:
            self.failed = f"verify: {(said.stderr.strip().splitlines() or ['nothing said'])[-1][:200]}"
            return
        self.difference = max(row["difference"] / row["largest"] if row["largest"] else row["difference"] for row in rows)
        if said.returncode != 0:
            self.failed = "differs: " + (said.stderr.strip().splitlines() or [""])[-1][:200]

    def cells(self):
        if self.failed and not hasattr(self, "difference"):
            return [self.name, "", "", "", "", "", "", "", "", f"{self.seconds:.0f}", self.failed]
        return [self.name, str(self.nodes), str(self.layers), str(self.operations), str(self.tail), str(self.callbacks),
                f"{self.difference:.1g}" + (f" ({self.failed})" if self.failed else ""), f"{self.code / 1024:.0f}",
                f"{self.weights / 1024:.0f}", f"{self.arena / 1024:.0f} / {self.bound / 1024:.0f}", f"{self.seconds:.0f}", self.time]


def sections(archive):
    """The bytes of read-only data, which weights are, in an archive."""
    said = subprocess.run(["size", "-A", archive], capture_output=True, text=True, check=True).stdout
    return sum(int(line.split()[1]) for line in said.splitlines() if line.startswith((".rodata", ".data.rel.ro", ".data")))


def timed(path, options, folder):
    """Milliseconds of a call beside onnxruntime's, one thread each."""
    import numpy as np
    import onnxruntime

    said = kiln("bench", path, "--json", folder / "times.json", *options)
    if said.returncode != 0:
        return said.stderr.strip().splitlines()[-1][:100]
    ours = json.loads((folder / "times.json").read_text())["ms"]
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    given = dict(option.split("=") for word, option in zip(options, options[1:]) if word == "--shape")
    rng = np.random.default_rng(1)
    inputs = {}
    for value in session.get_inputs():
        shape = [int(size) for size in given[value.name].split("x")] if value.name in given else value.shape
        numbers = rng.integers(0, 255, shape) if "float" not in value.type else rng.standard_normal(shape)
        inputs[value.name] = numbers.astype({"tensor(uint8)": np.uint8, "tensor(int64)": np.int64}.get(value.type, np.float32))
    calls = []
    while len(calls) < 5 or (sum(calls) < 2 and len(calls) < 1000):
        begin = time.perf_counter()
        session.run(None, inputs)
        calls.append(time.perf_counter() - begin)
    return f"{ours:.2f} / {sorted(calls)[len(calls) // 2] * 1e3:.2f}"


HEAD = ["model", "nodes", "layers", "operations", "generated C", "callbacks", "difference", "code, KB", "weights, KB",
        "arena / bound, KB", "compiled in, s", "ms / onnxruntime's"]


def table(rows):
    lines = [HEAD, ["---"] * len(HEAD), *(row.cells() for row in rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def main():
    parser = argparse.ArgumentParser(description="What becomes of whole models.")
    parser.add_argument("--target", default="")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--model", action="append", default=[], metavar="FILE.onnx[,INPUT=SHAPE...]")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        wanted = [(name, None, []) for name in arguments.only or ([] if arguments.model else models.NAMES)]
        wanted += [(pathlib.Path(file).stem, pathlib.Path(file), shapes)
                   for file, *shapes in (text.split(",") for text in arguments.model)]
        for name, path, shapes in wanted:
            if path is None:
                path = folder / f"{name}.onnx"
                onnx.save(models.make(name, folder), path)
            out = folder / name
            out.mkdir()
            rows.append(Row(name, path, shapes, arguments.target, out, arguments.times))
            print(" | ".join(rows[-1].cells()), flush=True)
    if arguments.update:
        before, _, rest = DOCUMENT.read_text().partition(BEGIN)
        DOCUMENT.write_text(before + BEGIN + table(rows) + END + rest.partition(END)[2])
    return 1 if any(row.failed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
