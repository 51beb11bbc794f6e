// Where the files lie that kiln uses besides itself: sources of its programs, the ONNX importer.
#pragma once

#include <filesystem>
#include <system_error>

namespace kiln::tools {

// share/kiln beside the bin/ that holds this program, in an installation and in a build tree alike
// (cmake/install.cmake).
inline std::filesystem::path share_folder() {
    std::error_code error;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
    return (program.parent_path() / "../share/kiln").lexically_normal();
}

}  // namespace kiln::tools
