"""The benchmark's results: rows, means, tables on the terminal and one HTML page."""

import html
import math
import os
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))

import measure  # noqa: E402
import page  # noqa: E402

OURS = "kiln"
# The four ways in which a layer is compared: (key, words, only plain NCX, the epilogue's place in measure.epilogues).
SETTINGS = [("best/relu", "each in its best layout, with ReLU", False, -1),
            ("best/plain", "each in its best layout", False, 0),
            ("ncx/relu", "plain NCX in and out, with ReLU", True, -1),
            ("ncx/plain", "plain NCX in and out", True, 0)]
TYPES = {"f32": "f32", "f64": "f32", "f16": "f32", "bf16": "bf16", "u8": "int8", "s8": "int8"}
PEAK_WORDS = {"f32": "float32", "int8": "8-bit", "bf16": "bfloat16"}
KINDS = ("float32", "8-bit", "bfloat16", "float16", "float64")
KIND_OF = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "u8": "8-bit", "s8": "8-bit"}


# ---- From measurements to rows ------------------------------------------------------------------------------------


def entry(candidate):
    fields = {"layout": candidate.layout, "plain": candidate.plain, "epilogue": candidate.epilogue,
              "verdict": candidate.verdict, "note": candidate.note, "error": candidate.error}
    if candidate.usable:
        fields |= {"ms": candidate.time * 1e3, "rounds_ms": [seconds * 1e3 for seconds in candidate.seconds]}
    return fields


def row(name, problem, candidates):
    """{"layer", "problem", "type", "gflop", "intensity",
    "sides": {side: [entry of every candidate]},
    "settings": {key of SETTINGS: {"ours": entry of our fastest, "peers": {name: entry of its fastest, with "ratio", its
    time over ours, round by round}, "best": the name of the peer with the least ratio or None, "ratio": that or None}}}"""
    sides = {}
    for candidate in candidates:
        sides.setdefault(candidate.side.name, []).append(candidate)
    settings, epilogues = {}, measure.epilogues(problem)
    for key, _, plain, place in SETTINGS:
        asked = {side: [candidate for candidate in mine
                        if candidate.epilogue == epilogues[place] and (candidate.plain or not plain)]
                 for side, mine in sides.items()}
        ours = measure.fastest(asked.pop(OURS, []))
        peers = {}
        for side, mine in asked.items():
            best = measure.fastest_beside(mine, ours) if ours else measure.fastest(mine)
            if best:
                peers[side] = entry(best) | {"ratio": measure.times_over(best, ours) if ours else None}
        best = min(peers, key=lambda side: peers[side]["ratio" if ours else "ms"], default=None)
        settings[key] = {"ours": entry(ours) if ours else None, "peers": peers, "best": best,
                         "ratio": peers[best]["ratio"] if best else None}
    return {"layer": name, "problem": problem.text(), "type": problem.x_type, "gflop": problem.flops * 1e-9,
            "intensity": problem.flops / problem.tensor_bytes,
            "sides": {side: [entry(candidate) for candidate in mine] for side, mine in sides.items()},
            "settings": settings}


def is_right(row):
    """Whether Kiln computed the layer, and rightly, in all the ways that were asked for."""
    return "failed" not in row and all(entry["verdict"] == "ok" for entry in row["sides"].get(OURS, []))


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def means(rows):
    """{setting: {type: {"ratio": geometric mean, "layers": how many, "losses": [names]}}}"""
    result = {}
    for key, *_ in SETTINGS:
        for row in rows:
            if "failed" in row or not row["settings"][key]["ratio"]:
                continue
            kind = "int8" if row["type"] in ("s8", "u8") else row["type"]
            group = result.setdefault(key, {}).setdefault(kind, {"ratios": [], "losses": []})
            group["ratios"].append(row["settings"][key]["ratio"])
            if group["ratios"][-1] < 1:
                group["losses"].append(row["layer"])
        for group in result.get(key, {}).values():
            ratios = group.pop("ratios")
            group.update(ratio=geometric_mean(ratios), layers=len(ratios))
    return result


