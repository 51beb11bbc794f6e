// Text files of a record a line: cases, decisions, timings.
#pragma once

#include <string>
#include <vector>

namespace kiln::tools {

struct NumberedLine {
    int number;  // from 1
    std::string text;
};

// A file's lines, without those of white space alone. Throws Error, "{what} {path} cannot be read: ...".
std::vector<NumberedLine> read_lines(const std::string &what, const std::string &path);

}  // namespace kiln::tools
