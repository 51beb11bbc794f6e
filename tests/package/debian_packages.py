"""The Debian packages that ./dev installs are all that the build and the tests need: another machine has no more.

    NINJA=... debian_packages.py BUILD

What is linked and included is read from the build tree; what is loaded, and which commands are started, from the sources.
Whatever belongs to a Debian package must be of ./dev's list, of what these depend on, or of a minimal system with Python.
Recommended packages count as missing, as ./dev does not install them.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else ROOT / "build"

# What a machine has before ./dev is run, besides the packages that Debian calls essential or required.
BASE = ["apt", "ca-certificates", "git", "python3", "python3-venv"]

# Libraries that no package of Debian's brings. Tests expect the message that tells so.
FROM_ELSEWHERE = {"libcuda.so.1"}

# Listed packages that neither a library nor a command leads to, and what they are for.
NEEDED_OTHERWISE = {
    "pocl-opencl-icd": "what libOpenCL.so.1 finds OpenCL's devices by",
    "libclang-rt-dev": "what clang links sanitizers from",
}

# Commands that docs/TUNING.md types where a Kubernetes cluster is at hand; no test starts them.
ON_OTHER_MACHINES = {"kubectl"}

# Commands that are looked for with a version first.
VERSIONED = {"llvm-mca": "llvm-mca-19"}

SYSTEM_FOLDERS = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
SOURCES = ["tests", "tools", "runtime", "generators", "bench", "examples", "cmake"]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "docs/LAYERS.md", "docs/TUNING.md"]


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def listed_packages():
    """The list `packages` of ./dev."""
    body = re.search(r"^packages=\((.*?)\)$", (ROOT / "dev").read_text(), re.MULTILINE | re.DOTALL)[1]
    return re.sub(r"#.*", "", body).split()


def sources(*endings):
    """The sources with these endings. What a user built or installed among them is none."""
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            parts = path.relative_to(ROOT).parts
            if path.name.endswith(endings) and path.is_file() and not {"build", ".venv"} & set(parts):
                yield path


class Packages:
    """The packages installed on this machine."""

    def __init__(self):
        fields = ["Package", "Status", "Essential", "Priority", "Provides", "Pre-Depends", "Depends"]
        text = output_of("dpkg-query", "-W", "-f", "\\t".join(f"${{{field}}}" for field in fields) + "\\n")
        rows = [dict(zip(fields, line.split("\t"))) for line in text.splitlines()]
        self.rows = {row["Package"]: row for row in rows if row["Status"].endswith(" installed")}
        self.providers = {}
        for name, row in self.rows.items():
            for provided in self.names(row["Provides"], ","):
                self.providers.setdefault(provided, []).append(name)

    @staticmethod
    def names(text, separator):
        """Names of a dependency field, without versions and architectures."""
        return [re.split(r"[ :(]", part.strip())[0] for part in text.split(separator) if part.strip()]

    def minimal(self):
        rows = self.rows.items()
        return [*BASE, *(name for name, row in rows if row["Essential"] == "yes" or row["Priority"] == "required")]

    def needed_by(self, name):
        """Where there are alternatives, the first is what a machine that has none of them gets."""
        row = self.rows[name]
        for part in f"{row['Pre-Depends']},{row['Depends']}".split(","):
            choices = [choice for choice in self.names(part, "|") if choice in self.rows or choice in self.providers]
            if choices:
                yield from [choices[0]] if choices[0] in self.rows else self.providers[choices[0]][:1]

    def closure(self, names):
        """These packages and all that they depend on."""
        found, left = set(), list(names)
        while left:
            name = left.pop()
            if name in self.rows and name not in found:
                found.add(name)
                left += self.needed_by(name)
        return found

    def owners(self, paths):
        """The package that each of these files belongs to, or what it links to; those that belong to none are left out."""
        names = {}
        for path in map(str, paths):
            real = os.path.realpath(path)
            # A system whose /bin is /usr/bin knows a file by either name.
            names[path] = [
                form for name in (path, real) for form in (name, f"/usr{name}", name.removeprefix("/usr"))
            ]
        found = {}
        for line in output_of("dpkg-query", "-S", *{name for choices in names.values() for name in choices}).splitlines():
            owner, _, name = line.rpartition(": ")
            if not owner.startswith("diversion by"):
                found[name] = owner.split(",")[0].split(":")[0]
        owners = {path: [found[name] for name in choices if name in found] for path, choices in names.items()}
        return {path: choices[0] for path, choices in owners.items() if choices}


def included_files():
    """Headers of the system that the build tree's objects are made of."""
    deps = output_of(os.environ.get("NINJA") or "ninja", "-C", BUILD, "-t", "deps")
    return set(re.findall(r"^ +(/usr/include/\S+)$", deps, re.MULTILINE))


def linked_files():
    """Shared libraries of the system that the build tree's programs are linked with."""
    programs = [path for path in (BUILD / "bin").iterdir() if path.is_file() and os.access(path, os.X_OK)]
    return {path for program in programs for path in re.findall(r"=> (/(?:usr/)?lib\S+)", output_of("ldd", program))}


def loaded_names():
    """Names of shared libraries that the sources load when they run: with a version, as those of no build are."""
    names = set()
    for path in sources(".cpp", ".h", ".c", ".py"):
        if path != Path(__file__):
            names |= set(re.findall(r'"(lib[\w+-]+\.so(?:\.\d+)+)"', path.read_text()))
    return names


