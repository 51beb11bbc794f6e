#!/usr/bin/env python3
"""The tensors that a network's program reads and writes, and whether they are right.

    network_values.py inputs NETWORK.json FOLDER (--inputs IN.npz | --seed N)
    network_values.py outputs NETWORK.json FOLDER OUT
    network_values.py expect NETWORK.json FOLDER MODEL [--shape NAME=1x3x224x224]...
    network_values.py pick IN.npz NETWORK.json...
    network_values.py compare NETWORK.json FOLDER MODEL MANIFEST [--network N] [--shape NAME=1x3x224x224]... [--tolerance T] [--json]

NETWORK.json is what the importer says of the network; FOLDER has input0.bin, ... as the program reads them, and output0.bin,
... and arena.bin as it wrote them. `pick` tells which of several
networks, of different sizes, the inputs fit. `outputs` writes each as OUT/<name>.npy, and lists them in OUT/results.jsonl. `compare`
computes the model with onnxruntime or, where that is not installed, with onnx's reference evaluator, and compares every
output; where one differs, both are compared with the model in doubles, since it may be the reference that is off, and where
the network is, it tells the first of its tensors that differs.

`expect` writes what the outputs should be as FOLDER/expected0.bin, ..., and FOLDER/tolerance.txt, what they may differ by.

Exit status: 0; 1, something is wrong (the message is on stderr) or an output differs; 2, usage.
"""

import argparse
import json
import os
import re
import sys
import zipfile

import numpy as np
import onnx

import network_doubles
from evaluating import evaluator
from reading.loading import load_model, parse_shapes, set_shapes
from terms import ModelError

# What an output may differ by, as a part of its largest value: the coarsest type in the network says it.
TOLERANCES = (("int8", 0.05), ("uint8", 0.05), ("bfloat16", 0.1), ("float16", 1e-2), ("int16", 1e-3), ("uint16", 1e-3))
TOLERANCE = 1e-4
# Where operators have weights, and their zero point.
BYTE_WEIGHTS = {"QLinearConv": (3, 5), "QLinearMatMul": (3, 5), "QGemm": (3, 5), "ConvInteger": (1, 3), "MatMulInteger": (1, 3),
                "MatMulIntegerToFloat": (1, 5)}
REFERENCE = f"onnx {onnx.__version__}'s reference evaluator"


def numpy_type(name):
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16)) if name == "bfloat16" else np.dtype(name)


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Values:
    """The network's tensors in the program's folder."""

    def __init__(self, answer, folder):
        self.network, self.folder = read(answer), folder
        self.tensors = self.network["tensors"]

    def ports(self, kind):
        """(place, name, type, shape) of every input or output."""
        for place, port in enumerate(self.network[kind]):
            tensor = self.tensors[port["tensor"]]
            yield place, port["name"], numpy_type(tensor["dtype"]), port.get("shape", tensor["shape"])

    def path(self, kind, place):
        return os.path.join(self.folder, f"{kind}{place}.bin")

    def read(self, kind):
        """{name: array} of what lies there."""
        return {name: np.fromfile(self.path(kind[:-1], place), dtype).reshape(shape)
                for place, name, dtype, shape in self.ports(kind)}

    def write_inputs(self, arrays):
        for place, name, dtype, shape in self.ports("inputs"):
            np.ascontiguousarray(arrays[name], dtype).tofile(self.path("input", place))


# ---- Inputs


def random_inputs(values, seed):
    """What conditions that the network checks ask of an input, it is."""
    rng = np.random.default_rng(seed)
    inputs = {name: random_array(rng, dtype, shape) for _, name, dtype, shape in values.ports("inputs")}
    for example in (step["example"] for step in values.network["steps"] if "example" in step):
        inputs[example["input"]] = np.full_like(inputs[example["input"]], example["value"])
    return inputs


