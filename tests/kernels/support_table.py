"""docs/support.md: which operators, types, ranks and layouts each engine computes, as random_problems.py found them."""

from pathlib import Path

import problems

PATH = Path(__file__).resolve().parents[2] / "docs/support.md"

INTRODUCTION = """\
# What each engine computes

Made by the tests from what they ran, each cell from random problems of its own, checked against a reference of higher
precision between guard pages. "yes": in all four combinations of NCX and NXC for input and output, and whatever the
filter's layout. int8 is u8 or s8 data with u8 or s8 weights. Ranks up to 8 run through the same code; those here are tested.

To make it anew: `KILN_UPDATE_SUPPORT=1 ./dev test -R random_problems`.
"""
TITLES = {
    "specialized": "Specialised kernels: every size known when compiling",
    "generic": "Generic kernels: everything but operator, types and rank known at run time",
}


def row_of(operator, dtype, right):
    """`right` holds the cells (problems.CELLS) that were computed right."""
    cells = []
    for rank in problems.RANKS:
        works = [f"{x} to {y}" for x, y in problems.LAYOUTS if (operator, dtype, rank, (x, y)) in right]
        documented = (operator, dtype) in problems.DOCUMENTED
        complete = len(works) == len(problems.LAYOUTS)
        cells.append("not in the document" if not documented else "yes" if complete else ", ".join(works) or "no")
    return f"| {operator} | {dtype} | {' | '.join(cells)} |"


def section(engine, right):
    head = " | ".join(f"{rank}-D" for rank in problems.RANKS)
    lines = [f"## {TITLES[engine]}", "", f"| operator | type | {head} |", "| --- " * (2 + len(problems.RANKS)) + "|"]
    for operator in problems.OPERATORS:
        lines += [row_of(operator, dtype, right) for dtype in problems.TYPES]
    return "\n".join(lines) + "\n"


def sections():
    """What the document holds now, by engine."""
    text = PATH.read_text() if PATH.exists() else ""
    result = {}
    for engine, title in TITLES.items():
        _, found, rest = text.partition(f"## {title}\n")
        result[engine] = f"## {title}\n{rest.partition('## ')[0].rstrip()}\n" if found else ""
    return result


def update(engine, right):
    """Replaces the section of one engine."""
    PATH.write_text("\n".join([INTRODUCTION, *({**sections(), engine: section(engine, right)}).values()]))
