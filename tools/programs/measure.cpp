#include "programs/measure.h"

#include <cstdio>
#include <filesystem>

#include "fmt/format.h"
#include "programs/own_weights.h"
#include "system/messages.h"
#include "targets/target_model.h"

namespace kiln::tools {
namespace {

// The problems that layers say they are checked or timed at, where they leave sizes open. A layer of wrong ones goes to
// the spec's failures.
std::vector<std::string> take_sizes(Spec *spec) {
    std::vector<std::string> sizes;
    std::erase_if(spec->layers, [&](const LayerSpec &layer) {
        try {
            const Problem problem = resolve(layer).problem;
            if (problem.has_open_sizes()) {
                for (const std::string &size : problems_at_sizes(layer, problem))
                    sizes.push_back(layer.name + "=" + size);
            }
            return false;
        } catch (const Error &error) {
            spec->failures.push_back({layer.name, error.code, error.what(), layer.source.node});
            return true;
        }
    });
    return sizes;
}

}  // namespace

MeasuredLibrary build_measured(const MeasureOptions &options, const std::string &folder, Weights weights) {
    SpecOptions spec_options = options.spec_options;
    if (weights == Weights::own) spec_options.weights_folder = folder + "/npy";
    Spec spec = load_spec(options.spec, spec_options);
    add_timed_shapes(&spec, options.spec, spec_options, options.sizes);
    select_layers(&spec, options.layers);
    const std::vector<std::string> sizes = take_sizes(&spec);
    std::string own = folder + "/weights";
    if (weights == Weights::random || !save_own_weights(&spec, own)) own.clear();
    MeasuredLibrary result = {std::nullopt, spec.failures, sizes, own};
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

std::vector<std::string> measure_arguments(const std::string &verb, const MeasureOptions &options,
                                           const MeasuredLibrary &library) {
    std::vector<std::string> arguments = {verb, "--seed", std::to_string(options.seed), "--draws",
                                          std::to_string(options.draws)};
    for (const std::string &size : library.sizes) arguments.insert(arguments.end(), {"--size", size});
    return arguments;
}

}  // namespace kiln::tools