def peak_share(row, ours, peaks):
    peak = peaks.get(TYPES[row["type"]])
    return row["gflop"] / (ours["ms"] * 1e-3) / peak if peak else None


def what_happened(entries):
    """Why a side has no time: the worst that befell its candidates."""
    for verdict in ("wrong", "crashed", "failed", "unsupported"):
        for entry in entries:
            if entry["verdict"] == verdict:
                return verdict, entry["note"] or f"error {entry['error']:.1e}"
    return "-", ""


def failures(rows):
    """[(layer, side, layout and epilogue, verdict, note)] of whatever was wrong or broke; cases that a peer lacks aside."""
    return [(row["layer"], side, f"{entry['layout']}{' relu' if entry['epilogue'] else ''}", entry["verdict"],
             entry["note"] if entry["error"] is None else f"error {entry['error']:.1e}; {entry['note']}")
            for row in rows if "failed" not in row for side, entries in row["sides"].items() for entry in entries
            if entry["verdict"] not in (("ok",) if side == OURS else ("ok", "unsupported"))]


# ---- Terminal -----------------------------------------------------------------------------------------------------


def progress_line(row):
    if "failed" in row:
        return f"{row['layer']}: {row['failed']}"
    setting = row["settings"][SETTINGS[0][0]]
    if not setting["ours"]:
        return f"{row['layer']}: kiln: " + ": ".join(what_happened(row["sides"].get(OURS, [])))
    beside = f", {setting['best']} {setting['peers'][setting['best']]['ms']:.4f} ms" if setting["best"] else ""
    return f"{row['layer']}: {setting['ours']['ms']:.4f} ms{beside}"


def facts(result):
    """Lines about the machine and the sides."""
    peaks = ", ".join(f"{PEAK_WORDS[name]} {peak:.0f}" for name, peak in result["peaks"].items())
    lines = [f"{result['processor']}, one thread on processor {result['cpu']}; measured peaks in GFLOP/s: {peaks}"]
    if result["held"]:
        lines.append({"avx2": "held to AVX2", "no-amx": "held to AVX-512 without AMX"}[result["held"]] +
                     ": CPUID tells the peers of nothing more; Kiln compiles for no more")
    if result["amx"]:
        lines.append("this processor has AMX, which all may use for 8-bit and 16-bit data and no peak here counts; "
                     "--no-amx holds them back")
    for name, side in result["sides"].items():
        if "failed" in side:
            lines.append(f"{name}: not there: {side['failed']}")
            continue
        call = f"; a call with next to nothing to do: {result['calls'][name] * 1e6:.1f} us" if name in result["calls"] else ""
        held = "; COULD NOT BE HELD" if side["held"] is False else ""
        note = f"; {side['note']}" if side["note"] else ""
        lines.append(f"{name} {side['version']}{call}{note}{held}")
    return lines


def cells(row, key, peers, peaks):
    """Texts of a row: layer, algorithm, layout, ms, of peak, best peer, its ms, ratio, mark, a time for each peer."""
    setting = row["settings"][key]
    ours, best = setting["ours"], setting["best"]
    if ours:
        share = peak_share(row, ours, peaks)
        first = [ours["note"], ours["layout"], f"{ours['ms']:.4f}", f"{share * 100:.0f}%" if share else "-"]
    else:
        first = [what_happened(row["sides"].get(OURS, []))[0], "-", "-", "-"]
    second = [best, f"{setting['peers'][best]['ms']:.4f}"] if best else ["-", "-"]
    ratio = setting["ratio"]
    third = [f"{ratio:.2f}" if ratio else "-", "LOSS" if ratio and ratio < 1 else ""]
    times = []
    for peer in peers:
        if peer in setting["peers"]:
            times.append(f"{setting['peers'][peer]['ms']:.4f}")
        else:
            entries = [entry for entry in row["sides"].get(peer, []) if entry["plain"] or not key.startswith("ncx")]
            times.append({"unsupported": "-"}.get(what_happened(entries)[0], what_happened(entries)[0]))
    return [row["layer"], *first, *second, *third, *times]


