"""Tries new random layers on targets for as long as asked, on all cores: `./dev soak` (--help).

Batches are drawn as random_problems.py draws them (problems.py), one in four as deployments have them, and go in turn to each
target. A batch is compiled and linked at once: by default decisions, whose output NumPy checks, and a share by decisions drawn
from the spaces that tuning goes through, which kiln verify checks, with threads, unaligned tensors and misused workspaces. What fails is
reduced (reducer.py) and kept as a line of tests/cases/regressions.jsonl, which soak_regressions.py runs in each `./dev test`.

What was tried is a line a batch in build/soak/batches.jsonl: another soak goes on behind it. The seed is drawn when there is no
such file.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import random
import resource
import sys
import time
import zlib
from pathlib import Path

import problems
import reducer
import soak_regressions
import soak_totals
import support_table
import targets
import trials

ROOT = Path(__file__).resolve().parents[2]

WIDE_SHARE = 4  # one layer in so many is drawn as deployments have them
DRAWN_SHARE = 3  # one in so many is compiled a second time, by a decision drawn for it
# By engine: how many layers a batch has (linking specialised kernels takes seconds of its own, and the generic ones of all
# operators, types and ranks are compiled for each batch anew, over a minute), and their largest products, and those of wide
# ones. Emulators run some twenty times slower.
BATCH = {"specialized": 60, "generic": 3000}
MOST_PRODUCTS = {"specialized": (2_000_000, 30_000_000), "generic": (300_000, 3_000_000)}
MOST_EMULATED = (1_000_000, 5_000_000)
# How many layers of one target are tried to those of another: by engine, and by how they are tried there.
WEIGHTS = {
    "specialized": {targets.RUN: 10, targets.EMULATED: 3, targets.COMPILED: 1},
    "generic": {targets.RUN: 40, targets.EMULATED: 10},
}
TIME_LIMIT = 7200  # seconds for a batch, of a clock on the wall; one that takes longer is halved
ROUNDS = 30  # of reducing
REDUCING_SECONDS = 900  # of a clock on the wall: where it is compiling that does not end, each layer takes its time limit
REDUCED_AT_ONCE = 8

COUNTS = ("count", "right", "unsupported", "not run", "failed", "points", "processor_seconds")


class Lane:
    """A target and an engine, and how far it got."""

    def __init__(self, target, engine, seed, kinds=None):
        self.target, self.engine, self.seed, self.kinds = target, engine, seed, kinds
        # Each target draws layers of its own: what one has shown to be right would tell less of the next.
        self.draw_seed = seed ^ zlib.crc32(target.encode())
        self.next = self.done = 0
        self.counts = collections.Counter()

    @property
    def key(self):
        return self.target, self.engine

    @property
    def weight(self):
        # What is there for GPUs runs their kernels on the processor, and no faster than an emulator does.
        way = targets.EMULATED if targets.is_gpu(self.target) else targets.way(self.target)
        return WEIGHTS[self.engine][way]

    def take(self, size):
        first, self.next = self.next, self.next + size
        return first

    def add(self, batch):
        self.next = max(self.next, batch["first"] + batch["count"])
        self.counts.update({key: batch[key] for key in COUNTS})


def draw(lane, first, count):
    most = MOST_EMULATED if targets.way(lane.target) == targets.EMULATED else MOST_PRODUCTS[lane.engine]
    cells = [cell for cell in problems.CELLS if not targets.is_gpu(lane.target) or cell[1] in trials.GPU_TYPES]
    wide = {number: number % WIDE_SHARE == 0 for number in range(first, first + count)}
    # The stride over the cells is its own, so that each cell is drawn wide as well.
    return [
        problems.draw(lane.draw_seed, n + n // len(cells), most[is_wide], cells, is_wide, lane.kinds)
        for n, is_wide in wide.items()
    ]


def halved(tried, attempt, verdict_of):
    """attempt(tried), or where that takes too long or answers nothing, of its halves, down to the single one that is why."""
    try:
        return attempt(tried)
    except Exception as error:  # noqa: BLE001  (whatever it is, it is told of one layer, and the soak goes on)
        if len(tried) == 1:
            return [verdict_of(f"nothing came of it: {(str(error) or repr(error)).splitlines()[-1]}")]
        middle = len(tried) // 2
        return halved(tried[:middle], attempt, verdict_of) + halved(tried[middle:], attempt, verdict_of)


def run(tried, lane, decisions=()):
    options = {"decisions": decisions, "jobs": 1, "time_limit": TIME_LIMIT}
    return halved(tried, lambda some: trials.run(some, lane.target, lane.engine, **options), trials.Verdict)


def verify(texts, lane, decisions):
    options = {"decisions": decisions, "jobs": 1, "time_limit": TIME_LIMIT}
    return halved(texts, lambda some: trials.verify(some, lane.target, **options)[0], trials.Verdict)


def processor_seconds():
    """What this process and those it started have used."""
    return sum(sum(resource.getrusage(whose)[:2]) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def try_drawn(lane, tried, verdicts, decision):
    """A share of the layers that were right again, by a decision that draws for each: how many, and the failures."""
    compiled = targets.way(lane.target) == targets.COMPILED
    again = [(layer, v.problem) for layer, v in zip(tried, verdicts) if v.kind in ("right", "not run") and not v.failure]
    again = again[::DRAWN_SHARE]
    if not again or lane.engine != "specialized" or targets.is_gpu(lane.target):
        return 0, []
    some, texts = zip(*again)
    step = trials.RUN if compiled else trials.VERIFY
    failures = []
    for (layer, text), verdict in zip(again, run(some, lane, [decision]) if compiled else verify(texts, lane, [decision])):
        if verdict.failure:
            own = trials.decision_of(text, lane.target, decision) if text else decision
            failures.append(soak_regressions.line(layer, *lane.key, step, own, verdict))
    return len(again), failures


def cells_found(tried, verdicts):
    """What docs/support.md is made of: of each cell whether it was computed."""
    found = {}
    for layer, verdict in zip(tried, verdicts):
        cell = problems.cell_of(layer)
        found[cell] = verdict.kind != "unsupported" and not verdict.failure and found.get(cell, True)
    return sorted([*cell[:3], list(cell[3]), right] for cell, right in found.items())


def try_batch(lane, first, count):
    """A batch's line, and its failures as lines of regressions.jsonl that are not reduced yet."""
    start, used = time.monotonic(), processor_seconds()
    tried = draw(lane, first, count)
    verdicts = run(tried, lane)
    failures = [soak_regressions.line(layer, *lane.key, trials.RUN, None, v) for layer, v in zip(tried, verdicts) if v.failure]
    points, more = try_drawn(lane, tried, verdicts, {"problem": "*", "draw": first})
    failures += more
    kinds = collections.Counter(v.kind if not v.failure else "failed" for v in verdicts)
    batch = {"target": lane.target, "engine": lane.engine, "seed": lane.seed, "first": first, "count": count, "points": points,
             **{kind: kinds[kind] for kind in ("right", "unsupported", "not run")}, "failed": len(failures),
             "seconds": round(time.monotonic() - start, 1), "processor_seconds": round(processor_seconds() - used, 1),
             "found": cells_found(tried, verdicts)}  # fmt: skip
    return batch, failures


