#include "programs/measure.h"

#include <cstdio>
#include <filesystem>

#include "fmt/format.h"
#include "programs/own_weights.h"
#include "system/messages.h"
#include "system/progress.h"
#include "targets/target_model.h"

namespace kiln::tools {

MeasuredLibrary build_measured(const MeasureOptions &options, const std::string &folder, Weights weights) {
    SpecOptions spec_options = options.spec_options;
    if (weights == Weights::own) spec_options.weights_folder = folder + "/npy";
    Spec spec = load_spec(options.spec, spec_options);
    select_layers(&spec, options.layers);
    std::string own = folder + "/weights";
    if (weights == Weights::random || !save_own_weights(&spec, own)) own.clear();
    MeasuredLibrary result = {std::nullopt, spec.failures, own};
    const std::string target = options.target.empty() ? "host" : options.target;
    const Toolchain toolchain = find_toolchain(options.cxx, options.runner, find_target(target));
    if (!spec.layers.empty()) {
        LibraryRequest request;
        request.name = spec.name;
        request.layers = spec.layers;
        request.targets = {target};
        request.folder = folder;
        request.decisions = options.decisions;
        request.jobs = options.jobs;
        request.fallbacks = options.fallbacks;
        request.layer_functions = false;
        Progress progress("compiling", static_cast<int>(spec.layers.size()));
        const CompiledLibrary library = compile_library(request, progress);
        for (const std::string &warning : library.warnings) progress.note("kiln: warning: " + warning);
        result.failures.insert(result.failures.end(), library.failures.begin(), library.failures.end());
        if (library.failures.size() < spec.layers.size()) {
            const BuiltProgram built = build_program(library, toolchain, folder, options.jobs);
            result.program = built.program;
            result.failures.insert(result.failures.end(), built.failures.begin(), built.failures.end());
        }
    }
    for (const Spec::Failure &failure : result.failures)
        say_error(fmt::format("layer {}: {}", failure.layer, failure.message));
    return result;
}

std::vector<std::string> measure_arguments(const std::string &verb, const MeasureOptions &options) {
    return {verb, "--seed", std::to_string(options.seed), "--draws", std::to_string(options.draws)};
}

}  // namespace kiln::tools
