#!/usr/bin/env python3
"""How many instructions ARM kernels take for a multiply-accumulate, counted under qemu.

    instructions.py KILN SPEC --target T [--cxx CXX] [--json]

Runs each layer of SPEC with random data under qemu-user and counts what its kernel executes. The floor is that of the definition's
multiply-accumulates, all by the target's widest product and nothing else; Winograd's fewer products go below it. Needs a C compiler,
a C++ compiler for the target, and Debian's qemu-user (not its static build, which takes no plugins).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

QEMU = {"arm-64": "qemu-aarch64", "arm-32": "qemu-arm"}
CXX = {"arm-64": "aarch64-linux-gnu-g++", "arm-32": "arm-linux-gnueabihf-g++"}


def family_of(target):
    return "-".join(target.split("-")[:2])


def products_of(target, dtype):
    """Multiply-accumulates of the widest product; arm-32 multiplies and adds apart, so that a vector's four take two."""
    wide = 2 if family_of(target) == "arm-32" else 4
    if "8" in dtype:
        return 16 if "dotprod" in target else 4
    return wide / 2 if dtype == "f64" else wide


def as_runner(out, plugin, qemu, program, arguments):
    """Runs a program of the harness: counts what its kernels' symbols hold."""
    said = subprocess.run(["nm", "-S", program], capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in said.splitlines()]
    symbols = {f[3]: (int(f[0], 16), int(f[1], 16)) for f in lines if len(f) == 4 and f[2] in "tT" and f[3].startswith("net_")}
    with open(out + ".ranges", "w") as file:
        for name, (begin, size) in symbols.items():
            file.write(f"{name} {begin:x} {begin + size:x}\n")
    command = [qemu, "-cpu", "max", "-plugin", f"{plugin},ranges={out}.ranges,out={out}", program, *arguments]
    return subprocess.run([*command, "--seconds", "0"], check=False).returncode


def macs(problem):
    """Of the definition, without bias, from the problem's text."""
    fields = problem.split("-")
    at = {key: value for key, value in ((f[0], f[1:]) for f in fields[2:] if len(f) > 1 and f[1].isdigit())}
    size = {key: [int(v) for v in at[key].split("x")] for key in "ncmgik" if key in at}
    out = [int(v) for v in at["o"].split("x")]
    points = size["i"] if fields[0].startswith("convtranspose") else out
    result = size["n"][0] * size["c"][0] * size["m"][0] // size["g"][0]
    for extent in points + size["k"]:
        result *= extent
    return result


def count(kiln, spec, target, cxx):
    """Rows of (layer, problem, algorithm, multiply-accumulates, instructions of a call)."""
    family = family_of(target)
    with tempfile.TemporaryDirectory() as folder:
        plugin, out, results = (os.path.join(folder, name) for name in ("libcount.so", "counts", "bench.json"))
        source = Path(__file__).with_name("count_plugin.c")
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O2", source, "-o", plugin], check=True)
        layers = Path(folder) / "net.toml"
        layers.write_text(Path(spec).read_text())
        runner = f"{sys.executable} {Path(__file__).resolve()} --as-runner {out} {plugin} {QEMU[family]}"
        command = [kiln, "bench", layers, "--target", target, "--runner", runner, "--cxx", cxx or CXX[family], "--json", results]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode != 0:
            sys.exit(f"instructions.py: kiln bench failed:\n{process.stdout}{process.stderr}")
        rows = json.loads(Path(results).read_text())["rows"]
        counts = [line.split() for line in Path(out).read_text().splitlines()]
        symbols = symbols_of(kiln, layers, target, folder)
    for row in rows:
        row["macs"] = macs(row["problem"])
        row["floor"] = 1 / products_of(target, row["problem"].split("-")[1])
        symbol = symbols[row["layer"]]
        own = [c for c in counts if c[0].startswith(symbol) and not c[0].endswith(("_pack", "_bytes"))]
        calls = max(int(c[1]) for c in own if c[0] == symbol)
        row["instructions"] = sum(int(c[3]) for c in own) / calls
    return rows


def symbols_of(kiln, spec, target, folder):
    out = Path(folder) / "compiled"
    subprocess.run([kiln, "compile", spec, "-o", out, "--name", "net", "--target", target], check=True, capture_output=True)
    manifest = json.loads((out / "net.json").read_text())
    return {layer["name"]: layer["kernels"][0] for layer in manifest["layers"]}


def main():
    if sys.argv[1:2] == ["--as-runner"]:
        sys.exit(as_runner(*sys.argv[2:6], sys.argv[6:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiln", metavar="KILN", help="the kiln command")
    parser.add_argument("spec", metavar="SPEC", help="a layers file")
    parser.add_argument("--target", required=True, help="what to compile for")
    parser.add_argument("--cxx", help="C++ compiler for the target")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = count(options.kiln, options.spec, options.target, options.cxx)
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print(f"{row['layer']:12} {row['algorithm']:10} {row['instructions']:14.0f} instructions  "
              f"{row['instructions'] / row['macs']:.3f} a multiply-accumulate, floor {row['floor']:.4f}")  # fmt: skip


if __name__ == "__main__":
    main()
