"""Looks at the machine code of kernels' hot loops, for processors that are here or not: `./dev code`.

The layers of each file are compiled for each target, and what their hot loops hold is counted (hot_loops.py): element-wise
inserts and extracts, gathers, scalar conversions, vectors spilled to the stack, and instructions for each that is
arithmetic. A kernel with more of them than LIMITS is named, with its schedule: it is slow whatever the processor. Exits
with 1 where one is that no line of accepted.toml excuses.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import hot_loops

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/gate"), str(ROOT / "tests/kernels")]

import document_parts  # noqa: E402 (from there)
import fingerprint  # noqa: E402
import targets  # noqa: E402

FILES = ("bench/suite.toml", "bench/networks.toml", "bench/shapes.toml")
# For each instruction that is arithmetic; "length" counts all instructions.
LIMITS = {"inserts": 0.5, "extracts": 0.5, "gathers": 0.1, "conversions": 0.25, "spills": 0.5, "length": 6.0}


def look(kiln, file, target, jobs, layers=()):
    """A row for each kernel of the file's layers: {"layers", "problem", "schedule", "worst": a number for each of LIMITS}."""
    with tempfile.TemporaryDirectory(prefix="code") as name:
        command = [kiln, "compile", str(file), "-o", name, "--name", "code", "--target", target, "--jobs", str(jobs),
                   "--skip-unsupported", *(word for layer in layers for word in ("--layer", layer))]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        manifest = Path(name) / "code.json"
        if not manifest.exists():
            raise RuntimeError(f"{file} for {target}: {process.stderr.strip()[-400:]}")
        facts = json.loads(manifest.read_text())
        names = collections.defaultdict(list)
        for layer in facts["layers"]:
            names[layer["problem"]].append(layer["name"])
        objects = dict(fingerprint.archive_members(Path(name) / "libcode.a"))
        for kernel in facts["kernels"]:
            path = Path(name) / "kernel.o"
            path.write_bytes(objects[kernel["symbol"] + ".o"])
            loops = hot_loops.hot_loops(path, target.split("-")[0])
            worst = {kind: round(max((loop.share(kind) for loop in loops), default=0), 2) for kind in LIMITS}
            yield {"file": Path(file).name, "target": target, "layers": names[kernel["problem"]],
                   "problem": kernel["problem"], "algorithm": kernel["algorithm"], "schedule": kernel["schedule"],
                   "worst": worst}


def beyond(row):
    return {kind: value for kind, value in row["worst"].items() if value > LIMITS[kind]}


def accepted():
    """Why a kernel may hold more than the limits: {(target, layer): reason}."""
    table = tomllib.loads((Path(__file__).parent / "accepted.toml").read_text())
    return {(target, layer): entry["why"] for entry in table.get("kernel", ()) for target in entry["targets"]
            for layer in entry["layers"]}


def summary(rows):
    """A Markdown table: for each target and file the kernels, those beyond a limit, and medians and worst of the lengths."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["target"], row["file"]].append(row)
    yield "| target | file | kernels | beyond a limit | instructions an arithmetic one: median | worst | spills: worst |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for (target, file), group in groups.items():
        lengths = sorted(row["worst"]["length"] for row in group)
        yield (f"| {target} | {file} | {len(group)} | {sum(bool(beyond(row)) for row in group)} | "
               f"{lengths[len(lengths) // 2]:.2f} | {lengths[-1]:.2f} | {max(row['worst']['spills'] for row in group):.2f} |")


def write(path, table):
    """The table alone, or in a document that has a part for it, there."""
    if document_parts.split(path, "code"):
        document_parts.write(path, "code", table + "\n")
    else:
        path.write_text(table + "\n")


def main():
    parser = argparse.ArgumentParser(prog="./dev code", description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help=f"layers files; {', '.join(FILES)} unless said")
    parser.add_argument("--target", action="append", metavar="T", help="may be given again; all processors unless said")
    parser.add_argument("--layer", action="append", default=[], metavar="NAME", help="only this layer; may be given again")
    parser.add_argument("--kiln", default=str(ROOT / "build/bin/kiln"), help="the command that compiles")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="J", help="kernels compiled at once")
    parser.add_argument("--json", metavar="FILE", help="write each kernel's numbers there, a line of JSON each")
    parser.add_argument("--table", metavar="FILE", help="write the table there, in Markdown: where it has marks for it, as docs/speed/code.md, between them")
    options = parser.parse_args()
    processors = [name for name in targets.all_targets(options.kiln) if not targets.is_gpu(name)]
    reasons, rows, bad = accepted(), [], 0
    for file in options.files or [ROOT / name for name in FILES]:
        for target in options.target or processors:
            print(f"{Path(file).name} for {target}", file=sys.stderr, flush=True)
            for row in look(options.kiln, file, target, options.jobs, options.layer):
                rows.append(row)
                for kind, value in beyond(row).items():
                    reason = next((reasons[target, layer] for layer in row["layers"] if (target, layer) in reasons), None)
                    bad += reason is None
                    print(f"{target} {','.join(row['layers'])}: {kind} {value} an arithmetic instruction, limit {LIMITS[kind]}"
                          f"{' (' + reason + ')' if reason else ''}: {row['algorithm']} {row['schedule']}", flush=True)
    table = "\n".join(summary(rows))
    print(table)
    if options.table:
        write(Path(options.table), table)
    if options.json:
        Path(options.json).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
