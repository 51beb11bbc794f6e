"""Kernels whose pieces are so few and so large that the loops within them are shared too, where workers are more than pieces:
that there are such loops, and what they compute, for two workers and for eleven."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import kiln_run
import targets

WINOGRAD = ("lanes:8;vectors:{vectors};block:4;unroll:1;tile_x:{tile};tile_y:{tile_y};tile_z:{tile_z};rows:{rows};images:{images};"
            "by_phase:{by_phase};by_point:{by_point};by_panel:{by_panel};prefetch_distance:0;interleaved:0;"
            "clipped_tail:{clipped_tail};tap_blocks_x:1;tap_blocks_y:1;tap_blocks_z:1;prefetch_panels:0;parallel:1")
FLATTENED = "lanes:8;vectors:3;pixels:1;rows:1;unroll:4;dot_width:1;panels_outside:0;parallel:1;channels:3;flattened_rows:4"
STRASSEN = "lanes:8;vectors:2;pixels:3;rows:2;unroll:4;chunk:2;parallel:1"


def winograd(**numbers):
    usual = {"vectors": 2, "tile": 4, "tile_y": numbers.get("tile", 4), "tile_z": 1, "rows": 0, "images": 1, "by_phase": 0, "by_point": 0, "by_panel": 0, "clipped_tail": 0}
    return "winograd", WINOGRAD.format(**{**usual, **numbers})


def conv(image, layout, batch=1, groups=1):
    channels = 64 * groups
    return (f"conv2d-f32-n{batch}-c{channels}-i{image}-m{channels}-o{image}-k3x3-s1x1-d1x1-p1x1,1x1-g{groups}-"
            f"{layout},{layout}-bias-relu")


REVISIONS = {"winograd": 4, "polyphase": 1, "strassen": 1, "gemm": 1}
# Problem, algorithm and schedule.
KERNELS = {
    "rows": (conv("27x48", "ncx"), *winograd(rows=1)),
    "rows_in_place": (conv("28x48", "nxc"), *winograd(rows=1)),
    "panels_of_rows": (conv("38x48", "ncx"), *winograd(rows=2, vectors=4, by_panel=1)),
    "panels_of_rows_in_place": (conv("38x48", "nxc"), *winograd(rows=2, vectors=4, by_panel=1, clipped_tail=1)),
    "images": (conv("14x16", "ncx", batch=3), *winograd()),
    "images_in_place": (conv("16x16", "nxc", batch=3), *winograd()),
    "rows_of_images": (conv("27x48", "ncx", batch=3), *winograd(rows=1)),
    "rows_of_images_in_place": (conv("28x48", "nxc", batch=3), *winograd(rows=1)),
    "rows_of_groups": (conv("27x48", "ncx", groups=4), *winograd(rows=1)),
    "groups": (conv("14x16", "ncx", groups=4), *winograd()),
    "points": ("conv3d-f32-n1-c64-i4x18x21-m64-o4x18x21-k3x3x3-s1x1x1-d1x1x1-p1x1x1,1x1x1-g1-ncx,ncx-bias-relu",
               *winograd(tile=3, tile_z=2, by_point=1)),
    "phases": ("convtranspose1d-f32-n1-c128-i200-m128-o1600-k16-s8-d1-p4,4-g1-nxc,nxc-bias-relu",
               *winograd(rows=2, tile_y=1, by_phase=1)),
    "flattened_rows": ("convtranspose2d-f32-n1-c256-i16x14-m128-o32x28-k2x2-s2x2-d1x1-p0x0,0x0-g1-ncx,ncx-bias-relu",
                       "polyphase", FLATTENED),
    "strassen": ("convtranspose2d-f32-n1-c256-i16x14-m128-o32x28-k2x2-s2x2-d1x1-p0x0,0x0-g1-nxc,nxc-bias-relu",
                 "strassen", STRASSEN),
    # Of more panels, phases and rows together than there may be pieces.
    "strassen_tall": ("convtranspose2d-f32-n1-c512-i28x28-m128-o56x56-k2x2-s2x2-d1x1-p0x0,0x0-g1-nxc,nxc", "strassen",
                      "lanes:8;vectors:1;pixels:2;rows:1;unroll:4;chunk:10;parallel:1"),
    "gemm": ("conv1d-f32-n1-c2048-i196-m256-o196-k1-s1-d1-p0,0-g1-nxc,nxc-bias", "gemm",
             "lanes:8;vectors:2;pixels:5;unroll:4;block:256;panels:16;tiles:20;parallel:1"),
}


class SharedWithin(unittest.TestCase):
    def test_every_kind(self):
        with tempfile.TemporaryDirectory() as folder:
            spec, decisions, answer = (Path(folder) / name for name in ("layers.toml", "decisions.jsonl", "bench.json"))
            spec.write_text("".join(f'[[layer]]\nname = "{name}"\nproblem = "{kernel[0]}"\n' for name, kernel in KERNELS.items()))
            decisions.write_text("".join(
                json.dumps({"problem": problem, "target": os.environ["KILN_TARGET"], "algorithm": algorithm,
                            "revision": REVISIONS[algorithm], "schedule": schedule}) + "\n"
                for problem, algorithm, schedule in KERNELS.values()))
            rows = kiln_run.verify(spec, "--decisions", decisions)
            self.assertEqual(len(rows), len(KERNELS))
            for row in rows:
                with self.subTest(row["layer"]):
                    problem, algorithm, schedule = KERNELS[row["layer"]]
                    self.assertEqual((row["verdict"], row["algorithm"]), ("ok", algorithm), row)
                    self.assertTrue(set(schedule.split(";")) <= set(row["schedule"].split(";")), row)
            command = [kiln_run.kiln(), "bench", spec, "--decisions", decisions, "--workers", "1,11,50", "--json", answer,
                       *kiln_run.target_option()]
            process = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(process.returncode, 0, process.stderr)
            for row in json.loads(answer.read_text())["rows"]:
                with self.subTest(row["layer"]):
                    of_one, *of_more = (each["pieces"] for each in row["balance"])
                    self.assertGreater(max(len(pieces) for pieces in of_more), len(of_one))


if __name__ == "__main__":
    targets.end_if_done_by_name(os.environ["KILN_TARGET"], "x86-64-avx2")
    unittest.main(verbosity=2)
