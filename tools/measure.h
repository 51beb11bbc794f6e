// What verify and bench share: from a SPEC to a program that holds its kernels.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "programs.h"

namespace kiln::tools {

// Keeps the layers, and the failures, that the command line names; all if it names none. Throws Error where there is no
// such layer.
void select_layers(Spec *spec, const std::vector<std::string> &wanted);

struct MeasuredLibrary {
    std::optional<Program> program;       // none where no layer could be compiled
    std::vector<Spec::Failure> failures;  // layers that are not in it
};

// Reads the SPEC, compiles the wanted layers for the target into `folder`, and builds the harness. What went wrong with
// a layer is said on stderr too. Throws Error where nothing can be done.
MeasuredLibrary build_measured(const MeasureOptions &options, const std::string &folder);

// The start of the program's command line: what to do, and the options that both take.
std::vector<std::string> measure_arguments(const std::string &verb, const MeasureOptions &options);

}  // namespace kiln::tools
