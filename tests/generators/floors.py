"""The floors of generators/: no file includes one from a floor above it, and no folder is a drawer.

Run by itself it checks the checkout; floors_test.py also has it find what is wrong.
"""

import pathlib
import re
import sys

# The folders directly in generators/, the lowest floor first; "" is what drives all of them.
FLOORS = (("targets", "lowering", "expressions"), ("moves", "axes"), ("algorithms",), ("operators",), ("",))
MOST_UNITS = 12  # of a folder: a unit is a header, a source or both


def floor_of(path):
    """The number of the floor that a file in generators/ is on; None where its folder is on none."""
    folder = path.split("/")[0] if "/" in path else ""
    return next((number for number, folders in enumerate(FLOORS) if folder in folders), None)


def check_file(path, text, known):
    """What is wrong with one file's includes, a line each."""
    if floor_of(path) is None:
        return [f"{path}: its folder is on no floor: name it in {pathlib.Path(__file__).name}"]
    problems = []
    for number, line in enumerate(text.splitlines(), start=1):
        include = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if include and include[1] in known and (floor_of(include[1]) or 0) > floor_of(path):
            problems.append(f"{path}:{number}: includes {include[1]}, which is on a floor above")
    return problems


def check(generators):
    """What is wrong with the sources in a folder, a line each."""
    texts = {
        file.relative_to(generators).as_posix(): file.read_text()
        for file in sorted(generators.rglob("*"))
        if file.suffix in (".h", ".cpp")
    }
    problems = [problem for path, text in texts.items() for problem in check_file(path, text, texts)]
    units = {}
    for path in texts:
        units.setdefault(path.rpartition("/")[0], set()).add(path.rpartition(".")[0])
    for folder, names in sorted(units.items()):
        if len(names) > MOST_UNITS:
            problems.append(f"{folder or '.'}: {len(names)} units, which is more than {MOST_UNITS}: divide the folder")
    return problems


if __name__ == "__main__":
    found = check(pathlib.Path(__file__).resolve().parents[2] / "generators")
    print("\n".join(found) or "each file includes only its own floor and those below it")
    sys.exit(1 if found else 0)
