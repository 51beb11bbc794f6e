"""floors.py on the checkout, and on folders that break its rules."""

import pathlib
import tempfile
import unittest

import floors


class Floors(unittest.TestCase):
    def check(self, files, part="generators"):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                file = pathlib.Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            return floors.check(pathlib.Path(folder), floors.FLOORS[part])

    def test_the_checkout(self):
        for part, of_part in floors.FLOORS.items():
            with self.subTest(part):
                self.assertEqual([], floors.check(pathlib.Path(__file__).resolve().parents[2] / part, of_part))

    def test_what_is_shipped_knows_nothing_of_the_rest(self):
        found = self.check({"harness/main.cpp": '#include "system/process.h"\n', "system/process.h": ""}, "tools")
        self.assertEqual(["harness/main.cpp:1: includes system/process.h, which is on a floor above"], found)

    def test_an_include_from_above(self):
        found = self.check(
            {
                "algorithms/direct/direct.h": '#include "moves/split.h"\n',
                "moves/split.h": '// Moves.\n#include "algorithms/direct/direct.h"\n',
                "kernel.h": '#include "algorithms/direct/direct.h"\n',
            }
        )
        self.assertEqual(["moves/split.h:2: includes algorithms/direct/direct.h, which is on a floor above"], found)

    def test_what_drives_all_is_above_all(self):
        found = self.check({"operators/conv.cpp": '#include "kernel.h"\n', "kernel.h": ""})
        self.assertEqual(["operators/conv.cpp:1: includes kernel.h, which is on a floor above"], found)

    def test_a_folder_on_no_floor(self):
        found = self.check({"drawer/things.h": ""})
        self.assertEqual(["drawer/things.h: its folder is on no floor: name it in floors.py"], found)

    def test_a_drawer(self):
        files = {f"moves/move{i}.{suffix}": "" for i in range(13) for suffix in ("h", "cpp")}
        self.assertEqual(["moves: 13 units, which is more than 12: divide the folder"], self.check(files))
        del files["moves/move0.h"], files["moves/move0.cpp"]
        self.assertEqual([], self.check(files))
        scripts = {f"onnx_import/rewriting/node{i}.py": "" for i in range(13)}
        self.assertEqual(["onnx_import/rewriting: 13 units, which is more than 12: divide the folder"],
                         self.check(scripts, "tools"))  # fmt: skip


if __name__ == "__main__":
    unittest.main()
