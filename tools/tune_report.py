"""The page of kiln tune: tune_report.py RESULT.json PAGE.html, where the result is what kiln tune --json prints."""

import html
import json
import os
import sys

sys.path.insert(1, os.path.dirname(os.path.realpath(__file__)))

import page  # noqa: E402
from page import element, label  # noqa: E402

LEFT, RIGHT = 70, 880


def name_of(problem):
    repeats = len(problem["layers"])
    return problem["layers"][0] + (f" (x{repeats})" if repeats > 1 else "")


def good_ones(problem, final=False):
    return [c for c in problem["candidates"] if c["verdict"] == "ok" and (final or not c["final"])]


def gain_bars(problems):
    """A bar a problem, from 1 to its gain, with the noise behind it."""
    top, step = 20, 22
    most = max([1.5] + [problem["gain"] for problem in problems]) * 1.05

    def x(value):
        return LEFT + 90 + (value - 1) / (most - 1) * (RIGHT - LEFT - 160)

    parts = []
    for i, problem in enumerate(problems):
        y = top + i * step
        parts.append(label("tick", LEFT + 80, y + 12, name_of(problem), "end"))
        width = max(x(problem["gain"]) - x(1), 1.0)
        parts.append(element("rect", page.title(problem["problem"], f"{problem['gain']:.2f} times the default"), class_="a",
                             x=x(1), y=y, width=width, height=14))
        parts.append(label("tick", x(1) + width + 6, y + 12, f"{problem['gain']:.2f}"))
    return page.svg(900, top + len(problems) * step + 10, "Gain of each layer over its default", parts)


def curve(problem):
    """(seconds, gain of the best so far) after each candidate."""
    best, points = 1.0, [(0.0, 1.0)]
    for candidate in problem["candidates"]:
        if candidate["verdict"] == "ok" and not candidate["final"]:
            best = min(best, candidate["ratio"])
        points.append((candidate["at"], 1 / best))
    return points


def search_curves(problems):
    top, bottom = 20, 340
    curves = [(problem, curve(problem)) for problem in problems]
    end = max([1.0] + [points[-1][0] for _, points in curves])
    most = max([1.2] + [points[-1][1] for _, points in curves]) * 1.05

    def x(seconds):
        return LEFT + seconds / end * (RIGHT - LEFT)

    def y(gain):
        return bottom - (gain - 1) / (most - 1) * (bottom - top)

    parts = []
    for k in range(6):
        gain, at = 1 + k / 5 * (most - 1), k / 5 * end
        parts += [element("line", class_="grid", x1=LEFT, x2=RIGHT, y1=y(gain), y2=y(gain)),
                  label("tick", LEFT - 8, y(gain) + 4, f"{gain:.2f}", "end"),
                  label("tick", x(at), bottom + 18, f"{at:.0f}", "middle")]
    for i, (problem, points) in enumerate(curves):
        hue = 360 * i / max(len(curves), 1)
        corners, last = [], 1.0
        for seconds, gain in points:
            corners += [f"{x(seconds):.1f},{y(last):.1f}", f"{x(seconds):.1f},{y(gain):.1f}"]
            last = gain
        parts.append(element("polyline", page.title(name_of(problem)), fill="none", stroke_width=1.6,
                             stroke=f"hsl({hue:.0f} 60% 50%)", points=" ".join(corners)))
    parts += [label("axis", (LEFT + RIGHT) / 2, bottom + 40, "seconds", "middle"),
              label("axis", LEFT - 46, (top + bottom) / 2, "default / best so far", "middle", -90)]
    return page.svg(900, 390, "Search: the best of each layer so far", parts)


def scatter(problems):
    """Every candidate: its time over its layer's default, by algorithm."""
    top, bottom = 30, 380
    kinds = sorted({c["algorithm"] for problem in problems for c in good_ones(problem)})
    colours = {kind: "abc"[i % 3] if i < 3 else "rest" for i, kind in enumerate(kinds)}
    ratios = [c["ratio"] for problem in problems for c in good_ones(problem)]
    axis = page.LogAxis(min([0.5] + ratios) / 1.05, max([2.0] + ratios) * 1.05, bottom, top)
    parts = page.legend(LEFT + 10, 14, [(kind, colours[kind]) for kind in kinds])
    for tick in axis.ticks():
        parts += [element("line", class_="grid", x1=LEFT, x2=RIGHT, y1=axis(tick), y2=axis(tick)),
                  label("tick", LEFT - 8, axis(tick) + 4, f"{tick:g}", "end")]
    width = (RIGHT - LEFT) / max(len(problems), 1)
    for i, problem in enumerate(problems):
        mine = good_ones(problem)
        parts.append(label("small", LEFT + (i + 0.5) * width, bottom + 14, problem["layers"][0][:12], "middle"))
        for k, c in enumerate(mine):
            at = LEFT + (i + 0.15 + 0.7 * k / max(len(mine), 1)) * width
            words = page.title(f"{c['algorithm']} {c['schedule']}", f"{c['ms']:.4g} ms, {c['ratio']:.3f} of the default")
            parts.append(element("circle", words, class_=f"{colours[c['algorithm']]} point", cx=at, cy=axis(c["ratio"]),
                                 r=3.2))
    parts.append(label("axis", LEFT - 46, (top + bottom) / 2, "time / the default's", "middle", -90))
    return page.svg(900, 405, "Every candidate, in the order tried", parts)


