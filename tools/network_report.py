#!/usr/bin/env python3
"""The table and the page of kiln bench --network: network_report.py MANIFEST TIMES.json [--model MODEL] [--json FILE]
[--report PAGE.html]. TIMES.json is what the network's program says of its calls and steps; of networks of several sizes it has
one after the other, and FILE then has a list."""

import argparse
import html
import json
import os
import statistics
import sys

sys.path.insert(1, os.path.dirname(os.path.realpath(__file__)))

import page  # noqa: E402
MOST_BARS = 60


def networks_of(manifest):
    """What the manifest says of each network."""
    return manifest["network"].get("networks", [manifest["network"]])


def rows_of(manifest, network, times):
    """A row a step: its node, what computes it, and its median time, in the network's order and where it runs again and again."""
    layers = {layer["name"]: layer for layer in manifest["layers"]}
    rows = []
    for step, seconds, warm in zip(network["steps"], times["steps"], times["warm"]):
        kind = next(kind for kind in KINDS if kind in step)
        what = layers[step["layer"]]["problem"] if kind == "layer" else step[kind]
        rows.append({"node": step["node"], "kind": kind, "what": what, "ms": statistics.median(seconds) * 1e3,
                     "warm_ms": statistics.median(warm) * 1e3})
    return rows


def result_of(manifest, network, times, model):
    rows = rows_of(manifest, network, times)
    calls = times["calls"]
    return {"model": os.path.basename(model), **({"sizes": network["sizes"]} if network["sizes"] else {}), "targets": [target["name"] for target in manifest["targets"]],
            "ms": statistics.median(calls) * 1e3, "best_ms": min(calls) * 1e3, "calls": len(calls),
            "steps_ms": sum(row["ms"] for row in rows),
            "layers_ms": sum(row["ms"] for row in rows if row["kind"] == "layer"),
            "warm_layers_ms": sum(row["warm_ms"] for row in rows if row["kind"] == "layer"),
            "arena_bytes": network["arena_bytes"], "arena_bound_bytes": network["arena_bound_bytes"], "steps": rows}


def shortened(text, length):
    return text if len(text) <= length else text[:length - 3] + "..."


def sizes_text(result):
    """"width=160", "" where the library has one network."""
    return ", ".join(f"{name}={value}" for name, value in result.get("sizes", {}).items())


def text_of(result):
    lines = [sizes_text(result)] if sizes_text(result) else []
    lines += [f"{'ms':>10} {'warm':>10} {'share':>6}  {'node':<40} computed by"]
    for row in sorted(result["steps"], key=lambda row: -row["ms"]):
        lines.append(f"{row['ms']:>10.4f} {row['warm_ms']:>10.4f} {100 * row['ms'] / result['steps_ms']:>5.1f}%  {shortened(row['node'], 40):<40} "
                     f"{row['what']}")
    lines.append(f"the whole: {result['ms']:.4f} ms, the best of {result['calls']} calls {result['best_ms']:.4f} ms; "
                 f"the sum of its steps: {result['steps_ms']:.4f} ms, of which layers {result['layers_ms']:.4f} ms; the same layers, each run "
                 f"again and again: {result['warm_layers_ms']:.4f} ms")
    return "\n".join(lines)


KINDS = {"layer": "convolutions", "operation": "other operations", "c": "generated C", "callback": "callbacks",
         "check": "checks"}


def bars(rows, total):
    """A bar a step."""
    shades = page.colours(KINDS)
    traces = []
    for kind, name in KINDS.items():
        places = [place for place, row in enumerate(rows) if row["kind"] == kind]
        if places:
            own = [rows[place] for place in places]
            traces.append({"type": "bar", "orientation": "h", "width": page.BAR, "name": name, "y": places,
                           "x": [row["ms"] for row in own],
                           "text": [f"{100 * row['ms'] / total:.1f}%" for row in own], "textposition": "outside",
                           "cliponaxis": False, "hoverinfo": "text", "marker": {"color": shades[kind]},
                           "hovertext": [page.lines(row["node"], row["what"], f"{row['ms']:.4f} ms") for row in own]})
    longest = max(row["ms"] for row in rows) if rows else 1  # room for the words behind its bar
    layout = {"xaxis": page.axis("ms", range=[0, 1.2 * longest]), "barmode": "overlay",
              "yaxis": {"tickvals": list(range(len(rows))), "ticktext": [shortened(row["node"], 36) for row in rows],
                        "automargin": True, "autorange": "reversed"}}
    return page.figure("Time of each step", traces, layout, height=110 + 22 * len(rows), least_width=560)


def page_of(result):
    """The page's body."""
    total = max(result["steps_ms"], 1e-9)
    longest = sorted(result["steps"], key=lambda row: -row["ms"])[:MOST_BARS]
    head = page.table_row("th", [("", "node"), ("left", "computed by"), ("", "ms"), ("", "warm, ms"), ("", "share")])
    rows = "".join(page.table_row("td", [("", html.escape(row["node"])), ("left", page.code(row['what'])),
                                         ("", f"{row['ms']:.4f}"), ("", f"{row['warm_ms']:.4f}"),
                                         ("", f"{100 * row['ms'] / total:.1f}%")])
                   for row in result["steps"])
    title = f"{result['model']} at {sizes_text(result)}" if sizes_text(result) else result["model"]
    return f"""<h1>{html.escape(title)}</h1>
<p>{result['ms']:.3f} ms a call on {html.escape(', '.join(result['targets']))}; the sum of its steps {result['steps_ms']:.3f} ms,
of which convolutions {result['layers_ms']:.3f} ms; where each runs again and again, so that it finds its weights in the caches as far
as they fit, these take {result['warm_layers_ms']:.3f} ms. Arena {result['arena_bytes'] / 1024:.1f} KB, its lower bound
{result['arena_bound_bytes'] / 1024:.1f} KB.</p>
<h2>Where time goes</h2>
<p class="soft">The longest {len(longest)} of {len(result['steps'])} steps.</p>
{bars(longest, total)}
<h2>Every step, in order</h2>
<div class="scroll"><table>{head}{rows}</table></div>
"""


def main():
    parser = argparse.ArgumentParser(description="The table and the page of kiln bench --network.")
    parser.add_argument("manifest")
    parser.add_argument("times")
    parser.add_argument("--model", default="")
    parser.add_argument("--json")
    parser.add_argument("--report")
    arguments = parser.parse_args()
    with open(arguments.manifest, encoding="utf-8") as manifest, open(arguments.times, encoding="utf-8") as times:
        told = json.load(manifest)
        results = [result_of(told, network, each, arguments.model) for network, each in zip(networks_of(told), json.load(times))]
    print("\n\n".join(text_of(result) for result in results))
    try:
        if arguments.json:
            with open(arguments.json, "w", encoding="utf-8") as file:
                json.dump(results if len(results) > 1 else results[0], file, indent=1)
        if arguments.report:
            page.write(arguments.report, f"Kiln: {results[0]['model']}", "".join(page_of(result) for result in results))
    except OSError as error:
        print(f"kiln: {error.filename} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
