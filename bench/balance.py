"""How evenly workers would share the work of Kiln's kernels, on a machine with few processors: ./dev balance.

Each layer of the suites is compiled in both layouts, and kiln bench --workers times each piece that the kernel hands out by
itself and simulates the workers. A layer's largest share is that of the worker that has most to do, over the mean.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import report  # noqa: E402
import run  # noqa: E402

SUITES = [os.path.join(HERE, name) for name in ("suite.toml", "networks.toml")]
LAYOUTS = ("nxc", "ncx")
LONG = 0.5  # ms from which on work is to be even
EVEN = 1.05  # the largest share that is


def measure(kiln, layers, arguments):
    """(kiln bench's answer, its rows by layer and layout) of [(name, Problem)] in each layout."""
    names = {f"{name}_{layout}": (name, layout, problem) for name, problem in layers for layout in LAYOUTS}
    with tempfile.TemporaryDirectory() as folder:
        spec, answer = os.path.join(folder, "balance.toml"), os.path.join(folder, "balance.json")
        with open(spec, "w", encoding="utf-8") as file:
            for name, (_, layout, problem) in names.items():
                file.write(f'[[layer]]\nname = "{name}"\nproblem = "{problem.with_layout(layout).text()}"\n')
        run.run([kiln, "bench", spec, "--workers", ",".join(map(str, arguments.workers)), "--json", answer,
                 "--target", arguments.target, "--jobs", str(arguments.jobs)], "kiln bench", (0, 1), stdout=subprocess.DEVNULL)
        with open(answer, encoding="utf-8") as file:
            said = json.load(file)
    return said, {names[row["layer"]][:2]: row for row in said["rows"] if "balance" in row}


def share(row, workers):
    return next(each["largest_share"] for each in row["balance"] if each["workers"] == workers)


def table(said, rows, workers):
    """Markdown: of layers that take long how many are even, and those that are not."""
    long = {key: row for key, row in rows.items() if row["in_pieces_ms"] >= LONG}
    uneven = {key: row for key, row in long.items() if max(share(row, count) for count in workers) > EVEN}
    lines = [f"{said['machine']['processor']}, {len(rows)} kernels, {len(long)} of which take {LONG} ms or more in one thread.", "",
             f"| workers | even, of {len(long)} | largest share, geometric mean | largest | speed-up, geometric mean |",
             "| --- | --- | --- | --- | --- |"]
    for count in workers if long else []:
        shares = [share(row, count) for row in long.values()]
        faster = [each["speed_up"] for row in long.values() for each in row["balance"] if each["workers"] == count]
        lines.append(f"| {count} | {sum(value <= EVEN for value in shares)} | {report.geometric_mean(shares):.3f} | "
                     f"{max(shares):.2f} | {report.geometric_mean(faster):.2f} |")
    lines += ["", f"| layer | | ms | algorithm | pieces | {' | '.join(f'{count} workers' for count in workers)} |",
              "| --- " * (5 + len(workers)) + "|"]
    for (name, layout), row in sorted(uneven.items()):
        shares = [f"{share(row, count):.2f}" for count in workers]
        lines.append(f"| {name} | {layout.upper()} | {row['in_pieces_ms']:.2f} | {row['algorithm']} | {', '.join(map(str, row['pieces']))} | "
                     f"{' | '.join(shares)} |")
    return "\n".join(lines)


def parse_arguments():
    def counts(text):
        return [int(word) for word in text.split(",")]

    parser = argparse.ArgumentParser(prog="./dev balance", description="Tells how evenly workers, here or not, would share the "
                                     "work of kernels.")
    parser.add_argument("--build", default=os.path.join(run.ROOT, "build"), help=argparse.SUPPRESS)
    parser.add_argument("suites", nargs="*", default=SUITES, metavar="SUITE.toml",
                        help="layers files; bench/suite.toml and bench/networks.toml if not said")
    parser.add_argument("--layers", type=run.names, default=[], metavar="NAMES", help="only these, as C1,T2")
    parser.add_argument("--workers", type=counts, default=[2, 4, 8, 16, 64], metavar="N,N", help="2,4,8,16,64 if not said")
    parser.add_argument("--target", default="host", help="this machine's if not said")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="kernels compiled at once")
    parser.add_argument("--json", metavar="FILE", help="write what kiln bench answered")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    kiln = os.path.join(arguments.build, "bin", "kiln")
    try:
        layers = [(name, problem) for suite in arguments.suites
                  for name, problem in run.read_suite(kiln, suite, [], arguments.target)
                  if not isinstance(problem, str) and (not arguments.layers or name in arguments.layers)]
        said, rows = measure(kiln, layers, arguments)
        print(table(said, rows, arguments.workers))
        if arguments.json:
            run.write_json(arguments.json, said)
    except (run.BenchError, OSError) as error:
        run.say(f"balance: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
