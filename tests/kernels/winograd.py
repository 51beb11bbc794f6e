"""Winograd kernels of every kind against the reference, whole and in chunks, between guard pages and on two threads."""

import json
import os
import re
import tempfile
import unittest
from pathlib import Path

import kiln_run
import parts
import targets

TARGET = os.environ["KILN_TARGET"]
LAYERS = Path(__file__).resolve().parents[1] / "cases/winograd.toml"


def halves():
    """(what is tried by default, what by other schedules too) on this target, where another has the other half: every second
    layer. Their code differs by the width of vectors alone; other types take other instructions on each target, and so do masked
    vectors, of which both have all by default."""
    layers = kiln_run.types_of_layers(LAYERS)
    layers = {name: layers[name] for name in parts.part(layers)}
    if targets.host_target() == "x86-64-avx2":
        return list(layers), set(layers)
    mine = set(list(layers)[TARGET == "host" :: 2])
    return [name for name, dtype in layers.items() if name in mine or dtype != "float32" or "masked" in name], mine


def two_rows_of_the_smallest(schedule):
    """The part of a schedule that says tiles and chunks, with tiles of 2 on the axes that have any."""
    tiles = schedule[0].partition("rows")[0]
    return re.sub(":[2-9]", ":2", tiles) + "rows:2;images:1;by_phase:0;by_point:0;by_panel:0"


class Winograd(unittest.TestCase):
    def verify(self, lines, layers):
        """The rows of kiln verify of these layers under these decisions; all must be ok, and by Winograd."""
        with tempfile.TemporaryDirectory() as folder:
            decisions = Path(folder) / "decisions.jsonl"
            decisions.write_text("".join(json.dumps(line) + "\n" for line in lines))
            only = [word for layer in layers for word in ("--layer", layer)]
            rows = kiln_run.verify(LAYERS, "--decisions", decisions, *only)
        self.assertEqual(len(rows), len(layers))
        kiln_run.check_rows(self, rows, "winograd")
        return rows

    def test_schedules(self):
        """The default, a row of tiles at a time, two of the smallest tiles, three axes' outermost apart, phase by phase,
        panel by panel, rows in parts, weights fetched ahead, groups side by side rather than interleaved, tiles cut, taps in more blocks."""
        by_default, otherwise = halves()
        rows = self.verify([{"problem": "*", "algorithm": "winograd"}], by_default)
        chunks = "rows:[0-9]+;images:[0-9]+;by_phase:[01];by_point:[01];by_panel:[01]"
        tiles_and_chunks = "tile_x:[0-9]+;tile_y:[0-9]+;tile_z:[0-9]+;" + chunks
        everything = "lanes:[0-9]+;vectors:[0-9]+;block:[0-9]+;unroll:[0-9]+;" + tiles_and_chunks
        small = "lanes:8;vectors:1;block:3;unroll:1;tile_x:2;tile_y:2;tile_z:1;"
        ahead = "prefetch_distance:[0-9]+(.*);prefetch_panels:[01]"
        parted = "plain|plain_ncx|strided|groups|masked|up_whole|stem|stem_ncx|three_axes_dilated"
        whole_panels = "(plain_ncx|strided|dilated|groups|groups_narrow|up_whole|stem_ncx)$"
        for pattern, replacement, among in (
            (chunks, "rows:1;images:1;by_phase:0;by_point:0;by_panel:0", ""),
            (tiles_and_chunks, two_rows_of_the_smallest, ""),
            (chunks + "(.*);clipped_tail:[01]", r"rows:0;images:1;by_phase:0;by_point:1;by_panel:0\1;clipped_tail:0", "three_axes"),
            (everything, small + "rows:0;images:1;by_phase:1;by_point:0;by_panel:0", "up_whole"),
            (everything, small + "rows:1;images:1;by_phase:1;by_point:0;by_panel:0", "up_whole"),
            (everything, small + "rows:1;images:1;by_phase:1;by_point:0;by_panel:1", "up_whole$"),
            (everything, small + "rows:0;images:1;by_phase:0;by_point:0;by_panel:1", "(plain_ncx|groups|groups_narrow|up_whole)$"),
            (everything, small + "rows:2;images:1;by_phase:0;by_point:0;by_panel:1", whole_panels),
            (ahead, r"prefetch_distance:48\1;prefetch_panels:0", "(plain_ncx|strided|groups|up_whole|stem_ncx|three_axes)$"),
            (ahead, r"prefetch_distance:0\1;prefetch_panels:1", "(plain_ncx|strided|groups|up_whole|stem_ncx|three_axes)$"),
            ("unroll:[0-9]+;(.*);" + ahead, r"unroll:2;\1;prefetch_distance:5\2;prefetch_panels:0", "(plain_ncx|up_whole)$"),
            ("unroll:[0-9]+;(.*);" + ahead, r"unroll:2;\1;prefetch_distance:0\2;prefetch_panels:1", "(plain_ncx|up_whole)$"),
            ("interleaved:1", "interleaved:0", "(groups_narrow|up_groups_interleaved)$"),
            (chunks + "(.*);clipped_tail:[01]", r"rows:1;images:1;by_phase:0;by_point:0;by_panel:0\1;clipped_tail:1", "(plain|masked|three_axes_dilated|stem|dilated_ends|groups_int8)$"),
            (chunks + "(.*);row_tiles:0", r"rows:1;images:1;by_phase:0;by_point:0;by_panel:0\1;row_tiles:1", f"({parted})$"),
            (tiles_and_chunks + "(.*);row_tiles:0", r"tile_x:2;tile_y:2;tile_z:1;rows:1;images:1;by_phase:0;by_point:0;by_panel:0\1;row_tiles:2", f"({parted}|dilated|three_axes)$"),
            (everything + "(.*);row_tiles:0", small + r"rows:1;images:1;by_phase:0;by_point:0;by_panel:1\1;row_tiles:2", "(plain_ncx|groups|stem_ncx)$"),
            (everything + "(.*);row_tiles:0", small + r"rows:1;images:1;by_phase:1;by_point:0;by_panel:0\1;row_tiles:2", "up_whole$"),
            ("tile_x:[0-9]+(.*);tap_blocks_x:2", r"tile_x:2\1;tap_blocks_x:3", "long_(row|both|few_inputs|dilated|up)"),
        ):
            chosen = [row for row in rows if row["layer"] in otherwise and re.match(among, row["layer"])]
            if not chosen:
                continue
            decisions = kiln_run.changed_decisions(chosen, 4, pattern, replacement)
            again = self.verify(decisions, [row["layer"] for row in chosen])
            for row, decision in zip(again, decisions):
                self.assertEqual(row["schedule"], decision["schedule"])


if __name__ == "__main__":
    targets.end_if_done_by_name(TARGET, "x86-64-avx2")
    unittest.main(verbosity=2)
