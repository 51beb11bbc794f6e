"""Compares the code that two builds of kiln make: `./dev gate BASE` (CONTRIBUTING.md, "Changing no code").

BASE is a kiln command, of a checkout's build before a change; it is compared with this checkout's. Every kernel is compiled
by both, and its object is compared as fingerprint.py tells; what of it differs is listed. What was found out about a build
is kept in build/gate/, under the hash of its kiln, so that it is compiled once, and a run that was stopped goes on where it
was. Exits with 1 where anything but names differs.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import re
import sys
import tempfile
import threading
import time
from pathlib import Path

import fingerprint
import plan

CHUNK = 12  # kernels of one run of `kiln compile`
TIME_LIMIT = 1200  # seconds for one kernel; the machine may be busy
FACTS = ("packed_bytes", "workspace_bytes", "worker_workspace_bytes", "stack_bytes")


class Results:
    """What is known of one build: a line of JSON for each kernel, kept as it comes."""

    def __init__(self, kiln, folder):
        self.kiln = Path(kiln).resolve()
        self.digest = hashlib.sha256(self.kiln.read_bytes()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        ways = hashlib.sha256(Path(fingerprint.__file__).read_bytes() + Path(plan.__file__).read_bytes()).hexdigest()[:8]
        self.path = folder / f"{self.digest}-{ways}.jsonl"
        self.known, self.lock = {}, threading.Lock()
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                try:
                    row = json.loads(line)
                except ValueError:  # the run was stopped while it wrote
                    continue
                self.known[row.pop("key")] = row

    def add(self, rows):
        with self.lock, self.path.open("a") as file:
            for key, row in rows.items():
                self.known[key] = row
                file.write(json.dumps({"key": key, **row}) + "\n")


@functools.cache
def no_fallback(kiln):
    """The option by which a kernel that does not compile as decided fails; builds of before had another name for it."""
    said = plan.run(kiln, "compile", "--help").stdout
    return "--no-fallback" if "--no-fallback" in said else "--no-stand-in"


def compile_units(kiln, units, options):
    """What a build makes of units of one target and variant: a row of hashes, or an error, for each."""
    rows = {}
    with tempfile.TemporaryDirectory(prefix="gate") as name:
        folder = Path(name)
        spec = folder / "gate.toml"
        spec.write_text(plan.layers_text([unit.problem for unit in units]))
        command = [kiln, "compile", spec, "-o", folder, "--name", "gate", "--target", units[0].target, "--jobs", "1",
                   "--time-limit", str(TIME_LIMIT), no_fallback(kiln), *options]
        process = plan.run(*command)
        errors = dict(re.findall(r"^kiln: layer p(\d+): (.*)$", process.stderr, re.MULTILINE))
        kernels, objects = {}, {}
        if (folder / "gate.json").exists():
            kernels = {kernel["problem"]: kernel for kernel in json.loads((folder / "gate.json").read_text())["kernels"]}
            objects = dict(fingerprint.archive_members(folder / "libgate.a"))
        for number, unit in enumerate(units):
            kernel = kernels.get(unit.problem)
            if kernel is None:
                error = errors.get(str(number), process.stderr.strip()[-400:])
                rows[unit.key] = {"error": error}
                continue
            rows[unit.key] = {name: kernel[name] for name in FACTS if name in kernel}
            rows[unit.key] |= fingerprint.Fingerprint(objects[kernel["symbol"] + ".o"], kernel["symbol"]).hashes()
            rows[unit.key] |= {"algorithm": kernel["algorithm"], "schedule": kernel["schedule"]}
    return rows


def chunks(units, known):
    """The units that are not known yet, in runs of one target and variant."""
    groups = {}
    for unit in units:
        if unit.key not in known:
            groups.setdefault((unit.target, unit.variant), []).append(unit)
    return [group[i : i + CHUNK] for group in groups.values() for i in range(0, len(group), CHUNK)]


def complete(title, results, made_of, units, jobs):
    """Finds out what is not known yet of the units."""
    unknown = chunks(units, results.known)
    count = sum(map(len, unknown))
    done, started = 0, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        pending = [pool.submit(compile_units, results.kiln, chunk, made_of.decisions[chunk[0].variant])
                   for chunk in unknown]
        try:
            for future in concurrent.futures.as_completed(pending):
                rows = future.result()
                results.add(rows)
                done += len(rows)
                print(f"{title}: {done} of {count} kernels, {time.monotonic() - started:.0f} s", file=sys.stderr)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def differences(old, new):
    """(what differs of a kernel's rows, whether that is names alone)."""
    if "error" in old or "error" in new:
        if "error" in old and "error" in new:
            return ([f"error: {old['error']} -> {new['error']}"], True) if old != new else ([], True)
        return [f"error came: {new['error']}" if "error" in new else f"error went: {old['error']}"], False
    names = ("algorithm", "schedule", "device_names")
    changed = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    serious = [name for name in changed if name not in names]
    shown = [f"{name} {old.get(name)} -> {new.get(name)}" if name in FACTS + names[:2] else name for name in changed]
    return shown, not serious


def compare(old, new, units):
    """Prints what differs; returns how many units do, and how many by names alone."""
    different = renamed = 0
    for unit in units:
        found, names_alone = differences(old[unit.key], new[unit.key])
        if not found:
            continue
        different, renamed = different + (not names_alone), renamed + names_alone
        if not names_alone:
            print(f"DIFFERS {unit.target} {unit.variant} {unit.problem}: {'; '.join(found)}")
    return different, renamed


def units_of(made, results, targets, jobs):
    """The kernels of one build for each target; which those are is kept with its results."""
    specs = hashlib.sha256("".join(made.problems).encode()).hexdigest()[:16]

    def of_target(target):
        key = f"choices {specs} {target}"
        if key not in results.known:
            results.add({key: {"choices": made.choices(target)}})
        return [plan.Unit(problem, target, variant, algorithm)
                for problem, variant, algorithm in results.known[key]["choices"]]

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return {unit.key: unit for units in pool.map(of_target, targets) for unit in units}


def compare_layers(old, new):
    """Prints which layers have come to fail, or ceased to; returns how many."""
    names = sorted(old.failures.keys() ^ new.failures.keys())
    for name in names:
        print(f"DIFFERS layer {name}: {old.failures.get(name, 'ok')} -> {new.failures.get(name, 'ok')}")
    return len(names)


def common_units(old, new):
    """The kernels that both builds make, having printed those of one alone; and how many those are. An algorithm that one
    build does not have is no difference, where nothing but the gate asks for it."""
    asked = [{unit.variant for unit in units.values()} for units in (old, new)]
    for variant in sorted(asked[0] ^ asked[1]):
        print(f"only {'the base' if variant in asked[0] else 'this build'} has the algorithm {variant}")
    alone = sorted(key for key, unit in (old | new).items()
                   if (key in old) != (key in new) and unit.variant in asked[0] & asked[1])
    for key in alone:
        print(f"DIFFERS only {'the base' if key in old else 'this build'} makes {key}")
    return [unit for key, unit in old.items() if key in new], len(alone)


def read_arguments(words):
    parser = argparse.ArgumentParser(prog="./dev gate", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("base", metavar="BASE", help="the kiln command to compare with")
    parser.add_argument("--kiln", metavar="KILN", default=plan.ROOT / "build/bin/kiln", help="that of the change; this checkout's")
    parser.add_argument("--targets", help="only these, with commas between")
    parser.add_argument("--sample", type=int, metavar="N", help="only N kernels of each target and algorithm")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at once")
    return parser.parse_args(words)


def main(words=None):
    asked = read_arguments(words)
    folder = plan.ROOT / "build/gate"
    old, new = Results(asked.base, folder), Results(asked.kiln, folder)
    if old.digest == new.digest:
        new = old
    known = plan.targets_of(new.kiln)
    targets = asked.targets.split(",") if asked.targets else [t for t in plan.targets_of(old.kiln) if t in known]
    with tempfile.TemporaryDirectory(prefix="gate") as one, tempfile.TemporaryDirectory(prefix="gate") as two:
        plans = plan.Plan(old.kiln, Path(one)), plan.Plan(new.kiln, Path(two))
        failing = compare_layers(*plans)
        units, alone = common_units(*(units_of(made, results, targets, asked.jobs)
                                      for made, results in zip(plans, (old, new))))
        units = plan.sample(units, asked.sample)
        complete(f"base {old.digest}", old, plans[0], units, asked.jobs)
        complete(f"this {new.digest}", new, plans[1], units, asked.jobs)
    code, renamed = compare(old.known, new.known, units)
    print(f"{len(units)} kernels of {len(targets)} targets: {code} differ, {renamed} in names alone; "
          f"{alone} are made by one build alone, {failing} layers fail with one alone")
    return 1 if code or alone or failing else 0


if __name__ == "__main__":
    sys.exit(main())
