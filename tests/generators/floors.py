"""The floors of generators/ and tools/: no file includes one from a floor above it, and no folder is a drawer.

Run by itself it checks the checkout; floors_test.py also has it find what is wrong.
"""

import pathlib
import re
import sys

# The folders directly in each part, the lowest floor first; "" is what drives all of them.
FLOORS = {
    "generators": (("targets", "lowering", "expressions"), ("moves", "axes"), ("algorithms",), ("operators",), ("",)),
    # The harness and the other programs are shipped as sources, without the rest of tools/.
    "tools": (("harness",), ("network_program", "calibration_program"), ("system",), ("layers",), ("explain",), ("library",), ("programs",),
              ("network", "tune"), ("calibrate",), ("commands",), ("",), ("demo",)),
}  # fmt: skip
SUFFIXES = (".h", ".cpp", ".py")
MOST_UNITS = 12  # of a folder: a unit is a header, a source or both


def floor_of(path, floors):
    """The number of the floor that a part's file is on; None where its folder is on none."""
    folder = path.split("/")[0] if "/" in path else ""
    return next((number for number, folders in enumerate(floors) if folder in folders), None)


def check_file(path, text, known, floors):
    """What is wrong with one file's includes, a line each."""
    if floor_of(path, floors) is None:
        return [f"{path}: its folder is on no floor: name it in {pathlib.Path(__file__).name}"]
    problems = []
    for number, line in enumerate(text.splitlines(), start=1):
        include = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if include and include[1] in known and (floor_of(include[1], floors) or 0) > floor_of(path, floors):
            problems.append(f"{path}:{number}: includes {include[1]}, which is on a floor above")
    return problems


def sources(part, suffixes=SUFFIXES):
    """The sources in a folder, but for those in hidden ones: they were installed there."""

    def is_hidden(file):
        return any(name.startswith(".") for name in file.relative_to(part).parts)

    return sorted(file for file in part.rglob("*") if file.suffix in suffixes and not is_hidden(file))


def check(part, floors):
    """What is wrong with the sources in a folder, a line each."""
    texts = {file.relative_to(part).as_posix(): file.read_text() for file in sources(part)}
    problems = [
        problem
        for path, text in texts.items()
        if not path.endswith(".py")  # they are programs, or packages of their own
        for problem in check_file(path, text, texts, floors)
    ]
    units = {}
    for path in texts:
        units.setdefault(path.rpartition("/")[0], set()).add(path.rpartition(".")[0])
    for folder, names in sorted(units.items()):
        if len(names) > MOST_UNITS:
            problems.append(f"{folder or '.'}: {len(names)} units, which is more than {MOST_UNITS}: divide the folder")
    return problems


if __name__ == "__main__":
    root = pathlib.Path(__file__).resolve().parents[2]
    found = [f"{part}/{problem}" for part, floors in FLOORS.items() for problem in check(root / part, floors)]
    print("\n".join(found) or "each file includes only its own floor and those below it")
    sys.exit(1 if found else 0)