def random_array(rng, dtype, shape):
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":  # of more than a byte: indices or counts, as likely as not
        limits = np.iinfo(dtype)
        low, high = (limits.min, limits.max) if dtype.itemsize == 1 else (0, 9)
        return rng.integers(low, high + 1, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def arrays_of(path):
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ModelError(f"{path} is no .npz file that can be read: {error}") from error


def picked(answers, path):
    """Which of several networks an .npz file's arrays have the shapes of."""
    arrays, networks = arrays_of(path), [Values(answer, "") for answer in answers]
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    for place, values in enumerate(networks):
        if all(shapes.get(name) == list(shape) for _, name, _, shape in values.ports("inputs")):
            return place
    for name in shapes:
        known = [list(shape) for values in networks for _, one, _, shape in values.ports("inputs") if one == name]
        if known and shapes[name] not in known:
            different = " or ".join(dict.fromkeys(str(shape) for shape in known))
            raise ModelError(f'{path}: "{name}" is {shapes[name]}: at the sizes that are given it may be {different}')
    return 0  # what is wrong with the others' names is told where they are read


def file_inputs(values, path):
    """The arrays of an .npz file, which must be the network's inputs."""
    arrays = arrays_of(path)
    wanted = {name: (dtype, list(shape)) for _, name, dtype, shape in values.ports("inputs")}
    wrong = []
    for name in arrays:
        if name not in wanted:
            wrong.append(f'"{name}" is no input of the model: its inputs are ' + ", ".join(f'"{one}"' for one in wanted))
    for name, (dtype, shape) in wanted.items():
        if name not in arrays:
            wrong.append(f'"{name}" is missing: {dtype.name} {shape}')
        elif list(arrays[name].shape) != shape or not may_stand_for(arrays[name].dtype, dtype):
            wrong.append(f'"{name}" is {arrays[name].dtype.name} {list(arrays[name].shape)}: the model has {dtype.name} {shape}')
    if wrong:
        raise ModelError(f"{path}: " + "; ".join(wrong))
    return {name: arrays[name].view(dtype) if dtype.name == "bfloat16" else arrays[name]
            for name, (dtype, _) in wanted.items()}


def may_stand_for(given, wanted):
    return given == wanted or (wanted.name == "bfloat16" and given == np.uint16)


# ---- Outputs


def file_names(names):
    """Names made safe for files, each once."""
    taken, files = set(), []
    for name in names:
        base = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:100] or "output"
        file, count = base, 1
        while file.lower() in taken:
            count += 1
            file = f"{base}_{count}"
        taken.add(file.lower())
        files.append(f"{file}.npy")
    return files


def write_outputs(values, out):
    os.makedirs(out, exist_ok=True)
    arrays = values.read("outputs")
    rows = []
    for (name, array), file in zip(arrays.items(), file_names(arrays)):
        np.save(os.path.join(out, file), array.view(np.uint16) if array.dtype.name == "bfloat16" else array)
        rows.append(json.dumps({"name": name, "status": "ok", "output": file, "dtype": array.dtype.name,
                                "output_shape": list(array.shape)}))
    with open(os.path.join(out, "results.jsonl"), "w", encoding="utf-8") as file:
        file.write("".join(f"{row}\n" for row in rows))
    print("\n".join(rows))


# ---- Comparing


class Reference:
    """The model as others compute it."""

    def __init__(self, path, shapes):
        self.model, _ = load_model(path)
        set_shapes(path, self.model.graph, shapes)
        onnx.load_external_data_for_model(self.model, os.path.dirname(os.path.abspath(path)))
        try:
            import onnxruntime

            self.runtime, self.name = onnxruntime, f"onnxruntime {onnxruntime.__version__}"
        except ImportError:
            self.runtime, self.name = None, REFERENCE

    def run(self, inputs, names):
        """{name: array} of these values of the model."""
        if not names:
            return {}
        del self.model.graph.output[:]
        self.model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        if self.runtime is not None:
            try:
                return dict(zip(names, self.session().run(names, inputs)))
            except Exception as error:  # it lacks types of operators, and newer versions of them
                print(f"kiln: {self.name} cannot run the model: {str(error)[:300]}", file=sys.stderr)
                self.runtime, self.name = None, REFERENCE
        try:
            return dict(zip(names, evaluator(self.model).run(names, inputs)))
        except Exception as error:  # whatever the reference implementation of an operator raises
            raise ModelError(f"{self.name} cannot run the model: {str(error)[:300]}") from error

    def in_doubles(self, inputs, names):
        """The same with all floats of the model doubles, or {} where that cannot be."""
        try:
            return network_doubles.evaluate(self.model, inputs, names)
        except ModelError as error:
            print(f"kiln: {error}", file=sys.stderr)
            return {}

    def session(self):
        options = self.runtime.SessionOptions()
        options.log_severity_level = 3
        # It may not fuse what is between, whose values are asked for, and rounds as the model says.
        options.graph_optimization_level = self.runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        model = with_unsigned_weights(self.model)
        return self.runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def with_unsigned_weights(model):
    """The same model, its products of unsigned bytes with signed weights written as such of unsigned ones: on processors
    without instructions for products of bytes, onnxruntime saturates sums of two of the former to 16 bits."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    found = [(node, *BYTE_WEIGHTS[node.op_type]) for node in model.graph.node if node.op_type in BYTE_WEIGHTS]
    found = [(node, place, point) for node, place, point in found
             if getattr(constants.get(node.input[place]), "data_type", 0) == onnx.TensorProto.INT8
             and (len(node.input) <= point or not node.input[point] or node.input[point] in constants)]
    signed = signed_inputs(model) if found else set()
    result = onnx.ModelProto()
    result.CopyFrom(model)
    copies = {}
    for node in result.graph.node:
        for other, place, point in found:
            if other.output[0] != node.output[0] or other.input[0] in signed:
                continue
            node.input.extend([""] * (point + 1 - len(node.input)))
            for index in (place, point):
                name = node.input[index]
                value = onnx.numpy_helper.to_array(constants[name]) if name else np.int8(0)
                copies[f"{name}/unsigned"] = (np.asarray(value, np.int16) + 128).astype(np.uint8)
                node.input[index] = f"{name}/unsigned"
    result.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in copies.items())
    return result


def signed_inputs(model):
    """The values of a model that are signed bytes, or may be."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model).graph
    except Exception:  # a model of more than 2 GB, for one
        return {name for node in model.graph.node for name in node.input}
    unsigned = {value.name for group in (inferred.value_info, inferred.input) for value in group
                if value.type.tensor_type.elem_type == onnx.TensorProto.UINT8}
    return {name for node in model.graph.node for name in node.input} - unsigned


