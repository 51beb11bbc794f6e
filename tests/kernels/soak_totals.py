"""What soaks tried, ever, on any machine: a line of tests/kernels/soak_totals.jsonl for each seed, target and engine."""

import collections
import json
from pathlib import Path

PATH = Path(__file__).resolve().parent / "soak_totals.jsonl"
KEY = ("seed", "target", "engine", "way")
COUNTS = ("count", "points", "unsupported", "failed")


def read():
    return [json.loads(line) for line in PATH.read_text().splitlines()] if PATH.exists() else []


def write(lines):
    """Keeps `lines`, each in place of what the same seed's soak had told before."""
    kept = {tuple(line[key] for key in KEY): line for line in [*read(), *lines]}
    PATH.write_text("".join(json.dumps(kept[key]) + "\n" for key in sorted(kept)))


def line(seed, target, engine, way, counts):
    return {**dict(zip(KEY, (seed, target, engine, way))), **{name: counts[name] for name in COUNTS}}


def table():
    """All lines as a table of Markdown, a row for each target, engine and way."""
    totals = collections.defaultdict(collections.Counter)
    for told in read():
        totals[told["target"], told["engine"], told["way"]].update({name: told[name] for name in COUNTS})
    head = "| target | kernels | way | problems | of them unsupported | tuning's decisions | failures, since mended |\n"
    rows = [
        f"| {' | '.join(key)} | {c['count']:,} | {c['unsupported']:,} | {c['points']:,} | {c['failed']:,} |\n"
        for key, c in sorted(totals.items())
    ]
    return head + "| --- " * 7 + "|\n" + "".join(rows)
