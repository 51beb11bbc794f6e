// What the direct algorithm waits for where panels of weights sweep the image, or come from beyond the second cache.
#pragma once

#include "algorithms/direct/schedule.h"
#include "kiln/problem.h"
#include "targets/target_model.h"

namespace kiln {

// Bytes that a panel of weights may take, so that it stays in the second cache while the next one comes.
double most_panel_bytes(const TargetModel &target);

// The same where weights come from memory: a core that shares the cache with nobody has twice what it may count on.
double most_cold_panel_bytes(const TargetModel &target);

// Whether tiles fetch the next panel of weights while they multiply by one: where there are several of both, and a
// second cache that holds two panels. Else the first tile of each panel waits for its weights, which come from beyond.
bool fetches_panels(const Problem &problem, const DirectSchedule &s, const TargetModel &target);

// Cycles that a call waits for weights that no cache holds: the first tile of a panel for what its own products leave
// of the panel's time or, where panels fetch each other, that of the first panel alone, and others where all products
// of the one before take less; and for x, where panels sweep the image: what the first cache does not hold of it comes
// from the second again.
double panels_wait(const Problem &problem, const DirectSchedule &s, const TargetModel &target);

}  // namespace kiln
