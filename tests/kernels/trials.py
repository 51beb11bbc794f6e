"""Tries layers (layers.py) on a target: many compiled and linked at once, each answered by a verdict of its own."""

import json
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import kiln_run
import layers
import not_run
import numpy as np
import problems
import targets

# The types that GPUs have kernels of.
GPU_TYPES = ("float32", "float16", "bfloat16", "int8")

# The ways to a verdict: `kiln run`, whose output NumPy checks, and `kiln verify`, whose own reference does, with threads, with
# tensors that lie anywhere, and with workspaces that must be refused.
RUN, VERIFY = "run", "verify"


@dataclass
class Verdict:
    """`failure` is "" for what is right; `kind` is how it was told: right, unsupported as it should be, or not run."""

    failure: str = ""
    kind: str = "right"
    problem: str = ""  # its text, where it got so far
    kernel: str = ""  # algorithm@target

    @property
    def failure_class(self):
        """The failure without what differs from one layer to the next."""
        first = self.failure.partition("\n")[0]
        return re.sub(r"[-+]?\d[\d.e+-]*|\binf\b|\bnan\b", "N", re.sub(r"(\[[^]]*\])+", "", first))[:160]


def is_supported(cell, target):
    """Whether a target has kernels for one of problems.CELLS."""
    return not targets.is_gpu(target) or cell[1] in GPU_TYPES


def excess(output, expected, bound):
    """By how much each element is beyond its bound."""
    # What rounds to infinity is right to be infinite.
    limit = np.finfo(output.dtype).max if output.dtype.kind == "f" else np.inf
    overflows = np.isinf(output) & (abs(expected.y) + bound > limit) & (np.sign(output) == np.sign(expected.y))
    with np.errstate(invalid="ignore"):
        difference = abs(output.astype(expected.y.dtype) - expected.y) - bound
    difference = np.where(np.isnan(difference), np.inf, difference)
    return np.where(overflows, 0, difference)


def wrong_value(layer, answer, output):
    """What is wrong with a kernel's output; "" if nothing."""
    expected = layer.expected()
    output = layer.from_document_order(layers.decode(output, layer.y_type()))
    if answer["output_shape"] != list(layer.in_document_order(expected.y).shape):
        return f"output_shape is {answer['output_shape']}, expected {list(layer.in_document_order(expected.y).shape)}"
    if output.shape != expected.y.shape:
        return f"the output's shape is {output.shape}, expected {expected.y.shape}"
    pads = layer.geometry.begin, layer.geometry.end
    if (answer["pads_begin"], answer["pads_end"]) != pads:
        return f"pads are {answer['pads_begin']} and {answer['pads_end']}, expected {pads[0]} and {pads[1]}"
    if output.size == 0:
        return ""
    beyond = excess(output, expected, expected.winograd_bound if "winograd" in answer["kernel"] else expected.bound)
    at = np.unravel_index(np.argmax(beyond), beyond.shape)
    if beyond[at] <= 0:
        return ""
    where = [int(i) for i in at]
    return f"a wrong value: y{where} is {output[at]}, expected {expected.y[at]}; {int((beyond > 0).sum())} of {output.size}"


def judge(layer, target, answer, output):
    """The verdict of an answer of kiln run."""
    verdict = Verdict(problem=answer.get("problem", ""), kernel=answer.get("kernel", ""))
    code, message = answer.get("code"), answer.get("message", "")
    if not is_supported(problems.cell_of(layer.layer), target):
        verdict.kind = "unsupported"
        verdict.failure = "" if code == "unsupported" and message != not_run.MESSAGE else f"not refused: {answer}"
    elif message == not_run.MESSAGE:
        verdict.kind = "not run"
        verdict.failure = "" if targets.way(target) == targets.COMPILED else message
    elif answer["status"] != "ok":
        verdict.failure = f"{code}: {message}"
    else:
        verdict.failure = wrong_value(layer, answer, output)
    return verdict


def write_decisions(folder, decisions):
    """Lines of a decisions file, as options of a command."""
    if not decisions:
        return []
    path = Path(folder) / "decisions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in decisions))
    return ["--decisions", path]


def run(tried, target="host", engine="specialized", decisions=(), jobs=None, time_limit=None):
    """The verdicts of layers by kiln run, in their order."""
    made = [layers.Layer(layer) for layer in tried]
    cases = [layer.case(f"layer{number}") for number, layer in enumerate(made)]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--engine", engine, *write_decisions(folder, decisions), *(["-j", str(jobs)] if jobs else [])]
        answers, outputs, _ = kiln_run.run(cases, folder, *options, target=target, time_limit=time_limit)
    return [judge(layer, target, a, outputs.get(a["name"])) for layer, a in zip(made, answers)]


def verify(texts, target="host", decisions=(), jobs=None, seed=1, time_limit=None):
    """The verdicts of problems' texts by kiln verify, and its rows. A program that ends at one is started again for those behind it."""
    verdicts, rows = {}, []
    left = list(dict.fromkeys(texts))
    while left:
        with tempfile.TemporaryDirectory() as folder:
            spec = Path(folder) / "layers.toml"
            spec.write_text("".join(f'[[layer]]\nname = "layer{n}"\nproblem = "{text}"\n' for n, text in enumerate(left)))
            options = [*write_decisions(folder, decisions), *(["-j", str(jobs)] if jobs else []), "--seed", str(seed)]
            command = [targets.kiln(), "verify", spec, "--json", kiln_run.NO_FALLBACK, *targets.options(target), *options]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=time_limit)
        said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        rows += said
        for row in said:
            text = left[int(row["layer"].removeprefix("layer"))]
            failure = "" if row["verdict"] == "ok" else row["verdict"]
            if text not in verdicts or failure:
                verdicts[text] = Verdict(failure, problem=text, kernel=f"{row.get('algorithm', '')}@{target}")
        lost = [text for text in left if text not in verdicts]
        if lost:
            why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            verdicts[lost[0]] = Verdict(f"kiln verify ended with status {done.returncode}: {why}", problem=lost[0])
        left = lost[1:]
    return [verdicts[text] for text in texts], rows


def decision_of(text, target, decision):
    """What a decision of all problems makes of one: its algorithm and schedule, as such a decision again."""
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "layers.toml"
        spec.write_text(f'[[layer]]\nname = "layer"\nproblem = "{text}"\n')
        command = [targets.kiln(), "explain", spec, "--json", "--target", target, *write_decisions(folder, [decision])]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    algorithm, schedule = re.fullmatch(r"(\w+), schedule (.*?) \(.*", json.loads(said)["layers"][0]["kernel"]).groups()
    return {"problem": "*", "algorithm": algorithm, "schedule": schedule}
