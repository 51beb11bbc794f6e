"""Kiln's function of the network, from the shared library that KILN_BENCH_LIBRARY names; its manifest lies beside it."""

import ctypes
import json
import os

import numpy as np

from peers import Prepared

PACKAGES = ()
LAYOUTS = []
ALIGNMENT = 64
WARM_REPEATS = 4


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
    library = ctypes.CDLL(os.environ["KILN_BENCH_LIBRARY"])
    run = getattr(library, network["function"])
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
    prepared = Prepared(call, lambda tensors=tensors: [output.view(port["dtype"]).reshape(port["shape"])
                                                       for output, port in zip(outputs, network["outputs"])])
    if hasattr(library, f"{network['function']}_traced"):
        trace = Trace(library, network["function"] + "_traced", fields)
        prepared.order, prepared.profile = trace.order, trace.profile
    return prepared


class Trace:
    """What the steps take, of a library that was compiled with --traced and has native/steps.c."""

    def __init__(self, library, function, fields):
        self.library, self.run, self.fields = library, getattr(library, function), fields
        self.network = _manifest()["network"]
        self.seconds = [[] for _ in self.network["steps"]]
        self.warm = [[] for _ in self.network["steps"]]

    def order(self, calls):
        self.call(1)
        for _ in range(calls):
            for kept, repeats in ((self.seconds, 1), (self.warm, WARM_REPEATS)):
                for times, seconds in zip(kept, self.call(repeats)):
                    times.append(seconds)
            self.call(1)  # the next one's weights are as this one leaves them

    def call(self, repeats):
        """What each step takes, the last time that it runs."""
        most = len(self.seconds) * repeats + 1
        times = (ctypes.c_double * most)()
        self.library.kiln_bench_trace(times, most, repeats)
        if code := self.run(self.fields):
            raise RuntimeError(f"it returns {code}")
        if self.library.kiln_bench_noted() != most:
            raise RuntimeError("it does not run all of its steps")
        return [times[place * repeats] - times[place * repeats - 1] for place in range(1, len(self.seconds) + 1)]

    def profile(self):
        layers = {layer["name"]: layer for layer in _manifest()["layers"]}
        rows = []
        for step, seconds, warm in zip(self.network["steps"], self.seconds, self.warm):
            layer = layers.get(step.get("layer"))
            what = layer["problem"] if layer else step.get("operation", "")
            kind = layer.get("source", {}).get("operator", "") if layer else ""
            rows.append({"names": [step["node"]], "kind": kind, "what": what, "seconds": seconds,
                         "warm": warm})
        return rows
