"""Parts of long lists of cases (parts.py): together they are the list, and none is empty."""

import contextlib
import io
import os
import unittest
from unittest import mock

import parts


class Parts(unittest.TestCase):
    def part(self, cases, text):
        with mock.patch.dict(os.environ, {"KILN_TEST_PART": text}), contextlib.redirect_stdout(io.StringIO()) as said:
            return parts.part(cases), said.getvalue()

    def test_together_they_are_all(self):
        taken = [self.part(range(10), f"{number}/3")[0] for number in (1, 2, 3)]
        self.assertEqual(sorted(sum(taken, [])), list(range(10)))
        self.assertEqual(self.part(range(10), "2/3"), ([1, 4, 7], "3 of 10 cases, part 2 of 3: without KILN_TEST_PART all\n"))

    def test_none_is_empty(self):
        self.assertEqual(self.part("a", "3/3")[0], ["a"])

    def test_all_unless_one_is_named(self):
        with mock.patch.dict(os.environ):
            os.environ.pop("KILN_TEST_PART", None)
            self.assertEqual(parts.part(range(4)), [0, 1, 2, 3])


if __name__ == "__main__":
    unittest.main(verbosity=2)
