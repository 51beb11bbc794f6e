// The folder that a command writes to.
#pragma once

#include <string>

namespace kiln::tools {

// Makes it where it is missing. Throws Error where that cannot be, or nothing can be written there: at once, and not
// after all kernels are compiled.
void make_output_folder(const std::string &folder);

}  // namespace kiln::tools
