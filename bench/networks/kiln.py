"""Kiln's function of the network, from the shared library that KILN_BENCH_LIBRARY names; its manifest lies beside it."""

import ctypes
import json
import os

import numpy as np

from peers import Prepared

PACKAGES = ()
LAYOUTS = []
ALIGNMENT = 64


def _manifest():
    with open(os.environ["KILN_BENCH_LIBRARY"].removesuffix(".so") + ".json", encoding="utf-8") as file:
        return json.load(file)


def version():
    return _manifest()["kiln"]


def _aligned(size):
    memory = np.zeros(size + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    return memory[begin:begin + size]


def load(_, inputs):
    network = _manifest()["network"]
    run = getattr(ctypes.CDLL(os.environ["KILN_BENCH_LIBRARY"]), network["function"])
    outputs = [_aligned(int(np.prod(port["shape"], dtype=int)) * np.dtype(port["dtype"]).itemsize) for port in network["outputs"]]
    tensors = []
    for port in network["inputs"]:
        given = np.ascontiguousarray(inputs[port["name"]], port["dtype"]).reshape(-1).view(np.uint8)
        tensors.append(_aligned(given.size))
        tensors[-1][:] = given
    tensors += [*outputs, _aligned(max(network["arena_bytes"], 1))]
    # The argument struct: inputs, outputs, arena, and no threads.
    fields = (ctypes.c_void_p * (len(tensors) + 1))(*(tensor.ctypes.data for tensor in tensors), None)

    def call():
        if code := run(fields):
            raise RuntimeError(f"it returns {code}")

    # The tensors live as long as what reads them.
    return Prepared(call, lambda tensors=tensors: [output.view(port["dtype"]).reshape(port["shape"])
                                                   for output, port in zip(outputs, network["outputs"])])
