"""Random Conv and ConvTranspose problems, against the NumPy reference.

KILN_RANDOM_SEED and KILN_RANDOM_COUNT choose others; each problem depends on the seed and its own number alone, so that
KILN_RANDOM_ONLY=N draws just the one that failed.
"""

import json
import os
import random
import sys
import tempfile
import unittest
from pathlib import Path

import kiln_run
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import reference  # noqa: E402

SEED = int(os.environ.get("KILN_RANDOM_SEED", 20240611))
COUNT = int(os.environ.get("KILN_RANDOM_COUNT", 80))
ONLY = os.environ.get("KILN_RANDOM_ONLY")

CHANNELS = [1, 2, 3, 8, 16, 17, 21, 32, 40]
LARGEST_SIZE = {1: 40, 2: 19, 3: 8}  # of an axis, by rank
MOST_PRODUCTS = 4_000_000


def draw_channels(rng):
    """Returns (groups, input channels, output channels)."""
    kind = rng.choice(["dense", "dense", "grouped", "depthwise"])
    if kind == "dense":
        return 1, rng.choice(CHANNELS), rng.choice(CHANNELS)
    groups = rng.choice([2, 3, 4])
    if kind == "grouped":
        return groups, groups * rng.choice([1, 3, 5, 8]), groups * rng.choice([1, 2, 7, 16])
    channels = rng.choice(CHANNELS)
    return channels, channels, channels * rng.choice([1, 1, 2])


def draw_attributes(rng, operator, rank, groups):
    """Attributes and the kernel's sizes; each attribute is left out now and then."""
    kernel = [rng.choice([1, 2, 3, 3, 4, 5, 7]) for _ in range(rank)]
    attributes = {
        "strides": [rng.choice([1, 1, 2, 3]) for _ in range(rank)],
        "dilations": [rng.choice([1, 1, 1, 2, 3]) for _ in range(rank)],
        "kernel_shape": kernel,
    }
    for name in list(attributes):
        if rng.random() < 0.3:
            del attributes[name]
    if groups > 1:
        attributes["group"] = groups
    padding = rng.choice(["none", "pads", "pads", "auto"])
    if padding == "pads":
        # Beyond the kernel too: rows of bias alone in a Conv, rows cropped from a ConvTranspose.
        attributes["pads"] = [rng.randrange(0, k + 2) for k in kernel * 2]
    if padding == "auto":
        attributes["auto_pad"] = rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    if operator == "ConvTranspose" and rng.random() < 0.4:
        strides, dilations = (attributes.get(n, [1] * rank) for n in ("strides", "dilations"))
        attributes["output_padding"] = [rng.randrange(0, max(s, d)) for s, d in zip(strides, dilations)]
    return attributes, kernel


def draw_output_shape(rng, sizes, kernel, attributes):
    """Some below what the input reaches, some above: then zeros follow."""
    natural, _, _ = reference.conv_transpose_geometry([1, 1, *sizes], kernel, {**attributes, "pads": [0] * 2 * len(sizes)})
    return [max(1, n + rng.randrange(-3, 3)) for n in natural]


