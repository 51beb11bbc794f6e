"""ResNet-50 with seeded weights, as an ONNX model, and its convolutions as a layers file."""

import glob
import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper

SEED = 2024
CONVOLUTIONS = 53
HERE = os.path.dirname(os.path.abspath(__file__))
IMPORTER = os.path.join(HERE, "..", "onnx_import")
SOURCE = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light", "light_resnet50.onnx")


def holds(path, text):
    """Whether there is a file that says just this."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read() == text
    except OSError:
        return False


def write_if_changed(path, text):
    """Leaves a file alone that says so already: builds go by its time."""
    if not holds(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


# ---- Weights ------------------------------------------------------------------------------------------------------


def parameters(model, rng):
    """{name: values} for what the convolutions, normalisations and the classifier are made of.

    Weights are drawn as He's initialisation does, scales, shifts, means and variances near those of trained networks:
    activations then keep their size from layer to layer, behind 16 residual sums too.
    """
    shapes = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    values = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape":
            shapes[node.output[0]] = [int(size) for size in numpy_helper.to_array(values[node.input[0]])]
    sums = {name for node in model.graph.node if node.op_type == "Sum" for name in node.input}
    drawn = {}
    for node in model.graph.node:
        if node.op_type == "Conv":
            shape = shapes[node.input[1]]
            drawn[node.input[1]] = rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        elif node.op_type == "BatchNormalization":
            count = shapes[node.input[1]]
            size = 0.5 if node.output[0] in sums else 1.0
            drawn[node.input[1]] = size * rng.uniform(0.8, 1.2, count)
            drawn[node.input[2]] = rng.normal(0, 0.1, count)
            drawn[node.input[3]] = rng.normal(0, 0.1, count)
            drawn[node.input[4]] = rng.uniform(0.7, 1.4, count)
        elif node.op_type == "Gemm":
            shape = shapes[node.input[1]]
            drawn[node.input[1]] = rng.standard_normal(shape) / np.sqrt(shape[1])
            drawn[node.input[2]] = rng.normal(0, 0.1, shapes[node.input[2]])
    return {name: value.astype(np.float32) for name, value in drawn.items()}


def seeded_model():
    """The model of the onnx package, its constant fills replaced."""
    model = onnx.load(SOURCE)
    graph = model.graph
    drawn = parameters(model, np.random.default_rng(SEED))
    nodes = [node for node in graph.node if node.output[0] not in drawn]
    read = {name for node in nodes for name in node.input}
    constants = [tensor for tensor in graph.initializer if tensor.name in read and tensor.name not in drawn]
    constants += [numpy_helper.from_array(value, name) for name, value in drawn.items()]
    names = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in names]
    for field, items in ((graph.node, nodes), (graph.initializer, constants), (graph.input, inputs)):
        items = list(items)
        del field[:]
        field.extend(items)
    model.ir_version = 8  # from 4 on, initializers need not be inputs
    return model


# ---- Cutting ------------------------------------------------------------------------------------------------------


def rename(graph, old, new):
    for node in graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name == old:
                    names[place] = new


def cut(model, count):
    """Leaves the first `count` convolutions with what follows them, or all, in a model from "image" to "result"."""
    graph = model.graph
    convolutions = [index for index, node in enumerate(graph.node) if node.op_type == "Conv"]
    if count < len(convolutions):
        del graph.node[convolutions[count]:]
        read = {name for node in graph.node for name in node.input}
        constants = [tensor for tensor in graph.initializer if tensor.name in read]
        del graph.initializer[:]
        graph.initializer.extend(constants)
    rename(graph, graph.input[0].name, "image")
    rename(graph, graph.node[-1].output[0], "result")
    graph.input[0].name = "image"
    del graph.output[:]
    graph.output.append(onnx.helper.make_tensor_value_info("result", onnx.TensorProto.FLOAT, None))


# ---- Files --------------------------------------------------------------------------------------------------------


def layers_file(answer):
    """A layers file of the importer's answer: channels last in memory. (TOML writes these values as JSON does.)"""
    lines = ["# ResNet-50's convolutions, as tools/onnx_import finds them. Written by tools/demo/model.py.",
             "[library]", 'name = "layers"', "[defaults]", 'layouts = { x = "NXC", y = "NXC" }']
    for layer in answer["layers"]:
        # Timed and checked with random weights: one kernel then serves all layers of the same problem.
        lines += ["[[layer]]", *(f"{key} = {json.dumps(value)}" for key, value in layer.items()
                                 if key not in ("weights", "bias_values", "source"))]
    return "\n".join(lines) + "\n"


def fingerprint(count):
    """What the model's files are made from: where it is the same, they are not made again."""
    digest = hashlib.sha256(str(count).encode())
    for path in (SOURCE, __file__, *sorted(glob.glob(os.path.join(IMPORTER, "*.py")))):
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def run_importer(model, answer):
    done = subprocess.run([sys.executable, IMPORTER, model, answer], stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the ONNX importer failed: {done.stderr.strip()}")


def prepare(folder, count):
    """Writes the model, cut behind `count` convolutions, and what is made of it into a folder.

    resnet50.onnx; input.npy; import.json, the importer's answer, which is returned; layers.toml.
    """
    stamp, answer = os.path.join(folder, "model.stamp"), os.path.join(folder, "import.json")
    key = fingerprint(count)
    if not holds(stamp, key):
        model, path = seeded_model(), os.path.join(folder, "resnet50.onnx")
        cut(model, count)
        onnx.save(model, path)
        run_importer(path, answer)
        image = np.random.default_rng(SEED + 1).standard_normal((1, 3, 224, 224)).astype(np.float32)
        np.save(os.path.join(folder, "input.npy"), image)
        write_if_changed(stamp, key)
    with open(answer, encoding="utf-8") as file:
        imported = json.load(file)
    write_if_changed(os.path.join(folder, "layers.toml"), layers_file(imported))
    return imported
