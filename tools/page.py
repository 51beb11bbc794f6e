"""What pages of results are made of: figures drawn by Plotly, tables, one style. They need nothing but a browser: Plotly's
script is in the page, packed, and nothing is fetched."""

import base64
import gzip
import html
import importlib.util
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

# ---- Figures ------------------------------------------------------------------------------------------------------

# Told apart on light and on dark paper, and by most who see few colours: no two neighbours are of one hue or lightness.
COLOURS = ("#3b7dd8", "#e07b1f", "#1f9d6b", "#c2499d", "#8a63d2", "#b58900", "#d1495b", "#2aa1b3", "#7d6b57", "#6b8e23",
           "#ef7fa6", "#5b6b7b", "#9b2d1f", "#43aa8b", "#577590", "#f9a03f", "#4d4dff", "#a05195", "#00745d", "#909000")
SYMBOLS = ("circle", "square", "diamond", "cross", "triangle-up", "star")


def colours(names):
    """A colour for each name, one that no other has."""
    names = list(dict.fromkeys(names))
    return {name: COLOURS[i] if i < len(COLOURS) else f"hsl({137.5 * i % 360:.0f}, 60%, {40 + i % 3 * 10}%)"
            for i, name in enumerate(names)}


def symbol(number):
    return SYMBOLS[number % len(SYMBOLS)]


def lines(*texts):
    """What stands beside the pointer; long ones are broken so that a narrow screen shows them."""
    return "<br>".join(html.escape(piece) for text in texts for piece in pieces(str(text)))


def pieces(text, width=64):
    """A text in lines of at most `width`, broken behind a blank, ';', ',' or '-' where there is one."""
    while len(text) > width:
        at = max(text.rfind(sign, 0, width) for sign in " ;,-") + 1 or width
        yield text[:at]
        text = text[at:]
    yield text


def figure(name, traces, layout, height=420, least_width=0):
    """A figure, drawn where it stands when the page is loaded. Where the page is narrower than it can be read at, it is
    scrolled."""
    words = json.dumps({"data": traces, "layout": {"height": height, **layout}}, allow_nan=False).replace("</", "<\\/")
    return (f'<div class="scroll"><div class="plot" role="img" aria-label="{html.escape(name)}" '
            f'style="min-width: {least_width}px; height: {height}px">'
            f'<script type="application/json">{words}</script></div></div>')


BAR = 0.8  # its width: Plotly makes those of each trace as wide as the trace's own places allow


def axis(title, **options):
    return {"title": {"text": title}, "automargin": True, **options}


def log_axis(title, **options):
    ticks = [number * 10.0**power for power in range(-4, 8) for number in (1, 2, 5)]
    return axis(title, type="log", tickvals=ticks, ticktext=[f"{tick:,.10g}" for tick in ticks], **options)


@dataclass(frozen=True)
class Point:
    """One layer in a roofline; `words` are shown where the pointer rests."""

    kind: str
    intensity: float
    gflops: float
    words: tuple


def roofline(points, kinds, peak, bandwidth):
    """GFLOP/s over FLOP/byte, both logarithmic, under the measured peak and the measured bandwidth (GB/s). `kinds` are the
    names of the points' kinds, in the order of the legend."""
    ridge = peak / bandwidth
    least = min([2, ridge / 2] + [point.intensity / 1.5 for point in points])
    most = max([500, ridge * 2] + [point.intensity * 1.5 for point in points])
    start = max(least, peak / 64 / bandwidth)
    traces = [{"type": "scatter", "mode": "lines", "x": [start, ridge, most], "y": [start * bandwidth, peak, peak],
               "line": {"color": "#808890", "width": 2}, "hoverinfo": "text", "showlegend": False,
               "text": [f"memory, {bandwidth:.1f} GB/s", "", f"measured peak, {peak:.0f} GFLOP/s"]}]
    shades = colours(kinds)
    for i, kind in enumerate(kinds):
        mine = [point for point in points if point.kind == kind]
        if mine:
            traces.append({"type": "scatter", "mode": "markers", "name": kind, "x": [point.intensity for point in mine],
                           "y": [point.gflops for point in mine], "text": [lines(*point.words) for point in mine],
                           "hoverinfo": "text", "marker": {"color": shades[kind], "size": 10, "opacity": 0.8,
                                                           "symbol": symbol(i)}})
    # Above the figure, for a narrow one has its legend where the line ends.
    words = f'<p class="soft">Measured: peak {peak:.0f} GFLOP/s, memory {bandwidth:.1f} GB/s.</p>\n'
    return words + figure("Roofline: what each layer reaches, under what the processor can", traces,
                          {"xaxis": log_axis("FLOP per byte of tensors"), "yaxis": log_axis("GFLOP/s")})


