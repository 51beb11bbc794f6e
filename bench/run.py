"""Times a suite of layers beside other libraries: ./dev bench.

Every library runs in a process of its own, pinned to the same processor, and is asked in turn for a batch of calls, so
that a slow minute hits all alike. Each answer is checked against a float64 reference before it is timed. Peers are
installed into bench/.venv on first use; one that cannot be is shown as such, and the rest goes on.
"""

import argparse
import importlib
import itertools
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(1, os.path.join(os.path.dirname(HERE), "tools"))

import bandwidth  # noqa: E402
import measure  # noqa: E402
import problem as problems  # noqa: E402
import report  # noqa: E402
from sides import Gone, Side  # noqa: E402

ROOT = os.path.dirname(HERE)
VENV = os.path.join(HERE, ".venv")
PEERS = ("onnxruntime", "openvino", "onednn", "ncnn", "xnnpack")
NUMPY = "numpy==2.4.6"  # what every worker needs besides
LIBRARY = "bench_kernels"
ROUNDS = 7
BATCH_SECONDS = 0.02
PEAK_SECONDS = 0.02
# Its time is that of a call.
TINY = "conv2d-f32-n1-c16-i4x4-m16-o4x4-k1x1-s1x1-d1x1-p0x0,0x0-g1-ncx,ncx-bias"


class BenchError(Exception):
    pass


def say(text):
    print(text, file=sys.stderr, flush=True)


def write_json(path, result):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)


# ---- Getting ready ------------------------------------------------------------------------------------------------


def runs(command):
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def install(names, folder="peers"):
    """Installs the peers that are missing into bench/.venv; returns {peer: why it could not be}."""
    python = os.path.join(VENV, "bin", "python")
    if not runs([python, "-m", "pip", "--version"]):
        say("making a Python environment for the peers in bench/.venv")
        subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True, stdout=sys.stderr)
    failed = {}
    for name in names:
        packages = " ".join(importlib.import_module(f"{folder}.{name}").PACKAGES)
        stamp = os.path.join(VENV, ".installed-" + name)
        if os.path.exists(stamp):
            with open(stamp, encoding="utf-8") as file:
                if file.read() == packages:
                    continue
        say(f"installing {packages} into bench/.venv")
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "2",
                               "--only-binary", ":all:", NUMPY, *packages.split()], stdout=sys.stderr, check=False)
        if done.returncode:
            failed[name] = "pip could not install it"
            continue
        with open(stamp, "w", encoding="utf-8") as file:
            file.write(packages)
    return failed


def run(command, what, ok=(0,), **options):
    done = subprocess.run(command, text=True, check=False, **options)
    if done.returncode not in ok:
        raise BenchError(f"{what} failed with status {done.returncode}")
    return done


def read_suite(kiln, suite, wanted, target):
    """[(name, Problem, or why there is none)]"""
    done = run([kiln, "explain", suite, "--json", "--target", target], "kiln explain", (0, 1), stdout=subprocess.PIPE)
    if not done.stdout.strip():
        raise BenchError(f"{suite} could not be read")
    layers = {layer["name"]: layer for layer in json.loads(done.stdout)["layers"]}
    unknown = [name for name in wanted if name not in layers]
    if unknown:
        raise BenchError(f"there is no layer {', '.join(unknown)}; there are {', '.join(layers)}")
    result = []
    for name in wanted or layers:
        try:
            result.append((name, problems.parse(layers[name]["problem"])))
        except KeyError:
            result.append((name, layers[name].get("error") or "kiln explain refuses it"))
        except ValueError as error:
            result.append((name, str(error)))
    return result


