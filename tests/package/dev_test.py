"""./dev started twice in one checkout: one waits for the other to build, as two ninjas in one folder spoil each other's files.

The checkout is a folder with ./dev, an environment that counts as made, and a ninja that tells when it begins and ends.
"""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

NINJA = """#!/bin/sh
case $* in
    *" -n"*) exit 0 ;; # something is to be done
esac
echo begins >> {told}
sleep .3
echo ends >> {told}
exit {status}
"""


class Dev(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        shutil.copy(ROOT / "dev", self.root)
        (self.root / "requirements.txt").write_text("ninja\n")
        self.environment = {**os.environ, "CC": "gcc", "CXX": "g++"}
        programs = self.root / ".venv" / "bin"
        programs.mkdir(parents=True)
        (programs / "python").symlink_to(shutil.which("true"))
        (self.root / ".venv" / ".kiln-ready").write_text(f"{self.root}\nninja\n")
        build = self.root / "build"
        build.mkdir()
        (build / "build.ninja").touch()
        (build / ".kiln-configured").write_text(f"{self.root} gcc g++\n")
        self.told = self.root / "told"

    def ninja(self, status):
        path = self.root / ".venv" / "bin" / "ninja"
        path.write_text(NINJA.format(told=self.told, status=status))
        path.chmod(0o755)

    def builds(self, count):
        """Starts as many ./dev build at once, and returns their exit codes and what they say."""
        begun = [
            subprocess.Popen(
                [self.root / "dev", "build"], stderr=subprocess.PIPE, text=True, env=self.environment, cwd=self.root
            )
            for _ in range(count)
        ]
        said = [process.communicate()[1] for process in begun]
        return [process.returncode for process in begun], said

    def test_two_take_turns(self):
        self.ninja(0)
        codes, said = self.builds(2)
        self.assertEqual(codes, [0, 0], said)
        self.assertEqual(self.told.read_text().split(), ["begins", "ends"] * 2)
        self.assertEqual(sum("waiting until another ./dev" in lines for lines in said), 1, said)

    def test_a_failed_build_is_told_and_keeps_nobody_waiting(self):
        self.ninja(3)
        codes, said = self.builds(1)
        self.assertEqual(codes, [3], said)
        self.assertNotIn("up to date", said[0])
        self.ninja(0)
        self.assertEqual(self.builds(1)[0], [0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
