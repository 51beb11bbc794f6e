"""What the hot loops of a kernel's machine code hold, as llvm-objdump lists them.

A hot loop is an innermost loop that multiplies and accumulates at least half as often as the one that does so most; a
function without such a loop is taken as a whole. What is counted are instructions that a good loop has few of, for each that
is arithmetic: that multiplies or adds elements (integers only where they are multiplied, since addresses are added to as
well).
"""

import dataclasses
import re
import subprocess

# What instructions are called, for each family of processors. The first pattern that fits counts; a line is a mnemonic, a
# space and its operands. Spills are stores of vectors to the stack: what reads them back is part of another instruction.
X86 = (
    ("products", r"v?fn?m(add|sub)\d*[ps][sdh] |vdpbf16ps |v?pmaddubsw |v?pmaddwd |vpdp|tdp"),
    ("sums", r"v?(add|sub|mul|min|max)[ps][sdh] |v?pmul[hl]"),
    ("inserts", r"v?pinsr|v?insertps |vinsert[fi]"),
    ("extracts", r"v?pextr|v?extractps |vextract[fi]"),
    ("gathers", r"vp?gather|vp?scatter"),
    ("conversions", r"v?cvt(si|usi)2s|v?cvts[sdh]2|v?cvtts[sdh]2"),
    ("spills", r"v?mov[a-z0-9]* \S*\[(rsp|rbp)[^,]*\], [xyz]mm"),
)
ARM = (
    ("products", r"f?ml[as]l?2? [vz]|fn?m(add|sub) |vf?n?m[al][as]l?\.|[su]m?lal2? v|v?[su]us?dot|v?[su]dot|v?[su]mmla|bfmmla|"
                 r"bfdot|[su]mull2? v|vmull?\."),
    ("sums", r"f(add|sub|mul|min|max)(nm)? |v(add|sub|min|max)\.f|v?[su]adalp|vpadal"),
    ("inserts", r"ins |mov v\d+\.[bhsd]\[|fmov [sd]\d+, [wx]|vmov(\.\d+)? d\d+\[|ld1 \{[^}]*\}\[|"
                r"vld1\S* \{d\d+\[\d+\]\}"),
    ("extracts", r"umov|smov|mov [wx]\d+, v\d+\.|vmov(\.[su]?\d+)? r\d+, d\d+\["),
    ("gathers", r"ld1[bhwd] \{[^}]*\}, p\d+/z, \[[^]]*, z"),
    ("conversions", r"[su]cvtf [shd]\d|fcvt[a-z]* ([wx]|[shd]\d)|vcvt[a-z]?\.\S+ s\d"),
    ("spills", r"(st[ru]r? q\d+|stp q\d+|vst1\.64 \{).*\[(sp|r11|x29)"),
)
RISCV = (
    ("products", r"vfn?m(acc|add|sac|sub)\.|vw?macc"),
    ("sums", r"vfr?(add|sub|mul|min|max)\.|vw?mul"),
    ("inserts", r"vf?slide1|vf?mv\.s\."),
    ("extracts", r"vslidedown|vf?mv\.[xf]\.s"),
    ("gathers", r"v[ls][uo]xei|vrgather"),
    ("conversions", r"fcvt\."),
    ("spills", r"vs\dr\.v"),
)
TILE_ROWS = 16  # an instruction on tiles does the work of that many on vectors
KINDS = tuple(kind for kind, _ in X86)


@dataclasses.dataclass
class Loop:
    function: str
    instructions: int
    counts: dict  # of each of KINDS

    def share(self, kind):
        """How many there are for each that is arithmetic; "length": of all instructions."""
        number = self.instructions if kind == "length" else self.counts[kind]
        return number / (self.counts["products"] + self.counts["sums"])


def disassemble(path):
    """(function, [(address, "mnemonic operands")]) of an object."""
    text = subprocess.run(["llvm-objdump-19", "-d", "--no-show-raw-insn", "--x86-asm-syntax=intel", str(path)],
                          check=True, capture_output=True, text=True).stdout
    functions, lines = [], None
    for line in text.splitlines():
        if match := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            lines = []
            functions.append((match[1], lines))
        elif match := re.match(r"\s*([0-9a-f]+):\s+(.*)$", line):
            words = re.sub(r"\s+", " ", re.sub(r"\s(#|@|//|;)\s.*|<.*>", "", match[2])).strip()
            lines.append((int(match[1], 16), re.sub(r"\b(byte|[xyzdqt]?m?m?word) ptr ", "", words)))
    return functions


def innermost_loops(lines):
    """(first, last) indices of the loops that hold no other: from where a conditional jump goes back to, to the jump. Others
    lead back from code that LLVM laid out of line."""
    index = {address: i for i, (address, _) in enumerate(lines)}
    ends = {}
    for i, (_, text) in enumerate(lines):
        match = re.match(r"(?:j(?!mp)\w+|b\.?\w\w|b\w\w[zu]|cbn?z|tbn?z)\s+(?:.*, )?(?:#?0x)?([0-9a-f]+)$", text)
        target = index.get(int(match[1], 16)) if match else None
        if target is not None and target <= i:
            ends[target] = max(i, ends.get(target, 0))
    loops = list(ends.items())
    return [(start, end) for start, end in loops
            if not any(start <= s and e <= end and (s, e) != (start, end) for s, e in loops)]


def count(function, lines, patterns):
    counts = dict.fromkeys(KINDS, 0)
    for _, text in lines:
        for kind, pattern in patterns:
            if re.match(pattern, text + " "):
                counts[kind] += TILE_ROWS if text.startswith("tdp") else 1
                break
    return Loop(function, len(lines), counts)


def hot_loops(path, architecture):
    """The hot loops of an object's functions but that which packs weights; [] where nothing is multiplied and accumulated."""
    patterns = {"x86": X86, "riscv": RISCV}.get(architecture, ARM)
    loops = []
    for function, lines in disassemble(path):
        if function.endswith(("_pack", "_bytes")):
            continue
        found = [count(function, lines[start : end + 1], patterns) for start, end in innermost_loops(lines)]
        loops += [loop for loop in found if loop.counts["products"]] or [count(function, lines, patterns)]
    most = max((loop.counts["products"] for loop in loops), default=0)
    return [loop for loop in loops if loop.counts["products"] and 2 * loop.counts["products"] >= most]