def compile_kernels(kiln, layers, target, folder, decisions):
    """One shared library with a kernel for every layout and epilogue of [(name, Problem)]; Side's environment to find it."""
    from peers.kiln import LAYOUTS

    spec, seen = os.path.join(folder, LIBRARY + ".toml"), set()
    with open(spec, "w", encoding="utf-8") as file:
        for (name, problem), (layout, _) in itertools.product(layers, LAYOUTS):
            for number, epilogue in enumerate(measure.epilogues(problem)):
                text = problem.with_layout(layout).with_activation(epilogue).text()
                if text not in seen:
                    file.write(f'[[layer]]\nname = "{name}_{layout}_{number}"\nproblem = "{text}"\n')
                seen.add(text)
    run([kiln, "compile", spec, "-o", folder, "--name", LIBRARY, "--target", target,
         *(["--decisions", decisions] if decisions else [])], "kiln compile", (0, 1), stdout=subprocess.DEVNULL)
    library = os.path.join(folder, LIBRARY + ".so")
    sources = ["bench/native/peaks.cpp", "tools/harness/machine/peak.cpp", "tools/harness/machine/machine.cpp", "runtime/cpu.cpp",
               "runtime/message.cpp", "runtime/parallel_for.cpp"]
    run([os.environ.get("CXX") or "g++", "-std=c++17", "-O2", "-fPIC", "-shared", "-o", library,
         *("-I" + os.path.join(ROOT, part) for part in ("runtime/include", "runtime", "tools")),
         *(os.path.join(ROOT, source) for source in sources), "-Wl,--whole-archive",
         os.path.join(folder, f"lib{LIBRARY}.a"), "-Wl,--no-whole-archive"], "building the kernels' library")
    return {"KILN_BENCH_LIBRARY": library}


def hold_library(folder):
    library = os.path.join(folder, "hold.so")
    run([os.environ.get("CC") or "gcc", "-O2", "-fPIC", "-shared", "-o", library, os.path.join(HERE, "native", "hold.c")],
        "building bench/native/hold.c")
    return library


# ---- Measuring ----------------------------------------------------------------------------------------------------


