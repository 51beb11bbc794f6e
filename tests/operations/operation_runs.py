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
from reading.folding import Folder  # noqa: E402
from reading.graph import Graph  # noqa: E402
from reading.loading import drop_initializer_inputs  # noqa: E402

GUARD = 64  # bytes around outputs, which no kernel may write


TASK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)
PARALLEL_FOR = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, TASK, ctypes.c_void_p, ctypes.c_int32)
WORKERS = 3


@PARALLEL_FOR
def in_reverse(_, task, closure, count):
    """The pieces of a kernel by several workers in turn, the last piece first."""
    return max((task(closure, index, index % WORKERS) for index in reversed(range(count))), default=0)


class Threads(ctypes.Structure):
    """kiln_threads."""

    _fields_ = [("context", ctypes.c_void_p), ("workers", ctypes.c_int32), ("parallel_for", PARALLEL_FOR)]


def graph_of(model):
    drop_initializer_inputs(model)
    return Graph(Folder(model, ".", True), [])


def channels_last(rank):
    return (0, *range(2, rank), 1) if rank > 2 else tuple(range(rank))


class Plan:
    """The steps of a model whose nodes are all operations, its inputs lying in whatever order."""

    def __init__(self, model, given_orders):
        """`given_orders` has the orders of inputs that do not lie in the model's."""
        self.graph = graph_of(model)
        self.inputs = [value.name for value in model.graph.input]
        self.outputs = [value.name for value in model.graph.output]
        self.orders, self.steps = {}, []
        for name in self.inputs:
            rank = len(self.graph.known_shape("input", name))
            self.orders[name] = tuple(given_orders.get(name, range(rank)))
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

    def call(self, step, values):
        """(text, arrays, type and shape of the result as it lies) of a step."""
        operation, inputs, outputs, text = step
        arrays = []
        for item, order in zip(operation.inputs, inputs):
            value = np.asarray(item if not isinstance(item, str) else values[item] if item in values
                               else self.graph.value(item))
            arrays.append(np.ascontiguousarray(value.transpose(order)))
        return text, arrays, operation.dtype, [operation.shape[axis] for axis in outputs[0]]

    def result(self, step, lying):
        order = step[2][0]
        return lying.transpose(np.argsort(order)) if order else lying

    def run(self, kernels, values):
        values = dict(values)
        for step in self.steps:
            values[step[0].outputs[0]] = self.result(step, kernels.run(*self.call(step, values)))
        return [values[name] for name in self.outputs]


def compile_texts(texts, folder, target="host"):
    """{text: what is told of its kernel}, the objects lying in the folder."""
    listing = os.path.join(folder, "texts")
    with open(listing, "w", encoding="utf-8") as file:
        file.writelines(text + "\n" for text in dict.fromkeys(texts))
    lines = subprocess.run([os.environ["OPERATION_OBJECTS"], listing, folder, target], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    answers = {answer["text"]: answer for answer in map(json.loads, lines)}
    for text, answer in answers.items():  # what the importer writes is canonical
        if "error" not in answer and answer["printed"] != text:
            raise RuntimeError(f"{text} is printed as {answer['printed']}")
    return answers


class Kernels:
    """Operations compiled for this processor, or a target that it runs, by their texts."""

    def __init__(self, texts, folder, target="host"):
        self.facts = compile_texts(texts, folder, target)
        objects = [os.path.join(folder, answer["symbol"] + ".o") for answer in self.facts.values() if "error" not in answer]
        library = os.path.join(folder, "operations.so")
        with open(os.path.join(folder, "objects"), "w", encoding="utf-8") as file:
            file.writelines(name + "\n" for name in objects)
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-o", library, "@" + file.name, "-Wl,--whole-archive",
                        os.environ["KILN_RUNTIME"], "-Wl,--no-whole-archive", "-lstdc++"], check=True)
        self.functions = ctypes.CDLL(library)

    def run(self, text, arrays, dtype, shape):
        """The result by one thread, which is that of several."""
        alone = self.call(text, arrays, dtype, shape, None)
        shared = self.call(text, arrays, dtype, shape, ctypes.byref(Threads(None, WORKERS, in_reverse)))
        if alone.tobytes() != shared.tobytes():
            raise RuntimeError(f"{text} computes other numbers with several threads")
        return alone

    def call(self, text, arrays, dtype, shape, threads):
        facts = self.facts[text]
        if "error" in facts:
            raise RuntimeError(f"{text}: {facts['error']}")
        dtype = np.dtype(dtype)
        size = int(np.prod(shape)) * dtype.itemsize
        memory = np.full(size + 2 * GUARD, 0xA5, np.uint8)
        workspace = np.zeros(facts["workspace"] + (WORKERS - 1) * facts["worker_workspace"] + 128, np.uint8)
        aligned = workspace.ctypes.data + -workspace.ctypes.data % 64
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
        code = getattr(self.functions, facts["symbol"])(*pointers, ctypes.c_void_p(memory.ctypes.data + GUARD),
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


def power_of_integers(base, exponent):
    """Of arrays of integers, which NumPy refuses below 0: of the base's type, wrapped around, and towards zero."""
    def power(x, e):
        x, e = int(x), int(e)
        if e >= 0:
            return pow(x, e, 1 << bits)
        return x ** (e % 2) if abs(x) == 1 else 0

    bits = base.dtype.itemsize * 8
    unsigned = np.vectorize(lambda x, e: power(x, e) % (1 << bits), otypes=[object])(base, exponent)
    return unsigned.astype(np.uint64).astype(base.dtype)
