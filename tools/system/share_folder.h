// Where the files lie that kiln uses besides itself: sources of its programs, the ONNX importer.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace kiln::tools {

// What set_share_folder said; empty where nobody did.
inline std::filesystem::path &told_share_folder() {
    static std::filesystem::path folder;
    return folder;
}

// For a program that lies elsewhere: Python, which has parts of kiln loaded.
inline void set_share_folder(const std::string &folder) {
    told_share_folder() = folder;
}

// share/kiln beside the bin/ that holds this program, in an installation and in a build tree alike
// (cmake/install.cmake).
inline std::filesystem::path share_folder() {
    if (!told_share_folder().empty()) return told_share_folder();
    std::error_code error;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
    return (program.parent_path() / "../share/kiln").lexically_normal();
}

}  // namespace kiln::tools
