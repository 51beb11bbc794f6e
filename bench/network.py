"""Times a whole model beside other ways of running it: ./dev bench --network MODEL.

Every way runs on one thread, in a process of its own, pinned to the same processor, and is asked in turn for a batch of calls.
Outputs are compared with onnxruntime's. ncnn is not among them: it reads no ONNX.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile

import numpy as np
import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path[:0] = [HERE, os.path.join(ROOT, "tools", "onnx_import")]

import run as suite  # noqa: E402
from reading.loading import load_model, parse_shapes, set_shapes  # noqa: E402
from network_values import random_array  # noqa: E402
from sides import Gone, Side  # noqa: E402
from terms import ModelError  # noqa: E402

PEERS = ("onnxruntime", "openvino", "emx")
RUNTIME = ("cpu.cpp", "message.cpp", "network.cpp", "parallel_for.cpp")
LIBRARY = "bench_network"
SEED = 1


def fixed_model(path, shapes, folder):
    """(a file of the model whose sizes are all known, {input: array})"""
    model, _ = load_model(path)
    set_shapes(path, model.graph, parse_shapes(shapes))
    onnx.load_external_data_for_model(model, os.path.dirname(os.path.abspath(path)))
    if not shapes:
        for value in model.graph.output:
            value.type.tensor_type.ClearField("shape")
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for place, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{place}"
    target, inputs, rng = os.path.join(folder, "model.onnx"), {}, np.random.default_rng(SEED)
    onnx.save(model, target)
    for value in model.graph.input:
        kind = value.type.tensor_type
        sizes = [size.dim_value if size.HasField("dim_value") else 0 for size in kind.shape.dim]
        if min(sizes, default=1) < 1:
            raise suite.BenchError(f'the sizes of input "{value.name}" are open: --shape {value.name}=1x3x224x224 gives them')
        inputs[value.name] = random_array(rng, np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)), sizes)
    return target, inputs


def compile_network(kiln, model, target, folder, traced=False):
    """The network as a shared library, `traced` with what its steps take; (its path, what is known of it). What an earlier call
    left in the folder is taken."""
    library, known = os.path.join(folder, f"{LIBRARY}.so"), os.path.join(folder, "facts.json")
    if os.path.exists(known):
        with open(known, encoding="utf-8") as file:
            return library, json.load(file)
    facts = compiled_facts(kiln, model, target, folder, library, traced)
    with open(known, "w", encoding="utf-8") as file:
        json.dump(facts, file)
    return library, facts


def set_examples(inputs, facts):
    """Gives inputs the values without which the network would refuse them."""
    for example in facts["examples"]:
        inputs[example["input"]] = np.full_like(inputs[example["input"]], example["value"])


def compiled_facts(kiln, model, target, folder, library, traced):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    suite.run([kiln, "compile", model, "--network", "-o", folder, "--name", LIBRARY, "--target", target,
               *(["--traced"] if traced else [])], "kiln compile",
              stdout=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    archive = os.path.join(folder, f"lib{LIBRARY}.a")
    steps = os.path.join(folder, "steps.o")
    if traced:
        suite.run([os.environ.get("CC") or "gcc", "-O2", "-fPIC", "-c", os.path.join(HERE, "native", "steps.c"), "-o", steps],
                  "building bench/native/steps.c")
    suite.run([os.environ.get("CXX") or "g++", "-std=c++17", "-O2", "-fPIC", "-shared", "-o", library, *([steps] if traced else []),
               f"-I{os.path.join(ROOT, 'runtime', 'include')}", *(os.path.join(ROOT, "runtime", name) for name in RUNTIME),
               "-Wl,--whole-archive", archive, "-Wl,--no-whole-archive", "-lm"], "building the network's library")
    with open(os.path.join(folder, f"{LIBRARY}.json"), encoding="utf-8") as file:
        network = json.load(file)["network"]
    sections = [line.split()[:2] for line in suite.run(["size", "-A", archive], "size", stdout=subprocess.PIPE).stdout.splitlines()
                if line.startswith(".")]
    size_of = lambda *names: sum(int(size) for name, size in sections if name.startswith(names))
    kinds = [kind for step in network["steps"] for kind in ("layer", "operation", "c", "callback", "check") if kind in step]
    return {
        "code_bytes": size_of(".text"), "constant_bytes": size_of(".rodata", ".data"), "arena_bytes": network["arena_bytes"],
        "arena_bound_bytes": network["arena_bound_bytes"], "steps": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        "examples": [step["example"] for step in network["steps"] if "example" in step],
        "compile_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}  # of processors


def ask_all(sides, model, inputs, folder):
    """Lets every side load the model; {side: its outputs}, and those that cannot: {name: why}."""
    np.savez(os.path.join(folder, "inputs.npz"), *inputs.values())
    outputs, failed = {}, {}
    for side in sides:
        output = os.path.join(folder, f"{side.name}.npz")
        try:
            answer = side.ask("load", key="network", model=model, names=list(inputs), inputs=os.path.join(folder, "inputs.npz"),
                              output=output)
        except Gone as error:
            answer = {"failed": str(error)}
        if "failed" in answer:
            failed[side.name] = answer["failed"]
        else:
            with np.load(output) as file:
                outputs[side] = [file[name] for name in file.files]
    return outputs, failed


def differences(ours, theirs):
    """(the largest, the same as a part of the largest value) of each output."""
    found = []
    for first, second in zip(ours, theirs):
        first, second = (np.asarray(array, np.float64).reshape(-1) for array in (first, second))
        largest = float(np.abs(first - second).max(initial=0))
        found.append((largest, largest / max(float(np.abs(second).max(initial=0)), 1e-30)))
    return found


def timed(sides, rounds, seconds):
    """{name: the median over the rounds of the best call}"""
    samples = {side.name: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            try:
                samples[side.name].append(side.ask("time", key="network", seconds=seconds).get("seconds", math.nan))
            except Gone:
                samples[side.name].append(math.nan)
    return {name: sorted(times)[len(times) // 2] for name, times in samples.items()}


def bench(arguments):
    kiln = os.path.join(arguments.build, "bin", "kiln")
    missing = suite.install(arguments.peers, "networks") if arguments.peers else {}
    cpu = max(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        model, inputs = fixed_model(arguments.model, arguments.shape, folder)
        os.makedirs(arguments.keep or folder, exist_ok=True)
        library, facts = compile_network(kiln, model, arguments.target, arguments.keep or folder)
        if arguments.compile_only:
            return None
        set_examples(inputs, facts)
        python = os.path.join(suite.VENV, "bin", "python")
        sides = [Side("kiln", "networks.kiln", cpu=cpu, environment={"KILN_BENCH_LIBRARY": library})]
        sides += [Side(name, "networks." + name, python, cpu, timeout=900.0) for name in arguments.peers if name not in missing]
        running, versions = suite.start(sides)
        try:
            outputs, failed = ask_all(running, model, inputs, folder)
            times = timed(list(outputs), arguments.rounds, arguments.seconds)
        finally:
            for side in sides:
                side.stop()
    if "kiln" in failed:
        raise suite.BenchError(f"Kiln's network does not run: {failed['kiln']}")
    failed.update(missing)
    failed.update({name: said["failed"] for name, said in versions.items() if "failed" in said})
    by_name = {side.name: values for side, values in outputs.items()}
    reference = by_name.get("onnxruntime", by_name["kiln"])
    compared = {name: differences(values, reference) for name, values in by_name.items()}
    return {"model": os.path.basename(arguments.model), "processor": suite.processor_name()[0], "facts": facts, "failed": failed,
            "ways": [{"name": name, "version": versions[name]["version"], "ms": times[name] * 1e3,
                      "difference": max((part for _, part in compared[name]), default=0.0), "outputs": compared[name]}
                     for name in by_name]}


def text_of(result):
    ours = next(way["ms"] for way in result["ways"] if way["name"] == "kiln")
    lines = [f"{result['model']} on one thread of {result['processor']}, each in turn, the middle of rounds",
             f"{'':24}{'ms':>10}{'of Kiln':>10}   difference from onnxruntime"]
    for way in result["ways"]:
        lines.append(f"{way['name'] + ' ' + way['version']:24}{way['ms']:10.3f}{way['ms'] / ours:10.2f}   {way['difference']:.1e}")
    lines += [f"{name:24}{why}" for name, why in result["failed"].items()]
    facts = result["facts"]
    lines.append(f"Kiln's code {facts['code_bytes'] / 1024:.0f} KB, arena {facts['arena_bytes'] / 1024:.0f} KB, "
                 f"its bound {facts['arena_bound_bytes'] / 1024:.0f} KB")
    return "\n".join(lines)


def add_options(parser, peers):
    """Adds what all timings of models take."""
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help=argparse.SUPPRESS)
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1x3x224x224", help="of an input that is open")
    parser.add_argument("--target", default="host")
    parser.add_argument("--peers", type=lambda text: [name for name in text.split(",") if name], default=list(peers),
                        metavar="NAMES", help=f"of {','.join(peers)}; --peers= for none")
    parser.add_argument("--keep", metavar="DIR", help="keep what Kiln compiles here, and take what an earlier run left of it")
    parser.add_argument("--compile-only", action="store_true", help="compile into --keep's folder, and time nothing")
    parser.add_argument("--json", metavar="FILE", help="write all that was measured")
    parser.add_argument("--rounds", type=int, default=suite.ROUNDS, help=f"times each is timed in turn; {suite.ROUNDS} if not said")
    parser.add_argument("--seconds", type=float, default=0.3, help="of a round's batch of whole calls")


def parse_options(parser, peers, timed=""):
    """What the command line says; what does not fit together is an error of the parser's. `timed`: what of these peers."""
    arguments = parser.parse_args()
    if arguments.compile_only and not arguments.keep:
        parser.error("--compile-only without --keep leaves nothing")
    for name in arguments.peers:
        if name not in peers:
            parser.error(f"there is no peer {name}{timed}; there are {', '.join(peers)}")
    return arguments


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench", description="Times a whole model beside other ways of running it.")
    parser.add_argument("--network", dest="model", metavar="MODEL", required=True, help="an ONNX model")
    add_options(parser, PEERS)
    return parse_options(parser, PEERS)


def main():
    arguments = parse_arguments()
    try:
        result = bench(arguments)
        if result:
            print(text_of(result))
        if result and arguments.json:
            suite.write_json(arguments.json, result)
    except (suite.BenchError, ModelError, Gone, OSError, subprocess.CalledProcessError) as error:
        suite.say(f"bench: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