def histogram(spreads):
    """How far the rounds of one measurement lie apart."""
    top, bottom, bins = 20, 200, 30
    limit = 0.3
    counts = [0] * bins
    for spread in spreads:
        counts[min(int(spread / limit * bins), bins - 1)] += 1
    parts, width = [], (RIGHT - LEFT) / bins
    for i, count in enumerate(counts):
        height = count / max(counts + [1]) * (bottom - top)
        parts.append(element("rect", page.title(f"{count} measurements"), class_="a", x=LEFT + i * width, y=bottom - height,
                             width=width - 2, height=height))
        if i % 5 == 0:
            parts.append(label("tick", LEFT + i * width, bottom + 18, f"{limit * i / bins * 100:.0f}%"))
    parts.append(label("axis", (LEFT + RIGHT) / 2, bottom + 40, "(slowest - fastest round) / median; the last bar: or more",
                       "middle"))
    return page.svg(900, 250, "Noise", parts)


def table(problems, predicted):
    unit, scale = ("kcycles", 1e-3) if predicted else ("ms", 1)
    rows = [page.table_row("th", [("", "layer"), ("", f"default {unit}"), ("", f"tuned {unit}"), ("", "gain"), ("", "noise"),
                                  ("", "tried"), ("", "failed"), ("left", "decision"), ("left", "problem")])]
    for problem in problems:
        chosen = problem["chosen"]
        failed = sum(c["verdict"] != "ok" for c in problem["candidates"])
        if problem["error"]:
            rows.append(page.table_row("td", [("", html.escape(name_of(problem))), ("bad", html.escape(problem["error"]))]))
            continue
        rows.append(page.table_row("td", [
            ("", html.escape(name_of(problem))), ("", f"{problem['default']['ms'] * scale:.4f}"),
            ("", f"{chosen['ms'] * scale:.4f}"), ("", f"{problem['gain']:.2f}"), ("", f"{problem['noise'] * 100:.1f}%"),
            ("", problem["tried"]), ("bad" if failed else "", failed),
            ("left", f"<code>{html.escape(chosen['algorithm'])} {html.escape(chosen['schedule'])}</code>"),
            ("left", f"<code>{html.escape(problem['problem'])}</code>")]))
    return f'<div class="scroll"><table>{"".join(rows)}</table></div>'


def failures(problems):
    rows = [page.table_row("td", [("", html.escape(name_of(problem))),
                                  ("left", f"<code>{html.escape(c['algorithm'])} {html.escape(c['schedule'])}</code>"),
                                  ("left bad", html.escape(c["verdict"]))])
            for problem in problems for c in problem["candidates"] if c["verdict"] != "ok"]
    return f'<h2>Candidates that failed</h2><div class="scroll"><table>{"".join(rows)}</table></div>' if rows else ""


def report(result):
    problems = [problem for problem in result["problems"] if not problem["error"]]
    spreads = [c["spread"] for problem in problems for c in good_ones(problem, final=True)]
    tried = sum(problem["tried"] for problem in problems)
    gain = result["gain"]
    warning = "<p class='bad'>These are predictions: nothing was run.</p>" if result["predicted"] else ""
    noise = "" if result["predicted"] or not spreads else (
        f"<h2>Noise of the machine</h2><p>Median spread of a measurement's rounds: "
        f"{sorted(spreads)[len(spreads) // 2] * 100:.1f}%.</p>{histogram(spreads)}")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Kiln: tuning</title><style>{page.STYLE}</style></head><body>
<h1>Tuning for {html.escape(result['target'])}</h1>
<p class="soft">{html.escape(result['machine'])}; {tried} candidates for {len(problems)} problems in
{result['seconds']:.0f} seconds.</p>{warning}
<p>{gain['in_all']:.3f} times as fast as the defaults in all, repeated layers counted; {gain['geometric_mean']:.3f} in
geometric mean.</p>
<h2>Gain of each layer</h2>{gain_bars(problems)}
<h2>The search</h2>{search_curves(problems)}
<h2>Candidates</h2>{scatter(problems)}
<h2>Decisions</h2>{table(result['problems'], result['predicted'])}
{noise}
{failures(problems)}
</body></html>
"""


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        result = json.load(file)
    text = report(result)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