class Peaks:
    """This processor's, measured beside every layer: the median over the layers of each one's highest."""

    KINDS = {"f32": "f", "int8": "i", "bf16": "b"}

    def __init__(self, side, avx2):
        self.side, self.avx2, self.samples = side, avx2, {name: [] for name in self.KINDS}

    def measure(self):
        for name, kind in self.KINDS.items():
            answer = self.side.ask("peak", kind=kind, avx2=self.avx2, seconds=PEAK_SECONDS)
            if "gops" in answer:
                self.samples[name].append(answer["gops"])

    def medians(self):
        return {name: sorted(values)[len(values) // 2] for name, values in self.samples.items() if values}


def processor_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        lines = dict(line.split(":", 1) for line in file if ":" in line)
    fields = {key.strip(): value.strip() for key, value in lines.items()}
    return fields.get("model name", "unknown"), fields.get("flags", "").split()


def call_times(sides):
    """{side: seconds of a call of a layer that is next to nothing}, each in its best layout."""
    times = {}
    for side in sides:
        mine = measure.measure(problems.parse(TINY), [side], 2, BATCH_SECONDS)
        best = measure.fastest(mine)
        if best:
            times[side.name] = best.time
    return times


def run_suite(layers, sides, peaks, rounds=ROUNDS, seconds=BATCH_SECONDS, progress=lambda row: None):
    """[row]: report.py has what is in one."""
    rows = []
    for name, problem in layers:
        if isinstance(problem, str):
            rows.append({"layer": name, "failed": problem})
        else:
            peaks.measure()
            try:
                candidates = measure.measure(problem, sides, rounds, seconds)
                rows.append(report.row(name, problem, candidates))
            except ValueError as error:  # the reference lacks it
                rows.append({"layer": name, "failed": str(error)})
        progress(rows[-1])
    return rows


def start(sides):
    """Those that run; {name: what is said of it} has all."""
    running, facts = [], {}
    for side in sides:
        facts[side.name] = side.start()
        if "failed" in side.facts:
            say(f"{side.name} is not there: {side.facts['failed']}")
        else:
            running.append(side)
    return running, facts


def without_amx(kiln):
    """The best target that this machine runs without AMX."""
    lines = subprocess.run([kiln, "targets"], capture_output=True, text=True, check=True).stdout.splitlines()
    return next(line.split()[0] for line in lines if " yes " in line and "amx" not in line)


def bench(arguments):
    kiln = os.path.join(arguments.build, "bin", "kiln")
    level = "avx2" if arguments.avx2 else "no-amx" if arguments.no_amx else None
    target = {"avx2": "x86-64-avx2", "no-amx": without_amx(kiln)}.get(level, "host")
    layers = read_suite(kiln, arguments.suite, arguments.layers, target)
    names = arguments.peers
    missing = install(names) if names else {}
    cpu = max(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        wanted = [(name, problem) for name, problem in layers if not isinstance(problem, str)]
        environment = compile_kernels(kiln, [*wanted, ("kiln_bench_call", problems.parse(TINY))], target, folder,
                                      arguments.decisions)
        hold = (level, hold_library(folder)) if level else None
        held_environment = {"ONEDNN_MAX_CPU_ISA": {"avx2": "AVX2", "no-amx": "AVX512_CORE_FP16"}[level]} if level else {}
        ours = Side("kiln", "peers.kiln", cpu=cpu, environment=environment)
        python = os.path.join(VENV, "bin", "python")
        peers = [Side(name, "peers." + name, python, cpu, held_environment, hold) for name in names if name not in missing]
        sides, facts = start([ours, *peers])
        try:
            if ours not in sides:
                raise BenchError(f"the kernels' library does not load: {ours.facts['failed']}")
            peaks = Peaks(ours, arguments.avx2)
            peaks.measure()
            rows = run_suite(layers, sides, peaks, arguments.rounds, arguments.seconds,
                             lambda row: say(report.progress_line(row)))
            calls = call_times(sides)
        finally:
            for side in [ours, *peers]:
                side.stop()
    facts.update({name: {"failed": why} for name, why in missing.items()})
    processor, flags = processor_name()
    return {"processor": processor, "cpu": cpu, "held": level, "amx": "amx_tile" in flags and not level,
            "peaks": peaks.medians(), "bandwidth": bandwidth.of_memory(cpu), "rounds": arguments.rounds, "sides": facts, "calls": calls, "rows": rows,
            "means": report.means(rows)}


def names(text):
    """Those in an option's value, as C1,T2."""
    return [name for name in text.split(",") if name]


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench", description="Times a suite of layers beside other libraries.")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help=argparse.SUPPRESS)
    parser.add_argument("suite", nargs="?", default=os.path.join(HERE, "suite.toml"), metavar="SUITE.toml",
                        help="a layers file; bench/suite.toml if not said")
    parser.add_argument("--layers", type=names, default=[], metavar="NAMES", help="only these, as C1,T2")
    parser.add_argument("--peers", type=names, default=list(PEERS), metavar="NAMES",
                        help=f"of {','.join(PEERS)}; --peers= for none")
    parser.add_argument("--network", metavar="MODEL", help="time a whole ONNX model (--network MODEL --help)")
    parser.add_argument("--in-order", action="store_true",
                        help="time the convolutions of ONNX models, given in SUITE.toml's place, in their order (--in-order --help)")
    parser.add_argument("--avx2", action="store_true", help="hold everyone to AVX2")
    parser.add_argument("--no-amx", action="store_true", help="hold everyone to AVX-512, without AMX")
    parser.add_argument("--decisions", metavar="FILE", help="what kiln tune decided, in place of Kiln's defaults")
    parser.add_argument("--json", metavar="FILE", help="write all that was measured")
    parser.add_argument("--markdown", metavar="FILE", help="write the table as docs/SPEED.md has it")
    parser.add_argument("--page", metavar="FILE", help="write an HTML page with bars and a roofline")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"times each is timed in turn; {ROUNDS} if not said")
    parser.add_argument("--seconds", type=float, default=BATCH_SECONDS, help="of one batch of calls")
    arguments = parser.parse_args()
    for name in arguments.peers:
        if name not in PEERS:
            parser.error(f"there is no peer {name}; there are {', '.join(PEERS)}")
    if arguments.rounds < 1 or arguments.seconds < 0:
        parser.error("--rounds must be 1 or more, --seconds 0 or more")
    return arguments


def main():
    if any(word == "--network" or word.startswith("--network=") for word in sys.argv[1:]):
        import network  # of whole models

        return network.main()
    if "--in-order" in sys.argv[1:]:
        import in_order  # convolutions of whole models

        return in_order.main()
    arguments = parse_arguments()
    try:
        result = bench(arguments)
        print(report.text(result))
        if arguments.json:
            write_json(arguments.json, result)
        if arguments.markdown:
            with open(arguments.markdown, "w", encoding="utf-8") as file:
                file.write(report.markdown(result) + "\n")
        if arguments.page:
            report.write_page(arguments.page, result)
    except (BenchError, Gone, OSError, subprocess.CalledProcessError) as error:
        say(f"bench: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0 if all(report.is_right(row) for row in result["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
