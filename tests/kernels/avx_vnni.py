"""Kernels for x86-64-avxvnni: their dot products of bytes, in AVX2's encoding and with nothing of AVX-512; and, where the
processor has them, random problems."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import kiln_run

TARGET = "x86-64-avxvnni"
QUANTISED = "conv2d-u8.s8.u8-n1-c64-i28x28-m64-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g1-xz128-yz3-nxc,nxc-bias-relu-strict"
PROBLEMS = {
    "nxc": QUANTISED,
    "ncx": QUANTISED.replace("nxc,nxc", "ncx,ncx"),
    "few": QUANTISED.replace("-m64", "-m12"),
    "float": "conv2d-f32-n1-c64-i28x28-m64-o28x28-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc-bias-gelu",
}


def disassembled(problem, folder):
    """The instructions of a kernel."""
    spec = Path(folder) / "layers.toml"
    spec.write_text(f'[[layer]]\nname = "a"\nproblem = "{problem}"\n')
    kiln_run.compile_layers(spec, "-o", folder, "--name", "net", "--target", TARGET)
    command = ["objdump", "-d", Path(folder) / "libnet.a"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class AvxVnni(unittest.TestCase):
    def test_instructions(self):
        for name, problem in PROBLEMS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                text = disassembled(problem, folder)
                self.assertNotRegex(text, r"%zmm|%k[0-7]\b|%[xy]mm(1[6-9]|2\d|3[01])\b")
                dots = re.findall(r":\t((?:[0-9a-f]{2} )+)\s+(?:\{vex\} )?vpdpbusd ", text)
                self.assertEqual(bool(dots), name != "float", text.count("vpdp"))
                for code in dots:
                    self.assertRegex(code, "^c4", "not the encoding of AVX2")

    @unittest.skipUnless(kiln_run.targets()[TARGET]["runs_here"], "this processor has no AVX-VNNI")
    def test_random_problems(self):
        environment = os.environ | {"KILN_TARGET": TARGET, "KILN_RANDOM_SEED": "7", "KILN_RANDOM_COUNT": "40"}
        command = [sys.executable, Path(__file__).with_name("random_problems.py")]
        subprocess.run(command, env=environment, check=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
