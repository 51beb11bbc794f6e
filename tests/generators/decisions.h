// What tests of decisions share.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "targets/target_model.h"

namespace kiln {

// The message of the std::invalid_argument that a call throws; "" if it throws none.
inline std::string error_of(const std::function<void()> &call) {
    try {
        call();
    } catch (const std::invalid_argument &error) {
        return error.what();
    }
    return "";
}

// Whether a target's defaults were ever timed: what they should be is known of no other.
inline bool has_timed_defaults(const TargetModel &target) {
    return !target.is_gpu() && target.architecture != std::string_view("riscv-64-linux");
}

}  // namespace kiln
