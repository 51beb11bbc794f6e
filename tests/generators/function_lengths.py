"""Functions of generators/, runtime/ and tools/ fit a screen, or a comment above them says why they are longer.

Run by itself it checks the checkout, and lists the longest; floors_test.py has it find what is wrong.
"""

import pathlib
import re
import sys

import floors

PARTS = ("generators", "runtime", "tools", "python")
MOST_LINES = 60
REASON = re.compile(r"//[^\n]*\blong(er)?\b", re.IGNORECASE)  # "Longer than a screen, for it is a list"


def without_texts(source):
    """A source with its comments, literals and directives blank, lines kept."""

    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])

    source = re.sub(r'R"(\w*)\((?:.|\n)*?\)\1"', blank, source)
    source = re.sub(r"""//[^\n]*|/\*(?:.|\n)*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", blank, source)
    return re.sub(r"^[ \t]*#.*(?:\\\n.*)*$", blank, source, flags=re.MULTILINE)


def functions(source):
    """(first line, last line, head) of each function that is no part of another."""
    text = without_texts(source)
    found, scopes, head, parentheses = [], [], 0, 0
    for at, character in enumerate(text):
        if character in "()":
            parentheses += 1 if character == "(" else -1
        elif character == "{":
            before = text[head:at].strip()
            is_scope = re.search(r"\b(namespace|struct|class|union|enum|extern)\b[^()]*$", before)
            outermost = all(begin is None for begin, _ in scopes) and parentheses == 0
            is_function = outermost and not is_scope and "(" in before and not before.endswith("=")
            scopes.append((head + len(text[head:at]) - len(text[head:at].lstrip()) if is_function else
                           None if is_scope else -1, before))
        elif character == "}":
            begin, before = scopes.pop()
            if begin is not None and begin >= 0:
                found.append((text.count("\n", 0, begin) + 1, text.count("\n", 0, at) + 1, " ".join(before.split())))
        if character in "{};" and parentheses == 0:
            head = at + 1
    return found


def check_source(path, source):
    """What is wrong with one source, a line each."""
    lines, problems = source.splitlines(), []
    for first, last, head in functions(source):
        above = first - 1
        while above > 0 and lines[above - 1].lstrip().startswith("//"):
            above -= 1
        if last - first + 1 > MOST_LINES and not REASON.search("\n".join(lines[above : first - 1])):
            problems.append(f"{path}:{first}: {last - first + 1} lines, more than {MOST_LINES}, and no comment says why "
                            f"it is long: {head}")
    return problems


def sources(root):
    return [file for part in PARTS for file in floors.sources(root / part, (".h", ".cpp"))]


def check(root):
    return [problem for file in sources(root) for problem in check_source(file.relative_to(root), file.read_text())]


if __name__ == "__main__":
    checkout = pathlib.Path(__file__).resolve().parents[2]
    wrong = check(checkout)
    longest = sorted(
        ((last - first + 1, f"{file.relative_to(checkout)}:{first}", head)
         for file in sources(checkout) for first, last, head in functions(file.read_text())), reverse=True)
    print("\n".join(wrong or [f"{count} {place} {head}" for count, place, head in longest[:10]]))
    sys.exit(1 if wrong else 0)