def loaded_files():
    """Where the loader finds each of those, or None."""
    cache = dict(re.findall(r"^\s*(\S+) \(.*x86-64.*\) => (\S+)$", output_of("/sbin/ldconfig", "-p"), re.MULTILINE))
    return {name: cache.get(name) for name in loaded_names()}


def strings_in(node):
    """The strings that an expression's value may be: one, or the choices of an `or`, of `if` and `else`, or a default."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from strings_in(value)
    elif isinstance(node, ast.IfExp):
        yield from [*strings_in(node.body), *strings_in(node.orelse)]
    elif isinstance(node, ast.Call):
        for argument in node.args[1:]:
            yield from strings_in(argument)


def words_of_python(path):
    """What subprocess starts: lists given to it or to a function like it, and lists named as it names them."""
    tree = ast.parse(path.read_text())
    lists = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            name = ast.unparse(node.func)
            if name == "shutil.which":
                yield from strings_in(node.args[0])
            elif re.search(r"(^|\.)(run|run_all|Popen|check_output|check_call|call)$", name):
                lists.append(node.args[0])
        elif isinstance(node, ast.Assign) and re.search("command|linker|compiler", ast.unparse(node.targets[0])):
            lists.append(node.value)
    for node in lists:
        if isinstance(node, (ast.List, ast.Tuple)) and node.elts:
            yield from strings_in(node.elts[0])
    # Wherever they stand: compilers and emulators for other processors.
    yield from re.findall(r'"((?:qemu-|aarch64-|arm-|riscv64-)[\w.+-]+)[ "]', path.read_text())


def words_of_shell(text):
    yield from re.findall(r"(?:^|[|;&(!]|\b(?:if|then|do|else|while|exec|command -v))[ \t]*([\w.+-]+)(?=\s|[;|)]|$)", text,
                          re.MULTILINE)  # fmt: skip
    yield from re.findall(r"\b(?:qemu-|aarch64-|arm-|riscv64-)[\w.+-]+", text)


def words_of_cmake(text):
    yield from re.findall(r"(?:COMMAND|find_program\(\w+(?: NAMES)?|KILN_CXX=|KILN_RUNNER=|_COMPILER) *([\w.+-]+)", text)


def words_of_cpp(text):
    """Names with a hyphen or a plus, as those of compilers and emulators; of the others no list of words is free."""
    yield from re.findall(r'"([a-z][\w.]*[+-][\w.+-]*)[ "]', text)


def started_commands():
    """Commands of this system that the build, the tests and the documents' lines start, with where one of them is named."""
    words = {}
    for path in [*sources(".py", ".sh", ".cmake", "CMakeLists.txt", ".cpp", ".h"), ROOT / "dev"]:
        text = path.read_text()
        if path.suffix == ".py":
            found = words_of_python(path)
        elif path.suffix in (".cpp", ".h"):
            found = words_of_cpp(text)
        elif path.suffix in (".cmake", ".txt"):
            found = words_of_cmake(text)
        else:
            found = words_of_shell(text)
        words |= {word: path for word in found}
    for name in DOCUMENTS:
        words |= {word: name for word in re.findall(r"^\$ (?:\w+=\S+ )*([\w.+-]+)", (ROOT / name).read_text(), re.MULTILINE)}
    # .venv's own come first.
    own = {word for word in words if (ROOT / ".venv/bin" / word).exists()}
    words = {VERSIONED.get(word, word): where for word, where in words.items() if word not in own | ON_OTHER_MACHINES}
    found = {word: shutil.which(word, path=os.pathsep.join(SYSTEM_FOLDERS)) for word in words}
    return {found[word]: (word, where) for word, where in words.items() if found[word]}


@unittest.skipUnless(shutil.which("dpkg-query"), "this is no Debian: which package brings what cannot be told here")
class DebianPackages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.packages = Packages()
        cls.files = {path: f"included: {path}" for path in included_files()}
        cls.files |= {path: f"linked: {path}" for path in linked_files()}
        cls.loaded = loaded_files()
        cls.files |= {path: f"loaded: {name}" for name, path in cls.loaded.items() if path}
        cls.commands = started_commands()
        cls.files |= {path: f"started: {word}, in {where}" for path, (word, where) in cls.commands.items()}
        cls.owners = cls.packages.owners(cls.files)

    def missing(self, listed):
        """What a machine with these packages alone would lack: packages, each with one thing that needs it."""
        there = self.packages.closure([*self.packages.minimal(), *listed])
        return {owner: self.files[path] for path, owner in self.owners.items() if owner not in there}

    def test_every_package_is_listed(self):
        self.assertEqual(self.missing(listed_packages()), {}, "packages that ./dev's list lacks, and what needs each")

    def test_listed_packages_are_installed(self):
        self.assertEqual([name for name in listed_packages() if name not in self.packages.rows], [])

    def test_every_library_loaded_is_found(self):
        lost = {name for name, path in self.loaded.items() if not path}
        self.assertEqual(lost - FROM_ELSEWHERE, set(), "no package on ./dev's list brings these")

    def test_every_listed_package_is_needed(self):
        """So it is seen, too, that the sources are read well enough to miss a package that is taken from the list."""
        listed = listed_packages()
        for package in listed:
            others = [name for name in listed if name != package]
            if package not in NEEDED_OTHERWISE and package not in self.packages.closure(others):
                with self.subTest(package):
                    self.assertIn(package, self.missing(others), "nothing that is linked, loaded or started needs it")
        self.assertLessEqual(set(NEEDED_OTHERWISE), set(listed))
        self.assertIn("libOpenCL.so.1", self.loaded)


if __name__ == "__main__":
    unittest.main(verbosity=2)
