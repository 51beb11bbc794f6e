#include "library/output_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "fmt/format.h"
#include "layers/spec.h"

namespace kiln::tools {

void make_output_folder(const std::string &folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (!error && access(folder.c_str(), W_OK | X_OK) != 0) {
        error = {errno, std::generic_category()};
    }
    if (error) {
        throw Error(fmt::format("{} cannot be written: {}", folder, error.message()), StatusCode::failed);
    }
}

}  // namespace kiln::tools
