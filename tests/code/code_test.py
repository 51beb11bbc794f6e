"""The look at hot loops counts what is in them, and finds nothing in kernels whose loops were bad once."""

import os
import tempfile
import unittest
from pathlib import Path

import code_of_kernels as code
import hot_loops

KILN = os.environ.get("KILN", code.ROOT / "build/bin/kiln")


def listing(*texts):
    return [(4 * i, text) for i, text in enumerate(texts)]


class HotLoops(unittest.TestCase):
    def test_loops_hold_no_other(self):
        lines = listing("xor eax, eax", "vmovups zmm0, [rsi]", "vfmadd231ps zmm1, zmm0, [rdi]", "jne 0x4", "jb 0x0",
                        "jmp 0x0")
        self.assertEqual(hot_loops.innermost_loops(lines), [(1, 3)])

    def test_jumps_of_arm(self):
        self.assertEqual(hot_loops.innermost_loops(listing("nop", "fmla v0.4s, v1.4s, v2.4s", "b.ne 0x4", "b 0x0")), [(1, 2)])
        self.assertEqual(hot_loops.innermost_loops(listing("nop", "cbnz x9, 0x0", "bl 0x0")), [(0, 1)])
        self.assertEqual(hot_loops.innermost_loops(listing("nop", "tbz w8, #3, 0x0", "bne 0x8")), [(0, 1), (2, 2)])

    def test_counts_of_x86(self):
        loop = hot_loops.count("f", listing(
            "vfmadd231ps zmm1, zmm0, [rdi]", "vpinsrw xmm6, xmm6, [rax + 2*rdi], 0x1", "vpextrd edx, xmm1, 0x1",
            "vaddps ymm0, ymm1, ymm2", "vmovups [rsp + 0x40], zmm3", "vmovups zmm3, [rsp + 0x40]", "vcvtss2sd xmm0, xmm1, xmm1",
            "vgatherdps zmm1 {k1}, [rsi + 4*zmm2]", "add rax, 8"), hot_loops.X86)
        self.assertEqual(loop.counts, {"products": 1, "sums": 1, "inserts": 1, "extracts": 1, "gathers": 1,
                                       "conversions": 1, "spills": 1})
        self.assertEqual((loop.share("length"), loop.share("spills")), (4.5, 0.5))

    def test_counts_of_arm(self):
        loop = hot_loops.count("f", listing(
            "fmla v0.4s, v1.4s, v2.s[0]", "sdot v0.4s, v1.16b, v2.4b[0]", "vmul.f32 q1, q2, q3", "fadd v0.4s, v1.4s, v2.4s",
            "mov v0.s[1], w8", "umov w8, v0.h[3]", "str q0, [sp, #16]", "fcvt s0, h1", "ldr q0, [x1]"), hot_loops.ARM)
        self.assertEqual(loop.counts, {"products": 3, "sums": 1, "inserts": 1, "extracts": 1, "gathers": 0,
                                       "conversions": 1, "spills": 1})

    def test_addresses_are_no_products(self):
        loop = hot_loops.count("f", listing("mla r0, r1, r2, r3", "umull r0, r1, r2, r3", "umull x0, w1, w2"), hot_loops.ARM)
        self.assertEqual(loop.counts["products"], 0)

    def test_loops_of_riscv(self):
        lines = listing("vle32.v v8, (a0)", "vfmacc.vf v16, fa5, v8", "vfadd.vv v9, v8, v16", "vs1r.v v9, (a1)", "addi a0, a0, 0x10",
                        "bnez a2, 0x4", "bltu a0, a3, 0x0")
        self.assertEqual(hot_loops.innermost_loops(lines), [(1, 5)])
        loop = hot_loops.count("f", lines, hot_loops.RISCV)
        self.assertEqual((loop.counts["products"], loop.counts["sums"], loop.counts["spills"]), (1, 1, 1))

    def test_tables_stand_between_their_marks(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.md"
            code.write(path, "| one |")
            self.assertEqual(path.read_text(), "| one |\n")
            path.write_text("before\n" + "| old |\n".join(code.document_parts.marks("code")) + "after\n")
            code.write(path, "| new |")
            self.assertEqual(path.read_text(), "before\n" + "| new |\n".join(code.document_parts.marks("code")) + "after\n")


class Kernels(unittest.TestCase):
    def rows(self, file, target, layers=()):
        rows = list(code.look(KILN, file, target, 2, layers))
        self.assertEqual({name for row in rows for name in row["layers"]} & set(layers), set(layers))
        return rows

    def test_pairs_of_several_panels_are_read_densely(self):
        for row in self.rows(Path(__file__).with_name("panels_of_pairs.toml"), "x86-64-zen4"):
            with self.subTest(row["problem"]):
                self.assertEqual(code.beyond(row), {}, row["schedule"])
                self.assertEqual((row["worst"]["inserts"], row["worst"]["extracts"]), (0, 0))

    def test_the_suite_of_coarse_types(self):
        suite = code.ROOT / "bench/suite.toml"
        for target, layers in {"x86-64-sapphire-rapids": ("C2_bfloat16", "T2_bfloat16", "T2_uint8"),
                               "arm-64-linux-dotprod-fp16": ("C1_uint8", "C4_float16")}.items():
            for row in self.rows(suite, target, layers):
                with self.subTest(f"{row['layers']} {target}"):
                    self.assertEqual(code.beyond(row), {}, row["schedule"])


if __name__ == "__main__":
    unittest.main()
