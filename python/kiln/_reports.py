"""What Kiln tells of layers and targets: explain, verify, targets."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _command
from ._errors import error
from ._layers import SpecFile, Layers


@dataclass(frozen=True)
class Explanation:
    """What a layer means. Shapes are in the order of the layer's dialect, None for a size left open."""

    layer: str
    operator: str
    x: tuple[int | None, ...]
    w: tuple[int | None, ...]
    y: tuple[int | None, ...]
    pads_begin: tuple[int | None, ...]
    pads_end: tuple[int | None, ...]
    problem: str  #: the canonical text, by which decisions, manifests and logs name the computation
    kernel: str  #: the algorithm and its schedule, and who decided so
    rules: tuple[str, ...]  #: for each spatial axis, the rule that made its output size and pads


@dataclass(frozen=True)
class Verification:
    """A kernel beside the float64 reference, on seeded random tensors."""

    layer: str
    problem: str
    kernel: str  #: the target it was compiled for
    algorithm: str
    schedule: str
    max_error: float  #: the largest difference of an element
    bound: float  #: what the algorithm promises for it, in the same unit
    verdict: str  #: "ok", or what is wrong

    @property
    def ok(self) -> bool:
        return self.verdict == "ok"


@dataclass(frozen=True)
class Target:
    """What Kiln compiles for."""

    name: str
    halide: str  #: Halide's target string
    requires: tuple[str, ...]  #: features of the processor
    runs_here: bool


def _arguments(target: str | None, layers: Sequence[str], decisions: str | os.PathLike[str] | None) -> list[str]:
    arguments = [] if target is None else ["--target", target]
    for layer in layers:
        arguments += ["--layer", layer]
    return arguments + ([] if decisions is None else ["--decisions", os.fspath(decisions)])


def _sizes(values: Sequence[int | str]) -> tuple[int | None, ...]:
    return tuple(None if value == "?" else int(value) for value in values)


def explain(layers: Layers, target: str | None = None, *, only: Sequence[str] = (),
            decisions: str | os.PathLike[str] | None = None,
            shapes: Mapping[str, Sequence[int | None]] | None = None) -> list[Explanation]:
    """Tells what layers mean: shapes, pads, problems and kernel choices. Nothing is compiled, but to find the smallest
    kernel of a layer whose goal is size.

    Args:
        layers: a layers file, an ONNX model, or a list of layers as `compile` takes them.
        target: whose kernel choice is told, as `kiln targets` names them; this machine unless said.
        only: names of layers; all if empty.
        decisions: a file that `kiln tune` wrote.
        shapes: sizes of a model's inputs that the model leaves open; None for a size known when it runs.

    Raises:
        Error: of the first layer that is wrong.
    """
    with SpecFile(layers, shapes) as spec:
        done = _command.run(["explain", spec.path, "--json", *spec.options, *_arguments(target, only, decisions)])
    if done.returncode:
        _command.raise_first(done.stderr)
    return [_explanation(layer) for layer in json.loads(done.stdout)["layers"]]


def _explanation(layer: dict[str, Any]) -> Explanation:
    return Explanation(layer["name"], layer["operator"], _sizes(layer["x"]), _sizes(layer["w"]),
                       _sizes(layer["output_shape"]), _sizes(layer["pads_begin"]), _sizes(layer["pads_end"]),
                       layer["problem"], layer.get("kernel", ""), tuple(layer.get("rules", ())))


def verify(layers: Layers, target: str | None = None, *, only: Sequence[str] = (),
           decisions: str | os.PathLike[str] | None = None, runner: str | None = None, cxx: str | None = None,
           shapes: Mapping[str, Sequence[int | None]] | None = None, seed: int = 1) -> list[Verification]:
    """Compiles layers and checks every kernel against the float64 reference, on random tensors.

    Args:
        layers, target, only, decisions, shapes: as `explain` takes them.
        runner: the command that starts programs of the target, an emulator for example.
        cxx: the target's C++ compiler.
        seed: of the random tensors, and of the sizes that layers leave open.

    Returns:
        A verification a kernel and problem: several for a layer of open sizes, one a target of this machine's.

    Raises:
        Error: where a layer could not be compiled. A kernel that errs too much is no exception: see Verification.ok.
    """
    arguments = _arguments(target, only, decisions) + ["--seed", str(seed)]
    for option, value in (("--runner", runner), ("--cxx", cxx)):
        arguments += [] if value is None else [option, value]
    with SpecFile(layers, shapes) as spec:
        done = _command.run(["verify", spec.path, "--json", *spec.options, *arguments])
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for row in rows:
        if "problem" not in row:
            raise error("failed", row["verdict"].removeprefix("failed: "), row["layer"])
    if not rows:
        _command.raise_first(done.stderr)
    return [_verification(row) for row in rows]


def _verification(row: dict[str, Any]) -> Verification:
    nan = float("nan")
    numbers = [nan if row.get(key) is None else float(row[key]) for key in ("max_error", "bound")]
    return Verification(row["layer"], row["problem"], row.get("kernel", ""), row.get("algorithm", ""),
                        row.get("schedule", ""), numbers[0], numbers[1], row["verdict"])


def targets() -> list[Target]:
    """What Kiln compiles for, and whether this machine runs it."""
    done = _command.run(["targets", "--json"])
    if done.returncode:
        _command.raise_first(done.stderr)
    return [Target(row["name"], row["halide"], tuple(row["requires"]), row["runs_here"]) for row in json.loads(done.stdout)]
