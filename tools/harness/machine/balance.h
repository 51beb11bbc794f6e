// How evenly a kernel's work would be shared by more workers than there are processors: its pieces are timed one by
// one, and the workers simulated.
#pragma once

#include <vector>

#include "harness/machine/timing.h"

namespace kiln::harness {

// Of one call in one thread, as if there were so many workers: of which pieces a kernel makes depends on that. Each
// number is the least of several calls'.
struct PieceTimes {
    int workers = 1;
    std::vector<std::vector<double>> loops;  // seconds of the pieces of each parallel loop, in the order of the calls
    double between = 0;                      // seconds that are part of no piece

    double seconds() const;  // of all of it
};

// Calls the kernel for `budget` seconds, and twice at the least. No loops where a call fails, or where calls differ in
// their loops. The job's own threads are set aside meanwhile.
PieceTimes time_pieces(Job *job, int workers, double budget);

struct Balance {
    double largest_share = 1;  // of the pieces, over the mean of all workers', loop by loop; `workers` without loops
    double speed_up = 1;       // over one thread, what lies between the loops included
};

// What a ThreadTeam would make of the pieces, did none slow another down and handing them out take no time.
Balance simulate(const PieceTimes &times);

}  // namespace kiln::harness