def reduce(failure):
    """The failure, of the smallest layer that fails alike, as far as the time suffices."""
    end = time.monotonic() + REDUCING_SECONDS

    def failing(tried):
        fails = []
        while len(fails) < len(tried) and time.monotonic() < end:
            some = tried[len(fails) : len(fails) + REDUCED_AT_ONCE]
            verdicts = soak_regressions.verdicts([{**failure, "layer": layer} for layer in some], jobs=1)
            fails += [verdict.failure_class == failure["class"] for verdict in verdicts]
        return fails + [False] * (len(tried) - len(fails))

    try:
        return {**failure, "layer": reducer.reduce(failure["layer"], failing, ROUNDS)}
    except Exception as error:  # noqa: BLE001  (a failure is kept in any case)
        return {**failure, "not_reduced": str(error)[:200]}


class Soak:
    def __init__(self, options):
        self.options = options
        self.folder = options.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.batches = [json.loads(line) for line in soak_regressions.lines_of(self.folder / "batches.jsonl")]
        seed = options.seed or (self.batches[0]["seed"] if self.batches else random.SystemRandom().randrange(1, 2**31))
        engines = ["specialized", "generic"] if options.engine == "all" else [options.engine]
        self.lanes = {(t, e): Lane(t, e, seed, options.kinds) for e in engines for t in options.targets if self.has(t, e)}
        for batch in self.batches:
            if (batch["target"], batch["engine"]) in self.lanes and batch["seed"] == seed:
                self.lanes[batch["target"], batch["engine"]].add(batch)
        self.before = {key: collections.Counter(lane.counts) for key, lane in self.lanes.items()}
        self.kept = {soak_regressions.kind_of(failure) for failure in soak_regressions.read(options.regressions)}
        self.kinds = collections.Counter()
        self.begin = time.monotonic()

    @staticmethod
    def has(target, engine):
        return not (engine == "generic" and (targets.is_gpu(target) or targets.way(target) == targets.COMPILED))

    def say(self, text):
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

    def next_lane(self):
        """The one that has least behind it, by its weight."""
        return min(self.lanes.values(), key=lambda lane: lane.next / lane.weight)

    def is_over(self, started):
        o = self.options
        return time.monotonic() - self.begin > o.hours * 3600 or (o.batches is not None and started >= o.batches)

    def run(self):
        """Until the time is over, or ^C: then what runs is left to end."""
        started, running = 0, {}
        with self.options.pool(max_workers=self.options.jobs) as pool:
            try:
                while True:
                    while len(running) < self.options.jobs and not self.is_over(started):
                        lane = self.next_lane()
                        size = self.options.batch or BATCH[lane.engine]
                        running[pool.submit(try_batch, lane, lane.take(size), size)] = "batch"
                        started += 1
                    if not running:
                        break
                    for done in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED).done:
                        if running.pop(done) == "batch":
                            for failure in self.take_batch(*done.result()):
                                running[pool.submit(reduce, failure)] = "failure"
                        else:
                            self.keep(done.result())
            except KeyboardInterrupt:
                self.say("interrupted: batches that were not ended are tried again by the next soak")
                pool.shutdown(wait=False, cancel_futures=True)
        self.summarize()
        return 1 if self.kinds else 0

    def take_batch(self, batch, failures):
        """Keeps the batch's line; returns the failures of new kinds."""
        with open(self.folder / "batches.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(batch) + "\n")
        self.batches.append(batch)
        lane = self.lanes[batch["target"], batch["engine"]]
        lane.add(batch)
        told = ", ".join(f"{batch[kind]} {kind}" for kind in ("right", "unsupported", "not run", "failed") if batch[kind])
        self.say(f"{lane.target}, {lane.engine}: {batch['first']} to {batch['first'] + batch['count'] - 1}: {told}, and "
                 f"{batch['points']} drawn decisions, in {batch['seconds']:.0f} s")  # fmt: skip
        new = []
        for failure in failures:
            with open(self.folder / "failures.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(failure) + "\n")
            kind = soak_regressions.kind_of(failure)
            if kind not in self.kinds and kind not in self.kept:
                self.say(f"failed: {kind}; reducing it")
                new.append(failure)
            self.kinds[kind] += 1
        return new

    def keep(self, failure):
        soak_regressions.add(self.options.regressions, failure)
        self.say(f"kept in {self.options.regressions.name}: {failure['target']}, {json.dumps(failure['layer'])}")

    def summarize(self):
        row = "{:<27}{:<13}" + "{:>12}" * 7 + "{:>14}"
        print(row.format("target", "engine", "tried", "of them now", "right", "unsupported", "not run", "drawn", "failed",
                         "a core minute"))  # fmt: skip
        for key, lane in self.lanes.items():
            c, now = lane.counts, lane.counts - self.before[key]
            rate = f"{60 * now['count'] / now['processor_seconds']:.0f}" if now["processor_seconds"] else "-"
            print(row.format(*key, c["count"], now["count"], c["right"], c["unsupported"], c["not run"], c["points"],
                             c["failed"], rate))  # fmt: skip
        for target in sorted({target for target, _ in self.lanes}):
            if targets.way(target) == targets.COMPILED:
                print(f"{target} was compiled and linked alone, no value was seen: {targets.lacks(target)}")
        for kind, count in self.kinds.most_common():
            print(f"{count} failed: {kind}")
        print(f"{sum(self.kinds.values())} failures of {len(self.kinds)} kinds", flush=True)

    def write_tables(self):
        """docs/support.md and tests/kernels/soak_totals.jsonl, from all that was ever tried here."""
        soak_totals.write(soak_totals.line(lane.seed, *key, targets.way(lane.target), lane.counts)
                          for key, lane in self.lanes.items() if lane.counts["count"])  # fmt: skip
        support_table.rewrite()
        for key, lane in self.lanes.items():
            found = {}
            for batch in self.batches:
                if (batch["target"], batch["engine"]) == key:
                    for operator, dtype, rank, layouts, right in batch["found"]:
                        cell = operator, dtype, rank, tuple(layouts)
                        found[cell] = right and found.get(cell, True)
            if found and not targets.is_gpu(lane.target):
                support_table.update(lane.engine, lane.target, targets.way(lane.target), found)


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev soak", description=__doc__.partition("\n\n")[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--hours", type=float, default=1.0, help="how long (1); a batch that was begun is ended")
    parser.add_argument("--batches", type=int, help="or as many batches, if those are fewer")
    parser.add_argument("--targets", nargs="+", metavar="T", choices=list(targets.all_targets()),
                        help="all of processors, unless said")  # fmt: skip
    parser.add_argument("--engine", choices=["specialized", "generic", "all"], default="specialized")
    parser.add_argument("--kinds", nargs="+", choices=sorted(set(problems.KINDS)), help="draw these alone")
    parser.add_argument("--batch", type=int, help=f"layers a batch ({BATCH['specialized']}, generic {BATCH['generic']})")
    parser.add_argument("--seed", type=int, help="of the draws: the one that build/soak has begun with, else a new one")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count(), help="batches at once (the cores)")
    parser.add_argument("--tables", action="store_true", help="write what was found, ever, into docs/support.md and tests/kernels/soak_totals.jsonl")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/soak", help="where it is told what was tried")
    parser.add_argument("--regressions", type=Path, default=soak_regressions.PATH, help="the file that failures are added to")
    options = parser.parse_args(arguments)
    options.targets = options.targets or targets.cpu_targets()
    options.pool = concurrent.futures.ProcessPoolExecutor
    return options


def main(arguments):
    soak = Soak(parse(arguments))
    status = soak.run()
    if soak.options.tables:
        soak.write_tables()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
