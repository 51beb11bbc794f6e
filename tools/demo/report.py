"""The demo's results as a table on the terminal and as one HTML page that needs nothing else."""

import base64
import html
import math

import page
from page import table_row

# Kernel sizes, as the roofline's colours tell them apart.
KINDS = ("1x1", "3x3", "7x7")


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

    def calls(times):
        return f"median of {network['runs']} calls, quartiles {times['low']:.1f} and {times['high']:.1f} ms"

    return [
        ("the network, Kiln", f"{ours['ms']:.2f} ms", calls(ours)),
        (f"the network, onnxruntime {network['version']}", f"{theirs['ms']:.2f} ms", calls(theirs)),
        ("Kiln's result beside onnxruntime's", f"{network['difference']:.1e}",
         "the largest difference, as a part of the largest value"),
        ("arena, all the memory that a call needs", size_text(network["arena_bytes"]),
         f"the least that any plan could do with: {size_text(network['arena_bound_bytes'])}"),
        ("linked: the network's program", size_text(sizes["network"]),
         f"code and constants, weights among them; the model is {size_text(sizes['weights'])}"),
        ("linked: onnxruntime's library", size_text(sizes["onnxruntime"]), "code and constants, without weights"),
        ("layers checked", f"{passed} of {len(result['rows'])}", f"largest error {worst:.3f} of its bound"),
        ("layers timed alone", f"{total['ms']:.2f} ms",
         f"{total['gflops']:.0f} GFLOP/s, {total['peak_share'] * 100:.0f}% of the measured peak"),
    ]


STEP_WORDS = {"layer": "layers", "operation": "other operations", "c": "nodes in generated C", "callback": "callbacks"}


def comparison(result):
    steps = ", ".join(f"{count} {STEP_WORDS[kind]}" for kind, count in result["network"]["steps"].items())
    return ("Both run the same seeded model on one thread pinned to the same processor, in turns, calls of the whole of it. "
            f"Kiln's network is one function, which runs {steps}; normalisations are folded, bias, residual sum and ReLU are "
            "part of a convolution.")


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


def roofline(result):
    points = [page.Point(kind_of(row), row["intensity"], row["gflops"],
                         (f"{row['layer']}: {row['gflops']:.0f} GFLOP/s, {row['ms']:.3f} ms", row["algorithm"],
                          row["problem"]))
              for row in result["rows"]]
    kinds = [*KINDS, *sorted({point.kind for point in points} - set(KINDS))]
    return page.roofline(points, kinds, result["peak_gflops"], result["bandwidth"])


def bars(result):
    """A bar a layer, of its algorithm's colour, and in it the time it would take at the peak."""
    rows = result["rows"]
    ideal = [min(row["gflop"] / result["peak_gflops"] * 1e3, row["ms"]) for row in rows]
    words = [page.lines(f"{row['layer']}: {row['ms']:.3f} ms, {part:.3f} ms at the peak", row["algorithm"], row["problem"])
             for row, part in zip(rows, ideal)]
    shades, traces = page.colours(sorted({row["algorithm"] for row in rows})), []
    for algorithm, shade in shades.items():
        mine = [i for i, row in enumerate(rows) if row["algorithm"] == algorithm]
        traces.append({"type": "bar", "width": page.BAR, "name": algorithm, "x": mine,
                       "y": [rows[i]["ms"] for i in mine], "hovertext": [words[i] for i in mine], "hoverinfo": "text", "marker": {"color": shade}})
    traces.append({"type": "scatter", "mode": "markers", "name": "at the peak", "x": list(range(len(rows))), "y": ideal,
                   "hoverinfo": "skip", "marker": {"symbol": "line-ew-open", "size": 10, "color": "#b9c0c9",
                                                   "line": {"width": 3}}})
    names = {"tickvals": list(range(len(rows))), "ticktext": [row["layer"] for row in rows], "tickangle": -90,
             "automargin": True}
    return page.figure("Time of each layer", traces, {"barmode": "overlay", "xaxis": names, "yaxis": page.axis("ms")},
                       height=360, least_width=80 + 15 * len(rows))


def totals(result):
    """The two networks, side by side."""
    network = result["network"]
    entries = [("Kiln", network["kiln"]), (f"onnxruntime {network['version']}", network["onnxruntime"])]
    trace = {"type": "bar", "orientation": "h", "y": [name for name, _ in entries], "x": [times["ms"] for _, times in entries],
             "text": [f"{times['ms']:.1f} ms" for _, times in entries], "textposition": "auto",
             "hovertext": [page.lines(name, f"median {times['ms']:.2f} ms, quartiles {times['low']:.2f} and {times['high']:.2f}")
                           for name, times in entries],
             "hoverinfo": "text", "marker": {"color": list(page.COLOURS[:2])}}
    return page.figure("The whole network", [trace],
                       {"xaxis": page.axis("ms"), "yaxis": {"autorange": "reversed", "automargin": True}}, height=170)


# ---- Page ---------------------------------------------------------------------------------------------------------

def table(rows):
    lines = [table_row("th", [("", "layer"), ("left", "problem"), ("left", "algorithm"), ("", "ms"), ("", "GFLOP/s"),
                              ("", "of peak"), ("", "error"), ("", "bound"), ("", "verdict")])]
    for row in rows:
        errors = [f"{row[key]:.1e}" if row["error"] is not None else "-" for key in ("error", "bound")]
        lines.append(table_row("td", [
            ("", html.escape(row["layer"])), ("left", page.code(row['problem'])),
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
    body = f"""<h1>ResNet-50 with Kiln</h1>
<p class="soft">{len(rows)} convolutions, {problems} problems, compiled ahead of time · {html.escape(machine['processor'])},
one thread · float32</p>
<h2>The whole network, one call</h2>
{totals(result)}
<p class="soft">{html.escape(comparison(result))}</p>
<div class="scroll"><table class="facts">{facts}</table></div>
<h2>Roofline</h2>
{roofline(result)}
<p class="soft">A point a layer, coloured by its filter, timed alone, channels last (NXC); layers of the same problem
coincide. The bytes are
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
"""
    page.write(path, "Kiln: ResNet-50", body)
