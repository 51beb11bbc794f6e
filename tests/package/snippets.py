"""Does what a document says, in a new folder, and fails where that fails.

    CMAKE=... NINJA=... snippets.py DOCUMENT BUILD

A fenced block counts where a comment stands before it:

    <!-- file: NAME -->   the block is written to the file NAME
    <!-- run -->          the lines of the block that start with "$ " are run. The others are what they print: each must be
                          among the lines printed, where "..." stands for any text

The folder holds links to what is in the checkout. Kiln is installed, and in PATH; `./dev` is one that uses the build tree
BUILD as it is.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^<!-- (?:file: (?P<file>\S+)|(?P<run>run)) -->\n+```\w*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)

DEV = """#!/bin/sh
# The checkout's own ./dev, after its set-up.
command=$1
shift
case $command in
    build) exec cmake --build "$BUILD" ;;
    test) exec ctest --test-dir "$BUILD" --output-on-failure "$@" ;;
    kiln) exec "$BUILD/bin/kiln" "$@" ;;
    *) echo "dev: $command is not for snippets" >&2; exit 2 ;;
esac
"""


def blocks(text):
    """The blocks that count, in order: ("file", name, text) or ("run", line of the document, text)."""
    for match in BLOCK.finditer(text):
        if match["file"]:
            yield "file", match["file"], match["text"]
        else:
            yield "run", text.count("\n", 0, match.start()) + 1, match["text"]


def run_all(command, **options):
    """Runs a command; returns whether it ended well, and all it printed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    return done.returncode == 0, done.stdout


def missing_lines(shown, printed):
    """The lines of `shown` that no printed line is like."""
    printed = [line.rstrip() for line in printed.splitlines()]
    for line in shown:
        pattern = re.compile(".*".join(re.escape(part) for part in line.rstrip().split("...")))
        if not any(pattern.fullmatch(candidate) for candidate in printed):
            yield line


def check(text, folder, environment):
    """Returns what is wrong with a block to run, or ""."""
    lines = text.splitlines()
    script = "\n".join(line[2:] for line in lines if line.startswith("$ "))
    if not script:
        return "no line starts with '$ '"
    good, printed = run_all(["bash", "-euo", "pipefail", "-c", script], cwd=folder, env=environment)
    print(script, printed, sep="\n", flush=True)
    if not good:
        return "it fails"
    missing = list(missing_lines([line for line in lines if not line.startswith("$ ")], printed))
    return "".join(f"\n  it does not print: {line}" for line in missing)


def prepare(folder, checkout, build):
    """Fills a folder with what the snippets may use; returns the environment to run them in."""
    prefix = folder / "installed"
    good, printed = run_all([os.environ["CMAKE"], "--install", str(build), "--prefix", str(prefix)])
    if not good:
        sys.exit(printed)
    work = folder / "checkout"
    work.mkdir()
    for entry in checkout.iterdir():
        if entry.name not in ("dev", "build", ".git", ".venv"):
            (work / entry.name).symlink_to(entry)
    (work / "dev").write_text(DEV)
    (work / "dev").chmod(0o755)
    # Python is that which runs this: it has NumPy.
    tools = [str(prefix / "bin"), os.path.dirname(sys.executable), os.path.dirname(os.environ["CMAKE"]), os.path.dirname(os.environ["NINJA"])]
    return work, {
        **os.environ,
        "PATH": os.pathsep.join([*tools, os.environ["PATH"]]),
        "BUILD": str(build),
        "CMAKE_PREFIX_PATH": str(prefix),
        "PYTHONPATH": str(build / "python"),
        "CMAKE_GENERATOR": "Ninja",
    }


def write_new(folder, name, text):
    """Writes a file that is not there yet; never through a link, into the real checkout."""
    path = folder / name
    if folder not in path.parent.resolve().parents and path.parent.resolve() != folder:
        sys.exit(f"{name} would be written into the checkout")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x") as file:
        file.write(text)


def main(document, build):
    document, build = pathlib.Path(document), pathlib.Path(build)
    found = list(blocks(document.read_text()))
    if not any(kind == "run" for kind, _, _ in found):
        sys.exit(f"{document}: no block is marked <!-- run -->")
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        work, environment = prepare(pathlib.Path(folder).resolve(), document.parent, build)
        for kind, where, text in found:
            if kind == "file":
                write_new(work, where, text)
            elif wrong := check(text, work, environment):
                print(f"{document}:{where}: {wrong}")
                failures += 1
    sys.exit(1 if failures else 0)


main(*sys.argv[1:])
