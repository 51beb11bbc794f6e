// `kiln compile`: a SPEC's layers to libraries, one an architecture.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "choice.h"
#include "commands.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "library.h"
#include "targets/target_model.h"
#include "temp_folder.h"

namespace kiln::tools {
namespace {

// The targets by architecture, so that those of one share a library.
std::map<std::string, std::vector<std::string>> by_architecture(const std::vector<std::string> &targets) {
    std::map<std::string, std::vector<std::string>> result;
    for (const std::string &target : targets) {
        try {
            result[find_target(target).architecture].push_back(target);
        } catch (const std::invalid_argument &error) {
            throw Error(error.what());
        }
    }
    return result;
}

void report(const CompiledLibrary &library, size_t layers) {
    for (const std::string &warning : library.warnings) {
        fmt::print(stderr, "kiln: warning: {}\n", warning);
    }
    for (const auto &[text, names] : library.fallbacks) {
        fmt::print("note: {}: {}\n", text, fmt::join(names, ", "));
    }
    for (const Spec::Failure &failure : library.failures) {
        fmt::print(stderr, "kiln: layer {}: {}: {}\n", failure.layer, to_string(failure.code), failure.message);
    }
    const size_t good = layers - library.failures.size();
    if (good > 0) {
        fmt::print("{}: {} of {} layers, {:.1f} KB; the slowest kernel took {:.2f} s to compile: {}\n", library.archive,
                   good, layers, std::filesystem::file_size(library.archive) / 1024.0, library.slowest_seconds,
                   library.slowest_kernel);
    }
}

}  // namespace

int compile_command(const CompileOptions &options) {
    const TempFolder weights;
    SpecOptions spec_options = options.spec_options;
    if (options.embed_weights) {
        spec_options.weights_folder = weights.path();
    }
    const Spec spec = load_spec(options.spec, spec_options);
    for (const std::string &note : spec.notes) {
        fmt::print("note: {}\n", note);
    }
    for (const Spec::Failure &failure : spec.failures) {
        fmt::print(stderr, "kiln: layer {}: {}: {}\n", failure.layer, to_string(failure.code), failure.message);
    }
    std::vector<std::string> targets = options.targets.empty() ? spec.targets : options.targets;
    if (targets.empty()) {
        targets = {"host"};
    }
    const auto groups = by_architecture(targets);
    bool good = spec.failures.empty();
    for (const auto &[architecture, group] : groups) {
        if (spec.layers.empty()) {
            throw Error(fmt::format("{}: no layer can be compiled", options.spec));
        }
        LibraryRequest request;
        request.name = options.name.empty() ? spec.name : options.name;
        request.layers = spec.layers;
        request.targets = group;
        request.folder = groups.size() == 1 ? options.output : options.output + "/" + architecture;
        request.decisions = options.decisions;
        request.jobs = options.jobs;
        request.time_limit = options.time_limit;
        request.embed_weights = options.embed_weights;
        request.stand_ins = options.stand_ins;
        CompiledLibrary library;
        {
            Progress progress("compiling", static_cast<int>(spec.layers.size()));
            library = compile_library(request, progress);
        }
        report(library, spec.layers.size());
        good = good && library.failures.empty();
    }
    if (options.explain) {
        ExplainOptions explain;
        explain.spec = options.spec;
        explain.target = targets[0];
        explain.decisions = options.decisions;
        explain.spec_options = options.spec_options;
        return std::max(explain_command(explain, describe_choice), good ? 0 : 1);
    }
    return good ? 0 : 1;
}

}  // namespace kiln::tools
