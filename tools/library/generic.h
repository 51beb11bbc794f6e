// The generic engine: kernels that take everything about a problem at run time but its operator, types and rank.
#pragma once

#include "kiln/problem.h"

namespace kiln::tools {

// The most open problem whose kernel computes `problem`: every size, both layouts, zero points and the epilogue are
// left to run time. There is one for each operator, rank and set of types, the bias's included where x is 8-bit. It is
// strict, so that it computes strict problems too.
Problem generic_pattern(const Problem &problem);

}  // namespace kiln::tools
