// The folder that a command writes to.
#pragma once

#include <string>
#include <vector>

namespace kiln::tools {

// Makes it where it is missing. Throws Error where that cannot be, or nothing can be written there: at once, and not
// after all kernels are compiled.
void make_output_folder(const std::string &folder);

struct OutputFile {
    std::string path, bytes;
};

// Writes files into such a folder: all of them or none, unless the process is killed between two renames. A part that a
// killed process left behind is written over. Throws Error.
void write_files(const std::string &folder, const std::vector<OutputFile> &files);

}  // namespace kiln::tools
