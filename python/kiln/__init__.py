"""Kiln: convolutions compiled ahead of time, from Python.

    import kiln
    import numpy as np

    library = kiln.compile([{"name": "up", "operator": "ConvTranspose", "x": [1, 64, 28, 28],
                             "w": [64, 32, 2, 2], "strides": [2, 2]}])
    y = library["up"](np.ones([1, 64, 28, 28], np.float32), np.ones([64, 32, 2, 2], np.float32))

For trying a kernel in a notebook and for tests. Deployments link the static library that the `kiln` command makes, or
CMake's kiln_add_library(), and stay without Python. Compiling takes a C++ compiler: $CXX, else c++.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._command import __version__
    from ._errors import Error, Failed, InvalidArgument, Unsupported
    from ._library import Layer, Library, PackedWeights, compile
    from ._reports import Explanation, Target, Verification, explain, targets, verify

__all__ = [
    "Error",
    "Explanation",
    "Failed",
    "InvalidArgument",
    "Layer",
    "Library",
    "PackedWeights",
    "Target",
    "Unsupported",
    "Verification",
    "__version__",
    "compile",
    "explain",
    "targets",
    "verify",
]

_MODULES = {
    "__version__": "_command",
    **dict.fromkeys(("Error", "Failed", "InvalidArgument", "Unsupported"), "_errors"),
    **dict.fromkeys(("Layer", "Library", "PackedWeights", "compile"), "_library"),
    **dict.fromkeys(("Explanation", "Target", "Verification", "explain", "targets", "verify"), "_reports"),
}


def __getattr__(name: str) -> object:
    """Loads what is asked for: the command and build tools import this package, and need no NumPy."""
    if name not in _MODULES:
        raise AttributeError(f"module 'kiln' has no attribute {name!r}")
    value = getattr(importlib.import_module("." + _MODULES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
