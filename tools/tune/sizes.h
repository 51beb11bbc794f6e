// The sizes that layers which leave some open are timed at.
#pragma once

#include <string>
#include <vector>

#include "layers/spec.h"
#include "tune/options.h"

namespace kiln::tools {

// Adds those of --sizes to what the layers say themselves. Throws Error where it names no layer, or a model cannot be
// read with it.
void add_sizes(Spec *spec, const TuneOptions &options);

// The texts of the problems that a layer's list stands for, each once. Throws Error where one is not the layer's
// `pattern` with all sizes known.
std::vector<std::string> problems_at_sizes(const LayerSpec &layer, const Problem &pattern);

}  // namespace kiln::tools
