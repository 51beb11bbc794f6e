// What this machine can run.
#pragma once

#include <string>

#include "targets/target_model.h"

namespace kiln::tools {

// Why kernels of a target cannot be run here, "its processor, a x86-64-avx2, cannot run it"; "" where they can.
std::string why_not_here(const TargetModel &target);

}  // namespace kiln::tools
