// Parallel loops that follow each other and share nothing, handed out as one: threads meet once behind all of them.
#pragma once

#include <Halide.h>

#include <set>
#include <string>
#include <vector>

namespace kiln {

// The name of the call that such loops become. Its arguments are those of each loop, as halide_do_par_for has them.
inline constexpr const char *joined_loops_call = "kiln_joined_loops";

// Joins loops of a pipeline's own function. `bodies`: of the loops that may be joined, others stay as they are.
// `disjoint`: Funcs of which no update writes an element that another one writes.
Halide::Internal::Stmt join_parallel_loops(const Halide::Internal::Stmt &body,
                                           const std::vector<Halide::Internal::LoweredFunc> &bodies,
                                           const std::set<std::string> &disjoint);

}  // namespace kiln
