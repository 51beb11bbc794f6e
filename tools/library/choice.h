// What a problem is compiled with, and who says so.
#pragma once

#include <string>

#include "explain/explain.h"
#include "kiln/problem.h"

namespace kiln::tools {

// "direct, schedule lanes:16;vectors:2;... (default)": by the options' decisions file, whose line is then named in
// place of "default"; a line that was refused is told behind. Where size is the goal, kernels are compiled to find the
// smallest. Throws Error where there is no decision.
Choice describe_choice(const Problem &problem, const std::string &target, Goal goal, const ExplainOptions &options);

}  // namespace kiln::tools
