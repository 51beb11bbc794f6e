"""docs/support.md: which operators, types, ranks and layouts each target computes, as random_problems.py found them."""

import fcntl
from pathlib import Path

import problems
import soak_totals
import targets

PATH = Path(__file__).resolve().parents[2] / "docs/support.md"

INTRODUCTION = """\
# What each target computes

Made by the tests from what they tried, each cell from random problems of its own, checked against a reference of higher
precision between guard pages. "yes": in all four combinations of NCX and NXC for input and output, and whatever the
filter's layout. int8 is u8 or s8 data with u8 or s8 weights. Ranks up to 8 run through the same code; those here are tested.
Each target's title tells how it was tried: run, emulated by qemu, or compiled and linked alone, where no value was seen.

Every `./dev test` tries some cells of every target, and fails where one is not as it stands here. `./dev soak` tries as many
as it has time for, and writes what it found here with `--tables`; so does `KILN_UPDATE_SUPPORT=1 ./dev test -R random_problems`.
A target that was run once keeps its table where another machine can only emulate it, or compile for it.
"""
ENGINES = {
    "specialized": "Specialised kernels: every size known when compiling",
    "generic": "Generic kernels: everything but operator, types and rank known at run time",
}

SOAKS = """\
## What soaks have tried

All seeds, on all machines, in addition to what every `./dev test` draws. Failures count each problem that failed; those of a kind are
mended together, and the smallest is a line of `tests/cases/regressions.jsonl`.

"""

WAYS = (targets.COMPILED, targets.EMULATED, targets.RUN)  # the later tells more

WORDS = {True: "yes", False: "no", None: "not tried"}
COMPILED = "compiled"  # in place of yes, where no value was seen


def cell_text(states, way):
    """Of the four layouts, each right, wrong or not tried."""
    words = WORDS | ({True: COMPILED} if way == targets.COMPILED else {})
    if len(set(states)) == 1:
        return words[states[0]]
    told = [f"{x} to {y} {words[state]}" for (x, y), state in zip(problems.LAYOUTS, states) if state is not None]
    return ", ".join(told)


def cell_states(text):
    words = {word: state for state, word in WORDS.items()} | {COMPILED: True}
    if text in words:
        return [words[text]] * len(problems.LAYOUTS)
    told = dict(part.rsplit(" ", 1) for part in text.split(", "))
    return [words.get(told.get(f"{x} to {y}")) for x, y in problems.LAYOUTS]


def table(found, way):
    """`found` tells of cells (problems.CELLS) whether they were computed right."""
    head = " | ".join(f"{rank}-D" for rank in problems.RANKS)
    lines = [f"| operator | type | {head} |", "| --- " * (2 + len(problems.RANKS)) + "|"]
    for operator, dtype in problems.DOCUMENTED:
        cells = [[found.get((operator, dtype, rank, layouts)) for layouts in problems.LAYOUTS] for rank in problems.RANKS]
        lines.append(f"| {operator} | {dtype} | {' | '.join(cell_text(cell, way) for cell in cells)} |")
    return "\n".join(lines)


def found_in(text):
    """What a table says, as `table` takes it."""
    found = {}
    for line in text.splitlines()[2:]:
        operator, dtype, *cells = (part.strip() for part in line.strip("|").split("|"))
        for rank, cell in zip(problems.RANKS, cells):
            for layouts, state in zip(problems.LAYOUTS, cell_states(cell)):
                if state is not None:
                    found[operator, dtype, rank, layouts] = state
    return found


def read():
    """What the document holds now: by engine and target, its way and what was found."""
    sections = {}
    for part in PATH.read_text().split("\n## ")[1:]:
        title, _, rest = part.partition("\n")
        engine = next((engine for engine, text in ENGINES.items() if text == title), None)
        for section in rest.split("\n### ")[1:] if engine else []:
            head, _, body = section.partition("\n")
            target, _, way = head.partition(": ")
            sections[engine, target] = way, found_in(body.strip())
    return sections


def rewrite(change=lambda sections: None):
    """Makes the document anew, `change` applied to what read() tells of it."""
    with open(PATH, "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # tests of several targets run at once
        sections = read()
        change(sections)
        text = document(sections)
        file.truncate(0)
        file.write(text)


def update(engine, target, way, found):
    """Adds what was found to a target's table. One that was tried in a weaker way is begun anew, in a stronger one it is kept."""

    def add(sections):
        old_way, old = sections.get((engine, target), (way, {}))
        if WAYS.index(old_way) <= WAYS.index(way):
            sections[engine, target] = way, {**(old if old_way == way else {}), **found}

    rewrite(add)


def document(sections):
    parts = [INTRODUCTION]
    for name, title in ENGINES.items():
        parts.append(f"## {title}\n")
        for target in targets.cpu_targets():
            if (name, target) in sections:
                way, found = sections[name, target]
                parts.append(f"### {target}: {way}\n\n{table(found, way)}\n")
    return "\n".join([*parts, SOAKS + soak_totals.table()])


def contradictions(engine, target, found):
    """Cells that the document has otherwise: `found` says of each that was tried whether it was computed."""
    _, said = read().get((engine, target), ("", {}))
    return [
        f"{' '.join(map(str, cell))}: {WORDS[right]}, but it says {WORDS[said[cell]]}"
        for cell, right in found.items()
        if said.get(cell, right) != right
    ]
