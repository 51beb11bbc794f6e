#include "layers/lines.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "fmt/format.h"
#include "layers/spec.h"

namespace kiln::tools {

std::vector<NumberedLine> read_lines(const std::string &what, const std::string &path) {
    errno = 0;
    std::ifstream file(path);
    if (std::error_code ignored; !file || std::filesystem::is_directory(path, ignored)) {
        throw Error(fmt::format("{} {} cannot be read: {}", what, path, std::strerror(errno != 0 ? errno : EISDIR)));
    }
    std::vector<NumberedLine> lines;
    int number = 0;
    for (std::string line; std::getline(file, line);) {
        number++;
        if (line.find_first_not_of(" \t\r") != std::string::npos) {
            lines.push_back({number, line});
        }
    }
    if (file.bad()) {
        throw Error(fmt::format("{} {} cannot be read: {}", what, path, std::strerror(errno)));
    }
    return lines;
}

}  // namespace kiln::tools
