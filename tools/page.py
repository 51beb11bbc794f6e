"""What pages of results are made of: SVG pictures, tables, one style. They need nothing but a browser."""

import html
import math
from dataclasses import dataclass


# ---- Pictures -----------------------------------------------------------------------------------------------------


class LogAxis:
    """Maps [low, high] onto pixels, logarithmically."""

    def __init__(self, low, high, start, end):
        self.low, self.high, self.start, self.end = low, high, start, end

    def __call__(self, value):
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self):
        decade = 10 ** math.floor(math.log10(self.low))
        while decade <= self.high:
            yield from (step * decade for step in (1, 2, 5) if self.low <= step * decade <= self.high)
            decade *= 10


def element(name, content="", **attributes):
    """An SVG element; attributes are named with _ in place of -, and numbers are rounded to a tenth."""
    parts = [f" {key.rstrip('_').replace('_', '-')}=\"{value:.1f}\"" if isinstance(value, float) else
             f" {key.rstrip('_').replace('_', '-')}=\"{value}\"" for key, value in attributes.items()]
    return f"<{name}{''.join(parts)}>{content}</{name}>"


def label(class_, x, y, content, anchor="start", turn=0.0):
    """A text at (x, y), turned clockwise by degrees."""
    place = {"transform": f"translate({x:.1f} {y:.1f}) rotate({turn:.1f})"} if turn else {"x": x, "y": y}
    return element("text", html.escape(content), class_=class_, text_anchor=anchor, **place)


def title(*lines):
    """What a browser shows where the pointer rests."""
    return element("title", html.escape("\n".join(lines)))


def svg(width, height, name, parts):
    return element("svg", "\n".join(parts), viewBox=f"0 0 {width} {height}", role="img", aria_label=html.escape(name))


def grid(x, y, x_title, y_title, left, right, top, bottom):
    parts = []
    for tick in x.ticks():
        parts += [element("line", class_="grid", x1=x(tick), x2=x(tick), y1=top, y2=bottom),
                  label("tick", x(tick), bottom + 18, f"{tick:g}", "middle")]
    for tick in y.ticks():
        parts += [element("line", class_="grid", x1=left, x2=right, y1=y(tick), y2=y(tick)),
                  label("tick", left - 8, y(tick) + 4, f"{tick:g}", "end")]
    return parts + [label("axis", (left + right) / 2, bottom + 40, x_title, "middle"),
                    label("axis", left - 46, (top + bottom) / 2, y_title, "middle", -90)]


def legend(x, y, kinds):
    """A dot and a name for each of kinds, [(name, class)]."""
    parts = []
    for name, colour in kinds:
        parts += [element("circle", class_=colour, cx=x, cy=y, r=5), label("tick", x + 11, y + 4, name)]
        x += 34 + 8 * len(name)
    return parts


@dataclass(frozen=True)
class Point:
    """One layer in a roofline; `words` are shown where the pointer rests."""

    colour: str
    intensity: float
    gflops: float
    words: tuple


def roofline(points, kinds, peak, bandwidth):
    """GFLOP/s over FLOP/byte, both logarithmic, under the measured peak and the measured bandwidth (GB/s)."""
    left, right, top, bottom = 70, 880, 20, 380
    ridge = peak / bandwidth
    x = LogAxis(min([2, ridge / 2] + [point.intensity / 1.5 for point in points]),
                max([500, ridge * 2] + [point.intensity * 1.5 for point in points]), left, right)
    y = LogAxis(min([peak / 16] + [point.gflops / 1.3 for point in points]),
                max([peak * 1.5] + [point.gflops * 1.3 for point in points]), bottom, top)
    parts = grid(x, y, "arithmetic intensity: FLOP per byte of tensors", "GFLOP/s", left, right, top, bottom)
    start = max(x.low, y.low / bandwidth)
    middle = math.sqrt(start * ridge)
    corners = [(start, start * bandwidth), (ridge, peak), (x.high, peak)]
    slope_at = x(middle) - 7, y(middle * bandwidth) - 9
    slope = math.degrees(math.atan2(y(peak) - y(middle * bandwidth), x(ridge) - x(middle)))
    parts += [element("polyline", class_="roof", points=" ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in corners)),
              label("roofname", right - 6, y(peak) - 8, f"measured peak, {peak:.0f} GFLOP/s", "end"),
              label("roofname", *slope_at, f"memory, {bandwidth:.1f} GB/s", "middle", slope)]
    for point in points:
        parts.append(element("circle", title(*point.words), class_=f"{point.colour} point", cx=x(point.intensity),
                             cy=y(point.gflops), r=5.5))
    return svg(900, 430, "Roofline: what each layer reaches, under what the processor can",
               parts + legend(left + 20, bottom - 16, kinds))


# ---- Page ---------------------------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light dark; --back: #fbfbfa; --text: #1c1f23; --soft: #646b74; --line: #e3e5e8; --a: #2563c9;
  --b: #d3690d; --c: #16855b; --rest: #c4d3ee; --bad: #c22f2f; }
@media (prefers-color-scheme: dark) { :root { --back: #16181c; --text: #e8eaed; --soft: #9aa2ac; --line: #2d3138;
  --a: #6ea3f5; --b: #f09950; --c: #4cc38f; --rest: #34496e; --bad: #ff7a7a; } }
body { margin: 0 auto; max-width: 1200px; padding: 24px; background: var(--back); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; margin: 8px 0 4px; }
h2 { font-size: 18px; margin: 36px 0 8px; }
p { max-width: 110ch; }
.soft, figcaption { color: var(--soft); }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--text); font-family: inherit; font-size: 13px; }
svg .tick { fill: var(--soft); font-size: 12px; }
svg .small { fill: var(--soft); font-size: 9px; }
.grid { stroke: var(--line); }
.roof { fill: none; stroke: var(--text); stroke-width: 2; }
.a { fill: var(--a); } .b { fill: var(--b); } .c { fill: var(--c); } .rest { fill: var(--rest); }
.point { fill-opacity: .75; stroke: var(--back); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 12.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 7px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child, .left { text-align: left; }
th { color: var(--soft); font-weight: 600; }
.facts td:nth-child(2) { font-weight: 600; }
.facts td:nth-child(3) { text-align: left; white-space: normal; color: var(--soft); }
code { font: 11px ui-monospace, monospace; }
.bad { color: var(--bad); font-weight: 600; }
.pictures { display: flex; gap: 24px; align-items: flex-end; flex-wrap: wrap; }
figure { margin: 0; }
figcaption { font-size: 13px; }
img { max-width: 100%; display: block; }
"""


def table_row(name, cells):
    """Cells are (class or "", HTML)."""
    return "<tr>" + "".join(f'<{name} class="{class_}">{cell}</{name}>' for class_, cell in cells) + "</tr>"
