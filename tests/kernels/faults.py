"""kiln where things go wrong around it: kills, full and read-only folders, little memory, clocks, two at once."""

import contextlib
import glob
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import kiln_run
import numpy as np

TARGET = "x86-64-avx2"
LAYER = '[[layer]]\nname = "{name}"\noperator = "Conv"\nx = [1, 4, {size}, 7]\nw = [8, 4, 3, 3]\n'
MOUNT = "mount -t tmpfs -o {options} kiln-test '{folder}' && exec \"$@\""


def can_mount():
    """Whether this user may mount a folder in a namespace of its own."""
    command = ["unshare", "-rm", "sh", "-c", "mount -t tmpfs kiln-test /tmp"]
    with contextlib.suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False


CAN_MOUNT = can_mount()
NO_MOUNT = "neither root nor a user who may mount a folder of his own (unshare -rm)"


def mounted(folder, options):
    """What starts a program to which the folder is an empty file system of its own with these options."""
    return ["unshare", "-rm", "sh", "-c", MOUNT.format(options=options, folder=folder), "sh"]


class FaultTest(unittest.TestCase):
    """What the tests share: a folder with a layers file, outputs and temporary files, and ways to start kiln in it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out, self.scratch = self.folder / "out", self.folder / "scratch"
        self.scratch.mkdir()

    def spec(self, *layers):
        path = self.folder / "net.toml"
        path.write_text("".join(LAYER.format(name=name, size=size) for name, size in layers))
        return path

    def command(self, spec, out):
        return [str(word) for word in (kiln_run.kiln(), "compile", spec, "-o", out, "--target", TARGET)]

    def environment(self, **more):
        return {**os.environ, "TMPDIR": str(self.scratch), "LC_ALL": "C", **more}

    def kiln(self, command, wrapper=(), **more):
        return subprocess.run([*wrapper, *command], capture_output=True, text=True, check=False, timeout=600,
                              env=self.environment(), **more)

    def files_of(self, folder):
        """The files of a folder, by names. Folders in it, as of the weights that CMake's test reads, are none."""
        return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}

    def expect_failure(self, process, *parts):
        self.assertEqual(process.returncode, 1, process.stdout + process.stderr)
        for part in parts:
            self.assertIn(part, process.stderr)

    def kill_when(self, command, is_time, kill=os.kill):
        """Kills a command as soon as it is time, or with os.killpg all that it started, and waits until nothing of it is
        left: what it started has to notice."""
        with subprocess.Popen(command, env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              start_new_session=True) as process:
            until = time.monotonic() + 300
            while process.poll() is None and time.monotonic() < until:
                with contextlib.suppress(FileNotFoundError):  # a folder that goes while it is looked through
                    if is_time():
                        break
                time.sleep(0.001)
            with contextlib.suppress(ProcessLookupError):
                kill(process.pid, signal.SIGKILL)
        while self.processes():
            self.assertLess(time.monotonic(), until, "something of the killed command still runs")
            time.sleep(0.02)

    def processes(self):
        """Those with this test's folder in their command lines."""
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                found += [path] if str(self.folder).encode() in Path(path).read_bytes() else []
        return found


