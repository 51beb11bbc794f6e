"""How much faster than Kiln's defaults the best decisions are that kiln tune finds: ./dev regret.

Every layer of a suite is tuned in both layouts with a small budget, beside its default. Its regret is the default's time
over that of the best decision found, 1 where that is the default. A third of the layers of networks.toml, drawn by a seed,
is held back: whoever changes estimates looks at the others alone, and at those only in the table.

Estimates are compared with times by their ranks: of each layer's candidates, and of the layers' defaults. --report writes
docs/REGRET.md, over suite.toml, networks.toml and shapes.toml.
"""

import argparse
import json
import math
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import report  # noqa: E402
import run  # noqa: E402

SEED = 22
LAYOUTS = ("nxc", "ncx")
BUDGET = "12c"
SHOWN = 1.05  # the least regret that the table has a row for
FEWEST = 4  # candidates with an estimate that are worth a rank correlation
WITH_HELD_BACK = "networks.toml"  # the others were looked at by whoever made the estimates
REPORTED = ("suite.toml", "networks.toml", "shapes.toml")


def held_back(names, suite=WITH_HELD_BACK):
    """A third of the layers, where the suite is one of which some are."""
    if os.path.basename(suite) != WITH_HELD_BACK:
        return set()
    return set(random.Random(SEED).sample(sorted(names), len(names) // 3))


def tune(kiln, layers, arguments):
    """What kiln tune --json answers of [(name, Problem)] in each layout."""
    with tempfile.TemporaryDirectory() as folder:
        spec, texts = os.path.join(folder, "regret.toml"), {}
        for name, problem in layers:
            for layout in arguments.layouts:
                texts.setdefault(problem.with_layout(layout).text(), f"{name}_{layout}")
        with open(spec, "w", encoding="utf-8") as file:
            for text, name in texts.items():
                file.write(f'[[layer]]\nname = "{name}"\nproblem = "{text}"\n')
        timings = ["--timings", arguments.timings, "--resume"] if arguments.timings else \
            ["--timings", os.path.join(folder, "timings.jsonl")]
        done = run.run([kiln, "tune", spec, "--budget", arguments.budget + "/layer", "--seed", str(arguments.seed), "--json",
                        "--decisions", os.path.join(folder, "decisions.jsonl"), "--target", arguments.target,
                        "--jobs", str(arguments.jobs), *(["--runner", arguments.runner] if arguments.runner else []), *timings], "kiln tune", (0, 1), stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def ranks(values):
    """Of each value among all, from 1; equals share the mean of theirs."""
    ordered = sorted(values)
    return [(ordered.index(value) + 1 + len(ordered) - ordered[::-1].index(value)) / 2 for value in values]


def rank_correlation(pairs):
    """Spearman's of [(estimate, time)]: 1 where they are in the same order; None of too few, or where all are equal."""
    if len(pairs) < FEWEST:
        return None
    mine, theirs = (ranks(values) for values in zip(*pairs))
    mean = (len(pairs) + 1) / 2
    both = sum((a - mean) * (b - mean) for a, b in zip(mine, theirs))
    each = [sum((rank - mean) ** 2 for rank in some) for some in (mine, theirs)]
    return both / math.sqrt(each[0] * each[1]) if min(each) > 0 else None


def estimates_of(tuned):
    """[(estimated cycles, time over the default's)] of the candidates that were timed and have an estimate, each once."""
    found = {(candidate["algorithm"], candidate["schedule"]): (candidate["estimated_cycles"], candidate["ratio"])
             for candidate in tuned["candidates"] if candidate["verdict"] == "ok" and candidate["estimated_cycles"]}
    return list(found.values())


def estimate_of_default(tuned):
    """Cycles, or None."""
    return next((candidate["estimated_cycles"] for candidate in tuned["candidates"]
                 if (candidate["algorithm"], candidate["schedule"]) == (tuned["default"]["algorithm"], tuned["default"]["schedule"])),
                None)


def name_and_layout(tuned):
    return tuned["layers"][0].rsplit("_", 1)


def untimed(answer, held):
    """A line for each problem that could not be tuned."""
    for tuned in answer["problems"]:
        if tuned["error"]:
            name, layout = name_and_layout(tuned)
            yield f"- {name}{' (held back)' if name in held else ''} {layout.upper()} was not timed: {tuned['error']}"


def rows_of(answer):
    """[{"layer", "layout", "regret", "ms", "default", "best", "tried", "estimate": of the default, in cycles, or None, "rank":
    the candidates' rank correlation or None}] of what was timed, the largest regret first."""
    rows = []
    for tuned in answer["problems"]:
        if tuned["error"]:
            continue
        name, layout = name_and_layout(tuned)
        rows.append({"layer": name, "layout": layout, "regret": tuned["gain"], "ms": tuned["default"]["ms"],
                     "default": tuned["default"], "best": tuned["chosen"], "tried": tuned["tried"],
                     "estimate": estimate_of_default(tuned), "rank": rank_correlation(estimates_of(tuned))})
    return sorted(rows, key=lambda row: -row["regret"])


def difference(default, best):
    """What the best decision has otherwise than the default."""
    if default["algorithm"] != best["algorithm"]:
        return f"{best['algorithm']} for {default['algorithm']}"
    numbers = [dict(number.split(":") for number in decision["schedule"].split(";")) for decision in (default, best)]
    changed = [f"{name} {value} for {numbers[0][name]}" for name, value in numbers[1].items() if value != numbers[0][name]]
    return f"{default['algorithm']}: {', '.join(changed)}"


def summary_rows(rows, held):
    """A row of the means' table for each layout of the layers that are looked at, and of those held back."""
    for layout in LAYOUTS:
        for words, wanted in (("looked at", False), ("held back", True)):
            some = [row for row in rows if row["layout"] == layout and (row["layer"] in held) == wanted]
            if not some:
                continue
            regrets, ranked = [row["regret"] for row in some], [row["rank"] for row in some if row["rank"] is not None]
            of_layers = rank_correlation([(row["estimate"], row["ms"]) for row in some if row["estimate"]])
            yield (f"| {layout.upper()}{', ' + words if held else ''} | {len(some)} | {report.geometric_mean(regrets):.3f} "
                   f"| {max(regrets):.2f} | {sum(regret > 1.15 for regret in regrets)} "
                   f"| {f'{statistics.mean(ranked):.2f} of {len(ranked)}' if ranked else '-'} "
                   f"| {'-' if of_layers is None else f'{of_layers:.2f}'} |")


def table(answer, held):
    """Markdown: means, and the layers of most regret."""
    rows = rows_of(answer)
    lines = ["| layers | | mean regret | largest | above 1.15 | ranks of candidates | ranks of layers |",
             "| --- | --- | --- | --- | --- | --- | --- |", *summary_rows(rows, held)]
    shown = [f"| {row['layer']}{' (held back)' if row['layer'] in held else ''} | {row['layout'].upper()} "
             f"| {row['regret']:.2f} | {row['ms']:.3g} | {difference(row['default'], row['best'])} |"
             for row in rows if row["regret"] >= SHOWN]
    if shown:
        lines += ["", "| layer | | regret | default, ms | best found |", "| --- | --- | --- | --- | --- |", *shown]
    if missing := list(untimed(answer, held)):
        lines += ["", *missing]
    return "\n".join(lines)


def page(parts, command):
    """docs/REGRET.md of [(suite, answer of kiln tune, the layers held back)]."""
    answer = parts[0][1]
    lines = [f"""# Regret

What Kiln's defaults leave to `kiln tune`: a layer's regret is its default's time over that of the best decision that a small budget
finds, 1 where that is the default. Ranks are Spearman's correlation of estimated cycles with measured times, 1 where both are in the same order: of
each layer's candidates (the mean over the layers of which {FEWEST} or more have an estimate), and of the layers' defaults among each
other. A third of `bench/{WITH_HELD_BACK}`, drawn by a seed, is held back from whoever changes estimates. Layers of a regret
below {SHOWN} have no row. Written by

```console
$ {command}
```

{answer['machine'].split("; by ")[0]}, target {answer['target']}."""]
    for suite, tuned, held in parts:
        tried = [problem["tried"] for problem in tuned["problems"] if not problem["error"]]
        lines.append(f"""
## {os.path.basename(suite)}

{len(tried)} problems, {statistics.mean(tried or [0]):.1f} candidates each.

{table(tuned, held)}""")
    return "\n".join(lines) + "\n"


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev regret", description="Tunes a suite of layers and tells how much faster than "
                                     "the defaults that is.")
    parser.add_argument("--build", default=os.path.join(run.ROOT, "build"), help=argparse.SUPPRESS)
    parser.add_argument("suites", nargs="*", metavar="SUITE.toml",
                        help="layers files; bench/networks.toml if not said, with --report those of bench/")
    parser.add_argument("--layers", type=run.names, default=[], metavar="NAMES", help="only these, as C1,T2")
    parser.add_argument("--part", choices=("all", "looked-at", "held-back"), default="all", help="of the layers")
    parser.add_argument("--layouts", type=run.names, default=list(LAYOUTS), metavar="NAMES", help="of nxc,ncx; both unless said")
    parser.add_argument("--budget", default=BUDGET, metavar="30s|12c",
                        help=f"for each layer and layout; {BUDGET} if not said")
    parser.add_argument("--target", default="host", help="this machine's if not said")
    parser.add_argument("--timings", metavar="FILE", help="what was measured is kept there, and what it has is not measured again")
    parser.add_argument("--seed", type=int, default=1, help="of the search")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="kernels compiled at once")
    parser.add_argument("--runner", default="", metavar="CMD", help="what starts the programs that time, as kiln tune's")
    parser.add_argument("--report", metavar="FILE", help="write a page there, such as docs/REGRET.md")
    parser.add_argument("--json", metavar="FILE", help="write what kiln tune answered, a list of one for each file")
    return parser.parse_args()


def command(arguments):
    """What was asked, of what others may ask again: neither places on this machine nor how it is driven."""
    words = [os.path.relpath(suite, run.ROOT) for suite in arguments.suites]
    for name in ("layers", "layouts"):
        if getattr(arguments, name) not in ([], list(LAYOUTS)):
            words += [f"--{name}", ",".join(getattr(arguments, name))]
    for name, usual in (("part", "all"), ("budget", BUDGET), ("target", "host"), ("seed", 1)):
        if getattr(arguments, name) != usual:
            words += [f"--{name}", str(getattr(arguments, name))]
    report_file = os.path.relpath(arguments.report, run.ROOT)
    outside = report_file.startswith(os.pardir)
    return shlex.join(["./dev", "regret", *words, "--report", os.path.basename(report_file) if outside else report_file])


def tuned_suite(kiln, suite, arguments):
    """(suite, answer of kiln tune, the layers held back), or None where it has none of the layers asked for."""
    layers = run.read_suite(kiln, suite, [], arguments.target)
    held = held_back([name for name, _ in layers], suite)
    wanted = [(name, problem) for name, problem in layers if not isinstance(problem, str)
              and (not arguments.layers or name in arguments.layers)
              and (arguments.part == "all" or (name in held) == (arguments.part == "held-back"))]
    return (suite, tune(kiln, wanted, arguments), held) if wanted else None


def main():
    arguments = parse_arguments()
    kiln = os.path.join(arguments.build, "bin", "kiln")
    suites = arguments.suites or [os.path.join(HERE, name) for name in (REPORTED if arguments.report else (WITH_HELD_BACK,))]
    try:
        parts = [part for part in (tuned_suite(kiln, suite, arguments) for suite in suites) if part]
        if not parts:
            raise run.BenchError("none of the layers asked for is there")
        print(f"{parts[0][1]['machine']}, target {parts[0][1]['target']}.")
        for suite, answer, held in parts:
            print(f"\n{suite}\n\n{table(answer, held)}")
        if arguments.report:
            with open(arguments.report, "w", encoding="utf-8") as file:
                file.write(page(parts, command(arguments)))
        if arguments.json:
            run.write_json(arguments.json, [answer for _, answer, _ in parts])
    except (run.BenchError, OSError) as error:
        run.say(f"regret: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
