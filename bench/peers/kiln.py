"""Kiln itself, under the same rules: kernels compiled ahead (run.py does that) and called through their C interface.

KILN_BENCH_LIBRARY names the shared library of the kernels with bench/native/peaks.cpp; its manifest lies beside it.
"""

import ctypes
import json
import os

import numpy as np

import tensors as numbers
from peers import Prepared, Unsupported

PACKAGES = ()
LAYOUTS = [("nxc", False), ("ncx", True)]
ALIGNMENT = 64


def _manifest():
    with open(os.path.splitext(os.environ["KILN_BENCH_LIBRARY"])[0] + ".json", encoding="utf-8") as file:
        return json.load(file)


def _library():
    library = ctypes.CDLL(os.environ["KILN_BENCH_LIBRARY"])
    library.kiln_bench_run.restype = library.kiln_bench_peak.restype = ctypes.c_double
    return library


def version():
    return _manifest()["kiln"]


def peak(kind, avx2, seconds):
    """kiln_bench_peak of bench/native/peaks.cpp."""
    return _library().kiln_bench_peak(ctypes.c_char(kind.encode()), int(avx2), ctypes.c_double(seconds))


def aligned(size):
    """Zeroed bytes, aligned as Kiln wants packed weights and workspace."""
    memory = np.zeros(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start:start + size]


def placed(array):
    """A copy whose first element is aligned so, as those are that the other sides allocate for themselves."""
    copy = aligned(array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def in_layout(array, layout):
    return placed(np.moveaxis(array, 1, -1) if layout == "nxc" else array)


def prepare(problem, layout, tensors):
    problem = problem.with_layout(layout)
    text = problem.text()
    kernel = next((kernel for kernel in _manifest()["kernels"] if kernel["problem"] == text), None)
    if kernel is None:
        raise Unsupported("not compiled: kiln's message is on stderr")
    library = _library()
    data = {name: in_layout(numbers.stored(tensors[name], problem.x_type), layout)
            for name in ("x", "residual", "offset", "mask") if name in tensors}
    weights = numbers.stored(tensors["w"], problem.w_type)
    strides = (ctypes.c_int64 * weights.ndim)(*(stride // weights.itemsize for stride in weights.strides))
    packed, workspace = aligned(kernel["packed_bytes"]), aligned(kernel["workspace_bytes"])
    if code := getattr(library, kernel["symbol"] + "_pack")(
            ctypes.c_void_p(weights.ctypes.data), strides, None, None, ctypes.c_void_p(packed.ctypes.data)):
        raise RuntimeError(f"packing returned {code}")
    if "bias" in tensors:
        data["bias"] = numbers.stored(tensors["bias"], "s32" if problem.quantised else problem.x_type)
    if "scale" in tensors:  # one for each channel, then y's, which is 1 here
        data["scale"] = np.append(tensors["scale"], np.float32(1))
    data["packed"] = packed
    sizes = (*problem.outputs, problem.out_channels) if layout == "nxc" else (problem.out_channels, *problem.outputs)
    y = placed(numbers.stored(np.zeros((problem.batch, *sizes)), problem.y_type))
    order = ("x", "packed", "bias", "residual", "offset", "mask", "scale")  # as kiln_run_function has them
    pointers = (ctypes.c_void_p * len(order))(*(data[name].ctypes.data if name in data else None for name in order))
    run = getattr(library, kernel["symbol"])

    def seconds(calls):
        taken = library.kiln_bench_run(run, pointers, ctypes.c_void_p(y.ctypes.data),
                                       ctypes.c_void_p(workspace.ctypes.data), ctypes.c_long(calls))
        if taken < 0:
            raise RuntimeError("the kernel failed")
        return taken

    def output():
        values = numbers.loaded(y, problem.y_type)
        return np.moveaxis(values, -1, 1) if layout == "nxc" else values

    seconds.keep = data, weights  # what the pointers point to
    return Prepared(lambda: seconds(1), output, kernel["algorithm"], seconds)
