#!/usr/bin/env python3
"""The table of docs/NETWORKS.md: what becomes of whole models, how far their outputs are from onnxruntime's, and how long they
take beside it and OpenVINO (bench/network.py).

    table.py [--build DIR] [--only NAME]... [--model [NAME=]FILE.onnx[,INPUT=SHAPE...]]... [--keep DIR [--compile-only]] [--update]
             [--in-order]

--in-order has the second table, of the models' convolutions in their order (bench/in_order.py), in place of the first.
Models are those of models.py, and files. --update writes each row into docs/NETWORKS.md as soon as it is there; rows of other
models stay. With --keep what was compiled stays too: --compile-only first, and the run that times needs an idle machine for
seconds a model.
"""

import argparse
import json
import pathlib
import platform
import subprocess
import sys
import tempfile

import models
import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "onnx_import"), str(ROOT / "tests" / "kernels")]
import document_parts  # noqa: E402
from network_values import TOLERANCE, TOLERANCES  # noqa: E402
from terms import count_convolutions  # noqa: E402

DOCUMENT = ROOT / "docs" / "NETWORKS.md"
HEAD = ["model", "nodes", "convolutions", "layers, operations, C, callbacks", "difference", "ms", "onnxruntime's", "OpenVINO's",
        "code, KB", "constants, KB", "arena / bound, KB", "compiled in, s of a processor"]
HEAD_IN_ORDER = ["model", "convolutions", "ms", "their ms", "warm", "ratio", "onnxruntime's", "their ms", "OpenVINO's", "their ms"]
WORDS = "On one thread of one processor of {}, in turns with the others; times in milliseconds, behind others' how many times " \
        "Kiln's they are:\n\n"
PEERS = ("onnxruntime", "openvino")
SIGMOID_ERROR = 2e-7  # of onnxruntime's at any value, however small (measured: 1.65e-7)


def tolerance_of(model):
    types = {onnx.TensorProto.DataType.Name(tensor.data_type).lower() for tensor in model.graph.initializer}
    return max([tolerance for name, tolerance in TOLERANCES if name in types], default=TOLERANCE)


def is_near(model, outputs):
    """Whether outputs are as near as kiln verify wants them: onnxruntime's Sigmoid has an error of its own."""
    makers = {name: node.op_type for node in model.graph.node for name in node.output}
    tolerance = tolerance_of(model)
    return all(part <= tolerance or (makers.get(value.name) == "Sigmoid" and largest <= SIGMOID_ERROR)
               for (largest, part), value in zip(outputs, model.graph.output))


def measured(path, shapes, build, folder, options):
    """What bench/network.py says of a model, or why it says nothing; {} where it only compiles."""
    answer = folder / "answer.json"
    answer.unlink(missing_ok=True)
    which = [path, "--in-order"] if options.in_order else ["--network", path]
    done = subprocess.run([sys.executable, ROOT / "bench" / "run.py", "--build", build, *which, "--json", answer,
                           "--peers", ",".join(PEERS), "--rounds", "5", *options.words, *(word for shape in shapes for word in ("--shape", shape))],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1][:200]
    return json.loads(answer.read_text()) if answer.exists() else {}


def row_of(name, path, shapes, build, folder, options):
    """(a row's cells, whether all is well)"""
    result = measured(path, shapes, build, folder, options)
    if not result:
        return [name, "compiled"], True
    if isinstance(result, str):
        return [name, *[""] * (len(HEAD) - 2), result], False
    if options.in_order:
        return row_in_order(name, result[0]), True
    model, facts = onnx.load(path), result["facts"]
    ways = {way["name"]: way for way in result["ways"]}
    steps = [str(facts["steps"].get(kind, 0)) for kind in ("layer", "operation", "c", "callback")]
    difference, ours = ways["kiln"]["difference"], ways["kiln"]["ms"]
    is_right = "onnxruntime" in ways and is_near(model, ways["kiln"]["outputs"])
    times = [f"{milliseconds(ways[peer]['ms'])} ({ways[peer]['ms'] / ours:.2f})" if peer in ways else "-" for peer in PEERS]
    kilobytes = lambda key: f"{facts[key] / 1024:.0f}"
    return [name, str(len(model.graph.node)), str(count_convolutions(model.graph.node)), ", ".join(steps),
            f"{difference:.1g}" + ("" if is_right else " (too far)"), milliseconds(ours), *times, kilobytes("code_bytes"),
            kilobytes("constant_bytes"), f"{kilobytes('arena_bytes')} / {kilobytes('arena_bound_bytes')}",
            f"{facts['compile_seconds']:.0f}"], is_right


def row_in_order(name, result):
    ways = result["ways"]
    ours = ways["kiln"]
    cells = [name, str(ours["convolutions"]), milliseconds(ours["ms"]), milliseconds(ours["convolutions_ms"]),
             milliseconds(ours["warm_ms"]), f"{ours['convolutions_ms'] / ours['warm_ms']:.2f}"]
    for peer in PEERS:
        for key in ("ms", "convolutions_ms"):
            cells.append(f"{milliseconds(ways[peer][key])} ({ways[peer][key] / ours[key]:.2f})" if peer in ways else "-")
    return cells


def milliseconds(time):
    return f"{time:.2f}" if time >= 1 else f"{time:.3g}"


def line_of(cells):
    return "| " + " | ".join(cells) + " |\n"


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def update(rows, in_order):
    """Writes rows in the place of those of the same models, or behind the others."""
    mark, head = ("table in order", HEAD_IN_ORDER) if in_order else ("table", HEAD)
    _, old, _ = document_parts.split(DOCUMENT, mark)
    known = {line.split("|")[1].strip(): line + "\n" for line in old.splitlines() if line.startswith("| ")}
    known = {name: line for name, line in known.items() if name not in ("model", "---")}
    known.update({cells[0]: line_of(cells) for cells in rows})
    table = line_of(head) + line_of(["---"] * len(head)) + "".join(known.values())
    document_parts.write(DOCUMENT, mark, WORDS.format(processor()) + table)


def split_model(text):
    """((the row's name, or "", the file), its shapes...)"""
    file, *shapes = text.split(",")
    name, _, file = file.rpartition("=")
    return (name, file), *shapes


def main():
    parser = argparse.ArgumentParser(description="What becomes of whole models.")
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--model", action="append", default=[], metavar="FILE.onnx[,INPUT=SHAPE...]")
    parser.add_argument("--keep", metavar="DIR", type=pathlib.Path)
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--in-order", action="store_true")
    arguments = parser.parse_args()
    if arguments.compile_only and (arguments.update or not arguments.keep):
        parser.error("--compile-only takes --keep, and has no rows for --update")
    all_right, options = True, argparse.Namespace(in_order=arguments.in_order, words=[])
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        wanted = [(name, None, []) for name in arguments.only or ([] if arguments.model else models.NAMES)]
        wanted += [(name or pathlib.Path(file).stem, pathlib.Path(file), shapes)
                   for (name, file), *shapes in map(split_model, arguments.model)]
        for name, path, shapes in wanted:
            if path is None:
                path = folder / "model.onnx"
                onnx.save(models.make(name, folder), path)
            options.words = ["--keep", arguments.keep / name] if arguments.keep else []
            options.words += ["--compile-only"] if arguments.compile_only else []
            cells, is_right = row_of(name, path, shapes, arguments.build, folder, options)
            all_right = all_right and is_right
            print(" | ".join(cells), flush=True)
            if arguments.update:
                update([cells], arguments.in_order)
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