# ---- Page ---------------------------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light dark; --back: #fbfbfa; --text: #1c1f23; --soft: #646b74; --line: #e3e5e8; --a: #2563c9;
  --b: #d3690d; --c: #16855b; --rest: #c4d3ee; --bad: #c22f2f; }
@media (prefers-color-scheme: dark) { :root { --back: #16181c; --text: #e8eaed; --soft: #9aa2ac; --line: #2d3138;
  --bad: #ff7a7a; } }
html { overflow-y: scroll; }
body { margin: 0 auto; max-width: 1200px; padding: 24px; background: var(--back); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; margin: 8px 0 4px; }
h2 { font-size: 18px; margin: 36px 0 8px; }
p { max-width: 110ch; }
.soft, figcaption { color: var(--soft); }
.plot { width: 100%; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 12.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 7px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child, .left { text-align: left; }
th { color: var(--soft); font-weight: 600; }
.facts td:nth-child(2) { font-weight: 600; }
.facts td { white-space: normal; }
.facts td:nth-child(2) { min-width: 9ch; }
.facts td:nth-child(3) { text-align: left; color: var(--soft); }
code { font: 11px ui-monospace, monospace; }
td code { display: block; min-width: 32ch; max-width: 60ch; white-space: normal; overflow-wrap: anywhere; }
@media (max-width: 600px) { body { padding: 12px; } }
.bad { color: var(--bad); font-weight: 600; }
.pictures { display: flex; gap: 24px; align-items: flex-end; flex-wrap: wrap; }
figure { margin: 0; }
figcaption { font-size: 13px; }
img { max-width: 100%; display: block; }
"""


# Plotly draws in the page's colours, and anew where these change: by daylight and at night.
DRAWING = """
(async () => {
  const places = document.querySelectorAll(".plot"), packed = document.querySelector(".library").textContent;
  const instead = words => { for (const place of places) place.textContent = words; };
  if (!packed) return instead("Figures need Plotly's script, plotly.min.js, which this Kiln lacks.");
  if (!window.DecompressionStream) return instead("Figures need a browser of 2023 or later.");
  const bytes = Uint8Array.from(atob(packed), letter => letter.charCodeAt(0));
  const script = document.createElement("script");
  script.text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  document.head.append(script);
  const shade = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const draw = () => places.forEach(place => {
    place.figure ??= JSON.parse(place.querySelector("script").textContent);
    const layout = structuredClone(place.figure.layout), lines = {gridcolor: shade("--line"), zerolinecolor: shade("--line")};
    for (const key of Object.keys(layout)) if (/^[xy]axis/.test(key)) Object.assign(layout[key], lines);
    Plotly.react(place, place.figure.data, {
      margin: {l: 60, r: 12, t: 28, b: 48}, hovermode: "closest", legend: {orientation: "h", y: 1.02, yanchor: "bottom"},
      ...layout, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: {color: shade("--text"), family: "system-ui, sans-serif", size: 12},
      modebar: {bgcolor: "rgba(0,0,0,0)", color: shade("--soft"), activecolor: shade("--text")},
      hoverlabel: {align: "left", bgcolor: shade("--back"), font: {color: shade("--text")}},
    }, {responsive: true, displaylogo: false, displayModeBar: innerWidth < 700 ? false : "hover"});
  });
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
"""


def plotly_file():
    """Plotly's script: beside this file or the program that was started, else that of the Python package; None if there is
    none."""
    folders = [Path(__file__).parent, Path(sys.argv[0]).parent]
    spec = importlib.util.find_spec("plotly")
    folders += [Path(folder, "package_data") for folder in (spec.submodule_search_locations or [] if spec else [])]
    return next((folder / "plotly.min.js" for folder in folders if (folder / "plotly.min.js").is_file()), None)


def plotly():
    """That script's text, or ""."""
    found = plotly_file()
    return found.read_text(encoding="utf-8") if found else ""


def packed(script):
    """A script as a page carries it, behind the notice that it begins with: Plotly's 4.8 MB are 2 MB so. DRAWING unpacks it."""
    notice = script[:script.find("*/") + 2] if script.startswith("/*") else ""
    text = base64.b64encode(gzip.compress(script.encode(), 9, mtime=0)).decode() if script else ""
    return f'<!-- {html.escape(notice)} -->\n<script class="library" type="application/gzip">{text}</script>\n'


def write(path, title, body):
    """Writes a page that stands alone."""
    head = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>
"""
    end = f"{packed(plotly())}<script>{DRAWING}</script>\n</body></html>\n"
    temporary = f"{path}.part"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(head + body + end)
    os.replace(temporary, path)


def code(text):
    """A problem's or a decision's text in a table: its lines end behind a number of the schedule."""
    return f"<code>{html.escape(text).replace(';', ';<wbr>')}</code>"


def table_row(name, cells):
    """Cells are (class or "", HTML)."""
    return "<tr>" + "".join(f'<{name} class="{class_}">{cell}</{name}>' for class_, cell in cells) + "</tr>"