class Comparison:
    """A tensor beside the reference's."""

    def __init__(self, name, ours, theirs, tolerance):
        self.name, self.ours, self.theirs, self.tolerance = name, ours, theirs, tolerance
        self.fits = ours.shape == theirs.shape and ours.dtype == theirs.dtype
        self.difference, self.largest = 0.0, 0.0
        self.errors = None  # what this and the reference's are off by themselves, where that is known
        if not self.fits:
            self.why = f"it is {ours.dtype.name} {list(ours.shape)}, the model's {theirs.dtype.name} {list(theirs.shape)}"
            return
        self.difference, self.largest = difference(ours, theirs)
        self.why = f"it differs by {self.difference:.3g}, its largest value is {self.largest:.3g}"

    def judge_by(self, exact):
        """Tells whose the difference is, by the same tensor of the model in doubles."""
        if self.fits and exact is not None and np.shape(exact) == self.ours.shape:
            (ours, self.largest), (theirs, _) = (difference(array, exact) for array in (self.ours, self.theirs))
            self.errors = ours, theirs
            self.why += f"; beside the model in doubles it is off by {ours:.3g}, the reference by {theirs:.3g}"

    def is_ok(self):
        """Within the tolerance of the reference or, where that is known, of the model in doubles, or no further from that than the
        reference is."""
        bound = self.tolerance * max(self.largest, 1e-30)
        if self.errors is not None:
            return self.errors[0] <= max(bound, self.errors[1]) and np.isfinite(self.errors[0])
        return self.fits and self.difference <= bound

    def row(self):
        known = {} if self.errors is None else {"error": self.errors[0], "reference_error": self.errors[1]}
        return {"output": self.name, "shape": list(self.ours.shape), "difference": self.difference, "largest": self.largest,
                "tolerance": self.tolerance, **known, "verdict": "ok" if self.is_ok() else f"failed: {self.why}"}

    def text(self):
        verdict = self.row()["verdict"] + (f": {self.why}" if self.is_ok() and self.errors is not None else "")
        return (f"{self.name} {list(self.ours.shape)}: largest difference {self.difference:.3g} of {self.largest:.3g} "
                f"({self.difference / self.largest if self.largest else 0:.2g}): {verdict}")


def difference(ours, theirs):
    """(the largest, infinite where infinities or NaNs are not the same, the other's largest value)"""
    ours, theirs = (np.asarray(array, np.float64).reshape(-1) for array in (ours, theirs))
    odd = ~np.isfinite(theirs)
    largest = float(np.abs(theirs[~odd]).max(initial=0))
    if not np.array_equal(ours[odd], theirs[odd], equal_nan=True) or not np.isfinite(ours[~odd]).all():
        return float("inf"), largest
    return float(np.abs(ours[~odd] - theirs[~odd]).max(initial=0)), largest


def tolerance_of(values):
    types = {tensor["dtype"] for tensor in values.tensors}
    # Sixteen bits may be within a chain alone.
    types.update("int16" for step in values.network["steps"] if re.search("saturate_[su]16", step.get("operation", "")))
    return max([tolerance for name, tolerance in TOLERANCES if name in types], default=TOLERANCE)


def compare(values, arguments):
    inputs = values.read("inputs")
    reference = Reference(arguments.model, parse_shapes(arguments.shape))
    rows = compared(reference, inputs, values.read("outputs"), arguments.tolerance or tolerance_of(values))
    if arguments.json:
        sizes = {"sizes": values.network["sizes"]} if values.network["sizes"] else {}
        for row in rows:
            print(json.dumps({**sizes, **row.row(), "reference": reference.name}))
    else:
        for row in rows:
            print(row.text())
        print(f"beside {reference.name}")
    if all(row.is_ok() for row in rows):
        return 0
    print(first_difference(values, reference, inputs, manifest_of(arguments), rows[0].tolerance)
          or "none of the tensors between that the model has differs as much", file=sys.stderr)
    return 1


