"""Where defaults fall off: ./dev cliffs.

Layers are drawn at random, of all operators but DeformConv, ranks, strides, dilations and groups, with the channels and
images that networks have, and timed as they are compiled by default, in both layouts. What is reported is worth a look:
a small share of the processor's peak, one layout much slower than the other, and defaults that do not compile. No list of
layers shows these; --file keeps what was drawn, for ./dev bench beside peers, or kiln tune.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import run  # noqa: E402

LAYOUTS = ("nxc", "ncx")
CHANNELS = (1, 2, 3, 4, 6, 8, 12, 16, 17, 20, 24, 32, 40, 48, 64, 72, 96, 128, 160, 192, 256, 320, 384, 512)
GROUPS, OF_GROUP = (2, 3, 4, 8, 16, 32), (1, 2, 3, 4, 8, 12, 16, 24, 32)
KERNELS = {1: (1, 2, 3, 4, 5, 7, 8, 9, 11, 15, 16, 31, 64), 2: (1, 2, 3, 3, 3, 4, 5, 6, 7, 9), 3: (1, 2, 3, 3, 4, 5)}
IMAGES = {1: (1, 64, 100, 300, 511, 1000, 4000, 16000), 2: (1, 4, 5, 7, 10, 14, 20, 28, 33, 50, 56, 80, 112), 3: (2, 4, 7, 8, 12, 16, 24, 32)}
LEAST_PRODUCTS, MOST_PRODUCTS, MOST_ELEMENTS = 1e6, 6e7, 1.5e6
QUANTIZED = 'quantization = { x_scale = 0.02, x_zero_point = 128, w_scale = 0.01, y_scale = 0.05, y_zero_point = 128, y_dtype = "uint8" }\n'


def draw(drawing):
    """A layer of a layers file without its name and layouts, or None where it is too small, too large or empty."""
    transposed, rank = drawing.random() < 0.4, drawing.choice((1, 1, 2, 2, 2, 2, 3))
    kind = drawing.choice(("dense", "dense", "dense", "depthwise", "grouped"))
    groups, inputs, outputs = 1, drawing.choice(CHANNELS), drawing.choice(CHANNELS)
    if kind == "depthwise":
        groups, outputs = inputs, inputs * drawing.choice((1, 1, 1, 2))
    elif kind == "grouped":
        groups = drawing.choice(GROUPS)
        inputs, outputs = groups * drawing.choice(OF_GROUP), groups * drawing.choice(OF_GROUP)

    def axes(alike, choices):
        return [drawing.choice(choices)] * rank if drawing.random() < alike else [drawing.choice(choices) for _ in range(rank)]

    kernel, stride = axes(0.7, KERNELS[rank]), axes(0.9, (1, 1, 1, 2, 2, 3, 4))
    dilation = [1] * rank if transposed and drawing.random() < 0.8 else axes(1, (1, 1, 1, 1, 2, 3, 6))
    image = axes(0.8, IMAGES[rank])
    reach = [d * (k - 1) for k, d in zip(kernel, dilation)]
    pads = [drawing.choice((0, r // 2, r // 2)) for r in reach]
    more = [min(drawing.choice((0, 0, s - 1)), max(s, d) - 1) for s, d in zip(stride, dilation)]
    if transposed:
        out = [(i - 1) * s - 2 * p + r + 1 + m for i, s, p, r, m in zip(image, stride, pads, reach, more)]
    else:
        out = [(i + 2 * p - r - 1) // s + 1 for i, p, r, s in zip(image, pads, reach, stride)]
    weights = inputs * outputs // groups * math.prod(kernel)
    products = weights * math.prod(image if transposed else out)
    largest = max(weights, inputs * math.prod(image), outputs * math.prod(out))
    if min(out) < 1 or not LEAST_PRODUCTS < products < MOST_PRODUCTS or largest > MOST_ELEMENTS:
        return None
    shape = [inputs, outputs // groups] if transposed else [outputs, inputs // groups]
    return (f'operator = "{"ConvTranspose" if transposed else "Conv"}"\nx = {[1, inputs] + image}\nw = {shape + kernel}\n'
            f"strides = {stride}\ndilations = {dilation}\npads = {pads + pads}\ngroup = {groups}\nbias = true\n"
            + (f"output_padding = {more}\n" if transposed else ""))


def layers_file(seed, count, dtypes):
    """So many layers, each in both layouts: r0_nxc, r0_ncx, r1_nxc ..."""
    drawing, text, number = random.Random(seed), "", 0
    while number < count:
        layer, dtype = draw(drawing), drawing.choice(dtypes)
        if layer is None:
            continue
        for layout in LAYOUTS:
            text += (f'[[layer]]\nname = "r{number}_{layout}"\n{layer}dtype = "{dtype}"\n{QUANTIZED if dtype == "uint8" else ""}'
                     f'layouts = {{ x = "{layout.upper()}", y = "{layout.upper()}" }}\n')
        number += 1
    return text


def measure(kiln, arguments):
    """What kiln bench answers."""
    with tempfile.TemporaryDirectory() as folder:
        spec, answer = arguments.file or os.path.join(folder, "cliffs.toml"), os.path.join(folder, "cliffs.json")
        with open(spec, "w", encoding="utf-8") as file:
            file.write(layers_file(arguments.seed, arguments.count, arguments.dtypes))
        run.run([kiln, "bench", spec, "--json", answer, "--target", arguments.target, "--jobs", str(arguments.jobs),
                 *(["--runner", arguments.runner] if arguments.runner else [])], "kiln bench", (0, 1), stdout=subprocess.DEVNULL)
        with open(answer, encoding="utf-8") as file:
            return json.load(file)


def cliffs(rows, least_share, most_ratio):
    """[(share of the peak of the slower layout, its time over the other's, {layout: row})], the least share first. A
    definition is what is taken where a default does not compile."""
    layers = {}
    for row in rows:
        if row.get("ms"):
            name, layout = row["layer"].rsplit("_", 1)
            layers.setdefault(name, {})[layout] = row
    found = []
    for both in layers.values():
        if len(both) == len(LAYOUTS):
            times, shares = ([row[key] for row in both.values()] for key in ("ms", "peak_share"))
            ratio, fails = max(times) / min(times), any(row["algorithm"] == "definition" for row in both.values())
            if fails or min(shares) < least_share or ratio > most_ratio:
                found.append((min(shares), ratio, both))
    return sorted(found, key=lambda one: one[0])


def table(said, found, arguments):
    """Markdown, a row for each layer worth a look."""
    lines = [f"{said['machine']['processor']}, {len(found)} of {arguments.count} layers of seed {arguments.seed} are below "
             f"{100 * arguments.share:.0f}% of the peak in a layout, or take more than {arguments.ratio} times as long in one as in the other.",
             "", "| layer | problem | NXC, ms | peak | algorithm | NCX, ms | peak | algorithm | slower by |", "| --- " * 9 + "|"]
    for _, ratio, both in found:
        cells = [f"{both[layout]['ms']:.4f} | {100 * both[layout]['peak_share']:.0f}% | {both[layout]['algorithm']}" for layout in LAYOUTS]
        name, problem = both["nxc"]["layer"].rsplit("_", 1)[0], both["nxc"]["problem"].replace("-nxc,nxc", "")
        lines.append(f"| {name} | {problem} | {' | '.join(cells)} | {ratio:.2f} |")
    return "\n".join(lines)


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev cliffs", description="Times layers drawn at random, and tells which fall far below "
                                     "the processor's peak, or are much slower in one layout than in the other.")
    parser.add_argument("--build", default=os.path.join(run.ROOT, "build"), help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1, help="of the drawing; 1 if not said")
    parser.add_argument("--count", type=int, default=60, help="layers, each in both layouts; 60 if not said")
    parser.add_argument("--dtypes", type=run.names, default=["float32"], metavar="TYPES", help="drawn from these, as float32,bfloat16,uint8")
    parser.add_argument("--share", type=float, default=0.3, help="of the peak, below which a layer is told; .3 if not said")
    parser.add_argument("--ratio", type=float, default=1.8, help="of the layouts' times, above which it is; 1.8 if not said")
    parser.add_argument("--target", default="host", help="this machine's if not said")
    parser.add_argument("--runner", metavar="CMD", help="starts the program that is timed, as taskset -c 1")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="kernels compiled at once")
    parser.add_argument("--file", metavar="SPEC.toml", help="write the layers to this file, for ./dev bench or kiln tune")
    parser.add_argument("--json", metavar="FILE", help="write what kiln bench answered")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    try:
        said = measure(os.path.join(arguments.build, "bin", "kiln"), arguments)
        print(table(said, cliffs(said["rows"], arguments.share, arguments.ratio), arguments))
        if arguments.json:
            run.write_json(arguments.json, said)
    except (run.BenchError, OSError) as error:
        run.say(f"cliffs: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
