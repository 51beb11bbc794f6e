"""The demo's results as a table on the terminal and as one HTML page that needs nothing else."""

import base64
import html
import math

# Kernel sizes, as the roofline's colours tell them apart.
KINDS = (("1x1", "a"), ("3x3", "b"), ("7x7", "c"))


def kind_of(row):
    return "x".join(map(str, row["taps"]))


def size_text(count):
    return "unknown" if count is None else f"{count / 1e3:.0f} KB" if count < 1e6 else f"{count / 1e6:.1f} MB"


# ---- Words both share ---------------------------------------------------------------------------------------------


def summary(result):
    """[(what, value, remark)]"""
    total, network, sizes = result["total"], result["network"], result["sizes"]
    worst = max((row["error"] / row["bound"] for row in result["rows"] if row["error"] is not None), default=math.nan)
    ours, theirs = network["kiln"], network["onnxruntime"]
    passed = sum(row["verdict"] == "ok" for row in result["rows"])

    def runs(times):
        return f"median of {network['runs']} runs, quartiles {times['low']:.1f} and {times['high']:.1f} ms"

    return [
        ("checked", f"{passed} of {len(result['rows'])} layers", f"largest error {worst:.3f} of its bound"),
        ("layers timed alone", f"{total['ms']:.2f} ms",
         f"{total['gflops']:.0f} GFLOP/s, {total['peak_share'] * 100:.0f}% of the measured peak"),
        ("as a network, Kiln", f"{ours['ms']:.2f} ms", runs(ours)),
        (f"as a network, onnxruntime {network['version']}", f"{theirs['ms']:.2f} ms",
         f"{runs(theirs)}; its changes of layout, {network['reorder_ms']:.2f} ms, not counted"),
        ("Kiln's result beside onnxruntime's", f"{network['difference']:.1e}",
         "the largest difference, as a part of the largest value"),
        ("linked: the network's program", size_text(sizes["network"]),
         f"code and constants, without weights; resnet50_test, with the reference in it: "
         f"{size_text(sizes['resnet50_test'])}"),
        ("linked: onnxruntime's library", size_text(sizes["onnxruntime"]), "code and constants"),
    ]


def comparison(result):
    outside = {name: count for name, count in result["network"]["operators"].items() if name in ("Add", "Sum", "Relu")}
    theirs = "onnxruntime fused them all too"
    if outside:
        listed = ", ".join(f"{name} x{count}" for name, count in outside.items())
        theirs = f"onnxruntime left outside, uncounted, {listed}"
    return ("Both run the same seeded model on one thread pinned to the same processor, in turns, layer after layer in "
            "the network's order; only the convolutions' own times are added up, each the median over the runs. "
            "Normalisations are folded, and bias, residual sum and ReLU are part of a convolution: "
            f"{theirs}. Kiln's activations are channels last in memory (NXC); onnxruntime's lie in blocks of its own "
            "(NCHWc), and its profiler is on to tell the times.")


# ---- Terminal -----------------------------------------------------------------------------------------------------


def text(result):
    rows = result["rows"]
    width = max(len(row["problem"]) for row in rows)
    peaks = ", ".join(f"{peak:.0f} GFLOP/s ({name})" for name, peak in result["peaks"].items())
    lines = ["", f"{result['machine']['processor']}, one thread; measured peak {peaks}",
             f"{'layer':6} {'problem':{width}} {'algorithm':9} {'ms':>8} {'GFLOP/s':>8} {'peak':>6} {'error':>8} "
             f"{'bound':>8}"]
    for row in rows:
        errors = f"{row['error']:8.1e} {row['bound']:8.1e}" if row["error"] is not None else f"{'-':>8} {'-':>8}"
        verdict = "" if row["verdict"] == "ok" else "  " + row["verdict"]
        lines.append(f"{row['layer']:6} {row['problem']:{width}} {row['algorithm']:9} {row['ms']:8.4f} "
                     f"{row['gflops']:8.1f} {row['peak_share'] * 100:5.1f}% {errors}{verdict}")
    facts = summary(result)
    left, middle = (max(len(fact[index]) for fact in facts) for index in range(2))
    lines += [""] + [f"{what:{left}}  {value:>{middle}}  {remark}" for what, value, remark in facts]
    return "\n".join(lines + ["", *wrap(comparison(result))])


