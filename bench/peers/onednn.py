"""oneDNN, by its C++ interface: onednn.cpp, compiled on first use with the headers that its package carries."""

import ctypes
import functools
import os
import subprocess
import sys
import tempfile

import numpy as np

from peers import Prepared, Unsupported, plain_epilogue, require

# The packages of its OpenMP build: a call costs less than in that with SYCL.
PACKAGES = ("onednn-cpu-gomp==2023.2.0", "onednn-devel-cpu-gomp==2023.2.0")
# The first is whatever it likes best; "ncx, own inside" changes to that and back in every run.
_WAYS = {"own": False, "nxc": False, "ncx": True, "ncx, own inside": True}
LAYOUTS = [*_WAYS.items(), *((f"{name}, bias apart", plain) for name, plain in _WAYS.items())]
TYPES = {"f32": "f", "bf16": "b", "f16": "h", "u8": "u", "s8": "s"}

_Axes = ctypes.c_int64 * 3


class _Case(ctypes.Structure):
    """Case of onednn.cpp."""

    _fields_ = [*((name, ctypes.c_int32) for name in ("rank", "transposed", "layout", "relu", "bias_apart")),
                ("type", ctypes.c_char),
                *((name, ctypes.c_int64) for name in ("batch", "in_channels", "out_channels", "groups")),
                *((name, _Axes) for name in ("in_", "out", "kernel", "stride", "dilation", "pad_begin", "pad_end")),
                *((name, ctypes.c_void_p) for name in ("x", "w", "bias", "scale")), ("message", ctypes.c_char * 256)]


@functools.cache
def _library():
    source = os.path.splitext(os.path.abspath(__file__))[0] + ".cpp"
    target = os.path.join(sys.prefix, "lib", "libkiln_bench_onednn.so")
    if not os.path.exists(target) or os.path.getmtime(target) < os.path.getmtime(source):
        made = tempfile.mktemp(dir=os.path.dirname(target))
        folder = os.path.join(sys.prefix, "lib")
        subprocess.run([os.environ.get("CXX") or "g++", "-O2", "-std=c++17", "-shared", "-fPIC",
                        "-I" + os.path.join(sys.prefix, "include"), source, "-o", made, "-L" + folder,
                        "-l:libdnnl.so.3", "-Wl,-rpath,$ORIGIN"], check=True)
        os.replace(made, target)
    library = ctypes.CDLL(target)
    library.bench_onednn_prepare.restype = ctypes.c_void_p
    library.bench_onednn_run.restype = ctypes.c_double
    return library


def version():
    numbers = (ctypes.c_int32 * 3)()
    _library().bench_onednn_version(numbers)
    return ".".join(map(str, numbers))


def prepare(problem, layout, tensors):
    plain_epilogue(problem)
    require(not problem.deformable, "it has no deformable convolution")
    require(problem.x_type in TYPES and problem.y_type == problem.x_type, f"{problem.x_type} is not driven here")
    require(problem.rank <= 3, "it has three dimensions at the most")
    require(problem.x_zero_point == 0 and problem.y_zero_point == 0, "zero points are not driven here")
    apart = "bias apart" in layout
    require(not apart or (problem.transposed and "bias" in tensors and not problem.quantised),
            "a bias is apart only where a deconvolution may be faster so")
    given = np.float32 if not problem.quantised else None
    x, w = (np.ascontiguousarray(tensors[name], given) for name in "xw")
    if problem.transposed:  # output channels before input channels
        groups = problem.groups
        w = w.reshape(groups, problem.in_channels // groups, problem.out_channels // groups, *problem.kernel)
        w = np.ascontiguousarray(w.swapaxes(1, 2))
    bias = tensors.get("bias")
    if bias is not None:
        bias = np.ascontiguousarray(bias * tensors["scale"] if problem.quantised else bias, np.float32)
    scale = tensors.get("scale")
    pointers = [None if array is None else array.ctypes.data for array in (x, w, bias, scale)]
    axes = (problem.inputs, problem.outputs, problem.kernel, problem.strides, problem.dilations, problem.pads_begin,
            problem.pads_end)
    case = _Case(problem.rank, problem.transposed, list(_WAYS).index(layout.removesuffix(", bias apart")),
                 problem.activation == "relu", apart, TYPES[problem.x_type].encode(), problem.batch,
                 problem.in_channels, problem.out_channels, problem.groups, *(_Axes(*values) for values in axes),
                 *pointers)
    library = _library()
    layer = library.bench_onednn_prepare(ctypes.byref(case))
    if not layer:
        message = case.message.decode()
        raise Unsupported("it has no such case") if "could not create" in message else RuntimeError(message)
    layer = ctypes.c_void_p(layer)
    parts = case.message.decode().split("+")  # a deconvolution names the convolution that it is
    require(not any(part.startswith("ref") for part in parts), "it has its slow reference implementation only")

    def seconds(calls):
        return library.bench_onednn_run(layer, ctypes.c_long(calls))

    def output():
        y = np.empty(problem.y_shape, x.dtype)
        library.bench_onednn_output(layer, ctypes.c_void_p(y.ctypes.data))
        return y

    return Prepared(lambda: seconds(1), output, case.message.decode(), seconds)
