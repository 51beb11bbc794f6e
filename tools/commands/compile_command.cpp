// `kiln compile`: a SPEC's layers to libraries, one an architecture.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "commands/commands.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "library/choice.h"
#include "library/library.h"
#include "programs/own_weights.h"
#include "system/messages.h"
#include "system/temp_folder.h"

namespace kiln::tools {
namespace {

// Whether a layer that fails for this reason may be left out: Kiln cannot do it, or its author is no user of Kiln's.
// What is wrong in a layers file is to be mended there.
bool may_be_left_out(const Spec &spec, const Spec::Failure &failure) {
    return spec.convolutions > 0 || failure.code != StatusCode::invalid_argument;
}

// Says what failed. Returns whether nothing did, but for what may be left out.
bool tell_failures(const Spec &spec, const std::vector<Spec::Failure> &failures, bool skip) {
    bool good = true;
    for (const Spec::Failure &failure : failures) {
        const bool left_out = skip && may_be_left_out(spec, failure);
        say_error(fmt::format("layer {}: {}{}: {}", failure.layer, left_out ? "left out: " : "",
                              to_string(failure.code), failure.message));
        good = good && left_out;
    }
    return good;
}

// "35 of 38 convolutions": of a model's, or of a layers file's layers.
std::string counted(const Spec &spec, size_t good, size_t layers) {
    return spec.convolutions > 0 ? fmt::format("{} of {} convolutions", good, spec.convolutions)
                                 : fmt::format("{} of {} layers", good, layers);
}

void report(const CompiledLibrary &library, const std::string &count) {
    for (const std::string &warning : library.warnings) {
        say_warning(warning);
    }
    for (const auto &[text, names] : library.emulation_notes) {
        fmt::print("note: {}: {}\n", text, fmt::join(names, ", "));
    }
    if (!library.weights_left.empty()) {
        fmt::print("note: the weights are no constants of the model, and stay an input: {}\n",
                   fmt::join(library.weights_left, ", "));
    }
    if (!library.biases_left.empty()) {
        fmt::print("note: the bias stays an input, since nothing says its values: {}\n",
                   fmt::join(library.biases_left, ", "));
    }
    fmt::print(
        "{}: {}, {:.1f} KB; weights {:.1f} KB, packed {:.1f} KB; the slowest kernel took {:.2f} s to compile: {}\n",
        library.archive, count, std::filesystem::file_size(library.archive) / 1024.0, library.weight_bytes / 1024.0,
        library.packed_bytes / 1024.0, library.slowest_seconds, library.slowest_kernel);
    if (const std::string size = size_summary(library.contents); !size.empty()) {
        fmt::print("{}\n", size);
    }
}

// kiln explain of what is compiled.
int explain_too(const CompileOptions &options, const std::string &target) {
    ExplainOptions explain;
    explain.spec = options.spec;
    explain.target = target;
    explain.decisions = options.decisions;
    explain.spec_options = options.spec_options;
    explain.layers = options.layers;
    explain.jobs = options.jobs;
    explain.time_limit = options.time_limit;
    return explain_command(explain, describe_choice);
}

}  // namespace

int compile_command(const CompileOptions &options) {
    const TempFolder weights;
    SpecOptions spec_options = options.spec_options;
    if (options.embed_weights != Embedding::none || !options.save_weights.empty()) {
        spec_options.weights_folder = weights.path();
    }
    Spec spec = load_spec(options.spec, spec_options);
    const size_t all_layers = spec.layers.size() + spec.failures.size();
    select_layers(&spec, options.layers);
    for (const std::string &note : spec.notes) {
        fmt::print("note: {}\n", note);
    }
    if (!options.save_weights.empty()) {
        save_own_weights(&spec, options.save_weights);
    }
    bool good = tell_failures(spec, spec.failures, options.skip_unsupported);
    std::vector<std::string> targets = options.targets.empty() ? spec.targets : options.targets;
    if (targets.empty()) {
        targets = {"host"};
    }
    const auto groups = by_architecture(targets);
    for (const auto &[architecture, group] : groups) {
        if (spec.layers.empty()) {
            throw Error(fmt::format("{}: no layer can be compiled", options.spec));
        }
        LibraryRequest request;
        request.name = options.name.empty() ? spec.name : options.name;
        request.layers = spec.layers;
        request.targets = group;
        request.left_out = spec.failures;
        request.folder = groups.size() == 1 ? options.output : options.output + "/" + architecture;
        request.decisions = options.decisions;
        request.jobs = options.jobs;
        request.time_limit = options.time_limit;
        request.embed_weights = options.embed_weights;
        request.fallbacks = options.fallbacks;
        CompiledLibrary library;
        {
            Progress progress("compiling", static_cast<int>(spec.layers.size()));
            library = compile_library(request, progress);
        }
        const size_t compiled = spec.layers.size() - library.failures.size();
        good = tell_failures(spec, library.failures, options.skip_unsupported) && compiled > 0 && good;
        if (compiled > 0) {
            report(library, counted(spec, compiled, all_layers));
        }
    }
    if (options.explain) {
        const int explained = explain_too(options, targets[0]);
        return options.skip_unsupported ? !good : std::max(explained, good ? 0 : 1);
    }
    return good ? 0 : 1;
}

}  // namespace kiln::tools
