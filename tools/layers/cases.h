// A cases file (JSON lines): layers with their inputs as .npy files, for `kiln run`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kiln/tensor.h"
#include "layers/spec.h"

namespace kiln::tools {

// A layer whose shapes and optional inputs come from its files. layer.name is "", so that error messages do not repeat
// the case's name, which stands beside them in answers.
struct Case {
    LayerSpec layer;
    // Absolute paths; "" where the layer has no such input.
    std::string x, w, bias, offset, mask, residual;
    const std::string &file(Tensor tensor) const;  // "" also where no file holds what the kernel takes
    std::string output;                            // as written, relative to the output folder; "" for <name>.npy
};

// One line of the file: a case, or why it is none.
struct CaseLine {
    std::string name;  // "line 7" where the line has none
    std::optional<Case> value;
    StatusCode code = StatusCode::ok;
    std::string message;
};

// One line of a cases file; `number` counts from 1. Paths in it are relative to `folder`. The headers of its .npy files
// are read, and their types checked. Never throws Error.
CaseLine read_case(const std::string &line, int number, const std::string &folder);

// Every line that is not blank. Throws Error where the file cannot be read.
std::vector<CaseLine> read_cases(const std::string &path);

}  // namespace kiln::tools