def peers_of(result):
    return [name for name, side in result["sides"].items() if name != OURS and "failed" not in side]


def heads(peers):
    return ["layer", "algorithm", "layout", "ms", "peak", "best peer", "ms", "ratio", "", *peers]


LONGEST_BAR = 3.0  # times the best peer's time; longer ones are cut
LEFT = (0, 1, 2, 5)  # columns that are words


def text(result):
    peers, rows = peers_of(result), [row for row in result["rows"] if "failed" not in row]
    lines = ["", *facts(result)]
    for key, words, *_ in SETTINGS:
        table = [heads(peers), *(cells(row, key, peers, result["peaks"]) for row in rows)]
        widths = [max(map(len, column)) for column in zip(*table)]
        lines += ["", f"{words} (ms; ratio: the best peer's time over ours, in the median round)"]
        for one in table:
            lines.append("  ".join(cell.ljust(width) if index in LEFT else cell.rjust(width)
                                   for index, (cell, width) in enumerate(zip(one, widths))).rstrip())
        lines += mean_lines(result["means"].get(key, {}))
    broken = failures(rows)
    lines += ["", *(f"{layer}: {side} ({how}): {verdict}: {note}" for layer, side, how, verdict, note in broken)]
    lines += [f"{row['layer']}: {row['failed']}" for row in result["rows"] if "failed" in row]
    return "\n".join(lines).rstrip()


