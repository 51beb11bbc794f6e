// ONNX models: onnx_import reads them, in a python3 that has the `onnx` package.
#pragma once

#include <string>
#include <vector>

#include "layers/spec.h"

namespace kiln::tools {

// Runs the importer and reads its answer. Throws Error with the importer's message where the model is not usable, and
// where there is no python3, or none with `onnx`. Python is $KILN_PYTHON, else a checkout's own, else python3 of PATH.
Spec load_onnx_model(const std::string &path, const SpecOptions &options);

// The Python that models are read with.
std::string find_python();

// Adds the options' shapes to a command of the importer's: --shape INPUT=1x3x?x?.
void append_shapes(const SpecOptions &options, std::vector<std::string> &command);

// The Spec that the importer's JSON describes.
Spec spec_from_import(const nlohmann::json &imported);

}  // namespace kiln::tools
