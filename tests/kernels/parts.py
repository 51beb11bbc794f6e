"""Long lists of like cases are gone through in parts: KILN_TEST_PART is which part this run's is, as 2/5; without it a run goes
through all. `./dev test` takes the part that the commit's hash says, so that a few commits see every case, in a fifth of the time;
of the longest tests it runs one line of tests/turns.txt. `./dev test --all` takes all."""

import os

import kiln_run


def part(cases):
    """Those of a list's cases that this run is for: every so many, at least one."""
    cases = list(cases)
    if "KILN_TEST_PART" not in os.environ:
        return cases
    number, parts = map(int, os.environ["KILN_TEST_PART"].split("/"))
    taken = cases[number - 1 :: parts] or cases[:1]
    print(f"{len(taken)} of {len(cases)} cases, part {number} of {parts}: without KILN_TEST_PART all", flush=True)
    return taken


def part_of_layers(spec):
    """The options of kiln that name this run's layers of a layers file; none where they are all."""
    if "KILN_TEST_PART" not in os.environ:
        return []
    return [word for name in part(kiln_run.types_of_layers(spec)) for word in ("--layer", name)]
