// What the files of the direct algorithm's schedule for processors share; schedule_cpu.cpp tells what each holds.
#pragma once

#include <Halide.h>

#include <vector>

#include "algorithms/direct/direct.h"

namespace kiln::dense {

// The outermost loop over the image, in register tiles: how many turns it has.
int image_turns(const std::vector<AxisMap> &axes, const DirectSchedule &schedule);

// Bounds y, or the product it picks from, over (c, q and phase of each axis, n) with so many channels.
void bound_product(const DirectStages &s, const Problem &problem, int channels);

// schedule_cpu_rows.cpp: a tile whose vectors are pixels, or positions in joined rows; those of neighbouring phases,
// which take turns in a row that is not joined, stand together. Returns its loops.
std::vector<Halide::VarOrRVar> schedule_row_lanes(Halide::Stage stage, const DirectStages &s,
                                                  const DirectSchedule &schedule);
// The sums of such a tile.
void schedule_row_sum(DirectStages &s, const DirectSchedule &schedule);
// y a block of joined rows of a panel's channels at a time, whose sums, of all phases of a row, are made by tiles that
// heed no row's end.
void schedule_joined(DirectStages &s, const Problem &problem, const DirectSchedule &schedule);

// schedule_cpu_copies.cpp: whatever stages there are beside y, or the product, and the sums.
void schedule_copies(DirectStages &s, const Problem &problem, const DirectSchedule &schedule);

}  // namespace kiln::dense
