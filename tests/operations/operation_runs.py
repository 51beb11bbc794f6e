"""Runs nodes of models as operations: through tools/onnx_import/operations, the generators and the compiler, in this process."""

import ctypes
import json
import os
import subprocess
import sys

import numpy as np
import onnx

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "onnx_import"))

import operations  # noqa: E402
from folding import Folder  # noqa: E402
from graph import Graph  # noqa: E402
from loading import drop_initializer_inputs  # noqa: E402

GUARD = 64  # bytes around outputs, which no kernel may write


def graph_of(model):
    drop_initializer_inputs(model)
    return Graph(Folder(model, ".", True), [])


def channels_last(rank):
    return (0, *range(2, rank), 1) if rank > 2 else tuple(range(rank))


class Plan:
    """The steps of a model whose nodes are all operations, its inputs lying in the model's order or channels last."""

    def __init__(self, model, is_last):
        self.graph = graph_of(model)
        self.inputs = [value.name for value in model.graph.input]
        self.outputs = [value.name for value in model.graph.output]
        self.orders, self.steps = {}, []
        for name in self.inputs:
            rank = len(self.graph.known_shape("input", name))
            self.orders[name] = channels_last(rank) if is_last else tuple(range(rank))
        for node in self.graph.nodes:
            if not all(name in self.graph.constants for name in node.output if name):
                for operation in operations.operation_of(node, self.graph):
                    self.add(operation)

    def add(self, operation):
        orders = [self.orders.get(item) if isinstance(item, str) else None for item in operation.inputs]
        inputs, outputs = operation.follow(orders)
        self.orders[operation.outputs[0]] = outputs[0]
        self.steps.append((operation, inputs, outputs, operation.text(inputs, outputs)))

    def texts(self):
        return [step[3] for step in self.steps]

    def run(self, kernels, values):
        values = dict(values)
        for operation, inputs, outputs, text in self.steps:
            arrays = []
            for item, order in zip(operation.inputs, inputs):
                value = np.asarray(item if not isinstance(item, str) else values[item] if item in values
                                   else self.graph.value(item))
                arrays.append(np.ascontiguousarray(value.transpose(order)))
            shape = [operation.shape[axis] for axis in outputs[0]]
            result = kernels.run(text, arrays, operation.dtype, shape)
            values[operation.outputs[0]] = result.transpose(np.argsort(outputs[0])) if outputs[0] else result
        return [values[name] for name in self.outputs]


class Kernels:
    """Compiled operations, by their texts."""

    def __init__(self, texts, folder):
        self.texts = list(dict.fromkeys(texts))
        listing = os.path.join(folder, "texts")
        with open(listing, "w", encoding="utf-8") as file:
            file.writelines(text + "\n" for text in self.texts)
        lines = subprocess.run([os.environ["OPERATION_OBJECTS"], listing, folder], check=True, capture_output=True,
                               text=True).stdout.splitlines()
        self.facts = {answer["text"]: answer for answer in map(json.loads, lines)}
        objects = [os.path.join(folder, answer["symbol"] + ".o") for answer in self.facts.values() if "error" not in answer]
        library = os.path.join(folder, "operations.so")
        with open(os.path.join(folder, "objects"), "w", encoding="utf-8") as file:
            file.writelines(name + "\n" for name in objects)
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-o", library, "@" + file.name, "-Wl,--whole-archive",
                        os.environ["KILN_RUNTIME"], "-Wl,--no-whole-archive", "-lstdc++"], check=True)
        self.library = ctypes.CDLL(library)

    def run(self, text, arrays, dtype, shape, threads=None):
        facts = self.facts[text]
        if "error" in facts:
            raise RuntimeError(f"{text}: {facts['error']}")
        dtype = np.dtype(dtype)
        size = int(np.prod(shape)) * dtype.itemsize
        memory = np.full(size + 2 * GUARD, 0xA5, np.uint8)
        workspace = np.zeros(facts["workspace"] + 128, np.uint8)
        aligned = workspace.ctypes.data + -workspace.ctypes.data % 64
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
        code = getattr(self.library, facts["symbol"])(*pointers, ctypes.c_void_p(memory.ctypes.data + GUARD),
                                                      ctypes.c_void_p(aligned), threads)
        if code != 0:
            raise RuntimeError(f"{text} returned {code}")
        if not ((memory[:GUARD] == 0xA5).all() and (memory[GUARD + size:] == 0xA5).all()):
            raise RuntimeError(f"{text} wrote beyond its output")
        return memory[GUARD:GUARD + size].view(dtype).reshape(shape) if size else np.zeros(shape, dtype)


def reference(model, inputs):
    """The outputs of onnx's own evaluator."""
    with np.errstate(all="ignore"):
        return onnx.reference.ReferenceEvaluator(model).run(None, inputs)
