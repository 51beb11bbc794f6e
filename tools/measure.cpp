#include "measure.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "fmt/format.h"
#include "progress.h"
#include "suggest.h"
#include "targets/target_model.h"

namespace kiln::tools {
void select_layers(Spec *spec, const std::vector<std::string> &wanted) {
    if (wanted.empty()) return;
    std::vector<std::string_view> names;
    for (const LayerSpec &layer : spec->layers) names.push_back(layer.name);
    for (const Spec::Failure &failure : spec->failures) names.push_back(failure.layer);
    for (const std::string &name : wanted)
        if (std::find(names.begin(), names.end(), name) == names.end())
            throw Error(fmt::format("there is no layer {}: did you mean {}?", name, nearest_name(name, names)));
    const auto unwanted = [&](const std::string &name) {
        return std::find(wanted.begin(), wanted.end(), name) == wanted.end();
    };
    std::erase_if(spec->layers, [&](const LayerSpec &layer) { return unwanted(layer.name); });
    std::erase_if(spec->failures, [&](const Spec::Failure &failure) { return unwanted(failure.layer); });
}

MeasuredLibrary build_measured(const MeasureOptions &options, const std::string &folder) {
    Spec spec = load_spec(options.spec, options.spec_options);
    select_layers(&spec, options.layers);
    MeasuredLibrary result = {std::nullopt, spec.failures};
    const std::string target = options.target.empty() ? "host" : options.target;
    const Toolchain toolchain = find_toolchain(options.cxx, options.runner, find_target(target).architecture);
    if (!spec.layers.empty()) {
        LibraryRequest request;
        request.name = spec.name;
        request.layers = spec.layers;
        request.targets = {target};
        request.folder = folder;
        request.decisions = options.decisions;
        request.jobs = options.jobs;
        request.stand_ins = options.stand_ins;
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
        fmt::print(stderr, "kiln: layer {}: {}\n", failure.layer, failure.message);
    return result;
}

std::vector<std::string> measure_arguments(const std::string &verb, const MeasureOptions &options) {
    return {verb, "--seed", std::to_string(options.seed), "--draws", std::to_string(options.draws)};
}

}  // namespace kiln::tools
