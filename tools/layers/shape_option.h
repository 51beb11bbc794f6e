// What --shape says: a model's input and its sizes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kiln::tools {

// "data=1x3x?x?"; the name may itself have '=' in it. Throws Error where the text is no such thing.
std::pair<std::string, std::vector<int64_t>> parse_shape_option(const std::string &text);

}  // namespace kiln::tools
