// What a problem is compiled with where nobody tuned it.
#pragma once

#include <string>

#include "kiln/problem.h"

namespace kiln::tools {

// "direct, schedule lanes:16;vectors:2;...": the default decision for a target. Throws Error where there is none.
std::string describe_choice(const Problem &problem, const std::string &target);

}  // namespace kiln::tools