class Kiln(FaultTest):
    def test_a_kill_while_compiling(self):
        command = self.command(self.spec(("a", 9), ("b", 11), ("c", 13)), self.out)
        self.assertEqual(self.kiln(command).returncode, 0)
        expected = self.files_of(self.out)
        moments = [lambda: any(self.scratch.iterdir()), lambda: any(self.scratch.glob("*/*.o")),
                   lambda: any(self.scratch.glob("*/archive.a")), lambda: any(self.out.glob("*.part"))]
        for number, moment in enumerate(moments):
            for path in self.out.iterdir():  # of another time, and what a kill between two writes may leave
                path.write_text("old")
            (self.out / "net.h.part").write_text("half a header")
            killed = self.scratch / f"kiln-kille{number}"  # an earlier command's
            killed.mkdir()
            (killed / ".lock").touch()
            os.utime(killed, (0, 0))
            self.kill_when(command, moment)
            with contextlib.suppress(FileNotFoundError):  # if killed while it removed that, a younger one is left
                os.utime(killed, (0, 0))
            self.assertEqual(self.kiln(command).returncode, 0)
            self.assertEqual(self.files_of(self.out), expected)
            self.assertFalse(killed.exists())
            for left in self.scratch.iterdir():
                os.utime(left, (0, 0))

    def test_folders_in_use_are_left_alone(self):
        # A runner that waits, and meanwhile another command, to which the first one's folder looks old.
        cases = kiln_run.write_cases([{"name": "a", "operator": "Conv", "attributes": {}, "inputs":
                                       {"X": np.ones((1, 1, 4, 4), np.float32), "W": np.ones((1, 1, 1, 1), np.float32)}}],
                                     self.folder)
        script = self.folder / "runner"
        script.write_text(f'#!/bin/sh\ntouch "{self.folder}/waits"\nwhile [ ! -e "{self.folder}/go" ]; do sleep 0.05; done\n'
                          'exec "$@"\n')
        script.chmod(0o755)
        command = [kiln_run.kiln(), "run", cases, "-o", self.out, "--runner", script, "--target", TARGET]
        with subprocess.Popen([str(word) for word in command], env=self.environment(), stdout=subprocess.PIPE) as first:
            until = time.monotonic() + 300
            while first.poll() is None and not (self.folder / "waits").exists() and time.monotonic() < until:
                time.sleep(0.02)
            for path in self.scratch.iterdir():
                os.utime(path, (0, 0))
            self.assertEqual(self.kiln(self.command(self.spec(("a", 9)), self.folder / "other")).returncode, 0)
            (self.folder / "go").touch()
            self.assertEqual(json.loads(first.communicate()[0])["status"], "ok")
        self.assertEqual(list(self.scratch.iterdir()), [])

    def test_two_at_once_into_one_folder(self):
        specs = [self.folder / name / "net.toml" for name in ("one", "two")]
        expected = []
        for number, spec in enumerate(specs):
            spec.parent.mkdir()
            spec.write_text(LAYER.format(name=f"layer{number}", size=9 + number))
            self.assertEqual(self.kiln(self.command(spec, spec.parent / "out")).returncode, 0)
            expected.append(self.files_of(spec.parent / "out"))
        self.assertNotEqual(*expected)
        for _ in range(3):
            running = [subprocess.Popen(self.command(spec, self.out), env=self.environment(), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE) for spec in specs]
            for process in running:
                self.assertEqual(process.wait(300), 0, process.stderr.read())
                process.stderr.close()
            self.assertIn(self.files_of(self.out), expected)  # the three files are of one and the same

    @unittest.skipUnless(CAN_MOUNT, NO_MOUNT)
    def test_a_full_disk(self):
        command = self.command(self.spec(("a", 9)), self.out)
        self.out.mkdir()
        for folder, kilobytes, parts in ((self.out, 4, ["out/net.json cannot be written: No space left on device"]),
                                         (self.out, 8, ["out/libnet.a cannot be written: No space left on device"]),
                                         (self.scratch, 4, ["layer a: failed", "No space left on device"]),
                                         (self.scratch, 12, ["No space left on device"])):
            self.expect_failure(self.kiln(command, mounted(folder, f"size={kilobytes}k")), *parts)
        self.expect_failure(self.kiln(command, mounted(self.scratch, "nr_inodes=1")), f"{self.scratch}/kiln-",
                            "cannot be made: No space left on device (TMPDIR names another place)")
        self.assertEqual(list(self.out.iterdir()), [])

    @unittest.skipUnless(CAN_MOUNT, NO_MOUNT)
    def test_a_full_disk_at_run_and_bench(self):
        cases = [{"name": name, "operator": "Conv", "attributes": {}, "inputs":
                  {"X": np.ones((1, 1, size, size), np.float32), "W": np.ones((1, 1, 1, 1), np.float32)}}
                 for name, size in (("large", 64), ("small", 4))]
        path = kiln_run.write_cases(cases, self.folder)
        self.out.mkdir()
        command = [str(word) for word in (kiln_run.kiln(), "run", path, "-o", self.out, "--target", TARGET)]
        process = self.kiln(command, mounted(self.out, "size=8k"))
        self.expect_failure(process)
        large, small = (json.loads(line) for line in sorted(process.stdout.splitlines()))
        self.assertIn("large.npy: cannot be written: No space left on device", large["message"])
        self.assertEqual(small["status"], "ok")
        spec = self.spec(("a", 9))
        bench = [str(word) for word in (kiln_run.kiln(), "bench", spec, "--target", TARGET, "--json", "/dev/full")]
        self.expect_failure(self.kiln(bench), "/dev/full")

    @unittest.skipUnless(CAN_MOUNT, NO_MOUNT)
    def test_a_cache_without_room(self):
        cache = self.folder / "cache"
        cache.mkdir()
        command = [str(word) for word in (kiln_run.kiln(), "verify", self.spec(("a", 9)), "--target", TARGET, "--cxx",
                                          kiln_run.REMEMBERING_CXX)]
        environment = self.environment(XDG_CACHE_HOME=str(cache), **{kiln_run.REMEMBERED_OBJECTS: kiln_run.kept_objects()})
        process = subprocess.run([*mounted(cache, "size=64k"), *command], capture_output=True, text=True, check=False,
                                 env=environment)
        self.assertEqual(process.returncode, 0, process.stdout + process.stderr)  # it does without

    def test_a_read_only_folder(self):
        self.out.mkdir()
        command = self.command(self.spec(("a", 9)), self.out)
        if CAN_MOUNT:  # root may write where a mode says that nobody may
            wrapper, why = mounted(self.out, "ro"), "Read-only file system"
        elif os.geteuid() != 0:
            wrapper, why = (), "Permission denied"
            self.out.chmod(0o555)
        else:
            self.skipTest("root, to whom no folder is read-only, and who may not mount one")
        case = {"name": "a", "operator": "Conv", "attributes": {},
                "inputs": {"X": np.ones((1, 1, 4, 4), np.float32), "W": np.ones((1, 1, 1, 1), np.float32)}}
        cases = kiln_run.write_cases([case], self.folder)
        run = [str(word) for word in (kiln_run.kiln(), "run", cases, "-o", self.out, "--target", TARGET)]
        for each in (command, run):
            process = self.kiln(each, wrapper)
            self.expect_failure(process, f"{self.out} cannot be written: {why}")
            self.assertNotIn("compiling", process.stderr)  # it says so before it compiles
            self.assertEqual(process.stdout, "")
        self.out.chmod(0o755)
        if CAN_MOUNT:
            self.expect_failure(self.kiln(command, mounted(self.scratch, "ro")), f"{self.scratch}/kiln-",
                                "cannot be made: Read-only file system (TMPDIR names another place)")
        self.assertEqual(list(self.out.iterdir()), [])

    @unittest.skipUnless(CAN_MOUNT, NO_MOUNT)
    def test_temporary_files_on_another_device(self):
        command = self.command(self.spec(("a", 9)), self.out)
        self.assertEqual(self.kiln(command).returncode, 0)
        expected = self.files_of(self.out)
        process = self.kiln(command, mounted(self.scratch, "size=64m"))
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(self.files_of(self.out), expected)

    def test_little_memory(self):
        command = self.command(self.spec(("a", 9)), self.out)
        failures = 0
        for megabytes in range(64, 4096, 16):  # from too little for the loader to enough for kiln
            limit = megabytes << 20
            process = self.kiln(command, preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
            if process.returncode == 0:
                break
            if process.returncode == 127:  # the loader's
                continue
            failures += 1
            self.expect_failure(process, "kiln: ")
            self.assertEqual(list(self.out.iterdir()) if self.out.exists() else [], [], process.stderr)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertGreater(failures, 0, "no limit was too little for kiln, but enough for the loader")

    def test_a_clock_that_goes_backwards(self):
        """By a day, each time that kiln or what it starts looks at it: what is timed is timed by another, and nothing hangs."""
        clock = self.folder / "backwards_clock.so"
        source = Path(__file__).resolve().parent / "backwards_clock.c"
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", clock, source], check=True)
        backwards = ["env", f"LD_PRELOAD={clock}"]
        subprocess.run([*backwards, sys.executable, "-c", "import time; assert time.time() > time.time()"], check=True)
        spec = self.spec(("a", 9))
        command = self.command(spec, self.out)
        self.assertEqual(self.kiln(command).returncode, 0)
        expected = self.files_of(self.out)
        process = self.kiln(command, backwards)
        self.assertEqual((process.returncode, self.files_of(self.out)), (0, expected), process.stderr)
        times = self.folder / "times.json"
        bench = [str(word) for word in (kiln_run.kiln(), "bench", spec, "--target", TARGET, "--json", times)]
        process = self.kiln(bench, backwards)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertTrue(0 < json.loads(times.read_text())["rows"][0]["ms"] < 1000)
        self.assertEqual(list(self.scratch.iterdir()), [])

    def test_files_of_a_clock_that_went_backwards(self):
        spec = self.spec(("a", 9))
        command = self.command(spec, self.out)
        self.assertEqual(self.kiln(command).returncode, 0)
        expected = self.files_of(self.out)
        later = time.time() + 1e8
        folder = self.scratch / "kiln-future"
        folder.mkdir()
        (folder / ".lock").touch()
        for path in (spec, *self.out.iterdir(), self.out, folder):
            os.utime(path, (later, later))
        process = self.kiln(command)
        self.assertEqual((process.returncode, self.files_of(self.out)), (0, expected), process.stderr)
        self.assertTrue(folder.exists())  # somebody's, as far as anyone can tell


class CMakeBuild(FaultTest):
    """kiln_add_library() in a project without a compiler, killed at any moment and built again."""

    def test_a_kill_while_building(self):
        root = Path(__file__).resolve().parents[2]
        self.spec(("a", 9), ("b", 11))
        (self.folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.22)\nproject(net LANGUAGES NONE)\n"
            f'include("{root}/cmake/KilnAddLibrary.cmake")\nadd_executable(Kiln::kiln IMPORTED)\n'
            f'set_target_properties(Kiln::kiln PROPERTIES IMPORTED_LOCATION "{kiln_run.kiln()}")\n'
            f"kiln_add_library(net LAYERS net.toml TARGETS {TARGET})\n")
        build = self.folder / "build"
        cmake = os.environ.get("CMAKE", "cmake")
        configure = [cmake, "-S", self.folder, "-B", build, "-G", "Ninja",
                     f"-DCMAKE_MAKE_PROGRAM={os.environ.get('NINJA', 'ninja')}"]
        self.assertEqual(self.kiln([str(word) for word in configure]).returncode, 0)
        command = [cmake, "--build", str(build), "--target", "net_compile"]
        self.assertEqual(self.kiln(command).returncode, 0)
        out = build / "kiln/net"
        expected = self.files_of(out)
        self.assertEqual(sorted(expected), ["libnet.a", "net.h", "net.json"])
        changed = out / "net.h"
        for moment in (lambda: any(self.scratch.iterdir()), lambda: any(self.scratch.glob("*/*.o")),
                       lambda: any(out.glob("*.part")), lambda: changed.read_bytes() == expected["net.h"]):
            for path in filter(Path.is_file, out.iterdir()):
                path.write_text("old")
            os.utime(self.folder / "net.toml")
            self.kill_when(command, moment, os.killpg)
            process = self.kiln(command)
            self.assertEqual(process.returncode, 0, process.stdout + process.stderr)
            self.assertEqual(self.files_of(out), expected)


if __name__ == "__main__":
    unittest.main(verbosity=2)
