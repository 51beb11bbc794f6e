"""Which kernels the gate compares: problems out of layers files, each with the algorithms that can be asked for it."""

import hashlib
import json
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/kernels"))

import layers  # noqa: E402 (from there)

SPECS = ("bench/suite.toml", "bench/networks.toml", "bench/shapes.toml", "tools/generic.toml", "tests/cases/*.toml",
         "tests/cases/*.jsonl")
DECISIONS = ("bench/decisions.jsonl", "tools/demo/decisions.jsonl")
DEFAULT = "default"

# What builds from before these names call an algorithm.
FORMER_NAMES = {"tiles": "amx", "open": "dynamic", "half": "f16_accumulate", "sampled": "deformable",
                "gpu_sampled": "gpu_deformable"}
# And what they call a schedule's numbers.
FORMER_NUMBERS = {"prefetch_distance": "ahead", "clipped_tail": "cut", "dot_width": "dot", "flattened_rows": "joined",
                  "taps_in_loop": "rolled"}


def run(*command):
    """A finished command of kiln's. One that something outside killed says nothing of the build: it is started again."""
    for _ in range(3):
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode != -signal.SIGKILL:
            return process
    raise RuntimeError(f"{' '.join(map(str, command))} was killed three times")


def explain(kiln, spec, *options):
    """The layers of `kiln explain --json`; those that failed have a message."""
    process = run(kiln, "explain", spec, "--json", *options)
    try:
        return json.loads(process.stdout)["layers"]
    except ValueError:
        raise RuntimeError(f"kiln explain {spec} ended with {process.returncode}:\n{process.stderr}") from None


def layers_text(problems):
    """A layers file of problems, which are named by their number."""
    return "".join(f"[[layer]]\nname = \"p{i}\"\nproblem = \"{problem}\"\n" for i, problem in enumerate(problems))


def shape(value):
    return [len(value), *shape(value[0])] if isinstance(value, list) else []


def example_layer(example):
    """A line of document_examples.jsonl, whose tensors are written out, as a table of a layers file."""
    layer = {key: example[key] for key in ("name", "dialect", "operator", "opset") if key in example}
    x = shape(example["x"])
    x = [x[0], *x[2:], x[1]] if example["dialect"] == "ms-nhwc" else x
    return layer | example["attributes"] | {"x": x, "w": shape(example["w"])}


def regression_layer(number, line):
    """A line of regressions.jsonl likewise: its layer is drawn by a seed, and then a case of `kiln run`."""
    case = layers.Layer(line["layer"]).case(f"regression{number}")
    inputs, attributes = case.pop("inputs"), case.pop("attributes")
    tensors = {name: list(array.shape) for name, array in inputs.items()}
    optional = {"B": "bias", "bias": "bias", "mask": "mask", "residual": "residual"}
    flags = {optional[name]: True for name in tensors if name in optional}
    x, w = (next(tensors[name] for name in names if name in tensors) for names in (("X", "x", "input"),
                                                                                   ("W", "w", "filter", "kernel")))
    return case | attributes | flags | {"x": x, "w": w}


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


