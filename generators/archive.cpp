#include "archive.h"

#include <Halide.h>

#include <stdexcept>

namespace kiln {

void write_archive(const std::vector<std::string> &objects, const std::string &architecture,
                   const std::string &archive) try {
    Halide::create_static_library(objects, Halide::Target(architecture), archive, true);
} catch (const Halide::Error &error) {
    throw std::runtime_error(error.what());
}

}  // namespace kiln
