"""Where the program bin/kiln is, what it needs, and how it is started."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from ._errors import Failed, error

ROOT = Path(__file__).parent  # not resolved: in a build tree this folder is made of links
PROGRAM = ROOT / "bin" / "kiln"
SHARE = ROOT / "share" / "kiln"
HALIDE = SHARE / "halide-version"  # in a wheel: of the Halide that the program was linked with, and wants to meet


def _version() -> str:
    try:
        return metadata.version("kiln-conv")
    except metadata.PackageNotFoundError:  # a build tree
        return subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]


def __getattr__(name: str) -> str:
    if name == "__version__":
        return _version()
    raise AttributeError(name)


def halide_library() -> Path | None:
    """The library that the program is started with, where that is not found by itself; None where it is.

    The program looks for Halide's wheel beside this package. Elsewhere (another folder of sys.path, or KILN_HALIDE) it has
    to be told. Raises Failed where there is none, or another version's.
    """
    if named := os.environ.get("KILN_HALIDE"):
        if not Path(named).is_file():
            raise Failed(f"KILN_HALIDE is {named}: there is no such file; it names a libHalide.so")
        return Path(named)
    if not HALIDE.exists():
        return None  # a build tree, whose program knows its own
    wanted = HALIDE.read_text().strip()
    try:
        version = metadata.version("halide")
    except metadata.PackageNotFoundError:
        if sys.version_info >= (3, 14):  # what Kiln takes of the wheel, its C++ library, is of no one Python
            raise Failed(f"Halide {wanted} has no wheel for Python {sys.version_info[0]}.{sys.version_info[1]}, and that of 3.13 "
                         f"does: pip install --no-deps --only-binary :all: --python-version 3.13 --target {ROOT.parent} "
                         f"halide=={wanted}") from None
        raise Failed(f"the package halide is missing: pip install halide=={wanted}") from None
    if version != wanted:
        raise Failed(f"halide {version} is installed, and this Kiln was built for {wanted}: pip install halide=={wanted}")
    if (ROOT.parent / "halide" / "lib64" / "libHalide.so").is_file():
        return None
    spec = importlib.util.find_spec("halide")
    library = Path(next(iter(spec.submodule_search_locations or []), "")) / "lib64" / "libHalide.so" if spec else None
    if library is None or not library.is_file():
        raise Failed(f"the package halide {version} has no lib64/libHalide.so: pip install --force-reinstall halide=={wanted}")
    return library


def environment() -> dict[str, str]:
    """What the program is started with: its Halide, and this Python for reading models."""
    result = dict(os.environ)
    result.setdefault("KILN_PYTHON", sys.executable)
    if library := halide_library():
        result["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(library.parent), os.environ.get("LD_LIBRARY_PATH")]))
    return result


def run(arguments: Sequence[str | os.PathLike[str]]) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end; what it says is kept."""
    return subprocess.run([PROGRAM, *(os.fspath(one) for one in arguments)], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, env=environment())


def raise_first(stderr: str) -> None:
    """Raises what the command said it failed at: "kiln: layer NAME: CODE: MESSAGE", or "kiln: MESSAGE"."""
    layer = re.search(r"^kiln: layer (\S+): (invalid_argument|unsupported|failed): (.*)$", stderr, re.MULTILINE)
    if layer:
        raise error(layer[2], layer[3], layer[1])
    lines = [line for line in stderr.splitlines() if line.startswith("kiln: ") and ": warning: " not in line]
    if lines:
        raise error("invalid_argument", lines[-1].removeprefix("kiln: "))
    raise Failed(stderr.strip() or "kiln failed, and did not say why")


def main() -> None:
    """Becomes the program, with the same arguments."""
    try:
        environ = environment()
    except Failed as failed:
        sys.exit(f"kiln: {failed}")
    sys.stdout.flush()
    os.execve(PROGRAM, ["kiln", *sys.argv[1:]], environ)
