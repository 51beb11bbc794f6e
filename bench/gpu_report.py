"""What a GPU was measured to do, as a table: on the terminal, and as the part `gpu bench` of a document."""

import statistics
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tests/kernels"))

import document_parts  # noqa: E402 (from there)

PART = "gpu bench"
LAYOUTS = ("NXC", "NCX")
GOAL = 0.67  # at least so many times as fast as the peer, that is at most 1.5 times its time
HEAD = ["layer", "NXC us", "NCX us", "peer us", "peer", "ratio", "FMA", "bandwidth"]


def median(values):
    return statistics.median(values) if values else None


def summary(row):
    """What a row of the results comes to: {"ours": {layout: us}, "best", "peer", "peer_us", "ratio"}, None where unknown."""
    ours = {layout: median(each.get("us")) for layout, each in row.get("kiln", {}).items() if each.get("verdict", "ok") == "ok"}
    ours = {layout: us for layout, us in ours.items() if us}
    best = min(ours.values(), default=None)
    peers = {words: median(times) for words, times in row.get("peers", {}).items() if times}
    peer = min(peers, key=peers.get, default=None)
    return {"ours": ours, "best": best, "peer": peer, "peer_us": peers.get(peer),
            "ratio": peers[peer] / best if peer and best else None}  # fmt: skip


def fma_peak(ceilings):
    """(TFLOP/s, what told them) of float32, or (None, "")."""
    for key, words in (("fma_tflops", "a loop of FMAs"), ("matmul_f32_tflops", "PyTorch's product of matrices")):
        if ceilings.get(key):
            return ceilings[key], words
    return None, ""


def failures(result):
    """Lines on whatever of Kiln's is wrong or has no time."""
    lines = []
    for row in result["rows"]:
        for layout, each in row.get("kiln", {}).items():
            if each.get("verdict", "ok") != "ok" or not each.get("us"):
                verdict = each.get("verdict", "ok")
                lines.append(f"{row['layer']} {layout}: {verdict if verdict != 'ok' else 'not timed'}")
    return lines


def cells(row, ceilings):
    told = summary(row)
    us = lambda value: f"{value:.2f}" if value else "-"  # noqa: E731
    share = lambda value: f"{value * 100:.0f}%" if value else "-"  # noqa: E731
    peak = fma_peak(ceilings)[0]
    copy, best = ceilings.get("copy_gb_s"), told["best"]
    flops = 2 * row["products"] / (best * 1e-6) / (peak * 1e12) if best and peak and row["dtype"] == "float32" else None
    bandwidth = row["bytes"] / (best * 1e-6) / (copy * 1e9) if best and copy else None
    return [row["layer"], *(us(told["ours"].get(layout)) for layout in LAYOUTS), us(told["peer_us"]), told["peer"] or "-",
            f"{told['ratio']:.2f}" if told["ratio"] else "-", share(flops), share(bandwidth)]  # fmt: skip


def means(rows):
    """A line for each type."""
    lines = []
    for dtype in ("float32", "float16"):
        found = {row["layer"]: summary(row)["ratio"] for row in rows if row["dtype"] == dtype}
        ratios = {name: ratio for name, ratio in found.items() if ratio}
        if not ratios:
            continue
        slower = [name for name, ratio in ratios.items() if ratio < 1]
        far = [name for name in slower if ratios[name] < GOAL]
        names = lambda list_: f" ({', '.join(list_)})" if list_ else ""  # noqa: E731
        lines.append(f"{dtype}: {statistics.geometric_mean(ratios.values()):.2f} times as fast as PyTorch in geometric mean of "
                     f"{len(ratios)} layers; {len(slower)} below 1.0{names(slower)}, {len(far)} below {GOAL}{names(far)}.")  # fmt: skip
    return lines


def facts(result):
    """Lines on the machine, and what its ceilings are."""
    lines, state = [], result.get("after") or result.get("before") or {}
    if state:
        words = [f"driver {state.get('driver_version', '?')}"]
        words += [f"{name} {version}" for name, version in result.get("versions", {}).items() if version]
        lines.append(f"{state.get('name', result.get('device', '?'))}, {', '.join(words)}.")
    elif result.get("device"):
        lines.append(f"{result['device']}.")
    if result.get("before") and result.get("after"):
        clocks = [f"{result[when].get('clocks.sm', '?')} and {result[when].get('clocks.mem', '?')} MHz" for when in ("before", "after")]
        most = f"; at most {state.get('clocks.max.sm', '?')} and {state.get('clocks.max.mem', '?')}"
        lines.append(f"Clocks of multiprocessors and memory: {clocks[0]} before, {clocks[1]} after{most}.")
    ceilings = result.get("ceilings", {})
    peak, words = fma_peak(ceilings)
    told = [f"{peak:.1f} TFLOP/s in float32 ({words})"] if peak else []
    for key, what in (("matmul_f32_tflops", "products of matrices {:.1f} in float32"), ("matmul_f16_tflops", "{:.0f} in float16"),
                      ("copy_gb_s", "a copy reads and writes {:.0f} GB/s together")):  # fmt: skip
        if ceilings.get(key):
            told.append(what.format(ceilings[key]))
    if told:
        lines.append(f"Its own ceilings, measured beside: {', '.join(told)}.")
    for layout, row in result.get("in_a_row", {}).items():
        told = [f"{row[key] * 1e3:.1f} us {words} ({(row[key] - row['alone_ms']) / row['layers'] * 1e3:+.2f} a layer)"
                for key, words in (("captured_ms", "as one CUDA graph"), ("queued_ms", "queued one by one")) if key in row]  # fmt: skip
        lines.append(f"All {row['layers']} layers in a row, {layout}: {', '.join(told)}; the sum of each by itself is "
                     f"{row['alone_ms'] * 1e3:.1f} us.")  # fmt: skip
    return lines


def table(result):
    return [HEAD, *(cells(row, result.get("ceilings", {})) for row in result["rows"])]


def text(result):
    rows = table(result)
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = facts(result)
    for row in rows:
        lines.append("  ".join(cell.ljust(width) if index in (0, 4) else cell.rjust(width)
                               for index, (cell, width) in enumerate(zip(row, widths))).rstrip())  # fmt: skip
    lines += means(result["rows"])
    for row in result["rows"]:
        lines += [f"{row['layer']}: PyTorch, {words}: {error}" for words, error in row.get("errors", {}).items()]
    return "\n".join([*lines, *(f"WRONG: {line}" for line in failures(result))])


def markdown(result):
    rows = table(result)
    lines = [*facts(result), "", *("| " + " | ".join(row) + " |" for row in [rows[0], ["---"] * len(HEAD), *rows[1:]]), ""]
    return "\n".join([*lines, *means(result["rows"])]).rstrip() + "\n"


def write(path, result):
    """Raises ValueError where the document has no such part."""
    document_parts.write(Path(path), PART, markdown(result))
