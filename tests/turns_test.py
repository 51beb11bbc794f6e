"""tests/turns.txt names tests that are there, each in one line: what names none would leave a test out of every turn, or run in all.

    turns_test.py CTEST BUILD
"""

import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

BUILD, CTEST = Path(sys.argv.pop()), sys.argv.pop()


class Turns(unittest.TestCase):
    def test_patterns_name_tests(self):
        listed = subprocess.run([CTEST, "--test-dir", BUILD, "--show-only=json-v1"], capture_output=True, check=True).stdout
        names = [test["name"] for test in json.loads(listed)["tests"]]
        lines = Path(__file__).with_name("turns.txt").read_text().splitlines()
        turns = {}
        for line in (line for line in lines if not line.startswith("#")):
            for pattern in line.split():
                matched = [name for name in names if re.fullmatch(pattern, name)]
                self.assertTrue(matched, f"{pattern} is no test")
                for name in matched:
                    self.assertNotIn(name, turns, f"{name} has two turns")
                    turns[name] = line


if __name__ == "__main__":
    unittest.main(verbosity=2)
