"""The shared library beside this package (python/bridge.h has its functions), by ctypes, which releases the GIL."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, Structure, byref, c_char_p, c_int32, c_int64, c_void_p
from pathlib import Path

from ._command import ROOT
from ._errors import Failed, error

FILE = ROOT / "lib" / "libkiln_python.so"
CODES = {1: "invalid_argument", 2: "unsupported", 3: "failed"}


class RunArguments(Structure):
    _fields_ = [("tensors", POINTER(c_void_p)), ("packed", c_void_p), ("workspace", c_void_p), ("workspace_bytes", c_int64)]


SIGNATURES = {
    "kiln_python_message": (c_char_p, []),
    "kiln_python_read": (c_int32, [c_char_p, c_char_p, c_char_p, c_char_p, POINTER(c_void_p)]),
    "kiln_python_spec_text": (c_char_p, [c_void_p]),
    "kiln_python_free_spec": (None, [c_void_p]),
    "kiln_python_plan_layer": (c_int32, [c_void_p, c_char_p, c_void_p, POINTER(c_int64), c_int32, POINTER(c_int64),
                                         c_int32, c_int32, POINTER(c_void_p)]),
    "kiln_python_plan_text": (c_char_p, [c_void_p]),
    "kiln_python_pack": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "kiln_python_run": (c_int32, [c_void_p, POINTER(RunArguments), c_void_p]),
    "kiln_python_free_plan": (None, [c_void_p]),
    "kiln_python_make_team": (c_int32, [c_int32, POINTER(c_void_p)]),
    "kiln_python_free_team": (None, [c_void_p]),
}


@functools.lru_cache(maxsize=None)
def bridge() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(FILE))
    except OSError as missing:
        raise Failed(f"{FILE} cannot be loaded: {missing}") from None
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def call(name: str, *arguments: object, layer: str | None = None) -> None:
    """Calls a function that returns a code; raises what that says."""
    code = getattr(bridge(), name)(*arguments)
    if code:
        raise error(CODES.get(code, "failed"), bridge().kiln_python_message().decode(), layer)


def made(name: str, *arguments: object, layer: str | None = None) -> c_void_p:
    """The same for one that makes an object, through its last argument."""
    result = c_void_p()
    call(name, *arguments, byref(result), layer=layer)
    return result


def load(path: Path) -> tuple[ctypes.CDLL, c_void_p]:
    """A compiled library, and its table of kernels and layers."""
    library = ctypes.CDLL(str(path))
    function = library.kiln_python_library
    function.restype, function.argtypes = c_void_p, []
    return library, c_void_p(function())
