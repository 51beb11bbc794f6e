#!/usr/bin/env python3
"""Shows Kiln on a real network: ./dev demo.

    demo.py BUILD [--output DIR] [--layers N] [--quick] [--kiln PREFIX]

Compiles ResNet-50 for this processor, as one function and layer by layer, and links programs with it: the network's result
and time are set beside onnxruntime's, every layer is checked against the float64 reference and timed; then a picture is
upscaled. BUILD is a folder in which Kiln was built. resnet50.html, resnet50.json and upscaled.png go to DIR, BUILD/demo if not said.

Exit status: 0; 1, something failed, or a layer is outside its error bound (stderr says what); 2, usage.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import numpy as np
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))

import bandwidth  # noqa: E402
import model  # noqa: E402
import report  # noqa: E402

PICTURE = os.path.join(HERE, "..", "..", "examples", "pictures", "cat.png")


class DemoError(Exception):
    """What went wrong, for the user."""


def say(text):
    print(text, file=sys.stderr, flush=True)


class Stages:
    """Tells what is being done, and how long it took."""

    def __init__(self, count):
        self.count, self.number, self.begin = count, 0, time.monotonic()

    def start(self, text):
        self.number += 1
        say(f"[{self.number}/{self.count}, {time.monotonic() - self.begin:.0f} s] {text}")


def run(command, what, cpu=None, capture=False, ok=(0,)):
    """Runs a program, on one processor if `cpu` says so, and returns what it printed if `capture` does."""
    pin = None if cpu is None else (lambda: os.sched_setaffinity(0, {cpu}))
    # The tools of this Python's environment come first: cmake and ninja.
    environment = {**os.environ, "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")}
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE if capture else sys.stderr, text=True, check=False,
                              preexec_fn=pin, env=environment)
    except OSError as error:
        raise DemoError(f"{what}: {command[0]} cannot be started: {error.strerror}") from error
    if done.returncode not in ok:
        raise DemoError(f"{what} failed: {os.path.basename(command[0])} ended with status {done.returncode}")
    return done.stdout


# ---- Building -----------------------------------------------------------------------------------------------------


def installed_kiln(build):
    """Where Kiln is installed for the demo: programs find it there as any user's would."""
    prefix = os.path.join(build, "demo", "kiln")
    run(["cmake", "--install", build, "--prefix", prefix], "installing Kiln for the demo", capture=True)
    return prefix


def build_programs(output, prefix):
    """Compiles the network, its layers and the programs that link them. Returns the folder of the programs."""
    folder = os.path.join(output, "programs")
    settings = {"CMAKE_PREFIX_PATH": prefix, "MODEL_FILE": os.path.join(output, "resnet50.onnx"),
                "LAYERS_FILE": os.path.join(output, "layers.toml"), "KILN_PYTHON": sys.executable}
    wanted = json.dumps([HERE, settings, os.environ.get("CXX")])
    stamp = os.path.join(folder, "configured")
    if not model.holds(stamp, wanted):
        shutil.rmtree(folder, ignore_errors=True)
        run(["cmake", "-G", "Ninja", "-S", HERE, "-B", folder, "--log-level=WARNING",
             *(f"-D{key}={value}" for key, value in settings.items())], "configuring the demo's programs", capture=True)
        model.write_if_changed(stamp, wanted)
    run(["cmake", "--build", folder, "--parallel", str(len(os.sched_getaffinity(0))), "--target", "network",
         "layers_programs", "upscale_picture"], "building the demo's programs")
    return folder


def text_bytes(path):
    """The code and constants of a program or library, as `size` counts them; None where that does not work."""
    done = subprocess.run(["size", path], capture_output=True, text=True, check=False) if path else None
    return int(done.stdout.splitlines()[1].split()[0]) if done and done.returncode == 0 else None


def network_facts(programs):
    """What the network's manifest tells of it, in short."""
    with open(os.path.join(programs, "kiln", "resnet50", "resnet50.json"), encoding="utf-8") as file:
        network = json.load(file)["network"]
    kinds = [kind for step in network["steps"] for kind in ("layer", "operation", "c", "callback") if kind in step]
    return {"steps": {kind: kinds.count(kind) for kind in sorted(set(kinds))}, "arena_bytes": network["arena_bytes"],
            "arena_bound_bytes": network["arena_bound_bytes"]}


