"""A processor that has AVX2 and nothing newer, whatever this one has: qemu's Haswell, which refuses any other instruction."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

import kiln_run
import targets

HASWELL = "qemu-x86_64 -cpu Haswell"

# Each kind of kernel, and of what runs around it: packing, threads, the choice of a kernel. Channels fill vectors: of a masked
# load, the emulator touches what the mask leaves out too, which a processor does not, and the guard pages tell.
PROBLEMS = """
conv2d-f32-n1-c16-i14x14-m32-o14x14-k1x1-s1x1-d1x1-p0x0,0x0-g1-nxc,nxc-bias-relu
conv2d-f32-n2-c3-i9x9-m16-o5x5-k3x3-s2x2-d1x1-p1x1,1x1-g1-ncx,nxc-bias-sigmoid
conv2d-u8.s8.u8-n1-c16-i9x9-m24-o9x9-k3x3-s1x1-d1x1-p1x1,1x1-g1-xz128-yz3-nxc,nxc-bias
conv2d-f32-n1-c24-i13x13-m24-o13x13-k5x5-s1x1-d1x1-p2x2,2x2-g24-nxc,nxc
conv2d-bf16-n1-c16-i9x9-m24-o9x9-k1x1-s1x1-d1x1-p0x0,0x0-g1-nxc,nxc
conv1d-f16-n1-c12-i60-m20-o60-k3-s1-d1-p1,1-g1-ncx,ncx-bias
conv3d-f64-n1-c8-i6x6x6-m16-o6x6x6-k3x3x3-s1x1x1-d1x1x1-p1x1x1,1x1x1-g1-nxc,nxc
convtranspose2d-f32-n1-c16-i7x7-m16-o14x14-k4x4-s2x2-d1x1-p1x1,1x1-g1-nxc,nxc-bias
deformconv2d-f32-n1-c16-i9x9-m24-o9x9-k3x3-s1x1-d1x1-p1x1,1x1-g1-og2-nxc,nxc-mask
""".split()


def on_haswell(*arguments):
    command = [*HASWELL.split(), str(targets.kiln()), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Avx2Alone(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.spec = Path(folder.name) / "layers.toml"
        rows = (f'[[layer]]\nname = "layer{n}"\nproblem = "{text}"\n' for n, text in enumerate(PROBLEMS))
        self.spec.write_text("".join(rows))

    def test_kiln_takes_it_for_what_it_is(self):
        seen = {row["name"] for row in json.loads(on_haswell("targets", "--json")) if row["runs_here"]}
        self.assertEqual(seen - {"opencl"}, {"x86-64-avx2"})
        chosen = on_haswell("explain", self.spec, "--json")
        self.assertEqual(chosen, on_haswell("explain", self.spec, "--json", "--target", "x86-64-avx2"))

    def test_kernels_run(self):
        rows = kiln_run.verify(self.spec, "--target", "x86-64-avx2", "--runner", HASWELL)
        self.assertEqual([row["verdict"] for row in rows], ["ok"] * len(PROBLEMS))

    def test_others_kernels_are_refused(self):
        with self.spec.open("w") as file:
            file.write(f'[[layer]]\nname = "layer"\nproblem = "{PROBLEMS[0]}"\n')
        rows = kiln_run.verify(self.spec, "--target", "x86-64-avx512", "--runner", HASWELL)
        self.assertNotEqual(rows[0]["verdict"], "ok", "the emulator has more than AVX2: nothing was tested")


if __name__ == "__main__":
    unittest.main(verbosity=2)
