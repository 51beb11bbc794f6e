"""Makes the documentation site of README.md, CONTRIBUTING.md, CHANGELOG.md and docs/, and references of the command and of the
C, C++ and Python interfaces from their own sources: site.py CHECKOUT [serve]

The pages go to build/site/, which opens from a file. A link that leads nowhere, to a page or to a heading, is an error,
and so is what a page would load from elsewhere.
"""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(sys.argv[1]).resolve()
PAGES = ROOT / "build/site-pages"
HERE = ROOT / "docs/site"
VENV = HERE / ".venv"
LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")
SHOWN = {".cpp", ".h", ".c", ".cmake", ".txt", ".toml", ".py"}


def make_venv():
    stamp, wanted = VENV / ".ready", (HERE / "requirements.txt").read_text()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("site: installing docs/site/requirements.txt into docs/site/.venv", file=sys.stderr)
    shutil.rmtree(VENV, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    subprocess.run([VENV / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r",
                    HERE / "requirements.txt"], check=True)
    stamp.write_text(wanted)


# ---- Documents ----------------------------------------------------------------------------------------------------


def page_of(path):
    """Where a document of the checkout stands in the site; None for a file that is no page."""
    if path == ROOT / "README.md":
        return "index.md"
    if path.suffix == ".md" and path.parent == ROOT / "docs/speed":
        return f"speed/{path.name}"
    return path.name if path.suffix == ".md" and path.parent in (ROOT, ROOT / "docs") else None


def source_page(path):
    """A page that shows a source file, or a folder's; returns its name."""
    name = "source/" + str(path.relative_to(ROOT)).replace("/", "-") + ".md"
    place = PAGES / name
    if place.exists():
        return name
    place.parent.mkdir(exist_ok=True)
    title = f"---\nsearch: {{exclude: true}}\n---\n\n# {path.relative_to(ROOT)}\n\n"
    if path.is_dir():
        files = subprocess.run(["git", "-C", ROOT, "ls-files", path], capture_output=True, text=True, check=True).stdout.split()
        files = [ROOT / file for file in files if Path(file).suffix in SHOWN]
        place.write_text(title)  # so that no file's page comes back to it
        rows = [f"- [{file.relative_to(ROOT)}]({source_page(file).removeprefix('source/')})" for file in files]
        place.write_text(title + "\n".join(rows) + "\n")
    else:
        kind = {".cpp": "cpp", ".h": "cpp", ".c": "c", ".cmake": "cmake", ".txt": "cmake", ".toml": "toml", ".py": "python"}
        place.write_text(f"{title}````{kind.get(path.suffix, 'text')}\n{path.read_text()}\n````\n")
    return name


def with_links(text, document):
    """A document's links as the site's: to pages, to pages of source files, to pictures that are copied."""
    folder = document.parent
    page_folder = os.path.dirname(page_of(document)) or "."

    def replaced(match):
        target = match[2]
        if re.match(r"\w+:", target):
            return match[0]
        path = (folder / target).resolve()
        if not path.exists():
            return match[0]  # MkDocs tells
        if path.suffix in (".png", ".svg"):
            shutil.copy(path, PAGES / path.name)
            name = path.name
        else:
            name = page_of(path) or source_page(path)
        return f"{match[1]}{os.path.relpath(name, page_folder)}{match[3] or ''}{match[4]}"

    # Code is left alone.
    parts = re.split(r"(^```.*?^```$|`[^`\n]+`)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if i % 2 else LINK.sub(replaced, part) for i, part in enumerate(parts))


def write_documents():
    documents = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "THIRD_PARTY_NOTICES.md")]
    (PAGES / "speed").mkdir()
    for path in [*documents, *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/speed").glob("*.md"))]:
        (PAGES / page_of(path)).write_text(with_links(path.read_text(), path))
    for name in ("kiln.css", "worker.js"):
        shutil.copy(HERE / name, PAGES)


# ---- References ---------------------------------------------------------------------------------------------------


def comment_text(comment):
    """A comment's words, without its signs."""
    lines = [re.sub(r"^\s*(?:///?|/?\*+/?)\s?", "", line).rstrip() for line in comment.strip().removesuffix("*/").splitlines()]
    return textwrap.dedent("\n".join(lines)).strip()


def as_markdown(words):
    """Prose stays prose; indented lines, which are formulas and examples, become code."""
    out, code = [], []
    for line in [*words.splitlines(), ""]:
        if line.startswith("  ") and line.strip():
            code.append(line)
            continue
        if code:
            out += ["", "```text", *textwrap.dedent("\n".join(code)).splitlines(), "```", ""]
            code = []
        out.append(line.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_") if "`" not in line else line)
    return "\n".join(out).strip()


def declarations(text):
    """(comment, declaration) of what a header declares, in order. Blocks are set apart by blank lines; braces keep a block
    together."""
    blocks, block, depth = [], [], 0
    for line in text.splitlines():
        if not line.strip() and depth <= 0:
            blocks.append("\n".join(block))
            block = []
            continue
        block.append(line)
        if not re.match(r"\s*(//|/?\*|namespace|extern \"C\"|}  // namespace)", line):
            depth += line.count("{") - line.count("}")
    for one in [*blocks, "\n".join(block)]:
        match = re.match(r"((?:\s*//[^\n]*\n|\s*/\*.*?\*/\s*\n)*)(.*)", one + "\n", re.DOTALL)
        comment, code = match[1], match[2].strip("\n")
        lines = [line for line in code.splitlines()
                 if not re.match(r"\s*(#(ifndef KILN_\w+_H|define KILN_\w+_H|endif|ifdef __cplusplus|pragma|include)|extern \"C\" {$|"
                                 r"}$|namespace|/\* NOLINT|}  // namespace|#if)", line) or depth_of(code, line)]
        comment = re.sub(r"/\* NOLINT\w+\(.*?\) \*/", "", comment)
        yield comment_text(comment), "\n".join(lines).strip()


def depth_of(code, line):
    """Whether a closing brace belongs to a declaration of this block."""
    return line.startswith("}") and code.count("{") > 0 and "extern" not in code.split("{")[0] and "namespace" not in code


def name_of(code):
    """What a declaration declares, for its heading."""
    named = re.search(r"^typedef struct (\w+)|^(?:class|struct|enum class|enum)(?: \[\[\w+\]\])? (\w+)|^#define (\w+)|"
                      r"^(?:using) (\w+)", code, re.MULTILINE)
    if named:
        return next(group for group in named.groups() if group)
    function = re.search(r"\b(operator==|\w+)\(", re.sub(r"\(\*(\w+)\)", r"\1", code))
    constant = re.search(r"constexpr [\w:<> ]+? (\w+)(?:\[\w*\])? =", code)
    found = constant or function
    return found[1] if found else ""


def header_page(title, introduction, headers, language):
    text = f"# {title}\n\n{introduction}\n"
    for header in headers:
        source = (ROOT / "runtime/include" / header).read_text()
        text += f"\n## {header}\n\n"
        first = True
        for comment, code in declarations(source):
            name = name_of(code) if code else ""
            if code and name and not first:
                text += f"\n### `{name}`\n\n"
            if comment:
                text += as_markdown(comment) + "\n\n"
            if code:
                text += f"```{language}\n{code}\n```\n\n"
            first = False
    return text


def command_page():
    kiln = ROOT / "build/bin/kiln"
    helped = {"": subprocess.run([kiln, "--help"], capture_output=True, text=True, check=True).stdout}
    for name in re.findall(r"^  ([a-z]+) ", helped[""][helped[""].index("Subcommands:"):], re.MULTILINE):
        helped[name] = subprocess.run([kiln, name, "--help"], capture_output=True, text=True, check=True).stdout
    # What depends on this machine: how many processors it has.
    text = "# The command\n\nWhat `kiln --help` and `kiln COMMAND --help` print.\n"
    for name, words in helped.items():
        words = re.sub(r"J=\d+", "J", words)
        text += f"\n## kiln {name}".rstrip() + f"\n\n```text\n{words.strip()}\n```\n"
    return text


def cmake_page():
    comment = re.match(r"((?:#.*\n)+)", (ROOT / "cmake/KilnAddLibrary.cmake").read_text())[1]
    config = re.match(r"((?:#.*\n)+)", (ROOT / "cmake/KilnConfig.cmake.in").read_text())[1]
    words = "\n".join(line.removeprefix("# ").removeprefix("#") for line in comment.splitlines())
    found = "\n".join(line.removeprefix("# ").removeprefix("#") for line in config.splitlines())
    return f"# CMake\n\n## find_package(Kiln)\n\n```text\n{found}\n```\n\n## kiln_add_library\n\n```text\n{words}\n```\n"


def write_references():
    (PAGES / "command.md").write_text(command_page())
    (PAGES / "cmake.md").write_text(cmake_page())
    (PAGES / "api-c.md").write_text(header_page(
        "C", "What a program includes, besides its library's own header. Everything here is plain C.",
        ["kiln/kernel.h", "kiln/status_code.h", "kiln/cpu.h", "kiln/gpu.h"], "c"))
    (PAGES / "api-cpp.md").write_text(header_page(
        "C++", "C++17, without exceptions and without a heap. A program that calls layers by name needs none of it.",
        ["kiln/plan.h", "kiln/layer.h", "kiln/problem.h", "kiln/operator.h", "kiln/tensor.h",
         "kiln/activation.h", "kiln/status.h"], "cpp"))
    (PAGES / "api-python.md").write_text("# Python\n\nThe module `kiln`, which `pip install kiln-conv` brings.\n\n" + "".join(
        f"::: kiln.{module}\n    options: {{show_root_heading: false, show_root_toc_entry: false, "
        f"members: [{', '.join(members)}]}}\n\n"
        for module, members in (("_library", ["compile", "Library", "Layer", "PackedWeights"]),
                                ("_reports", ["explain", "verify", "targets", "Explanation", "Verification", "Target"]),
                                ("_errors", ["Error", "InvalidArgument", "Unsupported", "Failed"]))))


def fetching():
    """Pages that load something from another place than the site, which opens from a file and without a network."""
    loading = re.compile(r'<script[^>]*\bsrc="https?:|<img[^>]*\bsrc="https?:|<link[^>]*\brel="stylesheet"[^>]*\bhref="https?:')
    return [path for path in sorted((ROOT / "build/site").rglob("*.html")) if loading.search(path.read_text())]


def main():
    make_venv()
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    write_documents()
    write_references()
    action = ["serve"] if "serve" in sys.argv[2:] else ["build", "--clean", "--quiet"]
    done = subprocess.run([VENV / "bin/python", "-m", "mkdocs", *action, "-f", HERE / "mkdocs.yml"],
                          env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False)
    if done.returncode == 0:
        if pages := fetching():
            sys.exit(f"site: {pages[0]} and {len(pages) - 1} other pages load something from elsewhere")
        print(f"site: {ROOT / 'build/site/index.html'}: {sum(1 for _ in (ROOT / 'build/site').rglob('*.html'))} pages, links checked")
    sys.exit(done.returncode)


main()