# ---- Measuring ----------------------------------------------------------------------------------------------------


def check_layers(programs):
    """{layer: the line of layers_test about it}, every one of them with a verdict."""
    text = run([os.path.join(programs, "layers_test"), "--json"], "checking the layers", capture=True, ok=(0, 1))
    return {row["layer"]: row for row in map(json.loads, text.splitlines())}


def time_layers(programs, output, cpu, seconds):
    """What layers_bench says: each layer alone, again and again, in caches that know it."""
    path = os.path.join(output, "bench.json")
    run([os.path.join(programs, "layers_bench"), "--json", path, "--seconds", str(seconds)], "timing the layers", cpu,
        capture=True)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def run_onnxruntime(output, cpu, calls):
    answer = os.path.join(output, "onnxruntime.json")
    run([sys.executable, os.path.join(HERE, "ort_timing.py"), os.path.join(output, "resnet50.onnx"),
         os.path.join(output, "input.npy"), str(calls), os.path.join(output, "expected.npy"), answer],
        "running onnxruntime", cpu)
    with open(answer, encoding="utf-8") as file:
        return json.load(file)


def run_network(programs, output, cpu, calls):
    """Seconds of each call."""
    return json.loads(run([os.path.join(programs, "network"), os.path.join(output, "input.npy"), str(calls),
                           os.path.join(output, "output.npy")], "running the network", cpu, capture=True))


def compare_outputs(output):
    """The largest difference of the network's result from onnxruntime's, as a part of its largest value."""
    ours, theirs = (np.load(os.path.join(output, name)) for name in ("output.npy", "expected.npy"))
    if ours.shape != theirs.shape:
        raise DemoError(f"the network's result has the shape {ours.shape}, onnxruntime's {theirs.shape}")
    difference = np.abs(ours - theirs).max() / np.abs(theirs).max()
    if not difference < 1e-4:  # float32 sums of some thousand terms, 53 layers deep, come to about 1e-6
        raise DemoError(f"the network's result differs from onnxruntime's by {difference:.1e} of its largest value")
    return float(difference)


def summary_of(seconds):
    """Milliseconds of calls: {"ms": the median, and "low" and "high", the quartiles}."""
    low, middle, high = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else 3 * seconds
    return {"ms": 1e3 * middle, "low": 1e3 * low, "high": 1e3 * high}


def compare_networks(programs, output, cpu, rounds, calls):
    """Kiln and onnxruntime in turns, a few times each, so that a slow minute hits both."""
    ours, theirs = [], []
    for number in range(1, rounds + 1):
        say(f"round {number} of {rounds}")
        answer = run_onnxruntime(output, cpu, calls)
        theirs += answer["seconds"]
        ours += run_network(programs, output, cpu, calls)
    return {"kiln": summary_of(ours), "onnxruntime": summary_of(theirs), "difference": compare_outputs(output),
            "version": answer["version"], "runs": rounds * calls, "library": answer["library"], **network_facts(programs)}


# ---- Results ------------------------------------------------------------------------------------------------------


def rows_of(imported, checked, bench):
    """The table: a row a layer."""
    timed = {row["layer"]: row for row in bench["rows"]}
    rows = []
    for layer in imported["layers"]:
        check, time_of = checked[layer["name"]], timed[layer["name"]]
        flops = time_of["gflop"] * 1e9
        outputs = flops / (2 * np.prod(layer["w"][1:]))
        written_or_summed = outputs * (2 if "residual" in layer else 1)
        elements = np.prod(layer["x"]) + np.prod(layer["w"]) + layer["w"][0] + written_or_summed
        rows.append({"layer": layer["name"], "problem": check["problem"], "algorithm": check["algorithm"],
                     "kernel": check["kernel"], "schedule": check["schedule"], "ms": time_of["ms"],
                     "gflop": time_of["gflop"], "gflops": time_of["gflops"], "peak_share": time_of["peak_share"],
                     "intensity": flops / (4 * elements), "taps": layer["w"][2:], "error": check["max_error"],
                     "bound": check["bound"], "verdict": check["verdict"]})
    return rows


