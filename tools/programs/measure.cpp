#include "programs/measure.h"

#include <cstdio>
#include <filesystem>

#include "fmt/format.h"
#include "programs/own_weights.h"
#include "system/messages.h"
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
    const Toolchain toolchain = find_toolchain(options.cxx, options.runner, find_target(options.target_or_host()));
    if (!spec.layers.empty()) {
        const CompiledLibrary library = compile_kernels(options, spec.name, spec.layers, folder);
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
