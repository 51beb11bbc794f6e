"""Which kernels the gate compares: problems out of layers files, each with the algorithms that can be asked for it."""

import hashlib
import json
import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPECS = ("bench/suite.toml", "bench/networks.toml", "bench/shapes.toml", "tools/generic.toml", "tests/cases/*.toml",
         "tests/cases/*.jsonl")
DECISIONS = ("bench/decisions.jsonl", "tools/demo/decisions.jsonl")
DEFAULT = "default"

# What builds from before these names call an algorithm.
FORMER_NAMES = {"tiles": "amx", "open": "dynamic", "half": "f16_accumulate", "sampled": "deformable",
                "gpu_sampled": "gpu_deformable"}


def explain(kiln, spec, *options):
    """The layers of `kiln explain --json`; those that failed have a message."""
    command = [kiln, "explain", spec, "--json", *options]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if not process.stdout:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{process.stderr}")
    return json.loads(process.stdout)["layers"]


def layers_text(problems):
    """A layers file of problems, which are named by their number."""
    return "".join(f"[[layer]]\nname = \"p{i}\"\nproblem = \"{problem}\"\n" for i, problem in enumerate(problems))


def shape(value):
    return [len(value), *shape(value[0])] if isinstance(value, list) else []


def write_examples(path, file):
    """document_examples.jsonl, whose tensors are written out, as a layers file."""
    for line in path.read_text().splitlines():
        example = json.loads(line)
        layer = {key: example[key] for key in ("name", "dialect", "operator", "opset") if key in example}
        layer |= example["attributes"] | {"w": shape(example["w"])}
        x = shape(example["x"])
        layer["x"] = [x[0], *x[2:], x[1]] if example["dialect"] == "ms-nhwc" else x
        file.write("[[layer]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in layer.items()))


def problems_of(kiln):
    """All problems of SPECS, each once, and the layers that are none, with why."""
    problems, failures = {}, {}
    for pattern in SPECS:
        for path in sorted(ROOT.glob(pattern)):
            with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                if path.suffix == ".jsonl":
                    write_examples(path, file)
                    file.flush()
                spec = file.name if path.suffix == ".jsonl" else path
                for layer in explain(kiln, spec, "--target", "x86-64-avx2"):
                    if "problem" in layer:
                        problems.setdefault(layer["problem"], path.name)
                    else:
                        failures[f"{path.name}: {layer['name']}"] = layer.get("message", "")
    return problems, failures


def targets_of(kiln):
    output = subprocess.run([kiln, "targets", "--json"], capture_output=True, text=True, check=True).stdout
    return [target["name"] for target in json.loads(output)]


def algorithms_of(kiln, folder):
    """The names of a build's algorithms, which it says where it is asked for one it has not."""
    spec = folder / "one.toml"
    spec.write_text(layers_text(["conv1d-f32-n1-c1-i1-m1-o1-k1-s1-d1-p0,0-g1-ncx,ncx"]))
    decisions = folder / "none.jsonl"
    decisions.write_text('{"problem":"*","algorithm":"?"}\n')
    command = [kiln, "explain", spec, "--decisions", decisions]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    names = re.search(r'algorithm "\?" is not one of ([\w, ]+)', said.stdout + said.stderr)
    return names[1].split(", ")


def write_decisions(path, names, copy):
    """A decisions file with its algorithms called as a build calls them, which has these `names`."""
    formerly = {current: former for former, current in FORMER_NAMES.items()}
    with copy.open("w") as file:
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            name = entry["algorithm"]
            if name not in names:
                entry["algorithm"] = formerly.get(name, FORMER_NAMES.get(name, name))
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
        for path in DECISIONS:
            self.decisions[path] = ("--decisions", write_decisions(ROOT / path, names, folder / path.replace("/", "-")))
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