def upscale_picture(programs, output):
    """cat.png, four times as large, as upscaled.png; by way of PPM, which the program reads and writes."""
    small, large = (os.path.join(output, name) for name in ("picture.ppm", "upscaled.ppm"))
    target = os.path.join(output, "upscaled.png")
    Image.open(PICTURE).convert("RGB").save(small)
    run([os.path.join(programs, "pictures", "upscale_picture"), small, large], "upscaling the picture")
    Image.open(large).save(target)
    return target


def demo(arguments):
    if not arguments.kiln and not os.path.exists(os.path.join(arguments.build, "CMakeCache.txt")):
        raise DemoError(f"{arguments.build} is no folder in which Kiln was built: ./dev build does that")
    output = os.path.abspath(arguments.output or os.path.join(arguments.build, "demo"))
    os.makedirs(output, exist_ok=True)
    cpu = max(os.sched_getaffinity(0))
    stages = Stages(6)

    stages.start("ResNet-50 as the onnx package carries it, with seeded weights")
    imported = model.prepare(output, arguments.layers)
    say(f"    {len(imported['layers'])} convolutions")
    for note in imported["notes"]:
        say(f"    {note}")
    if imported["failures"]:
        raise DemoError("convolutions that could not be imported: " + json.dumps(imported["failures"]))

    stages.start("compiling the network, and each layer by itself, and the programs that link them")
    programs = build_programs(output, os.path.abspath(arguments.kiln or installed_kiln(arguments.build)))

    stages.start("running the network, in turns with onnxruntime")
    network = compare_networks(programs, output, cpu, *((1, 1) if arguments.quick else (3, 10)))
    stages.start("checking every layer against the float64 reference")
    checked = check_layers(programs)
    stages.start("timing every layer, one thread")
    bench = time_layers(programs, output, cpu, 0.02 if arguments.quick else 0.2)
    rows = rows_of(imported, checked, bench)
    result = {"machine": bench["machine"], "peak_gflops": max(bench["peak_gflops"].values()),
              "peaks": bench["peak_gflops"], "bandwidth": bandwidth.of_memory(cpu), "rows": rows, "total": bench["total"],
              "network": network, "notes": imported["notes"],
              "sizes": {"network": text_bytes(os.path.join(programs, "network")),
                        "weights": os.path.getsize(os.path.join(output, "resnet50.onnx")),
                        "onnxruntime": text_bytes(network.pop("library"))}}

    stages.start("upscaling a picture")
    picture = upscale_picture(programs, output)
    print(report.text(result))
    report.write_page(os.path.join(output, "resnet50.html"), result, PICTURE, picture)
    with open(os.path.join(output, "resnet50.json"), "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    print(f"\nreport:  {os.path.join(output, 'resnet50.html')}\npicture: {picture}")
    failed = [row["layer"] for row in rows if row["verdict"] != "ok"]
    if failed:
        raise DemoError("outside their error bounds, or not checked: " + ", ".join(failed))


def parse_arguments():
    parser = argparse.ArgumentParser(prog="demo.py", description="Compiles ResNet-50, as one function and layer by layer, checks and "
                                     "times it beside onnxruntime, and upscales a picture.")
    parser.add_argument("build", metavar="BUILD", help="folder in which Kiln was built (./dev demo gives it)")
    parser.add_argument("--output", metavar="DIR", help="folder for the results; BUILD/demo if not said")
    parser.add_argument("--layers", metavar="N", type=int, default=model.CONVOLUTIONS,
                        help=f"only the first N convolutions, 1 to {model.CONVOLUTIONS}")
    parser.add_argument("--quick", action="store_true", help="time each thing once, briefly: the figures mean little")
    parser.add_argument("--kiln", metavar="PREFIX", help="an installed Kiln to use in place of BUILD's")
    arguments = parser.parse_args()
    if not 1 <= arguments.layers <= model.CONVOLUTIONS:
        parser.error(f"--layers is {arguments.layers}: it must be 1 to {model.CONVOLUTIONS}")
    return arguments


def main():
    try:
        demo(parse_arguments())
    except (DemoError, RuntimeError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