def compared(reference, inputs, ours, tolerance):
    """The comparison of each of these tensors, by doubles too where one is not what the reference computes."""
    theirs = reference.run(inputs, list(ours))
    rows = [Comparison(name, ours[name], np.asarray(theirs[name]), tolerance) for name in ours]
    if not all(row.is_ok() for row in rows):
        exact = reference.in_doubles(inputs, list(ours))
        for row in rows:
            row.judge_by(exact.get(row.name))
    return rows


def expect(values, arguments):
    """What a program compares its outputs with that has no reference at hand."""
    tolerance = os.path.join(values.folder, "tolerance.txt")
    if os.path.exists(tolerance):
        os.remove(tolerance)
    names = [name for _, name, _, _ in values.ports("outputs")]
    try:
        expected = Reference(arguments.model, parse_shapes(arguments.shape)).run(values.read("inputs"), names)
    except Exception as error:  # whatever the reference raises: the library is none the worse
        raise ModelError(f"no outputs to compare with: the reference fails: {error}") from error
    for place, name, dtype, _ in values.ports("outputs"):
        np.ascontiguousarray(expected[name], dtype).tofile(values.path("expected", place))
    with open(tolerance, "w", encoding="utf-8") as file:
        file.write(f"{tolerance_of(values)}\n")


def manifest_of(arguments):
    """What the manifest says of this network: of several each has a part."""
    network = read(arguments.manifest)["network"]
    return network.get("networks", [network])[arguments.network]


def first_difference(values, reference, inputs, manifest, tolerance):
    """Which of the network's tensors is the first that differs, in words; None where none does."""
    placed = [item for item in values.network["values"] if kept_offset(manifest, item["tensor"]) is not None]
    ours = {item["value"]: kept_value(values, manifest, item) for item in placed}
    makers = {item["value"]: item["node"] for item in placed}
    for row in compared(reference, inputs, ours, tolerance):
        if not row.is_ok():
            return f'the first tensor that differs is "{row.name}", made by {makers[row.name]}: {row.why}'
    return None


def kept_offset(manifest, number):
    """Where a tensor lies in the arena in which all are kept, or None."""
    tensor = manifest["tensors"][number]
    if "view_of" in tensor:
        whole = kept_offset(manifest, tensor["view_of"])
        return None if whole is None else whole + tensor["offset"]
    return tensor.get("kept_offset")


def kept_value(values, manifest, item):
    tensor = values.tensors[item["tensor"]]
    dtype, order = numpy_type(tensor["dtype"]), item["order"]
    flat = np.fromfile(os.path.join(values.folder, "arena.bin"), dtype, int(np.prod(item["shape"])),
                       offset=kept_offset(manifest, item["tensor"]))
    lying = flat.reshape([item["shape"][axis] for axis in order])
    return lying.transpose(np.argsort(order)) if order else lying


# ---- The command


def parse_arguments():
    parser = argparse.ArgumentParser(description="The tensors that a network's program reads and writes.")
    commands = parser.add_subparsers(dest="command", required=True)
    pick = commands.add_parser("pick")
    pick.add_argument("inputs")
    pick.add_argument("answers", nargs="+")
    for name in ("inputs", "outputs", "expect", "compare"):
        command = commands.add_parser(name)
        command.add_argument("answer")
        command.add_argument("folder")
        if name == "inputs":
            command.add_argument("--inputs")
            command.add_argument("--seed", type=int, default=1)
        elif name == "outputs":
            command.add_argument("out")
        else:
            command.add_argument("model")
            command.add_argument("--shape", action="append", default=[])
        if name == "compare":
            command.add_argument("manifest")
            command.add_argument("--network", type=int, default=0)
            command.add_argument("--tolerance", type=float)
            command.add_argument("--json", action="store_true")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    try:
        if arguments.command == "pick":
            print(picked(arguments.answers, arguments.inputs))
            return 0
        values = Values(arguments.answer, arguments.folder)
        if arguments.command == "inputs":
            values.write_inputs(file_inputs(values, arguments.inputs) if arguments.inputs
                                else random_inputs(values, arguments.seed))
        elif arguments.command == "outputs":
            write_outputs(values, arguments.out)
        elif arguments.command == "expect":
            expect(values, arguments)
        else:
            return compare(values, arguments)
    except (ModelError, OSError) as error:
        print(f"kiln: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
