"""The page of kiln tune: tune_report.py RESULT.json PAGE.html, where the result is what kiln tune --json prints."""

import html
import json
import os
import sys

sys.path.insert(1, os.path.dirname(os.path.realpath(__file__)))

import page  # noqa: E402


def name_of(problem):
    repeats = len(problem["layers"])
    return problem["layers"][0] + (f" (x{repeats})" if repeats > 1 else "")


def good_ones(problem, final=False):
    return [c for c in problem["candidates"] if c["verdict"] == "ok" and (final or not c["final"])]


def decision_text(decision):
    return f"{decision['algorithm']} {decision['schedule']}"


def names_axis(problems, **options):
    """The layers by their numbers, so that two of one name are two."""
    return {"tickvals": list(range(len(problems))), "ticktext": [name_of(problem) for problem in problems], "automargin": True,
            **options}


def gain_bars(problems):
    """A bar a problem, from 1 to its gain."""
    gains = [problem["gain"] for problem in problems]
    words = [page.lines(name_of(p), f"{p['gain']:.3f} times as fast as the default: {p['default']['ms']:.4g} to "
                        f"{p['chosen']['ms']:.4g}", f"noise {p['noise'] * 100:.1f}%", decision_text(p["chosen"]), p["problem"])
             for p in problems]
    trace = {"type": "bar", "orientation": "h", "y": list(range(len(problems))), "x": [gain - 1 for gain in gains], "base": 1,
             "text": [f"{gain:.2f}" for gain in gains], "textposition": "outside", "cliponaxis": False, "hovertext": words,
             "hoverinfo": "text", "marker": {"color": page.COLOURS[0]}}
    most = max([1.5, *gains])
    layout = {"xaxis": page.axis("times as fast as the default", range=[min([1, *gains]) - 0.02, most * 1.1]),
              "yaxis": names_axis(problems, autorange="reversed")}
    return page.figure("Gain of each layer over its default", [trace], layout, height=90 + 22 * len(problems),
                       least_width=480)


def curve(problem):
    """(seconds, gain of the best so far) after each candidate."""
    best, points = 1.0, [(0.0, 1.0)]
    for candidate in problem["candidates"]:
        if candidate["verdict"] == "ok" and not candidate["final"]:
            best = min(best, candidate["ratio"])
        points.append((candidate["at"], 1 / best))
    return points


def search_curves(problems):
    traces = []
    shades = page.colours(range(len(problems)))
    for i, problem in enumerate(problems):
        points = curve(problem)
        traces.append({"type": "scatter", "mode": "lines", "name": name_of(problem), "x": [at for at, _ in points],
                       "y": [gain for _, gain in points], "line": {"shape": "hv", "color": shades[i], "width": 1.6},
                       "hovertemplate": page.lines(name_of(problem)) + ": %{y:.3f} after %{x:.0f} s<extra></extra>"})
    # The legend grows with the layers: it stands under the figure.
    layout = {"xaxis": page.axis("seconds"), "yaxis": page.axis("default / best so far"),
              "legend": {"orientation": "h", "y": -0.2, "yanchor": "top"}}
    return page.figure("Search: the best of each layer so far", traces, layout, height=400 + 10 * len(problems),
                       least_width=640)


def scatter(problems):
    """Every candidate: its time over its layer's default, by algorithm."""
    kinds = sorted({c["algorithm"] for problem in problems for c in good_ones(problem)})
    shades, traces = page.colours(kinds), []
    for number, kind in enumerate(kinds):
        x, y, words = [], [], []
        for i, problem in enumerate(problems):
            mine = good_ones(problem)
            for k, c in enumerate(mine):
                if c["algorithm"] == kind:
                    x.append(round(i - 0.35 + 0.7 * k / max(len(mine), 1), 4))
                    y.append(c["ratio"])
                    words.append(page.lines(name_of(problem), decision_text(c),
                                            f"{c['ms']:.4g} ms, {c['ratio']:.3f} of the default", problem["problem"]))
        traces.append({"type": "scatter", "mode": "markers", "name": kind, "x": x, "y": y, "text": words, "hoverinfo": "text",
                       "marker": {"color": shades[kind], "symbol": page.symbol(number), "size": 6, "opacity": 0.75}})
    turn = -90 if len(problems) > 8 else 0
    layout = {"xaxis": names_axis(problems, tickangle=turn, range=[-0.6, len(problems) - 0.4]),
              "yaxis": page.log_axis("time / the default's")}
    # A label on its side takes a line's height.
    return page.figure("Every candidate, in the order tried", traces, layout, height=480, least_width=80 + 18 * len(problems))


def histogram(spreads):
    """How far the rounds of one measurement lie apart."""
    bins, limit = 30, 0.3
    counts = [0] * bins
    for spread in spreads:
        counts[min(int(spread / limit * bins), bins - 1)] += 1
    at = [(i + 0.5) * limit / bins * 100 for i in range(bins)]
    trace = {"type": "bar", "x": at, "y": counts, "hovertemplate": "%{y} measurements<extra></extra>",
             "marker": {"color": page.COLOURS[0]}}
    layout = {"bargap": 0.1, "yaxis": page.axis("measurements"),
              "xaxis": page.axis("(slowest - fastest) / median", ticksuffix="%", range=[-1, limit * 100 + 1])}
    return page.figure("Noise", [trace], layout, height=260)


