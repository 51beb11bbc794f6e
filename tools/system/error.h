// What ends a command.
#pragma once

#include <stdexcept>
#include <string>

#include "kiln/status.h"

namespace kiln::tools {

// An error of the command line tools, told to the user as it stands. Its code is what a cases file's answer carries.
struct Error : std::runtime_error {
    explicit Error(const std::string &message, StatusCode code = StatusCode::invalid_argument)
        : std::runtime_error(message), code(code) {}
    StatusCode code;
};

}  // namespace kiln::tools
