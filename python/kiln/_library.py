"""Layers compiled and loaded: compile, Library, Layer."""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from ctypes import byref, c_int64, c_void_p
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from . import _command, _dlpack, _native, _reports
from ._errors import Failed, InvalidArgument, Unsupported
from ._layers import Layers, SpecFile, layers_file

ALIGNMENT = 64  # of packed weights and workspaces, in bytes; tensors are faster with it too

DTYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "s8": "int8", "u8": "uint8", "s32": "int32"}


def _dtype(name: str) -> np.dtype[Any]:
    """NumPy's type; bfloat16 is that of ml_dtypes where it is installed, else its bits as uint16."""
    if name != "bf16":
        return np.dtype(DTYPES[name])
    try:
        import ml_dtypes  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return np.dtype(np.uint16)
    result: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return result


def _aligned(size: int) -> npt.NDArray[np.uint8]:
    """Bytes at an address that is a multiple of ALIGNMENT."""
    memory = np.empty(size + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    return memory[begin:begin + size]


def as_array(value: object) -> npt.NDArray[Any]:
    """NumPy's view of an array, or of any other tensor on the processor by DLPack, which copies nothing."""
    if isinstance(value, np.ndarray):
        return value
    if not hasattr(value, "__dlpack__"):
        raise InvalidArgument(f"a {type(value).__name__} is no tensor: give a NumPy array, or what has __dlpack__")
    try:
        if value.__dlpack_device__()[0] != _dlpack.ON_THE_PROCESSOR:  # type: ignore[attr-defined, unused-ignore]
            raise InvalidArgument(f"a {type(value).__name__} lies on another device: bring it to the processor first")
        try:
            return np.from_dlpack(value)  # type: ignore[arg-type, unused-ignore]
        except (BufferError, RuntimeError):
            bits = _dlpack.bfloat16_bits(value)  # type: ignore[arg-type, unused-ignore]
            if bits is None:
                raise
            return bits.view(_dtype("bf16"))
    except (BufferError, RuntimeError, TypeError) as refused:
        raise InvalidArgument(f"a {type(value).__name__} cannot be read: {refused}") from None


class Tensor:
    """What a layer's kernel takes or gives: a shape in the dialect's order, a type, and the order in memory."""

    def __init__(self, name: str, facts: dict[str, Any]) -> None:
        self.name = name
        self.shape = tuple(facts["shape"])
        self.type = facts["dtype"]
        self.dtype = _dtype(self.type)
        self.index: int = facts["index"]  # among the pointers of a run
        self.channels_last: bool | None = facts["channels_last"]  # None: memory has the dialect's own order

    def in_memory(self, value: object, layer: str) -> npt.NDArray[Any]:
        """Dense, in the order the kernel reads: `value` itself where it lies so already."""
        array = as_array(value)
        bits = self.type == "bf16" and array.dtype.itemsize == 2 and array.dtype.name in ("uint16", "bfloat16")
        if array.dtype != self.dtype and not bits:
            raise InvalidArgument(f"{self.name} is {array.dtype}: it must be {DTYPES[self.type]}", layer)
        if array.shape != self.shape:
            raise InvalidArgument(f"{self.name} is of shape {list(array.shape)}: it must be {list(self.shape)}", layer)
        if self.channels_last is not None:
            array = np.moveaxis(array, 1, -1) if self.channels_last else np.moveaxis(array, -1, 1)
        return np.ascontiguousarray(array)

    def empty(self) -> npt.NDArray[Any]:
        """A new tensor, of the dialect's shape, that lies in memory as the kernel writes it."""
        shape = self.shape
        if self.channels_last is not None:
            shape = (shape[0], *shape[2:], shape[1]) if self.channels_last else (shape[0], shape[-1], *shape[1:-1])
        count = int(np.prod(shape, dtype=np.int64))
        array = _aligned(count * self.dtype.itemsize).view(self.dtype).reshape(shape)
        if self.channels_last is None:
            return array
        return np.moveaxis(array, -1, 1) if self.channels_last else np.moveaxis(array, 1, -1)

    def memory_of(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What empty() allocated, seen in the order in memory."""
        if self.channels_last is None:
            return array
        return np.moveaxis(array, 1, -1) if self.channels_last else np.moveaxis(array, -1, 1)


class Plan:
    """A layer for known shapes."""

    def __init__(self, layer: Layer, x: Sequence[int], w: Sequence[int]) -> None:
        library = layer._library
        shapes = [(c_int64 * len(shape))(*shape) for shape in (x, w)]
        self.handle = _native.made("kiln_python_plan_layer", library._spec, layer.name.encode(), library._table, shapes[0],
                                   len(x), shapes[1], len(w), library.threads, layer=layer.name)
        weakref.finalize(self, _native.bridge().kiln_python_free_plan, self.handle)
        self.facts = json.loads(_native.bridge().kiln_python_plan_text(self.handle))
        self.tensors = {name: Tensor(name, facts) for name, facts in self.facts["tensors"].items()}


def _known(shape: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(size for size in shape if size is not None)


class PackedWeights:
    """Weights as one layer's kernel reads them, from Layer.pack. They may be used in many calls, and in threads."""

    def __init__(self, layer: Layer, shape: tuple[int, ...], plan: Plan, memory: npt.NDArray[np.uint8]) -> None:
        self.layer, self.shape = layer.name, shape
        self._plan, self._memory = plan, memory

    @property
    def nbytes(self) -> int:
        return int(self._memory.nbytes)


class Layer:
    """A compiled layer. Call it, or pack its weights once and call it often."""

    def __init__(self, library: Library, facts: dict[str, Any]) -> None:
        self._library = library
        self.name: str = facts["name"]
        self.operator: str = facts["operator"]
        #: shapes in the order of the layer's dialect, None for a size that the call decides
        self.x_shape: tuple[int | None, ...] = tuple(facts["x"])
        self.w_shape: tuple[int | None, ...] = tuple(facts["w"])
        self._files = facts["weights"], facts["bias_values"]
        self._plans: dict[tuple[tuple[int, ...], tuple[int, ...]], Plan] = {}
        self._own: PackedWeights | None = None

    def __repr__(self) -> str:
        return f"<kiln.Layer {self.name}: {self.operator}, x {list(self.x_shape)}, w {list(self.w_shape)}>"

    def _plan(self, x: tuple[int, ...], w: tuple[int, ...]) -> Plan:
        if (x, w) not in self._plans:
            self._plans[x, w] = Plan(self, x, w)
        return self._plans[x, w]

    def plan(self, x_shape: Sequence[int] | None = None, w_shape: Sequence[int] | None = None) -> dict[str, Any]:
        """What computes the layer for these shapes: problem, algorithm, schedule, target, bytes, tensors."""
        x, w = (tuple(given if given is not None else own) for given, own in ((x_shape, self.x_shape), (w_shape, self.w_shape)))
        if None in x + w:
            raise InvalidArgument(f"the layer leaves sizes open: say x_shape and w_shape; they are {list(x)} and {list(w)}",
                                  self.name)
        return dict(self._plan(_known(x), _known(w)).facts)

    def pack(self, w: object, x_shape: Sequence[int] | None = None) -> PackedWeights:
        """Weights in the order that the kernel reads them.

        Args:
            w: the weights, in the order and type of the layer.
            x_shape: of the x they will meet, where the layer leaves that open.
        """
        weights = as_array(w)
        x = tuple(x_shape) if x_shape is not None else self.x_shape
        if None in x:
            raise InvalidArgument(f"x_shape is {list(x)}: weights are packed for known sizes, so say it", self.name)
        plan = self._plan(_known(x), weights.shape)
        source = plan.tensors["w"].in_memory(weights, self.name)
        memory = _aligned(plan.facts["packed_bytes"])
        _native.call("kiln_python_pack", plan.handle, source.ctypes.data, memory.ctypes.data, layer=self.name)
        return PackedWeights(self, weights.shape, plan, memory)

    def _own_weights(self, x: tuple[int, ...]) -> PackedWeights:
        if self._files[0] is None:
            raise InvalidArgument("w is missing: the layer has no weights of its own", self.name)
        if self._own is None or self._own._plan is not self._plan(x, self._own.shape):
            self._own = self.pack(np.load(self._files[0]), x)
        return self._own

    def __call__(self, x: object, w: object = None, bias: object = None, *, residual: object = None,
                 offset: object = None, mask: object = None, out: object = None) -> npt.NDArray[Any]:
        """Computes the layer; other Python threads run meanwhile.

        Args:
            x: the input, of the layer's shape (in its dialect's order) and type. Nothing is converted; it is copied only
                where it does not lie in memory as the layer's `layouts` say: dense, channels last for NXC.
            w: the weights, or what pack() made of them; the layer's own, of a model or a file, if None.
            bias: one number an output channel, if the layer has a bias; a model's or a file's own if None.
            residual: what is added before the activation, shaped as y, if the layer has one.
            offset, mask: DeformConv's.
            out: where y is written, an array or tensor that lies in memory as `layouts` say; a new one if None.

        Returns:
            y, in the dialect's order; channels last it is a view whose last axis in memory is the channels. Of `out`, NumPy's view.

        Raises:
            InvalidArgument: a tensor is missing, or of another shape or type.
        """
        array = as_array(x)
        packed = w if isinstance(w, PackedWeights) else None
        if packed is not None and packed.layer != self.name:
            raise InvalidArgument(f"w was packed for the layer {packed.layer}", self.name)
        if w is None:
            packed = self._own_weights(array.shape)
        elif packed is None:
            packed = self.pack(w, array.shape)
        plan = self._plan(array.shape, packed.shape)
        if plan is not packed._plan:
            raise InvalidArgument(f"w was packed for another shape of x than {list(array.shape)}", self.name)
        if bias is None and self._files[1] is not None and "bias" in plan.tensors:
            bias = np.load(self._files[1])
        given = {"x": array, "bias": bias, "residual": residual, "offset": offset, "mask": mask}
        return self._run(plan, given, packed._memory, out)

    def _run(self, plan: Plan, given: dict[str, object], packed: npt.NDArray[np.uint8], out: object) -> npt.NDArray[Any]:
        pointers = (c_void_p * plan.facts["tensor_count"])()
        kept = []  # what they point at
        for name, value in given.items():
            tensor = plan.tensors.get(name)
            if (value is None) != (tensor is None):
                raise InvalidArgument(f"{name} is {'given, and the layer has none' if tensor is None else 'missing'}", self.name)
            if tensor is not None:
                kept.append(tensor.in_memory(value, self.name))
                pointers[tensor.index] = kept[-1].ctypes.data
        result = plan.tensors["y"]
        y = result.empty() if out is None else as_array(out)
        memory = result.memory_of(y) if y.shape == result.shape else None
        if memory is None or y.dtype != result.dtype or not memory.flags.c_contiguous or not memory.flags.writeable:
            raise InvalidArgument(f"out is {y.dtype}{list(y.shape)}{'' if y.flags.writeable else ', read-only'}: it must be "
                                  f"{DTYPES[result.type]}{list(result.shape)}, dense in the layer's layout", self.name)
        workspace = _aligned(plan.facts["workspace_bytes"])
        pointers[result.index] = memory.ctypes.data
        arguments = _native.RunArguments(pointers, packed.ctypes.data, workspace.ctypes.data, workspace.nbytes)
        with self._library._turn:
            _native.call("kiln_python_run", plan.handle, byref(arguments), self._library._team, layer=self.name)
        return y


MANIFEST_FORMAT = 1


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A library's manifest. Raises Unsupported where a newer Kiln wrote it in a way that this one does not know."""
    manifest: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    if manifest.get("format") != MANIFEST_FORMAT:
        raise Unsupported(f"format is {manifest.get('format')}: this Kiln reads manifests of format {MANIFEST_FORMAT}; Kiln "
                          f"{manifest.get('kiln', 'of another version')} wrote {path}")
    return manifest


class Library(Mapping[str, Layer]):
    """Compiled layers by name: `library["up"](x, w)`. `compile` makes it."""

    def __init__(self, folder: Path, name: str, spec: Any, shared: Path, threads: int) -> None:
        self.folder = folder  #: lib<name>.a, <name>.h and <name>.json, as the command makes them
        self.name = name
        self.threads = threads
        self.manifest = read_manifest(folder / f"{name}.json")
        self._spec = spec
        weakref.finalize(self, _native.bridge().kiln_python_free_spec, spec)
        self._loaded, self._table = _native.load(shared)
        compiled = {layer["name"] for layer in self.manifest["layers"]}
        facts = json.loads(_native.bridge().kiln_python_spec_text(spec))["layers"]
        self._layers = {layer["name"]: Layer(self, layer) for layer in facts if layer["name"] in compiled}
        self._team = None
        self._turn: AbstractContextManager[object] = nullcontext()
        if threads > 1:  # they do one call's work at a time
            self._team, self._turn = _native.made("kiln_python_make_team", threads), threading.Lock()
            weakref.finalize(self, _native.bridge().kiln_python_free_team, self._team)

    def __getitem__(self, name: str) -> Layer:
        if name not in self._layers:
            raise KeyError(f"there is no layer {name}: there are {', '.join(self._layers)}")
        return self._layers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._layers)

    def __len__(self) -> int:
        return len(self._layers)

    def __repr__(self) -> str:
        return f"<kiln.Library {self.name}: {', '.join(self._layers)}>"


def _refuse_other_machines(targets: Sequence[str]) -> None:
    """Raises Unsupported for targets whose kernels no process of this machine can call, whatever its processor has."""
    own = {"x86_64": "x86-64", "aarch64": "arm-64"}.get(platform.machine(), platform.machine())
    known = {row.name: row.halide for row in _reports.targets()}
    for target in targets:
        halide = known.get(target, own)
        if "-cuda" in halide or "-opencl" in halide:
            raise Unsupported(f"target is {target}: a Library's layers run on the processor; kiln compile makes libraries for GPUs")
        if not halide.startswith(own):
            raise Unsupported(f"target is {target}: a Library's layers run on this machine, {own}; kiln compile makes libraries for "
                              f"others")


def _link(folder: Path, name: str, cxx: str | None) -> Path:
    """Makes a shared library of lib<name>.a. The runtime that it needs is in this package's own."""
    compiler = shlex.split(cxx or os.environ.get("CXX") or "c++")
    if shutil.which(compiler[0]) is None:
        raise Failed(f"there is no C++ compiler {compiler[0]}: install g++, or name one in CXX")
    source, shared = folder / f"{name}_python.cpp", folder / f"lib{name}_python.so"
    source.write_text(f'#include "{name}.h"\nextern "C" const kiln_library *kiln_python_library() {{ return {name}_library(); }}\n')
    runtime = _command.SHARE / "runtime" / "include"
    library = _native.FILE.resolve().parent
    done = subprocess.run([*compiler, "-shared", "-fPIC", f"-I{folder}", f"-I{runtime}", source, folder / f"lib{name}.a",
                           f"-L{library}", f"-Wl,-rpath,{library}", "-lkiln_python", "-o", shared],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{compiler[0]} made no shared library of {name}:\n{done.stderr.strip()}")
    return shared


def compile(layers: Layers, target: str | Sequence[str] | None = None, *, name: str | None = None,
            output: str | os.PathLike[str] | None = None, only: Sequence[str] = (),
            decisions: str | os.PathLike[str] | None = None, shapes: Mapping[str, Sequence[int | None]] | None = None,
            skip_unsupported: bool = False, threads: int = 1, cxx: str | None = None,
            optimize: Literal["speed", "size"] | None = None) -> Library:
    """Compiles layers and loads them.

    Args:
        layers: a layers file, an ONNX model, or a list of layers: dicts with the keys of a layers file's [[layer]] tables,
            such as {"name": "up", "operator": "ConvTranspose", "x": [1, 64, 28, 28], "w": [64, 32, 2, 2],
            "strides": [2, 2]}, with None for sizes that calls decide.
        target: one or several of this machine's, as `kiln targets` lists them; what fits this machine best unless said.
        name: of the library, a C identifier; the file's, else "layers".
        output: the folder for the static library, header and manifest; one that vanishes with the result unless said.
        only: names of layers; all if empty.
        decisions: algorithms and schedules, a file that `kiln tune` wrote.
        shapes: sizes of a model's inputs that the model leaves open; None for a size that calls decide.
        skip_unsupported: leave out what Kiln cannot take, in place of raising.
        threads: that share each call's work.
        cxx: the C++ compiler; $CXX, else c++, unless said.
        optimize: what kernels are chosen for, of the layers that do not say: "speed", unless said, or "size", the fewest
            bytes of packed weights and code.

    Raises:
        Error: with the code, the layer and the attribute of what was wrong first.
    """
    if threads < 1:
        raise InvalidArgument(f"threads is {threads}: it must be at least 1")
    kept = tempfile.TemporaryDirectory(prefix="kiln-") if output is None else None
    try:
        library = _made(layers, [target] if isinstance(target, str) else target or [], name,
                        Path(kept.name if kept else output).resolve(),  # type: ignore[arg-type]
                        only, decisions, shapes, skip_unsupported, threads, cxx, optimize)
    except BaseException:
        if kept is not None:
            kept.cleanup()
        raise
    if kept is not None:
        weakref.finalize(library, kept.cleanup)
    return library


def _made(layers: Layers, targets: Sequence[str], name: str | None, folder: Path, only: Sequence[str],
          decisions: str | os.PathLike[str] | None, shapes: Mapping[str, Sequence[int | None]] | None,
          skip_unsupported: bool, threads: int, cxx: str | None, optimize: str | None) -> Library:
    if targets:
        _refuse_other_machines(targets)
    (folder / "weights").mkdir(parents=True, exist_ok=True)
    if not isinstance(layers, (str, os.PathLike)):
        text, layers = layers_file(layers), folder / "layers.toml"
        layers.write_text(text, encoding="utf-8")
    with SpecFile(layers, shapes) as spec:
        read = _read(spec, folder / "weights")
        name = name or str(json.loads(_native.bridge().kiln_python_spec_text(read))["name"])
        _compile(spec, folder, name, targets, only, decisions, skip_unsupported, optimize)
    return Library(folder, name, read, _link(folder, name, cxx), threads)


def _read(spec: SpecFile, weights: Path) -> Any:
    os.environ.setdefault("KILN_PYTHON", sys.executable)  # what reads models
    return _native.made("kiln_python_read", os.fsencode(spec.path.resolve()), os.fsencode(_command.SHARE),
                        "\n".join(spec.shapes).encode(), os.fsencode(weights))


def _compile(spec: SpecFile, folder: Path, name: str, targets: Sequence[str], only: Sequence[str],
             decisions: str | os.PathLike[str] | None, skip_unsupported: bool, optimize: str | None) -> None:
    arguments = ["compile", os.fspath(spec.path), "-o", os.fspath(folder), "--name", name, *spec.options]
    for option, values in (("--target", targets), ("--layer", only)):
        for value in values:
            arguments += [option, value]
    arguments += [] if decisions is None else ["--decisions", os.fspath(decisions)]
    arguments += [] if optimize is None else ["--optimize", optimize]
    arguments += ["--skip-unsupported"] if skip_unsupported else []
    done = _command.run(arguments)
    if done.returncode:
        _command.raise_first(done.stderr)
    if not (folder / f"{name}.json").exists():
        raise InvalidArgument("the targets are of several architectures: a Library has those of this machine's alone")
