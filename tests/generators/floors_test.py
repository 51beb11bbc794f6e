"""floors.py and function_lengths.py on the checkout, and on sources that break their rules."""

import pathlib
import tempfile
import unittest

import floors
import function_lengths


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

    def test_what_is_installed_is_no_source(self):
        self.assertEqual([], self.check({".venv/lib/things.h": "", "moves/.cache/things.py": ""}))

    def test_a_drawer(self):
        files = {f"moves/move{i}.{suffix}": "" for i in range(13) for suffix in ("h", "cpp")}
        self.assertEqual(["moves: 13 units, which is more than 12: divide the folder"], self.check(files))
        del files["moves/move0.h"], files["moves/move0.cpp"]
        self.assertEqual([], self.check(files))
        scripts = {f"onnx_import/rewriting/node{i}.py": "" for i in range(13)}
        self.assertEqual(["onnx_import/rewriting: 13 units, which is more than 12: divide the folder"],
                         self.check(scripts, "tools"))  # fmt: skip


class FunctionLengths(unittest.TestCase):
    BODY = "    call({1, 2}, \"{\");  // {\n" * 59

    def test_the_checkout(self):
        self.assertEqual([], function_lengths.check(pathlib.Path(__file__).resolve().parents[2]))

    def test_a_long_function(self):
        source = "namespace kiln {\nstruct Holder {\n    int member(int a,\n               int b) const {\n" + self.BODY + "    }\n};\n}\n"
        self.assertEqual(
            ["a.cpp:3: 62 lines, more than 60, and no comment says why it is long: int member(int a, int b) const"],
            function_lengths.check_source("a.cpp", source))  # fmt: skip
        told = source.replace("    int member", "    // Longer than a screen: it is a list.\n    int member")
        self.assertEqual([], function_lengths.check_source("a.cpp", told))

    def test_what_is_no_function(self):
        for text in ("void one() {\n" + self.BODY[: len(self.BODY) // 59 * 58] + "}\n", "constexpr int table[] = {\n" + self.BODY + "};\n"):
            self.assertEqual([], function_lengths.check_source("a.cpp", text))


if __name__ == "__main__":
    unittest.main()
