// Static libraries.
#pragma once

#include <string>
#include <vector>

namespace kiln {

// Writes an archive of the objects for a target's architecture; the same objects give the same bytes.
void write_archive(const std::vector<std::string> &objects, const std::string &architecture,
                   const std::string &archive);

}  // namespace kiln
