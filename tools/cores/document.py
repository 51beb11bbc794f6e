#!/usr/bin/env python3
"""The tables of docs/ARM.md.

    document.py KILN [--instructions] [--check]

Makes the table of inner loops anew, by llvm-mca; with --instructions that of the suite's instructions too, by qemu (minutes). With
--check nothing is written: exits with 1 where a loop on 64-bit ARM that should not falls below 95% of the limit, or spills, or where
the document lacks it.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

import instructions
import mca

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/ARM.md"
TARGETS = ["arm-64-linux", "arm-64-linux-dotprod-fp16", "arm-32-linux"]
LAYERS = Path(__file__).with_name("arm.toml")
GOAL = 0.95
# A depthwise layer stores and starts a sum for every few products, on their ports: they are to be busy, with whatever.
JUDGED_BY_PORTS = ["depthwise"]


def missed_goals(kiln, document):
    missed = []
    for target in TARGETS[:2]:
        for row in mca.judge_spec(kiln, LAYERS, target, None):
            shares = row.get("busy" if row["layer"] in JUDGED_BY_PORTS else "share", {}).values()
            if row.get("spills") != 0 or not shares or min(shares) < GOAL:
                missed.append(f"{target}: {row}")
            if f"| {row['layer']} | `{target}` |" not in document:
                missed.append(f"docs/ARM.md has no row for {row['layer']} on {target}")
    return missed


def loops(kiln):
    lines = ["| layer | target | algorithm | loop | spills | share of the limit | busiest port |",
             "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for target in TARGETS:
        for row in mca.judge_spec(kiln, LAYERS, target, None):
            share, busy = (", ".join(f"{cpu} {value:.0%}" for cpu, value in row.get(kind, {}).items()) for kind in ("share", "busy"))
            loop = f"{row['products']} {row['instruction']} of {row['instructions']}" if share else "no products"
            lines.append(f"| {row['layer']} | `{target}` | {row['algorithm']} | {loop} | {row.get('spills', '')} | {share} | {busy} |")
    return "\n".join(lines)


def counts(kiln):
    """The suite, channels last."""
    lines = ["| layer | algorithm | type | instructions | a multiply-accumulate | floor |", "| --- | --- | --- | --- | --- | --- |"]
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "suite.toml"
        text = (ROOT / "bench/suite.toml").read_text()
        spec.write_text(text.replace("[defaults]", '[defaults]\nlayouts = { x = "NXC", y = "NXC" }', 1))
        for row in instructions.count(kiln, spec, "arm-64-linux-dotprod-fp16", None):
            lines.append(f"| {row['layer']} | {row['algorithm']} | {row['problem'].split('-')[1]} | {row['instructions'] / 1e6:.1f} M "
                         f"| {row['instructions'] / row['macs']:.3f} | {row['floor']:.4f} |")  # fmt: skip
    return "\n".join(lines)


def replace(text, name, table):
    begin, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    assert pattern.search(text), f"{DOCUMENT} has no table {name}"
    return pattern.sub(lambda _: begin + table + "\n" + end, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiln", metavar="KILN", help="the kiln command")
    parser.add_argument("--instructions", action="store_true", help="also count the suite's instructions")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    text = DOCUMENT.read_text()
    if options.check:
        missed = missed_goals(options.kiln, text)
        sys.exit("\n".join(missed) or 0)
    text = replace(text, "loops", loops(options.kiln))
    if options.instructions:
        text = replace(text, "instructions", counts(options.kiln))
    DOCUMENT.write_text(text)


if __name__ == "__main__":
    main()