def write_layers(path, file):
    """A file of JSON lines as a layers file."""
    for number, line in enumerate(map(json.loads, path.read_text().splitlines())):
        layer = regression_layer(number, line) if "layer" in line else example_layer(line)
        file.write("[[layer]]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in layer.items()))
    file.flush()


def problems_of(kiln):
    """All problems of SPECS, each once, and the layers that are none, with why."""
    problems, failures = {}, {}
    for pattern in SPECS:
        for path in sorted(ROOT.glob(pattern)):
            with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                if path.suffix == ".jsonl":
                    write_layers(path, file)
                spec = file.name if path.suffix == ".jsonl" else path
                for layer in explain(kiln, spec, "--target", "x86-64-avx2"):
                    if "problem" in layer:
                        problems.setdefault(layer["problem"], path.name)
                    else:
                        failures[f"{path.name}: {layer['name']}"] = layer.get("message", "")
    return problems, failures


def targets_of(kiln):
    return [target["name"] for target in json.loads(run(kiln, "targets", "--json").stdout)]


def algorithms_of(kiln, folder):
    """The names of a build's algorithms, which it says where it is asked for one it has not."""
    spec = folder / "one.toml"
    spec.write_text(layers_text(["conv1d-f32-n1-c1-i1-m1-o1-k1-s1-d1-p0,0-g1-ncx,ncx"]))
    decisions = folder / "none.jsonl"
    decisions.write_text('{"problem":"*","algorithm":"?"}\n')
    said = run(kiln, "explain", spec, "--decisions", decisions)
    names = re.search(r'algorithm "\?" is not one of ([\w, ]+)', said.stdout + said.stderr)
    return names[1].split(", ")


def has_former_numbers(kiln, folder):
    """Whether a build calls numbers of schedules as FORMER_NUMBERS has it."""
    return bool(re.search(r"[;: ]dot:\d", run(kiln, "explain", folder / "one.toml").stdout))


def write_decisions(path, names, numbers, copy):
    """A decisions file in the names that a build has: of algorithms these `names`, and its `numbers`, a dictionary."""
    formerly = {current: former for former, current in FORMER_NAMES.items()}
    with copy.open("w") as file:
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            name = entry["algorithm"]
            if name not in names:
                entry["algorithm"] = formerly.get(name, FORMER_NAMES.get(name, name))
            for current, former in numbers.items():
                entry["schedule"] = re.sub(rf"\b{current}:", f"{former}:", entry["schedule"])
            file.write(json.dumps(entry) + "\n")
    return copy


def chosen(layer):
    """(algorithm, schedule) of an explained layer; None where it has no kernel."""
    match = re.match(r"(\w+), schedule (\S*) \(", layer.get("kernel", ""))
    return (match[1], match[2]) if match else None


class Unit:
    """One kernel: a problem, a target and how its algorithm is chosen."""

    def __init__(self, problem, target, variant, algorithm):
        self.problem, self.target, self.variant, self.algorithm = problem, target, variant, algorithm
        self.key = f"{problem} {target} {variant}"

    def is_forced(self):
        """Whether it is by an algorithm that nothing but the gate asks for."""
        return self.variant not in (DEFAULT, *DECISIONS)

    def rank(self):
        """An order that has nothing to do with what the unit is, the same in every run."""
        return hashlib.sha256(self.key.encode()).digest()


class Plan:
    """What one build makes of all problems, before anything is compiled."""

    def __init__(self, kiln, folder):
        self.kiln, self.folder = kiln, folder
        self.problems, self.failures = problems_of(kiln)
        self.spec = folder / "all.toml"
        self.spec.write_text(layers_text(self.problems))
        self.decisions = {DEFAULT: ()}  # the options of each variant
        names = algorithms_of(kiln, folder)
        numbers = FORMER_NUMBERS if has_former_numbers(kiln, folder) else {}
        for path in DECISIONS:
            copy = write_decisions(ROOT / path, names, numbers, folder / path.replace("/", "-"))
            self.decisions[path] = ("--decisions", copy)
        for algorithm in names:
            path = folder / f"{algorithm}.jsonl"
            path.write_text(json.dumps({"problem": "*", "algorithm": algorithm}) + "\n")
            self.decisions[FORMER_NAMES.get(algorithm, algorithm)] = ("--decisions", path)

    def choices(self, target):
        """(problem, variant, algorithm) of each kernel for a target: by default, by the decisions that come with Kiln, and,
        for the tests' problems, by each other algorithm that is for them."""
        result, seen = [], {}
        for variant, options in self.decisions.items():
            for problem, layer in zip(self.problems, explain(self.kiln, self.spec, "--target", target, *options)):
                choice = chosen(layer)
                name = choice and FORMER_NAMES.get(choice[0], choice[0])
                if variant != DEFAULT and (choice is None or choice in seen[problem]):
                    continue
                if variant not in (DEFAULT, *DECISIONS) and (name != variant or not self.is_small(problem)):
                    continue
                seen.setdefault(problem, []).append(choice)
                result.append((problem, variant, name))
        return result

    def is_small(self, problem):
        """Whether a problem is one of the tests'."""
        return (ROOT / "tests/cases" / self.problems[problem]).exists()


def sample(units, count):
    """`count` units of each target and algorithm; where count is None, all but those of algorithms that would not be chosen,
    of which four."""
    groups, result = {}, []
    for unit in sorted(units, key=Unit.rank):
        group = (unit.target, unit.algorithm, count is None and unit.is_forced())
        groups[group] = groups.get(group, 0) + 1
        if groups[group] <= (count or 4) or (count is None and not unit.is_forced()):
            result.append(unit)
    return sorted(result, key=lambda unit: (unit.target, unit.key))
