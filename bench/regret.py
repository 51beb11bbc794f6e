"""How much faster than Kiln's defaults the best decisions are that kiln tune finds: ./dev regret.

Every layer of a suite is tuned in both layouts with a small budget, beside its default. Its regret is the default's time
over that of the best decision found, 1 where that is the default. A third of the layers, drawn by a seed, is held back:
whoever changes estimates looks at the others alone, and at those only in the table.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import problem as problems  # noqa: E402
import report  # noqa: E402
import run  # noqa: E402

SEED = 22
LAYOUTS = ("nxc", "ncx")
SHOWN = 1.05  # the least regret that the table has a row for


def held_back(names):
    """A third of the layers."""
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
                        "--jobs", str(arguments.jobs), *timings], "kiln tune", (0, 1), stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def rows_of(answer):
    """[{"layer", "layout", "regret", "ms", "default", "best"}], the largest regret first."""
    rows = []
    for tuned in answer["problems"]:
        if tuned["error"]:
            raise run.BenchError(f"{tuned['layers'][0]}: {tuned['error']}")
        name, layout = tuned["layers"][0].rsplit("_", 1)
        rows.append({"layer": name, "layout": layout, "regret": tuned["gain"], "ms": tuned["default"]["ms"],
                     "default": tuned["default"], "best": tuned["chosen"]})
    return sorted(rows, key=lambda row: -row["regret"])


def difference(default, best):
    """What the best decision has otherwise than the default."""
    if default["algorithm"] != best["algorithm"]:
        return f"{best['algorithm']} for {default['algorithm']}"
    numbers = [dict(number.split(":") for number in decision["schedule"].split(";")) for decision in (default, best)]
    changed = [f"{name} {value} for {numbers[0][name]}" for name, value in numbers[1].items() if value != numbers[0][name]]
    return f"{default['algorithm']}: {', '.join(changed)}"


def table(answer, names):
    """Markdown: means, and the layers of most regret."""
    rows, held = rows_of(answer), held_back(names)
    lines = [f"{answer['machine']}, target {answer['target']}.", "",
             "| layers | | mean regret | largest | above 1.15 |", "| --- | --- | --- | --- | --- |"]
    for layout in LAYOUTS:
        for words, wanted in (("looked at", False), ("held back", True)):
            regrets = [row["regret"] for row in rows if row["layout"] == layout and (row["layer"] in held) == wanted]
            if regrets:
                lines.append(f"| {layout.upper()}, {words} | {len(regrets)} | {report.geometric_mean(regrets):.3f} "
                             f"| {max(regrets):.2f} | {sum(regret > 1.15 for regret in regrets)} |")
    lines += ["", "| layer | | regret | default, ms | best found |", "| --- | --- | --- | --- | --- |"]
    lines += [f"| {row['layer']}{' (held back)' if row['layer'] in held else ''} | {row['layout'].upper()} "
              f"| {row['regret']:.2f} | {row['ms']:.3g} | {difference(row['default'], row['best'])} |"
              for row in rows if row["regret"] >= SHOWN]
    return "\n".join(lines)


def parse_arguments():
    def names(text):
        return [name for name in text.split(",") if name]

    parser = argparse.ArgumentParser(prog="./dev regret", description="Tunes a suite of layers and tells how much faster than "
                                     "the defaults that is.")
    parser.add_argument("--build", default=os.path.join(run.ROOT, "build"), help=argparse.SUPPRESS)
    parser.add_argument("suite", nargs="?", default=os.path.join(HERE, "networks.toml"), metavar="SUITE.toml",
                        help="a layers file; bench/networks.toml if not said")
    parser.add_argument("--layers", type=names, default=[], metavar="NAMES", help="only these, as C1,T2")
    parser.add_argument("--part", choices=("all", "looked-at", "held-back"), default="all", help="of the layers")
    parser.add_argument("--layouts", type=names, default=list(LAYOUTS), metavar="NAMES", help="of nxc,ncx; both unless said")
    parser.add_argument("--budget", default="12c", metavar="30s|12c", help="for each layer and layout; 12c if not said")
    parser.add_argument("--target", default="host", help="this machine's if not said")
    parser.add_argument("--timings", metavar="FILE", help="what was measured is kept there, and what it has is not measured again")
    parser.add_argument("--seed", type=int, default=1, help="of the search")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="kernels compiled at once")
    parser.add_argument("--json", metavar="FILE", help="write what kiln tune answered")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    kiln = os.path.join(arguments.build, "bin", "kiln")
    try:
        suite = run.read_suite(kiln, arguments.suite, [], arguments.target)
        names = [name for name, _ in suite]
        held = held_back(names)
        layers = [(name, problem) for name, problem in suite if not isinstance(problem, str)
                  and (not arguments.layers or name in arguments.layers)
                  and (arguments.part == "all" or (name in held) == (arguments.part == "held-back"))]
        answer = tune(kiln, layers, arguments)
        print(table(answer, names))
        if arguments.json:
            with open(arguments.json, "w", encoding="utf-8") as file:
                json.dump(answer, file, indent=1)
    except (run.BenchError, OSError) as error:
        run.say(f"regret: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