def draw_once(rng):
    operator = rng.choice(["Conv", "ConvTranspose"])
    rank = rng.choice([1, 2, 2, 2, 3])
    groups, in_channels, out_channels = draw_channels(rng)
    attributes, kernel = draw_attributes(rng, operator, rank, groups)
    sizes = [rng.randrange(1, LARGEST_SIZE[rank] + 1) for _ in range(rank)]
    if operator == "ConvTranspose" and "auto_pad" not in attributes and rng.random() < 0.25:
        attributes["output_shape"] = draw_output_shape(rng, sizes, kernel, attributes)
    first, second = (out_channels, in_channels) if operator == "Conv" else (in_channels, out_channels)
    return {
        "operator": operator,
        "opset": rng.choice([1, 11, 22] if operator == "Conv" else [11, 22]),
        "attributes": attributes,
        "layouts": {
            "x": rng.choice(["NCX", "NXC"]),
            "y": rng.choice(["NCX", "NXC"]),
            "w": rng.choice(["OIX", "IOX", "XIO", "XOI"]),
        },
        "x": [rng.choice([1, 1, 2, 3]), in_channels, *sizes],
        "w": [first, second // groups, *kernel],
        "options": {name for name in ("bias", "residual", "relu") if rng.random() < 0.5},
    }


def output_shape(draw):
    geometry = reference.conv_geometry if draw["operator"] == "Conv" else reference.conv_transpose_geometry
    out, begin, _ = geometry(draw["x"], draw["w"][2:], draw["attributes"])
    channels = draw["w"][0] if draw["operator"] == "Conv" else draw["w"][1] * draw["attributes"].get("group", 1)
    return [draw["x"][0], channels, *out]


def products(draw):
    per_point = np.prod(draw["w"]) * draw["x"][0]
    return per_point * np.prod(output_shape(draw)[2:] if draw["operator"] == "Conv" else draw["x"][2:])


def draw_case(number):
    """A case of kiln run; the same for the same seed and number."""
    rng = random.Random(f"{SEED}/{number}")
    while True:
        draw = draw_once(rng)
        if min(output_shape(draw)) > 0 and products(draw) <= MOST_PRODUCTS:
            break
    data = np.random.default_rng([SEED, number])

    def tensor(shape):
        return data.standard_normal(shape).astype(np.float32)

    options, out = draw.pop("options"), output_shape(draw)
    case = {**draw, "name": f"random{number}", "inputs": {"X": tensor(draw["x"]), "W": tensor(draw["w"])}}
    if "bias" in options:
        case["inputs"]["B"] = tensor([out[1]])
    if "residual" in options:
        case["inputs"]["residual"] = tensor(out)
    if "relu" in options:
        case["activation"] = "Relu"
    del case["x"], case["w"]
    return case


def describe(case):
    shown = {k: v for k, v in case.items() if k != "inputs"}
    shapes = {k: list(v.shape) for k, v in case["inputs"].items()}
    number = case["name"][len("random") :]
    return f"{shown} {shapes}; to rerun: KILN_RANDOM_SEED={SEED} KILN_RANDOM_ONLY={number}"


def draw_cases():
    numbers = range(COUNT) if ONLY is None else [int(ONLY)]
    print(f"seed {SEED}, {len(numbers)} problems", flush=True)
    return [draw_case(number) for number in numbers]


def to_layer(case):
    """A case as a [[layer]] of a layers file."""
    table = {"name": case["name"], "operator": case["operator"], "opset": case["opset"], **case["attributes"]}
    table |= {name.lower(): list(case["inputs"][name].shape) for name in "XW"}
    # What JSON and TOML write alike stands here as JSON.
    lines = ["[[layer]]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    lines += [f"{key} = true" for key, name in (("bias", "B"), ("residual", "residual")) if name in case["inputs"]]
    lines += ["layouts = { " + ", ".join(f'{key} = "{value}"' for key, value in case["layouts"].items()) + " }"]
    lines += [f'activation = "{case["activation"]}"'] if "activation" in case else []
    return "\n".join(lines) + "\n"


class RandomProblems(unittest.TestCase):
    def check(self, case, answer, output):
        self.assertEqual(answer["status"], "ok", f"{answer}\n{describe(case)}")
        inputs = case["inputs"]
        y, magnitude, terms, (sizes, begin, end) = reference.compute(
            case["operator"], inputs["X"], inputs["W"], case["attributes"], inputs.get("B"), inputs.get("residual"),
            case.get("activation"),
        )
        self.assertEqual(answer["output_shape"], list(y.shape), describe(case))
        self.assertEqual(list(output.shape), list(y.shape), describe(case))
        if case["operator"] == "ConvTranspose" or "auto_pad" in case["attributes"]:
            self.assertEqual((answer["pads_begin"], answer["pads_end"]), (begin, end), describe(case))
        # The worst case of a sum of so many terms in float32, in any order.
        gamma = terms * 2.0**-24 / (1 - terms * 2.0**-24)
        if answer["kernel"].startswith("winograd"):  # its tiles mix neighbours, and amplify: error_bound.h
            gamma *= 111
            magnitude = magnitude.max(axis=(0, *range(2, magnitude.ndim)), keepdims=True)
        excess = abs(output - y) - (gamma * magnitude + 2.0**-23 * abs(y))
        worst = np.unravel_index(np.argmax(np.where(np.isnan(excess), np.inf, excess)), excess.shape)
        self.assertTrue(
            excess[worst] <= 0,
            f"y{[int(i) for i in worst]} is {output[worst]}, expected {y[worst]}; {answer['problem']}\n{describe(case)}",
        )

    def test_values(self):
        cases = draw_cases()
        with tempfile.TemporaryDirectory() as folder:
            answers, outputs, _ = kiln_run.run(cases, folder)
        for case, answer in zip(cases, answers):
            with self.subTest(case["name"]):
                self.check(case, answer, outputs.get(case["name"]))

    def test_memory_accesses(self):
        """The same problems in kiln verify, which puts guard pages around every tensor and runs two threads."""
        cases = {case["name"]: case for case in draw_cases()}
        with tempfile.TemporaryDirectory() as folder:
            spec = Path(folder) / "layers.toml"
            spec.write_text("".join(map(to_layer, cases.values())))
            for algorithm in (None, "winograd"):
                with self.subTest(algorithm or "default"):
                    self.check_memory_accesses(cases, spec, algorithm)

    def check_memory_accesses(self, cases, spec, algorithm):
        """With the default decisions, or with one algorithm wherever it applies."""
        options = []
        if algorithm:
            decisions = spec.with_suffix(".jsonl")
            decisions.write_text(json.dumps({"problem": "*", "algorithm": algorithm}))
            options = ["--decisions", decisions]
        rows = kiln_run.verify(spec, *options)
        self.assertEqual([row["layer"] for row in rows], list(cases))
        for row in rows:
            with self.subTest(row["layer"]):
                self.assertEqual(row["verdict"], "ok", f"{row}\n{describe(cases[row['layer']])}")
        if algorithm and len(cases) >= 20:
            self.assertTrue(any(row["algorithm"] == algorithm for row in rows), "no problem that it applies to")


if __name__ == "__main__":
    unittest.main(verbosity=2)