def wrap(words, width=118):
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] += word + " "
    return [line.rstrip() for line in lines]


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


def legend(x, y):
    parts = []
    for name, colour in KINDS:
        parts += [element("circle", class_=colour, cx=x, cy=y, r=5), label("tick", x + 11, y + 4, name)]
        x += 58
    return parts


def roofline(result):
    """GFLOP/s over FLOP/byte, both logarithmic, under the measured peak and the measured bandwidth."""
    rows, peak, bandwidth = result["rows"], result["peak_gflops"], result["bandwidth"]
    left, right, top, bottom = 70, 880, 20, 380
    ridge = peak / bandwidth
    x = LogAxis(min(2, ridge / 2, *(row["intensity"] / 1.5 for row in rows)),
                max(500, ridge * 2, *(row["intensity"] * 1.5 for row in rows)), left, right)
    y = LogAxis(min([peak / 16] + [row["gflops"] / 1.3 for row in rows]), peak * 1.5, bottom, top)
    parts = grid(x, y, "arithmetic intensity: FLOP per byte of tensors", "GFLOP/s", left, right, top, bottom)
    start = max(x.low, y.low / bandwidth)
    middle = math.sqrt(start * ridge)
    corners = [(start, start * bandwidth), (ridge, peak), (x.high, peak)]
    slope_at = x(middle) - 7, y(middle * bandwidth) - 9
    slope = math.degrees(math.atan2(y(peak) - y(middle * bandwidth), x(ridge) - x(middle)))
    parts += [element("polyline", class_="roof", points=" ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in corners)),
              label("roofname", right - 6, y(peak) - 8, f"measured peak, {peak:.0f} GFLOP/s", "end"),
              label("roofname", *slope_at, f"memory, {bandwidth:.1f} GB/s", "middle", slope)]
    for row in rows:
        words = title(f"{row['layer']}: {row['gflops']:.0f} GFLOP/s, {row['ms']:.3f} ms", row["problem"])
        parts.append(element("circle", words, class_=f"{dict(KINDS).get(kind_of(row), 'a')} point",
                             cx=x(row["intensity"]), cy=y(row["gflops"]), r=5.5))
    return svg(900, 430, "Roofline: what each layer reaches, under what the processor can",
               parts + legend(left + 20, bottom - 16))


def bar(row, peak, x, bottom, width, height):
    """A layer's time, `height` pixels a millisecond, and in it the time it would take at the peak."""
    ideal = row["gflop"] / peak * 1e3
    words = title(f"{row['layer']}: {row['ms']:.3f} ms, {ideal:.3f} ms at the peak", row["problem"])
    parts = [element("rect", class_=colour, x=x - width / 2, y=bottom - ms * height, width=width, height=ms * height)
             for colour, ms in (("rest", row["ms"]), ("a", min(ideal, row["ms"])))]
    return element("g", words + "".join(parts) + label("small", x + 3, bottom + 6, row["layer"], "end", -90))


def bars(result):
    """A bar a layer."""
    rows = result["rows"]
    left, right, top, bottom = 70, 880, 32, 252
    highest = max(row["ms"] for row in rows) * 1.05
    step = 10 ** math.floor(math.log10(highest))
    step = next(part * step for part in (0.2, 0.5, 1, 2) if highest / (part * step) <= 6)
    height = (bottom - top) / highest
    parts = [label("axis", left - 46, (top + bottom) / 2, "ms", "middle", -90)]
    for index in range(int(highest / step) + 1):
        y = bottom - index * step * height
        parts += [element("line", class_="grid", x1=left, x2=right, y1=y, y2=y),
                  label("tick", left - 8, y + 4, f"{index * step:.6g}", "end")]
    slot = (right - left) / len(rows)
    for index, row in enumerate(rows):
        middle = left + (index + 0.5) * slot
        parts.append(bar(row, result["peak_gflops"], middle, bottom, min(slot * 0.72, 40.0), height))
    for x, colour, words in ((right - 250, "a", "at the peak"), (right - 140, "rest", "above that")):
        parts += [element("rect", class_=colour, x=x, y=4, width=12, height=12), label("tick", x + 18, 14, words)]
    return svg(900, 292, "Time of each layer", parts)


def totals(result):
    """The two networks' convolutions, side by side."""
    network = result["network"]
    entries = [("Kiln", network["kiln"]["ms"], "a"),
               (f"onnxruntime {network['version']}", network["onnxruntime"]["ms"], "b")]
    scale = 600 / max(value for _, value, _ in entries)
    parts = []
    for index, (name, value, colour) in enumerate(entries):
        y = 8 + index * 34
        parts += [label("axis", 180, y + 17, name, "end"),
                  element("rect", class_=colour, x=190, y=y, width=value * scale, height=24, rx=2),
                  label("axis", 198 + value * scale, y + 17, f"{value:.1f} ms")]
    return svg(900, 76, "All convolutions of the network", parts)


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


def table(rows):
    lines = [table_row("th", [("", "layer"), ("left", "problem"), ("left", "algorithm"), ("", "ms"), ("", "GFLOP/s"),
                              ("", "of peak"), ("", "error"), ("", "bound"), ("", "verdict")])]
    for row in rows:
        errors = [f"{row[key]:.1e}" if row["error"] is not None else "-" for key in ("error", "bound")]
        lines.append(table_row("td", [
            ("", html.escape(row["layer"])), ("left", f"<code>{html.escape(row['problem'])}</code>"),
            ("left", html.escape(row["algorithm"])), ("", f"{row['ms']:.4f}"), ("", f"{row['gflops']:.1f}"),
            ("", f"{row['peak_share'] * 100:.1f}%"), *(("", error) for error in errors),
            ("" if row["verdict"] == "ok" else "bad", html.escape(row["verdict"]))]))
    return "\n".join(lines)


def embedded(path):
    with open(path, "rb") as file:
        return "data:image/png;base64," + base64.b64encode(file.read()).decode()


def write_page(path, result, small, large):
    """Writes the HTML page; `small` and `large` are the pictures, PNG files."""
    machine, rows = result["machine"], result["rows"]
    problems = len({row["problem"] for row in rows})
    facts = "\n".join(table_row("td", [("", html.escape(cell)) for cell in fact]) for fact in summary(result))
    notes = "; ".join(result["notes"])
    page = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Kiln: ResNet-50</title><style>{STYLE}</style>
<h1>ResNet-50 with Kiln</h1>
<p class="soft">{len(rows)} convolutions, {problems} problems, one kernel each, compiled ahead of time ·
{html.escape(machine['processor'])}, one thread · float32, channels last (NXC)</p>
<h2>All convolutions, one run of the network</h2>
{totals(result)}
<p class="soft">{html.escape(comparison(result))}</p>
<div class="scroll"><table class="facts">{facts}</table></div>
<h2>Roofline</h2>
{roofline(result)}
<p class="soft">A point a layer, coloured by its filter, timed alone; layers of the same problem coincide. The bytes are
those of the tensors, each once. The slope is that of copying memory; data that stays in the caches comes faster.</p>
<h2>Time of each layer</h2>
{bars(result)}
<h2>Layers</h2>
<div class="scroll"><table>{table(rows)}</table></div>
<p class="soft">Errors are the largest differences from a float64 reference, each beside its bound. The model is that of
the onnx package with seeded random weights. {html.escape(notes)}.</p>
<h2>A transposed convolution, to look at</h2>
<div class="pictures">
<figure><img src="{embedded(small)}" alt="a cat" width="160"><figcaption>160 x 120</figcaption></figure>
<figure><img src="{embedded(large)}" alt="the same cat, larger" width="640"><figcaption>four times as large:
ConvTranspose, 8x8 bilinear weights, stride 4. Photograph: Stéfan van der Walt, CC0</figcaption></figure>
</div>
</html>
"""
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)