def markdown(result):
    """The table of docs/SPEED.md: each layer with a ReLU, in best layouts and in NCX, and the means below."""
    lines = ["| layer | algorithm | ms | best peer | ratio | NCX: ms | best peer | ratio |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in result["rows"]:
        if "failed" in row:
            continue
        columns = [row["layer"]]
        for key in ("best/relu", "ncx/relu"):
            setting = row["settings"][key]
            ours, best = setting["ours"], setting["best"]
            columns += [ours["note"]] if key == "best/relu" and ours else ["-"] if key == "best/relu" else []
            columns += [f"{ours['ms']:.3g}" if ours else "-",
                        f"{best} {setting['peers'][best]['ms']:.3g}" if best else "-",
                        f"{setting['ratio']:.2f}" if setting["ratio"] else "-"]
        lines.append("| " + " | ".join(columns) + " |")
    for key, words, *_ in SETTINGS:
        lines += ["", *(f"{words}: {line}" for line in mean_lines(result["means"].get(key, {})))]
    return "\n".join(lines)


def mean_lines(groups):
    return [f"{kind}: {group['ratio']:.2f} times the best peer in geometric mean of {group['layers']}; "
            f"{len(group['losses'])} lost{': ' + ', '.join(group['losses']) if group['losses'] else ''}"
            for kind, group in groups.items()]


# ---- Page ---------------------------------------------------------------------------------------------------------


def bars(rows, key):
    """For each layer, our time over the best peer's: the shorter the better, the line is level."""
    shown = [row for row in rows if row["settings"][key]["ratio"]]
    longest = min(LONGEST_BAR, max([1.25] + [1 / row["settings"][key]["ratio"] for row in shown]))
    traces, places = [], {row["layer"]: i for i, row in enumerate(shown)}
    for name, lost, shade in (("at least as fast", False, page.COLOURS[0]), ("slower", True, page.COLOURS[6])):
        mine = [row for row in shown if (row["settings"][key]["ratio"] < 1) == lost]
        if not mine:
            continue
        words = []
        for row in mine:
            setting = row["settings"][key]
            ours, best = setting["ours"], setting["peers"][setting["best"]]
            words.append(page.lines(f"{row['layer']}: {ours['ms']:.4f} ms, {setting['best']} {best['ms']:.4f} ms",
                                    f"{ours['note']}, {ours['layout']}", row["problem"]))
        traces.append({"type": "bar", "orientation": "h", "width": page.BAR, "name": name,
                       "y": [places[row["layer"]] for row in mine],
                       "x": [min(longest, 1 / row["settings"][key]["ratio"]) for row in mine],
                       "text": [f"{row['settings'][key]['ratio']:.2f}x {row['settings'][key]['best']}" for row in mine],
                       "textposition": "auto", "hovertext": words, "hoverinfo": "text", "marker": {"color": shade}})
    names = {"tickvals": list(range(len(shown))), "ticktext": [row["layer"] for row in shown], "autorange": "reversed",
             "automargin": True}
    level = {"type": "line", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper", "line": {"color": "#808890", "width": 2}}
    layout = {"xaxis": page.axis("our time / the best peer's", range=[0, longest * 1.02]), "yaxis": names, "shapes": [level],
              "barmode": "overlay"}
    return page.figure("Our time beside the best peer's", traces, layout, height=100 + 22 * len(shown))


def roofline(rows, result):
    key, points = SETTINGS[0][0], []
    for row in rows:
        ours = row["settings"][key]["ours"]
        if ours:
            gflops = row["gflop"] / (ours["ms"] * 1e-3)
            points.append(page.Point(KIND_OF[row["type"]], row["intensity"], gflops,
                                     (f"{row['layer']}: {gflops:.0f} GFLOP/s, {ours['ms']:.4f} ms", ours["note"],
                                      row["problem"])))
    return page.roofline(points, KINDS, result["peaks"]["f32"], result["bandwidth"])


def html_table(rows, key, peers, peaks):
    lines = [page.table_row("th", [("left" if index in LEFT else "", html.escape(head))
                                   for index, head in enumerate(heads(peers))])]
    for row in rows:
        lines.append(page.table_row("td", [
            ("bad" if cell in ("LOSS", "wrong", "crashed", "failed") else "left" if index in LEFT else "",
             html.escape(cell)) for index, cell in enumerate(cells(row, key, peers, peaks))]))
    return "\n".join(lines)


def write_page(path, result):
    rows, peers = [row for row in result["rows"] if "failed" not in row], peers_of(result)
    sections = []
    for key, words, *_ in SETTINGS:
        means_ = "<br>".join(map(html.escape, mean_lines(result["means"].get(key, {}))))
        sections.append(f"<h2>{html.escape(words[0].upper() + words[1:])}</h2>\n{bars(rows, key)}\n<p>{means_}</p>\n"
                        f'<div class="scroll"><table>{html_table(rows, key, peers, result["peaks"])}</table></div>')
    broken = "".join(page.table_row("td", [("left", html.escape(cell)) for cell in one]) for one in failures(rows))
    broken += "".join(page.table_row("td", [("left", html.escape(row["layer"])), ("left", html.escape(row["failed"]))])
                      for row in result["rows"] if "failed" in row)
    body = f"""<h1>Kiln beside other libraries</h1>
<p class="soft">{'<br>'.join(map(html.escape, facts(result)))}</p>
<p class="soft">Warm, one thread, interleaved: in each of {result['rounds']} rounds every library times one batch of calls
of every layout that it is tried in; a time is the median over the rounds of each one's fastest call, a ratio the median
of those within each round. GFLOP count the definition's products, so that methods with fewer can pass the peak. Every
answer was checked against a float64 reference; a dash is a case that the library, or how it is driven here, lacks.</p>
<h2>Roofline</h2>
{roofline(rows, result)}
{chr(10).join(sections)}
{f'<h2>Wrong or broken</h2><div class="scroll"><table>{broken}</table></div>' if broken else ''}
"""
    page.write(path, "Kiln: benchmark", body)
