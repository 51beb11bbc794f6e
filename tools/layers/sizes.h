// The sizes that layers which leave some open are timed at.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "layers/spec.h"

namespace kiln::tools {

// What --sizes says, each time that it is given: shapes of the inputs of a model, all at once, or of layers of a layers
// file.
using TimedShapes = std::vector<std::vector<std::pair<std::string, std::vector<int64_t>>>>;

// "data=1x3x224x224,mask=1x1x224x224". Throws Error where the text is no such thing, or leaves a size open.
TimedShapes::value_type parse_timed_shapes(const std::string &text);

// Adds `shapes` to what the layers of the file `path`, read with `options`, say themselves. Throws Error where they
// name no layer, or a model cannot be read with them.
void add_timed_shapes(Spec *spec, const std::string &path, const SpecOptions &options, const TimedShapes &shapes);

// The texts of the problems that a layer's list stands for, each once. Throws Error where one is not the layer's
// `pattern` with all sizes known.
std::vector<std::string> problems_at_sizes(const LayerSpec &layer, const Problem &pattern);

}  // namespace kiln::tools
