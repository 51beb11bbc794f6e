"""kiln tune: what it measures, records and decides, and what it says when something is wrong."""

import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import kiln_run

LAYER = """
[[layer]]
name = "{name}"
operator = "Conv"
x = [1, {channels}, {size}, {size}]
w = [16, {channels}, 3, 3]
pads = [1, 1, 1, 1]
bias = true
layouts = {{ x = "NXC", y = "NXC" }}
"""
ONE = LAYER.format(name="a", channels=16, size=12)
THREE = ONE + LAYER.format(name="b", channels=8, size=10) + LAYER.format(name="c", channels=16, size=12)  # a and c are one
TARGET = "x86-64-avx2"

# Starts the program, but ends it by a signal, hangs, or says rubbish, once it is at a kernel.
RUNNER = """#!{python}
import os, signal, subprocess, sys, time
program = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
for line in program.stdout:
    print(line, end="", flush=True)
    if line.startswith('{{"begin":{kernel},'):
        program.kill()
        {action}
sys.exit(program.wait())
"""
SEEDED_RUNNER = Path(__file__).with_name("seeded_runner.py")
CLUSTER = Path(__file__).resolve().parents[2] / "tools/cluster"


def key(record):
    return record["problem"], record["algorithm"], record["schedule"]


class TuneCommand(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.spec, self.timings = self.folder / "net.toml", self.folder / "timings.jsonl"
        self.decisions = self.folder / "decisions.jsonl"
        self.spec.write_text(ONE)

    def command(self, *options):
        return [kiln_run.kiln(), "tune", self.spec, "--timings", self.timings, "--decisions", self.decisions, *options]

    def kiln(self, *arguments):
        return subprocess.run([kiln_run.kiln(), *arguments], capture_output=True, text=True, check=False)

    def tune(self, *options, target=TARGET, **more):
        return subprocess.run([str(word) for word in self.command("--target", target, *options)], capture_output=True,
                              text=True, check=False, **more)

    def records(self):
        return [json.loads(line) for line in self.timings.read_text().splitlines()]

    def decided(self):
        return [json.loads(line) for line in self.decisions.read_text().splitlines()]

    def expect_error(self, process, *parts, status=1):
        self.assertEqual(process.returncode, status, process.stdout + process.stderr)
        for part in parts:
            self.assertIn(part, process.stderr)

    def script(self, text):
        script = self.folder / "runner"
        script.write_text(text)
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return script

    def runner(self, kernel, action):
        return self.script(RUNNER.format(python=sys.executable, kernel=kernel, action=action))

    def test_cold_caches(self):
        self.assertEqual(self.tune("--budget", "1c").returncode, 0)
        self.assertEqual([line["caches"] for line in self.decided()], ["warm"])
        process = self.tune("--budget", "2c", "--cold", "--resume")
        self.assertEqual(process.returncode, 0, process.stderr)
        cold = [record for record in self.records() if record["caches"] == "cold" and not record.get("final")]
        self.assertEqual(len(cold), 1 + 2)  # warm records do not count
        self.assertEqual([line["caches"] for line in self.decided()], ["cold"])
        explained = self.kiln("explain", self.spec, "--target", TARGET, "--decisions", self.decisions)
        self.assertIn(f"({self.decisions}:1, cold caches)", explained.stdout)
        process = self.kiln("bench", self.spec, "--target", TARGET, "--cold")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("1 thread, weights in no cache", process.stdout)
        self.expect_error(self.tune("--budget", "1c", "--cold", "--predict", "neoverse-n1", target="arm-64-linux"),
                          "--cold has no meaning with --predict")

    def test_measures_checks_records_and_decides(self):
        self.spec.write_text(THREE)
        other = '{"problem":"conv1d","target":"x86-64-avx2","algorithm":"direct","revision":1,"schedule":""}\n'
        self.decisions.write_text(other)
        page = self.folder / "page.html"
        process = self.tune("--budget", "10c", "--json", "--report", page)
        self.assertEqual(process.returncode, 0, process.stderr)
        answer = json.loads(process.stdout)
        self.assertEqual([problem["layers"] for problem in answer["problems"]], [["a", "c"], ["b"]])

        records = self.records()
        self.assertEqual({record["verdict"] for record in records}, {"ok"}, records)  # every candidate is legal, and right
        searched = [record for record in records if not record.get("final")]
        self.assertEqual(len(searched), 10 + 2)  # and the defaults
        self.assertEqual(len({key(record) for record in searched}), len(searched))
        for problem in answer["problems"]:
            self.assertGreaterEqual(problem["tried"], 4)  # both get their turn
        self.assertGreater(len({record["algorithm"] for record in records}), 1)
        for record in records:
            self.assertEqual(record["target"], TARGET)
            self.assertTrue(record["ms"] > 0 and record["ratio"] > 0 and record["spread"] >= 0, record)
            self.assertTrue(record["machine"] and record["halide"] and record["kiln"], record)
            self.assertEqual(record["host"], socket.gethostname())
            self.assertTrue(record["calibration"] > 0 and record["load"] >= 0, record)
            self.assertTrue(record["rounds"] >= 2 and record["timing_seconds"] > 0, record)

        first, *rest = self.decisions.read_text().splitlines(keepends=True)
        self.assertEqual(first, other)
        self.assertEqual([json.loads(line)["problem"] for line in rest], [p["problem"] for p in answer["problems"]])
        for line, problem in zip(rest, answer["problems"]):
            best = min(r["ratio"] for r in searched if r["problem"] == problem["problem"])
            self.assertTrue(problem["gain"] == 1 or best < 0.99, problem)
            self.assertEqual(json.loads(line)["schedule"], problem["chosen"]["schedule"])

        text = page.read_text()
        self.assertIn("Plotly", text)
        text = re.sub(r'<script class="library"[^>]*>.*?</script>', "", text, flags=re.DOTALL)
        self.assertIn("a (x2)", text)
        machine, = answer["pool"]["machines"]
        self.assertEqual(machine["timed"], len(records))
        self.assertRegex(text, r"Timers were busy for \d+% of the time, compilers for\s\d+%; nothing was lost")
        self.assertIn(f'<td class="left">{machine["host"]}</td><td class="">{len(records)}</td>', text)
        self.assertIn(f'<td class="">{machine["calibration"]:.0f}</td>', text)
        self.assertRegex(process.stderr, f"(?m)^a: done, .* times the default, \\d+ tried, by {machine['host']}$")
        self.assertNotRegex(text, r'(src|href)\s*=|@import|url\(')  # self-contained

        # What was decided is what builds take, and it is right; two builds are the same bytes.
        libraries = []
        for name in ("one", "two"):
            done = self.kiln("compile", self.spec, "-o", self.folder / name, "--name", "net", "--target", TARGET,
                             "--decisions", self.decisions)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr.count("warning"), 0, done.stderr)
            libraries.append((self.folder / name / "libnet.a").read_bytes())
        self.assertEqual(*libraries)
        manifest = json.loads((self.folder / "one/net.json").read_text())
        self.assertEqual(sorted(k["schedule"] for k in manifest["kernels"]),
                         sorted(p["chosen"]["schedule"] for p in answer["problems"]))
        done = self.kiln("verify", self.spec, "--target", TARGET, "--decisions", self.decisions)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_kill_loses_what_is_in_flight_and_resume_goes_on(self):
        with subprocess.Popen([str(word) for word in self.command("--target", TARGET, "--budget", "500c")],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            until = time.monotonic() + 120
            while time.monotonic() < until and (not self.timings.exists() or self.timings.read_text().count("\n") < 4):
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
        before = self.timings.read_text()
        known = {key(json.loads(line)) for line in before.splitlines()}  # all lines are whole
        self.assertGreaterEqual(len(known), 4)
        process = self.tune("--budget", f"{len(known) + 5}c", "--resume")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertTrue(self.timings.read_text().startswith(before))
        default = key(self.records()[0])
        again = [key(record) for record in self.records()[before.count("\n"):] if not record.get("final")]
        self.assertEqual(set(again) & known, {default})
        self.assertGreaterEqual(len(set(again) - known), 5)
        self.assertEqual(len(self.decided()), 1)

    def test_damaged_records_are_named_and_left_alone(self):
        self.assertEqual(self.tune("--budget", "3c").returncode, 0)
        lines = self.timings.read_text().splitlines()
        damaged = [lines[0], "{rubbish", *lines[1:3], '{"problem":"only"}', *lines[3:], lines[1][:50]]
        self.timings.write_text("\n".join(damaged))  # the last is cut short, as by a kill
        process = self.tune("--budget", "6c", "--resume")
        self.assertEqual(process.returncode, 0, process.stderr)
        for number in (2, 5, len(damaged)):
            self.assertIn(f"timings.jsonl:{number}: not a record", process.stderr)
        after = self.timings.read_text().splitlines()
        self.assertEqual(after[: len(damaged)], damaged)
        self.assertGreater(len(after), len(damaged))
        tried = [key(json.loads(line)) for line in after[len(damaged):] if not json.loads(line).get("final")]
        self.assertFalse({key(json.loads(line)) for line in lines[1:] if not json.loads(line).get("final")} & set(tried))

    def test_records_from_before_a_number_came(self):
        self.assertEqual(self.tune("--budget", "4c").returncode, 0)
        before = self.timings.read_text()
        self.timings.write_text(re.sub(";(ahead|chunk|channels|joined):0", "", before))
        self.assertNotEqual(self.timings.read_text(), before)
        tried = {key(record) for record in self.records()}
        process = self.tune("--budget", "4c", "--resume", "--json")  # all four are there
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(json.loads(process.stdout)["problems"][0]["tried"], 4)
        self.assertEqual(len(tried), len({key(json.loads(line)) for line in before.splitlines()}))
        record = self.records()[0] | {"schedule": "lanes:8;knots:2"}  # a number that is no more
        self.timings.write_text(json.dumps(record) + "\n" + self.timings.read_text())
        self.assertEqual(self.tune("--budget", "4c", "--resume").returncode, 0)

    def test_a_full_disk(self):
        filled = "\n" * (8 << 20)
        self.timings.write_text(filled)
        limit = len(filled) + 1000  # for a record or two
        process = self.tune("--budget", "12c",
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.expect_error(process, "timings.jsonl cannot be written: File too large", "go on with --resume")
        recorded = self.timings.read_text().removeprefix(filled)
        self.assertTrue(recorded.endswith("}\n"))
        self.assertTrue(all(json.loads(line) for line in recorded.splitlines()))
        self.timings = Path("/dev/full")
        self.expect_error(self.tune("--budget", "12c"), "/dev/full cannot be written: No space left on device")
        self.timings = self.folder / "absent/timings.jsonl"
        self.expect_error(self.tune("--budget", "12c"), "absent/timings.jsonl cannot be written: No such file")

    def test_runners_that_fail_hang_or_print_rubbish(self):
        silent = self.folder / "silent"
        silent.write_text("#!/bin/sh\nexec sleep 1000\n")
        silent.chmod(0o755)
        cases = {("false",): "the runner false exited with status 1",
                 (silent, "--time-limit", "15"): f"the runner {silent} said nothing for 15 seconds",
                 ("echo hello",): "the runner echo hello printed what is no result: hello",
                 ("/absent/runner",): "/absent/runner cannot be started"}
        for (runner, *options), part in cases.items():
            self.expect_error(self.tune("--budget", "2c", "--runner", runner, *options), part)

    def test_candidates_that_crash_or_hang_are_recorded_and_the_run_goes_on(self):
        process = self.tune("--budget", "6c", "--runner", self.runner(2, "os.kill(os.getpid(), signal.SIGSEGV)"))
        self.assertEqual(process.returncode, 0, process.stderr)
        verdicts = [record["verdict"] for record in self.records() if not record.get("final")]
        self.assertEqual(len(verdicts), 7)
        self.assertEqual([v for v in verdicts if v != "ok"], ["failed: the timing program was ended by signal 11"])
        self.assertIn("runner", self.records()[0]["machine"])

        self.timings.unlink()
        process = self.tune("--budget", "2c", "--time-limit", "10", "--runner", self.runner(1, "time.sleep(1000)"))
        self.assertEqual(process.returncode, 0, process.stderr)
        verdicts = [record["verdict"] for record in self.records() if not record.get("final")]
        self.assertEqual([v for v in verdicts if v != "ok"],
                         ["failed: the timing program said nothing for 10 seconds and was ended (--time-limit)"])

    def test_shards_share_the_work_and_merge(self):
        self.spec.write_text(THREE)
        timings, decisions = [], []
        for shard in ("1/2", "2/2"):
            process = self.tune("--budget", "3c", "--shard", shard)
            self.assertEqual(process.returncode, 0, process.stderr)
            timings.append(self.timings.read_text())
            decisions.append(self.decisions.read_text())
            self.timings.unlink()
            self.decisions.unlink()
        problems = [{json.loads(line)["problem"] for line in text.splitlines()} for text in decisions]
        self.assertEqual([len(p) for p in problems], [1, 1])
        self.assertEqual(len(problems[0] | problems[1]), 2)
        self.timings.write_text("".join(timings))
        self.decisions.write_text("".join(decisions))
        process = self.tune("--budget", "6c", "--resume", "--json")  # all six are there
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual([problem["tried"] for problem in json.loads(process.stdout)["problems"]], [3, 3])
        self.assertEqual(len(self.decided()), 2)

    def test_budgets_in_seconds_and_for_each_layer(self):
        self.spec.write_text(THREE)
        process = self.tune("--budget", "2c/layer", "--json")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual([problem["tried"] for problem in json.loads(process.stdout)["problems"]], [2, 2])
        process = self.tune("--budget", "3s", "--layer", "b", "--json")
        self.assertEqual(process.returncode, 0, process.stderr)
        problem, = json.loads(process.stdout)["problems"]
        self.assertEqual(problem["layers"], ["b"])
        self.assertGreater(problem["tried"], 0)

    def test_each_layer_has_its_turn_whatever_the_others_took(self):
        self.spec.write_text(THREE)
        process = self.tune("--budget", "8c", "--layer", "a")
        self.assertEqual(process.returncode, 0, process.stderr)
        slow = self.script('#!/bin/sh\nsleep 2\nexec "$@"\n')
        for options in (("--budget", "2c/layer", "--resume"), ("--budget", "1s/layer", "--jobs", "1", "--runner", slow)):
            process = self.tune(*options, "--json")
            self.assertEqual(process.returncode, 0, process.stderr)
            self.assertEqual([problem["error"] for problem in json.loads(process.stdout)["problems"]], ["", ""])

    def test_replayed_timings_decide_the_same_on_any_fleet(self):
        self.spec.write_text(THREE)
        runner = self.script(SEEDED_RUNNER.read_text())
        budget = "7c/layer"  # any other is shared by how long things took, too
        process = self.tune("--budget", budget, "--runner", runner)
        self.assertEqual(process.returncode, 0, process.stderr)
        decided, tried = sorted(self.decided(), key=str), {key(record) for record in self.records()}
        self.assertEqual(len(decided), 2)
        recorded = self.timings.rename(self.folder / "recorded.jsonl")
        for fleet in ("1x1", "3x20"):
            self.decisions.unlink()
            process = self.tune("--budget", budget, "--replay", recorded, "--fleet", fleet, "--json")
            self.assertEqual(process.returncode, 0, process.stderr)
            # A fleet of several settles in another order, and a fresh file's lines stand in that.
            self.assertEqual(sorted(self.decided(), key=str), decided)
            self.assertEqual({key(record) for record in self.records()}, tried)
            self.assertTrue(all(record["machine"].endswith("; replayed") for record in self.records()))
            pool = json.loads(process.stdout)["pool"]
            self.assertEqual(pool["drawn"], 0)
            self.assertTrue(0 < pool["timers_busy"] <= 1 and 0 < pool["compilers_busy"] <= 1, pool)
            self.timings.unlink()
        self.expect_error(self.tune("--budget", "1c", "--replay", self.folder / "absent"), "there is no timing")
        self.expect_error(self.tune("--budget", "1c", "--replay", self.timings), "are one file")
        self.expect_error(self.tune("--budget", "1c", "--replay", "x", "--fleet", "0x3"), "write TIMERSxCOMPILERS", status=2)

    def test_where_ray_is_missing_its_installation_is_told(self):
        python = self.script(f"#!/bin/sh\nexec {sys.executable} -S -E \"$@\"\n")  # without any package
        pinned, = (line for line in (CLUSTER / "requirements.txt").read_text().splitlines() if not line.startswith("#"))
        process = self.tune("--budget", "1c", "--cluster", "local", env={**os.environ, "KILN_PYTHON": str(python)})
        self.expect_error(process, "--cluster needs Ray", f" -m pip install '{pinned}'", "KILN_PYTHON")
        self.assertEqual(self.timings.read_text(), "")

    def test_predictions(self):
        options = ("--budget", "6c", "--predict", "skylake-avx512", "--json")
        texts = []
        for _ in range(2):
            process = self.tune(*options, target="x86-64-avx512")
            self.assertEqual(process.returncode, 0, process.stderr)
            texts.append(self.decisions.read_text())
            self.decisions.unlink()
        self.assertEqual(*texts)  # the same seed, the same predictions: the same search
        self.assertEqual(json.loads(texts[0])["predicted_for"], "skylake-avx512")
        self.assertFalse(self.timings.exists())
        answer = json.loads(process.stdout)
        self.assertTrue(answer["predicted"])
        self.assertIn("predicted by llvm-mca", answer["machine"])
        ratios = {candidate["ratio"] for candidate in answer["problems"][0]["candidates"]}
        self.assertGreater(len(ratios), 3)
        for candidate in answer["problems"][0]["candidates"]:  # of algorithms that are chosen by an estimate
            estimated = candidate["algorithm"] in ("direct", "winograd", "kn2row", "inner_product")
            self.assertTrue(candidate["estimated_cycles"] > 0 if estimated else candidate["estimated_cycles"] is None, candidate)
        table = self.tune("--budget", "1c", *options[2:-1], target="x86-64-avx512")
        self.assertIn("predicted, not measured", table.stdout)

    def test_arm_through_an_emulator(self):
        self.spec.write_text(LAYER.format(name="a", channels=8, size=6))
        process = self.tune("--budget", "2c", "--runner", "qemu-aarch64", "--cxx", "aarch64-linux-gnu-g++",
                            target="arm-64-linux")
        self.assertEqual(process.returncode, 0, process.stderr)
        searched = [record for record in self.records() if not record.get("final")]
        self.assertEqual([record["verdict"] for record in searched], ["ok"] * 3)
        self.assertTrue(all(record["machine"].endswith("; by qemu-aarch64") for record in searched))
        self.assertEqual(self.decided()[0]["target"], "arm-64-linux")
        process = self.tune("--budget", "2c", target="arm-64-linux")
        self.expect_error(process, "this machine cannot run arm-64-linux: give --runner CMD")

    def test_predictions_for_arm(self):
        for cpu in ("neoverse-n1", "neoverse-v1"):
            process = self.tune("--budget", "2c", "--predict", cpu, target="arm-64-linux")
            self.assertEqual(process.returncode, 0, process.stderr)
            self.assertRegex(process.stdout, f"predicted by llvm-mca .* for {cpu}")
        for cpu in ("cortex-a55", "skylake-avx512"):
            self.expect_error(self.tune("--budget", "1c", "--predict", cpu, target="arm-64-linux"), f"--predict {cpu}",
                              "it may be one of neoverse-n1, neoverse-v1")
        self.assertFalse(self.timings.exists())

    def test_wrong_arguments(self):
        for budget in ("0s", "0c", "-3s", "1.5c", "10", "fast", "3h"):
            self.expect_error(self.tune(f"--budget={budget}"), f"--budget: {budget}", status=2)
        for shard in ("0/2", "3/2", "1", "a/b", "1/2/3"):
            self.expect_error(self.tune("--budget", "1c", f"--shard={shard}"), f"--shard: {shard}", status=2)
        self.expect_error(self.tune(), "--budget is required", status=2)
        self.expect_error(self.tune("--budget", "1c", target="z80"), 'target "z80"')
        self.expect_error(self.tune("--budget", "1c", "--layer", "aa"), "there is no layer aa: did you mean a?")
        for cpu in ("z80", "cortex-a55"):
            self.expect_error(self.tune("--budget", "1c", "--predict", cpu), f"--predict {cpu}", "it may be one of")
        process = self.tune("--budget", "1c", "--time-limit", "0.001")
        self.expect_error(process, "its default kernel does not compile: took more than the 0.001 seconds allowed")

    def test_decisions_that_no_longer_count_are_named(self):
        problem = json.loads(self.kiln("explain", self.spec, "--target", TARGET, "--json").stdout)
        problem = problem["layers"][0]["problem"]
        good = {"problem": problem, "target": TARGET, "algorithm": "direct", "revision": 1, "schedule":
                "lanes:8;vectors:2;pixels:3;rows:1;unroll:2;dot_width:1;panels_outside:0;parallel:0"}
        cases = [({}, "direct, schedule lanes:8;vectors:2", "(%s:1)", ""),
                 ({"revision": 99}, "(default)", "", "algorithm direct is at revision 1, the decision at 99"),
                 ({"algorithm": "fast"}, "(default)", "", 'algorithm "fast" is not one of'),
                 ({"schedule": good["schedule"].replace("pixels:3", "pixels:40")}, "(default)", "", "larger than the image")]
        for change, choice, origin, refusal in cases:
            self.decisions.write_text(json.dumps({**good, **change}) + "\n")
            told = self.kiln("explain", self.spec, "--target", TARGET, "--decisions", self.decisions).stdout
            self.assertIn(choice, told)
            self.assertIn(origin % self.decisions if origin else "refused, the default is taken", told)
            done = self.kiln("compile", self.spec, "-o", self.folder / "out", "--target", TARGET, "--decisions",
                             self.decisions)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(refusal, done.stderr)
            self.assertEqual("warning" in done.stderr, bool(refusal))


if __name__ == "__main__":
    unittest.main(verbosity=2)
