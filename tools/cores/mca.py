#!/usr/bin/env python3
"""The inner loops of compiled kernels on processors that are not at hand, by llvm-mca.

    mca.py KILN SPEC --target T [--cpu NAME]... [--decisions FILE] [--json]

Compiles the layers file SPEC for T, disassembles it, and puts each kernel's inner loop, the one with the most products, through
llvm-mca: "share" is the rate of its products beside the rate of the same instruction alone, with no dependence between them;
"busy" is the share of the loop's cycles that its busiest port is in use: near 1, nothing but other instructions on the
products' ports (stores, and copies of where sums start) stands in their way;
"spills" counts the loop's vector loads and stores on the stack (on 32-bit ARM its vector stores). LLVM 19 is needed: older ones model these cores as others.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CPUS = {"arm-64": ["neoverse-n1", "neoverse-v1"], "arm-32": ["cortex-a57"]}
TRIPLES = {"arm-64": "aarch64-linux-gnu", "arm-32": "armv7-linux-gnueabihf", "x86-64": "x86_64-linux-gnu"}
# What multiplies and adds, by family of targets; arm-32 has no fused one.
PRODUCTS = {
    "arm-64": r"(fmla|fmlal2?|smlal2?|umlal2?|[su]dot|fmadd)\b",
    "arm-32": r"(vmla|vmlal|vmul|vadd)\.",
    "x86-64": r"(vfmadd|vpdp|vdpbf16|vpmaddwd)",
}
ATTRIBUTES = {"arm-64": ["-mattr=+dotprod,+fullfp16"], "arm-32": ["-mattr=+neon"], "x86-64": []}
ITERATIONS = 500


def tool(name):
    """An LLVM tool of version 19 or newer."""
    for candidate in [f"{name}-{version}" for version in range(25, 18, -1)] + [name]:
        if shutil.which(candidate):
            said = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False).stdout
            version = re.search(r"LLVM version (\d+)", said)
            if version and int(version[1]) >= 19:
                return candidate
    sys.exit(f"mca.py: no {name} of LLVM 19 or newer is here (Debian's package llvm-19 has one)")


def functions(archive, symbols):
    """The instructions of an archive's functions, as (address, text), by name: those that begin with one of the symbols, so
    that the bodies of loops that threads share are there too."""
    command = [tool("llvm-objdump"), "-d", "--no-show-raw-insn", archive]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    result, current = {}, None
    for line in said.splitlines():
        if match := re.match(r"^[0-9a-f]+ <([^>]+)>:$", line):
            current = result.setdefault(match[1], []) if match[1].startswith(tuple(symbols)) else None
        elif current is not None and (match := re.match(r"^\s*([0-9a-f]+):\s+(.*)$", line)) and ".word" not in line:
            current.append((int(match[1], 16), match[2].strip()))
    return result


def inner_loops(body):
    """The lists of instructions from a branch's target to that branch, with no other such branch within."""
    index = {address: at for at, (address, _) in enumerate(body)}
    loops = []
    for at, (_, text) in enumerate(body):
        match = re.match(r"(?:b|j|cb|tb)\S*\s.*0x([0-9a-f]+) <", text)
        if match and index.get(int(match[1], 16), at + 1) <= at:
            loops.append((index[int(match[1], 16)], at))
    inner = [a for a in loops if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    return [[text for _, text in body[a : b + 1]] for a, b in inner]


def is_product(text, family):
    return re.match(PRODUCTS[family], text) is not None


def main_loop(bodies, family):
    """The loop with the most products: where most of the time goes."""
    loops = [loop for body in bodies for loop in inner_loops(body)]
    return max(loops, key=lambda loop: sum(is_product(t, family) for t in loop), default=[])


def clean(text):
    """As an assembler takes it: branches and addresses of this file's own say nothing to the model."""
    text = re.sub(r"\s*(//|@|<).*$", "", text).replace("\t", " ")
    return None if re.match(r"(b\.?\w*|cbn?z|tbn?z|j\w+|adrp)\b", text) else text


def predict(lines, family, cpu):
    """Per iteration: cycles, and those of them that the busiest port is in use."""
    command = [tool("llvm-mca"), f"-mtriple={TRIPLES[family]}", f"-mcpu={cpu}", *ATTRIBUTES[family],
               f"-iterations={ITERATIONS}", "-all-views=0", "-summary-view", "-resource-pressure"]  # fmt: skip
    text = "\n".join(line for line in map(clean, lines) if line)
    process = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    match = re.search(r"Total Cycles:\s+(\d+)", process.stdout)
    if not match:
        raise RuntimeError(f"llvm-mca: {process.stderr[:500]}")
    pressure = re.search(r"Resource pressure per iteration:\n.*\n(.*)\n", process.stdout)[1]
    return int(match[1]) / ITERATIONS, max(float(port) for port in pressure.split() if port != "-")


def cycles(lines, family, cpu):
    """Per iteration."""
    return predict(lines, family, cpu)[0]


# The registers that alone() writes in turn, and the one that it reads: one that lanes may be taken of.
REGISTERS = {"arm-64": (range(16, 32), 15), "arm-32": (range(4, 16), 0), "x86-64": (range(12), 15)}


def alone(text, family, cpu):
    """Cycles of one product where nothing else is in its way: its own form on one accumulator after the other."""
    results, factor = REGISTERS[family]
    operands = text.split(",")
    target = -1 if family == "x86-64" else 0  # AT&T's order

    def with_register(operand, number):
        return re.sub(r"(?<=[ \t{%])([vqd]|[xyz]mm)\d+", rf"\g<1>{number}", " " + operand)

    lines = []
    for number in results:
        own = [with_register(operand, factor) for operand in operands]
        own[target] = with_register(operands[target], number)
        lines.append(",".join(own).strip())
    return cycles(lines, family, cpu) / len(lines)


def spills(loop, family):
    # 32-bit ARM spills through other registers; but nothing else is stored where products are summed.
    pattern = {"arm-64": r"(ld|st)\S*\s+\{?[qdv]\d.*\[sp", "arm-32": r"vst", "x86-64": r".*[xyz]mm.*\(%rsp"}
    return sum(re.match(pattern[family], text) is not None for text in loop)


def judge(bodies, family, cpus):
    """What is known of a kernel's main loop."""
    loop = main_loop(bodies, family)
    products = [text for text in loop if is_product(text, family)]
    if not products:
        return None
    row = {"instruction": products[0].split()[0], "instructions": len(loop), "products": len(products),
           "spills": spills(loop, family), "share": {}, "busy": {}}  # fmt: skip
    for cpu in cpus:
        limit = sum(alone(form, family, cpu) * n for form, n in count_forms(products).items())
        taken, busy = predict(loop, family, cpu)
        row["share"][cpu] = round(min(limit / taken, 1), 3)
        row["busy"][cpu] = round(min(busy / taken, 1), 3)
    return row


def count_forms(products):
    """How many there are of each mnemonic with its kind of operands."""
    forms, first = {}, {}
    for text in products:
        key = re.sub(r"\d+(?=[.,]|$)|\[\d+\]", "", text)
        first.setdefault(key, text)
        forms[first[key]] = forms.get(first[key], 0) + 1
    return forms


def compile_spec(kiln, spec, target, folder, *options):
    command = [kiln, "compile", spec, "-o", folder, "--name", "net", "--target", target, "--time-limit", "600", *options]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        sys.exit(f"mca.py: kiln compile failed:\n{process.stdout}{process.stderr}")
    return json.loads((Path(folder) / "net.json").read_text())


def judge_spec(kiln, spec, target, cpus, *options):
    """A row for each layer whose kernel has a loop of products."""
    family = "-".join(target.split("-")[:2])
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        manifest = compile_spec(kiln, spec, target, folder, *options)
        symbols = [kernel["symbol"] for kernel in manifest["kernels"]]
        code = functions(Path(folder) / "libnet.a", symbols)
        for layer in manifest["layers"]:
            kernel = next(k for k in manifest["kernels"] if k["symbol"] == layer["kernels"][0])
            bodies = [b for n, b in code.items() if n.startswith(kernel["symbol"]) and not n.endswith(("_pack", "_bytes"))]
            row = judge(bodies, family, cpus or CPUS[family])
            facts = {"layer": layer["name"], "algorithm": kernel["algorithm"], "schedule": kernel["schedule"]}
            rows.append(facts | (row or {"instruction": "none"}))
    return rows


def print_table(rows):
    for row in rows:
        shares = "  ".join(f"{cpu} {share:.0%} (busiest port {row['busy'][cpu]:.0%})" for cpu, share in row.get("share", {}).items())
        print(f"{row['layer']:16} {row['algorithm']:10} {row['instruction']:8} {row.get('products', 0):4} of "
              f"{row.get('instructions', 0):4} instructions, {row.get('spills', 0)} spills  {shares}  {row['schedule']}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiln", metavar="KILN", help="the kiln command")
    parser.add_argument("spec", metavar="SPEC", help="a layers file")
    parser.add_argument("--target", required=True, help="what to compile for")
    parser.add_argument("--cpu", action="append", help="a processor that llvm-mca models; may be given again")
    parser.add_argument("--decisions", help="algorithms and schedules to use")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    more = ["--decisions", options.decisions] if options.decisions else []
    rows = judge_spec(options.kiln, options.spec, options.target, options.cpu, *more)
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        print_table(rows)


if __name__ == "__main__":
    main()
