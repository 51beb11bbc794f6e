"""Layers as Python has them, as a file that the command reads."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Union

from ._errors import InvalidArgument

#: A layers file, an ONNX model, or layers with the keys of a layers file's [[layer]] tables.
Layers = Union[str, "os.PathLike[str]", Iterable[Mapping[str, Any]]]


def _toml(value: object) -> str:
    """A value of a layer's table; None in a shape is a size that is left open."""
    if value is None:
        return '"?"'
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(str(key))} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return _toml(value.tolist())
    if isinstance(value, Iterable):
        return "[" + ", ".join(map(_toml, value)) + "]"
    raise InvalidArgument(f"{value!r} is of type {type(value).__name__}: a layer's values are numbers, texts, lists and dicts")


def layers_file(layers: Iterable[Mapping[str, Any]]) -> str:
    text = ""
    for layer in layers:
        if not isinstance(layer, Mapping):
            raise InvalidArgument(f"{layer!r} is no layer: it must be a dict with the keys of a layers file")
        text += "[[layer]]\n" + "".join(f"{json.dumps(str(key))} = {_toml(value)}\n" for key, value in layer.items())
    return text


class SpecFile:
    """A path to layers, which are written to a file of their own if need be; that lasts as long as the `with`."""

    def __init__(self, layers: Layers, shapes: Mapping[str, Sequence[int | None]] | None = None) -> None:
        self.shapes = [f"{name}={'x'.join('?' if size is None else str(size) for size in sizes)}"
                       for name, sizes in (shapes or {}).items()]
        self.options = [word for shape in self.shapes for word in ("--shape", shape)]
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if isinstance(layers, (str, os.PathLike)):
            self.path = Path(layers)
            return
        text = layers_file(layers)
        self._folder = tempfile.TemporaryDirectory(prefix="kiln-")
        self.path = Path(self._folder.name) / "layers.toml"
        self.path.write_text(text, encoding="utf-8")

    def __enter__(self) -> SpecFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._folder:
            self._folder.cleanup()
