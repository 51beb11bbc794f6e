// What the files of the direct algorithm's schedule for processors share; schedule_cpu.cpp tells what each holds.
#pragma once

#include <Halide.h>

#include <vector>

#include "algorithms/direct/direct.h"

namespace kiln {

// How many iterations the outermost loop over the image has, in register tiles.
int image_iterations(const std::vector<AxisMap> &axes, const DirectSchedule &schedule);

// Whether threads share panels together with rows of tiles, or tiles of one row, in a loop that then counts no panels:
// nothing parts the last of these from all others.
bool shares_panels_with_image(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &schedule);

// Bounds y, or the product it picks from, over (c, q and phase of each axis, n) with so many channels, of each group
// where those have panels of their own.
void bound_product(const DirectStages &s, const Problem &problem, int channels);

// The loops over a register tile of sums, or of what is made of them, `rows` of the image where it spans several.
TileLoops tile_loops(const DirectStages &s, const DirectSchedule &schedule, bool rows);

// schedule_cpu_rows.cpp: the sums of a tile of row lanes.
SumSteps schedule_row_sum(DirectStages &s, const DirectSchedule &schedule);
// y a block of flattened rows of a panel's channels at a time, whose sums, of all phases of a row, are made by tiles
// that heed no row's end.
SumSteps schedule_flattened_rows(DirectStages &s, const Problem &problem, const DirectSchedule &schedule);

// y a block of one long row at a time, whose sums are in a cache.
SumSteps schedule_row_blocks(DirectStages &s, const Problem &problem, const DirectSchedule &schedule);

// The same of channel lanes, by tiles whose positions go across rows.
SumSteps schedule_tiles_across_rows(DirectStages &s, const Problem &problem, const DirectSchedule &schedule);

// schedule_cpu_copies.cpp: whatever stages there are beside y, or the product, and the sums. `tile_rows`: the product's
// loop over rows of tiles or, of one row, over tiles.
void schedule_copies(DirectStages &s, const Problem &problem, const DirectSchedule &schedule,
                     const Halide::Var &tile_rows);

}  // namespace kiln
