"""The command line by itself: help that fits, completion and manual of all options, colours, doctor. Two seconds.

    command_line_test.py KILN
"""

import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import unittest

KILN = sys.argv.pop(1)


def run(*arguments, **environment):
    return subprocess.run([KILN, *arguments], capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def on_terminal(*arguments, **environment):
    """What the command writes where its stderr is a terminal."""
    leader, follower = pty.openpty()
    unset = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    try:
        subprocess.run([KILN, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=follower,
                       env={**unset, "TERM": "xterm", **environment}, check=False)
        return os.read(leader, 65536).decode()
    finally:
        os.close(follower)
        os.close(leader)


def commands():
    text = run("--help").stdout
    return re.findall(r"^  ([a-z]+) ", text[text.index("Subcommands:"):], re.MULTILINE)


def options(command):
    return sorted(set(re.findall(r"^ {2,6}(?:-\w,)?(--[a-z][a-z-]*)", run(command, "--help").stdout, re.MULTILINE)))


class CommandLine(unittest.TestCase):
    def test_help_fits(self):
        self.assertGreater(len(commands()), 8)
        for words in [["--help"], *([command, "--help"] for command in commands())]:
            done = run(*words)
            self.assertEqual(done.returncode, 0)
            self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100, words)

    def test_help_loses_no_word(self):
        """Wrapping puts words on other lines, and leaves them whole."""
        text = " ".join(run("compile", "--help").stdout.split())
        self.assertIn("May be given again; those of the layers file, else this machine, unless said".lower(), text.lower())

    def test_completion_and_manual_know_every_option(self):
        pages = {shell: run("completion", shell).stdout for shell in ("bash", "zsh", "fish")}
        manual = run("man").stdout.replace("\\-", "-")
        for command in commands():
            for option in options(command):
                for shell in ("bash", "zsh"):
                    self.assertIn(option, pages[shell])
                self.assertIn(f" -l {option[2:]} ", pages["fish"], (command, option))
                self.assertIn(option, manual)
        self.assertEqual(run("completion", "tcsh").returncode, 2)

    def complete(self, *words):
        """What bash offers for the last of `words`."""
        with tempfile.NamedTemporaryFile("w", suffix=".bash") as file:
            file.write(run("completion", "bash").stdout)
            file.flush()
            script = (f"source {file.name}; COMP_WORDS=(kiln {' '.join(repr(word) for word in words)}); "
                      f"COMP_CWORD={len(words)}; _kiln; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
            return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()

    def test_a_former_name_of_an_option(self):
        with tempfile.TemporaryDirectory() as folder:
            spec = os.path.join(folder, "none.toml")
            open(spec, "w", encoding="utf-8").close()
            done = run("verify", spec, "--no-stand-in", NO_COLOR="1")
        self.assertIn("kiln: warning: --no-stand-in is now called --no-fallback", done.stderr)
        for said in (run("verify", "--help").stdout, run("man").stdout, run("completion", "bash").stdout):
            self.assertNotIn("stand-in", said)

    def test_bash(self):
        self.assertEqual(self.complete("ver"), ["verify"])
        self.assertIn("x86-64-avx2", self.complete("compile", "a.toml", "--target", "x86"))
        self.assertEqual(self.complete("run", "--engine", "g"), ["generic"])
        self.assertEqual(self.complete("compile", "--dec"), ["--decisions"])
        self.assertIn("--cmake-dir", self.complete("--"))

    def test_manual_is_clean(self):
        """Every line that roff takes for a request is one that is meant."""
        lines = run("man").stdout.splitlines()
        requests = {line.split()[0] for line in lines if line.startswith((".", "'"))}
        self.assertEqual(requests, {".TH", ".SH", ".SS", ".TP", ".PP", ".br"} & requests)
        self.assertNotIn("", lines)
        self.assertLessEqual({f".SH {name}" for name in ("NAME", "SYNOPSIS", "OPTIONS", "COMMANDS")}, set(lines))

    def test_colours(self):
        wrong = ["compile", "absent.toml", "-o", "absent"]
        self.assertTrue(on_terminal(*wrong).startswith("\x1b[1;31mkiln:\x1b[0m "))
        for variable in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            self.assertTrue(on_terminal(*wrong, **variable).startswith("kiln: "), variable)
        self.assertTrue(run(*wrong).stderr.startswith("kiln: "))

    def test_doctor(self):
        done = run("doctor", "--json")
        findings = {finding["what"]: finding for finding in json.loads(done.stdout)}
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertTrue(findings["C++ compiler"]["there"] and findings["processor"]["there"])
        for what in ("CMake", "onnx", "opencl", "cuda"):
            self.assertIn(what, findings)
        self.assertLessEqual(max(map(len, run("doctor").stdout.splitlines())), 160)

    def test_doctor_without_a_compiler(self):
        done = run("doctor", CXX="no-such-compiler", KILN_PYTHON="no-such-python")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"MISSING +C\+\+ compiler +there is no no-such-compiler\n.*\n +get it: apt-get install g\+\+")
        self.assertRegex(done.stdout, r"missing +onnx ")

    def test_cmake_folder_of_no_installation(self):
        done = run("--cmake-dir")
        self.assertEqual(done.returncode, 1)
        self.assertIn("not installed", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
