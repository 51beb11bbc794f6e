// The layers file: TOML with [library], [defaults], [[layer]] and [[variant]] tables.
#pragma once

#include <string>

#include "layers/spec.h"

namespace kiln::tools {

// Throws Error, "file:line: message", where the file as a whole is not usable: unreadable, no TOML, an unknown table, a
// layer without a usable name. What is wrong within one layer becomes a failure of that layer, told the same way.
// --shape is for models: giving one is an error.
Spec load_layers_file(const std::string &path, const SpecOptions &options);

// The same of a file's content; `path` is what messages and relative paths in it refer to.
Spec parse_layers_file(const std::string &content, const std::string &path);

}  // namespace kiln::tools
