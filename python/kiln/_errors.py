"""Kiln's errors as exceptions."""

from __future__ import annotations

import re


class Error(Exception):
    """What Kiln refused or failed at. str() of it is the message, which names what was wrong and its value."""

    #: "invalid_argument", "unsupported" or "failed", as the command and the C functions have them
    code: str = "failed"
    #: the attribute, tensor or key that the message is about, such as "strides"; None where it is about none
    attribute: str | None
    #: the layer it is about; None where it is about none
    layer: str | None

    def __init__(self, message: str, layer: str | None = None) -> None:
        super().__init__(message)
        self.layer = layer
        self.attribute = attribute_in(message, layer)


class InvalidArgument(Error):
    """What was asked for is wrong: an attribute, a shape, a type, a file."""

    code = "invalid_argument"


class Unsupported(Error):
    """It is right, but Kiln, this library or this processor cannot do it."""

    code = "unsupported"


class Failed(Error):
    """Something broke on the way: a compiler, a program that was started."""

    code = "failed"


CODES: dict[str, type[Error]] = {kind.code: kind for kind in (InvalidArgument, Unsupported, Failed)}


def attribute_in(message: str, layer: str | None) -> str | None:
    """Messages about an attribute begin with it: "strides[0] is -1: ...", behind the layer's name or file and line."""
    words = message.removeprefix(f"{layer}: ") if layer else message
    words = re.sub(r"^(?:layer \w+: |\S+\.(?:toml|onnx)(?::\d+)?: )+", "", words)
    words = words.removeprefix(f"{layer}: ") if layer else words
    found = re.match(r"(?:unknown key )?([A-Za-z_]\w*)(?:\[\d+\])*(?: (?:is|are|has|have|must|of)\b|: )", words)
    return found[1] if found else None


def error(code: str, message: str, layer: str | None = None) -> Error:
    return CODES.get(code, Failed)(message, layer)
