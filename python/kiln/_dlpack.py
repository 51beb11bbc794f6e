"""bfloat16 by DLPack, which NumPy's own reader takes from nobody."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

ON_THE_PROCESSOR = 1  # kDLCPU of dlpack.h
BFLOAT = 4  # kDLBfloat
READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY


class Exporter(Protocol):
    """What hands out its memory by DLPack."""

    def __dlpack__(self, **options: Any) -> object: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


class Tensor(ctypes.Structure):
    """DLTensor of dlpack.h; strides are in elements, and null where the tensor is dense."""

    _fields_ = (("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64))


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned; one without a version begins with its DLTensor."""

    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", Tensor))


# Python's C API, with types of this module's own: those of ctypes.pythonapi's members are everybody's.
_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


def opened(capsule: object) -> tuple[Tensor, bool]:
    """The tensor in a capsule, which lives as long as that does, and whether it may only be read."""
    name = _capsule_name(capsule)
    address = _capsule_pointer(capsule, name)
    if name == b"dltensor":
        return Tensor.from_address(address), True  # it cannot say, and arrays that never change come so
    if name != b"dltensor_versioned":
        raise BufferError(f"__dlpack__ gave a capsule named {name!r}")
    managed = Versioned.from_address(address)
    return managed.tensor, bool(managed.flags & READ_ONLY)


class _Bits:
    """Keeps the capsule, and so the memory, while NumPy looks at it."""

    def __init__(self, capsule: object, tensor: Tensor, read_only: bool) -> None:
        self.capsule = capsule
        axes = range(tensor.ndim)
        strides = tuple(2 * tensor.strides[a] for a in axes) if tensor.strides else None
        self.__array_interface__ = {"version": 3, "typestr": "<u2", "shape": tuple(tensor.shape[a] for a in axes), "strides": strides,
                                    "data": ((tensor.data or 0) + tensor.byte_offset, read_only)}


def bfloat16_bits(value: Exporter) -> npt.NDArray[np.uint16] | None:
    """The bits of a tensor of bfloat16, with nothing copied; None of another type. Raises what the tensor's library does."""
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
    except TypeError:  # its library is older than versions
        capsule = value.__dlpack__()
    tensor, read_only = opened(capsule)
    if (tensor.code, tensor.bits, tensor.lanes) != (BFLOAT, 16, 1):
        return None
    return np.asarray(_Bits(capsule, tensor, read_only))
