"""How long fleets of many sizes would take for ten thousand layers: simulation.py KILN [--layers N] [--fleets 1x4,...].

Nothing is compiled or run: `kiln tune --replay` takes recorded.jsonl's timings in virtual time (tools/tune/pools/replay_pool.h). What
is real is the tuner itself, with its search, its records and its decisions: its time counts, and its memory is measured. Writes
docs/fleet.svg, and prints a table of what it draws.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent.parent / "docs"
TARGET = "x86-64-avx2"
BUDGET = "12c/layer"
# An assumption: what a driver takes to hand on a task and to hear of it again.
TASK_SECONDS = 0.0005
FLEETS = ["10x40", "20x80", "50x200", "100x400", "200x800", "350x1400", "500x2000"]


def write_layers(path, count):
    """Convolutions as networks have them, no two alike."""
    draw, seen = random.Random(1), set()
    with open(path, "w", encoding="utf-8") as file:
        while len(seen) < count:
            kernel, size = draw.choice((1, 1, 3, 3, 3, 5, 7)), draw.randint(7, 64)
            channels = [8 * draw.randint(1, 64) for _ in range(2)]
            layer = (kernel, size, *channels, draw.choice((1, 1, 1, 2)))
            if layer in seen:
                continue
            pad = kernel // 2
            file.write(f'[[layer]]\nname = "l{len(seen)}"\noperator = "Conv"\nx = [1, {channels[0]}, {size}, {size}]\n'
                       f"w = [{channels[1]}, {channels[0]}, {kernel}, {kernel}]\nstrides = [{layer[4]}, {layer[4]}]\n"
                       f'pads = [{pad}, {pad}, {pad}, {pad}]\nbias = true\nlayouts = {{ x = "NXC", y = "NXC" }}\n\n')
            seen.add(layer)


def simulate(kiln, layers, fleet, folder):
    """What kiln says of its pool, with the most memory that it had, in bytes, and the seconds by the fleet's clock."""
    timings = folder / f"{fleet}.jsonl"
    command = [kiln, "tune", layers, "--target", TARGET, "--budget", BUDGET, "--replay", HERE / "recorded.jsonl", "--fleet", fleet,
               "--fleet-task", str(TASK_SECONDS), "--timings", timings, "--decisions", folder / f"{fleet}.decisions", "--json"]
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        answer = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"simulation: {fleet}: kiln ended with status {process.returncode}")
    result = json.loads(answer)
    timings.unlink()
    timers, compilers = (int(part) for part in fleet.split("x"))
    return {**result["pool"], "timers": timers, "compilers": compilers, "seconds": result["seconds"],
            "memory": usage.ru_maxrss * 1024, "tried": sum(problem["tried"] for problem in result["problems"])}


def log_position(value, low, high, start, end):
    return start + (end - start) * math.log(value / low) / math.log(high / low)


def plot(results):
    """Time against timers, both by their logarithms, beside what one machine's time divided by their number would be."""
    width, height, left, right, top, bottom = 720, 440, 80, 20, 44, 60
    timers, hours = [r["timers"] for r in results], [r["seconds"] / 3600 for r in results]
    ideal = [hours[0] * timers[0] / count for count in timers]
    low, high = min(ideal + hours) / 1.5, max(hours) * 1.5
    def at(count, hour):
        x = log_position(count, timers[0], timers[-1], left + 20, width - right - 40)
        return f"{x:.1f}", f"{log_position(hour, low, high, height - bottom, top):.1f}"
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             f'<text x="{left}" y="24" font-size="15">Simulated: hours for {results[0]["layers"]:,} layers, by timers</text>']
    power = math.ceil(math.log10(low))
    while 10.0 ** power <= high:
        y = at(timers[0], 10.0 ** power)[1]
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{y}" y2="{y}" stroke="#ddd"/>'
                     f'<text x="{left - 8}" y="{float(y) + 4}" text-anchor="end">{10.0 ** power:g} h</text>')
        power += 1
    for count, hour, result in zip(timers, hours, results):
        x, y = at(count, hour)
        parts.append(f'<text x="{x}" y="{height - bottom + 20}" text-anchor="middle">{count}</text>'
                     f'<text x="{x}" y="{float(y) - 9}" text-anchor="middle" fill="#333">{result["timers_busy"]:.0%}</text>'
                     f'<circle cx="{x}" cy="{y}" r="4" fill="#1f5fa8"/>')
    for values, style in ((ideal, 'stroke="#999" stroke-dasharray="4 4"'), (hours, 'stroke="#1f5fa8" stroke-width="2"')):
        points = " ".join(",".join(at(count, hour)) for count, hour in zip(timers, values))
        parts.append(f'<polyline points="{points}" fill="none" {style}/>')
    parts.append(f'<text x="{(left + width) / 2}" y="{height - 12}" text-anchor="middle">timers, with four compilers each; '
                 "at the points, how busy they are; dashed, the first one's time over their number</text></svg>")
    return "\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kiln")
    parser.add_argument("--layers", type=int, default=10000)
    parser.add_argument("--fleets", default=",".join(FLEETS), help="TIMERSxCOMPILERS, with commas between")
    parser.add_argument("--plot", default=DOCS / "fleet.svg", type=Path)
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as name:
        layers = Path(name) / "layers.toml"
        write_layers(layers, options.layers)
        print(f"{'timers':>7}{'compilers':>11}{'hours':>10}{'timers busy':>13}{'compilers busy':>16}{'own seconds':>13}{'memory':>10}")
        for fleet in options.fleets.split(","):
            result = {**simulate(options.kiln, layers, fleet, Path(name)), "layers": options.layers}
            results.append(result)
            print(f"{result['timers']:>7}{result['compilers']:>11}{result['seconds'] / 3600:>10.3f}{result['timers_busy']:>13.1%}"
                  f"{result['compilers_busy']:>16.1%}{result['own_seconds']:>13.1f}{result['memory'] / 2**20:>7.0f} MB", flush=True)
    options.plot.write_text(plot(results), encoding="utf-8")


if __name__ == "__main__":
    main()
