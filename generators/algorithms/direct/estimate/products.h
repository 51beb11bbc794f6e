// What the products of the direct algorithm's register tiles reach of a core's peak.
#pragma once

#include <vector>

#include "algorithms/direct/schedule.h"
#include "axes/axis_map.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// What a step of a register tile loads: vectors of one operand, elements of the other, which are broadcast.
struct TileLoads {
    int vectors, broadcasts;
};

TileLoads loads_of(const std::vector<AxisMap> &axes, const DirectSchedule &s);

// How many elements of x a tile of channel lanes broadcasts in a step: where sums are in parts, those of several taps,
// of which neighbouring positions share some.
int elements_of_x(const std::vector<AxisMap> &axes, const DirectSchedule &s);

// The share of the peak that register tiles reach, those counted of which only a part is needed; 0 where registers do
// not suffice.
double share_of_peak(const Problem &problem, const std::vector<AxisMap> &axes, int64_t channels,
                     const DirectSchedule &s, const TargetModel &target);

// The same where the core has another thread, of somebody else as like as not: they share what issues and loads, and of
// tiles that reach the same alone those with fewer loads for their products lose less (C4, 2 vectors by 14 pixels: .59
// and .85 ms, 4 by 6: .59 and .79).
double share_beside_others(const Problem &problem, const std::vector<AxisMap> &axes, int64_t channels,
                           const DirectSchedule &s, const TargetModel &target);

// Cycles by which each vector of sums that a tile hands on delays what follows, where they are more
// than a dozen: the next tile's products then begin late, which sums of few products feel. With AVX-512 on a Zen 5 1x1
// layers of 8 to 64 to 96 channels take 4 to 15% less by 3 vectors by 4 to 8 positions than by 9, and stems of 27
// products 5% less. Where vectors are taken in halves, those of several vectors' tiles take half a cycle more each: on
// a Zen 4 1x1 of 16 to 48 channels at 112x112 takes .170 ms by one vector by 7 or 14 positions and .179 by 3 by 4.
// Where additions take the products' units, the dozen itself is slow, and up to 16 delay little: on an Intel Xeon stems
// of 27 products to 64 channels take 5% less by 4 vectors by 4 positions than by 3. Of 16 registers tiles have no more.
// Of vectors of rows so are those of padded copies: 3x3 of one channel to 64 at 64x64 takes .031 ms by 2 vectors by 8
// channels and .037 by 13.
double handing_on_cycles(const Problem &problem, const std::vector<AxisMap> &axes, const DirectSchedule &s,
                         const TargetModel &target);

}  // namespace kiln