def table(problems, predicted):
    unit, scale = ("kcycles", 1e-3) if predicted else ("ms", 1)
    rows = [page.table_row("th", [("", "layer"), ("", f"default {unit}"), ("", f"tuned {unit}"), ("", "gain"), ("", "noise"),
                                  ("", "tried"), ("", "failed"), ("left", "decision"), ("left", "problem")])]
    for problem in problems:
        chosen = problem["chosen"]
        failed = sum(c["verdict"] != "ok" for c in problem["candidates"])
        if problem["error"]:
            rows.append(f'<tr><td>{html.escape(name_of(problem))}</td>'
                        f'<td class="left bad" colspan="8">{html.escape(problem["error"])}</td></tr>')
            continue
        rows.append(page.table_row("td", [
            ("", html.escape(name_of(problem))), ("", f"{problem['default']['ms'] * scale:.4f}"),
            ("", f"{chosen['ms'] * scale:.4f}"), ("", f"{problem['gain']:.2f}"), ("", f"{problem['noise'] * 100:.1f}%"),
            ("", problem["tried"]), ("bad" if failed else "", failed),
            ("left", page.code(decision_text(chosen))),
            ("left", page.code(problem['problem']))]))
    return f'<div class="scroll"><table>{"".join(rows)}</table></div>'


def sizes(problems):
    """What was decided for layers with open sizes, at each size that they were timed at."""
    rows = [page.table_row("td", [("", html.escape(name_of(problem))), ("left", page.code(size["problem"])),
                                  ("", f"{size['ms']:.4f}"), ("", f"{1 / size['ratio']:.2f}")])
            for problem in problems for size in problem["sizes"]]
    head = page.table_row("th", [("", "layer"), ("left", "at"), ("", "tuned ms"), ("", "gain")])
    return (f'<h2>Open sizes</h2><p>Their time above is the geometric mean over these.</p>'
            f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>') if rows else ""


def failures(problems):
    rows = [page.table_row("td", [("", html.escape(name_of(problem))),
                                  ("left", page.code(decision_text(c))),
                                  ("left bad", html.escape(c["verdict"]))])
            for problem in problems for c in problem["candidates"] if c["verdict"] != "ok"]
    return f'<h2>Candidates that failed</h2><div class="scroll"><table>{"".join(rows)}</table></div>' if rows else ""


def share(part):
    return f"{part * 100:.0f}%"


def machines(result):
    """Who timed, how busy all were, and what was lost."""
    pool, loads = result["pool"], {}
    refused = dict(pool.get("refused", {}))
    if result["predicted"]:
        return ""
    for problem in result["problems"]:
        for candidate in problem["candidates"]:
            if candidate["verdict"] == "ok":
                loads.setdefault(candidate["host"], []).append(candidate["load"])
    rows = [page.table_row("th", [("left", "machine"), ("", "timed"), ("", "busy"), ("", "GFLOP/s"), ("", "load"), ("left", "state"),
                                  ("left", "processor")])]
    for machine in pool.get("machines", []):
        load = sorted(loads.get(machine["host"], []))
        state = machine.get("state", "ready")
        if machine["host"] in refused:  # after it had begun
            state = f"refused: {refused.pop(machine['host'])}"
        rows.append(page.table_row("td", [
            ("left", html.escape(machine["host"])), ("", machine["timed"]), ("", share(machine["busy"])),
            ("", f"{machine['calibration']:.0f}" if machine["calibration"] else "-"),
            ("", f"{load[len(load) // 2]:.1f} to {load[-1]:.1f}" if load else "-"),
            ("left" if state == "ready" else "left bad", html.escape(state)), ("left", page.code(machine["machine"]))]))
    rows += [page.table_row("td", [("left", html.escape(name)), *[("", "-")] * 4, ("left bad", "refused"),
                                   ("left", html.escape(why))]) for name, why in refused.items()]
    lost = "nothing was lost" if not pool["lost"] + pool["retried"] else (
        f"{pool['lost']} machines were lost, {pool['retried']} tasks tried again elsewhere")
    simulated = f" Simulated, by the timings of {html.escape(pool['replayed'])}." if "replayed" in pool else ""
    table = f'<div class="scroll"><table>{"".join(rows)}</table></div>' if len(rows) > 1 else ""
    return f"""<h2>Machines</h2><p>Timers were busy for {share(pool['timers_busy'])} of the time, compilers for
{share(pool['compilers_busy'])}; {lost}.{simulated}</p>{table}
<p class="soft">GFLOP/s: what one core did just before the last timing, on registers alone. Load: processes that wanted to run, in the
median of the timings and at most.</p>"""


def report(result):
    problems = [problem for problem in result["problems"] if not problem["error"]]
    spreads = [c["spread"] for problem in problems for c in good_ones(problem, final=True)]
    tried = sum(problem["tried"] for problem in problems)
    gain = result["gain"]
    warning = "<p class='bad'>These are predictions: nothing was run.</p>" if result["predicted"] else ""
    noise = "" if result["predicted"] or not spreads else (
        f"<h2>Noise of the machine</h2><p>Median spread of a measurement's rounds: "
        f"{sorted(spreads)[len(spreads) // 2] * 100:.1f}%. The last bar has what is larger too.</p>{histogram(spreads)}")
    return f"""<h1>Tuning for {html.escape(result['target'])}</h1>
<p class="soft">{html.escape(result['machine'])}; {tried} candidates for {len(problems)} problems in
{result['seconds']:.0f} seconds.</p>{warning}
<p>{gain['in_all']:.3f} times as fast as the defaults in all, repeated layers counted; {gain['geometric_mean']:.3f} in
geometric mean.</p>
<h2>Gain of each layer</h2>{gain_bars(problems)}
<h2>The search</h2>{search_curves(problems)}
<h2>Candidates</h2>{scatter(problems)}
<h2>Decisions</h2>{table(result['problems'], result['predicted'])}
{sizes(problems)}
{machines(result)}
{noise}
{failures(problems)}
"""


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        result = json.load(file)
    page.write(sys.argv[2], "Kiln: tuning", report(result))


if __name__ == "__main__":
    main()
