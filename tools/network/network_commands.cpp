// kiln compile, run, verify and bench of a whole model.
#include "network/network_commands.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "layers/onnx_model.h"
#include "network/network_build.h"
#include "system/process.h"
#include "system/share_folder.h"
#include "system/temp_folder.h"
#include "targets/target_model.h"

namespace kiln::tools {
namespace {

namespace fs = std::filesystem;

double kilobytes(int64_t bytes) {
    return static_cast<double>(bytes) / 1024;
}

size_t count_steps(const Network &network, NetworkStep::Kind kind) {
    return std::count_if(network.steps.begin(), network.steps.end(),
                         [&](const NetworkStep &step) { return step.kind == kind; });
}

// "at width=160: " in front of what is told of one of several networks.
std::string at(const NetworkSet &set, const Network &network) {
    return set.sizes.empty() ? "" : fmt::format("at {}: ", set.sizes_text(network));
}

// What became of the model's nodes.
void tell_steps(const NetworkSet &set, const Network &network) {
    const std::string at = tools::at(set, network);
    fmt::print(
        "{}steps: {}: {} layers, {} operations, {} in generated C, {} callbacks; views, which move nothing: {}\n", at,
        network.steps.size(), count_steps(network, NetworkStep::Kind::layer),
        count_steps(network, NetworkStep::Kind::operation), count_steps(network, NetworkStep::Kind::tail),
        count_steps(network, NetworkStep::Kind::callback), network.views);
    for (const NetworkStep &step : network.steps) {
        if (step.kind == NetworkStep::Kind::tail) fmt::print("note: {}in generated C: {}\n", at, step.node);
        if (step.kind == NetworkStep::Kind::callback)
            fmt::print("note: {}the program computes it: {}: {}\n", at, step.node, step.source);
        if (step.kind == NetworkStep::Kind::check) fmt::print("note: {}checked when it runs: {}\n", at, step.what);
    }
    int64_t bytes = 0;
    std::vector<std::string> names;
    for (const Network::Copy &copy : network.copies) {
        bytes += copy.bytes;
        names.push_back(copy.value);
    }
    if (!names.empty())
        fmt::print("note: {}copied to another order of dimensions: {:.1f} KB: {}\n", at, kilobytes(bytes),
                   fmt::join(names, ", "));
}

std::string arena_text(const ArenaPlan &arena) {
    return fmt::format("arena {:.1f} KB, the least any plan could do with {:.1f} KB ({})", kilobytes(arena.bytes),
                       kilobytes(arena.bound), arena.planner);
}

void tell_memory(const NetworkSet &set, const CompiledNetwork &compiled) {
    const NetworkFacts &facts = compiled.facts;
    fmt::print("{}: {:.1f} KB; {}; weights {:.1f} KB, packed {:.1f} KB; other constants {:.1f} KB\n",
               compiled.library.archive, kilobytes(static_cast<int64_t>(fs::file_size(compiled.library.archive))),
               set.sizes.empty() ? arena_text(facts.memory[0].arena)
                                 : fmt::format("arena {:.1f} KB", kilobytes(facts.arena_bytes())),
               kilobytes(compiled.library.weight_bytes), kilobytes(compiled.library.packed_bytes),
               kilobytes(facts.constant_bytes));
    for (size_t i = 0; i < set.networks.size() && !set.sizes.empty(); i++)
        fmt::print("{}{}; kernels {:.1f} KB, of which no other size has {:.1f} KB\n", at(set, set.networks[i]),
                   arena_text(facts.memory[i].arena), kilobytes(facts.shares[i].code_bytes),
                   kilobytes(facts.shares[i].own_code_bytes));
    if (const std::string size = size_summary(compiled.library.contents); !size.empty()) fmt::print("{}\n", size);
}

void require_processors(const std::map<std::string, std::vector<std::string>> &groups) {
    for (const auto &[architecture, targets] : groups)
        for (const std::string &name : targets)
            if (find_target(name).is_gpu())
                throw Error(fmt::format("{}: networks run on processors", name), StatusCode::unsupported);
}

// Inputs and expected outputs of each network for a program that verifies them: what has no reference is told, and
// compiled all the same.
void save_values(const CompileOptions &options, const std::string &model_folder, size_t networks) {
    for (size_t i = 0; i < networks; i++) {
        const std::string answer = answer_file(network_folder(model_folder, i));
        const std::string folder = network_folder(options.save_weights, i);
        std::filesystem::create_directories(folder);
        std::vector<std::string> arguments = {"expect", answer, folder, options.spec};
        append_shapes(options.spec_options, arguments);
        if (run_network_script("network_values.py", {"inputs", answer, folder, "--seed", "1"}) != 0 ||
            run_network_script("network_values.py", arguments) != 0)
            fmt::print(stderr, "kiln: warning: {}: the network cannot be verified by a program of its own\n",
                       options.spec);
    }
}

// Prints what a script says of each network, whose sizes come first where there are several. Returns the worst status.
int report_each(const NetworkProgram &network, bool headings,
                const std::function<std::vector<std::string>(size_t)> &arguments) {
    int worst = 0;
    const NetworkSet &set = network.model.set;
    for (size_t i = 0; i < set.networks.size(); i++) {
        std::string said;
        const int status = run_network_script("network_values.py", arguments(i), &said);
        if (headings && !set.sizes.empty()) fmt::print("{}\n", set.sizes_text(set.networks[i]));
        fmt::print("{}", said);
        worst = std::max(worst, status);
    }
    return worst;
}

}  // namespace

int compile_network_command(const CompileOptions &options) {
    const TempFolder folder;
    NetworkModel model = load_network(options.spec, options.spec_options, folder.path());
    for (const std::string &note : model.spec.notes) fmt::print("note: {}\n", note);
    if (!options.save_weights.empty()) save_values(options, folder.path(), model.set.networks.size());
    size_t tails = 0;
    for (const Network &network : model.set.networks) {
        tell_steps(model.set, network);
        tails += count_steps(network, NetworkStep::Kind::tail);
    }
    const auto groups = by_architecture(options.targets.empty() ? std::vector<std::string>{"host"} : options.targets);
    require_processors(groups);
    for (const auto &[architecture, group] : groups) {
        NetworkRequest request = {
            {}, model.set, options.traced ? NetworkExtra::traced : NetworkExtra::none, {}, options.tail_source};
        if (!options.tail_source && tails > 0) request.cxx = find_toolchain(options.cxx, "", find_target(group[0])).cxx;
        request.library.name = options.name.empty() ? model.spec.name : options.name;
        request.library.layers = model.spec.layers;
        request.library.targets = group;
        request.library.folder = groups.size() == 1 ? options.output : options.output + "/" + architecture;
        request.library.decisions = options.decisions;
        request.library.jobs = options.jobs;
        request.library.time_limit = options.time_limit;
        request.library.fallbacks = options.fallbacks;
        request.library.embed_weights = options.embed_weights == Embedding::raw ? Embedding::raw : Embedding::packed;
        CompiledNetwork compiled;
        {
            Progress progress("compiling", items_of(request));
            compiled = compile_network(request, progress);
        }
        for (const std::string &warning : compiled.library.warnings) fmt::print(stderr, "kiln: warning: {}\n", warning);
        require_layers(compiled.library);
        tell_memory(model.set, compiled);
    }
    return 0;
}

int run_network_command(const NetworkRunOptions &options) {
    const TempFolder folder;
    NetworkModel model = load_with_inputs(options, folder.path());
    if (model.set.networks.size() > 1)
        throw Error(
            fmt::format("{}: give --inputs, whose shapes say which of its sizes is run, or one --size", options.model));
    const NetworkProgram network = build_network(options, std::move(model), NetworkExtra::none, folder.path());
    run_network_program(options, network);
    return report_each(network, false, [&](size_t i) {
        return std::vector<std::string>{"outputs", network.answer(i), network_folder(network.folder, i),
                                        options.output};
    });
}

int verify_network_command(const NetworkVerifyOptions &options) {
    const TempFolder folder;
    const NetworkProgram network =
        build_network(options, load_with_inputs(options, folder.path()), NetworkExtra::kept, folder.path());
    run_network_program(options, network);
    return report_each(network, !options.json, [&](size_t i) {
        std::vector<std::string> arguments = {"compare",
                                              network.answer(i),
                                              network_folder(network.folder, i),
                                              options.reference.empty() ? options.model : options.reference,
                                              network.manifest(),
                                              "--network",
                                              std::to_string(i)};
        if (options.tolerance > 0)
            arguments.insert(arguments.end(), {"--tolerance", fmt::format("{}", options.tolerance)});
        if (options.json) arguments.emplace_back("--json");
        append_shapes(options.spec_options, arguments);
        return arguments;
    });
}

int bench_network_command(const NetworkBenchOptions &options) {
    const TempFolder folder;
    const NetworkProgram network =
        build_network(options, load_with_inputs(options, folder.path()), NetworkExtra::traced, folder.path());
    std::string times;
    const int status = run_process(network.program.command({"bench", network.folder, std::to_string(options.threads),
                                                            fmt::format("{}", options.seconds)}),
                                   [&](const std::string &line) { times += line + "\n"; });
    if (status != 0) throw Error(fmt::format("the network's program ended with status {}", status), StatusCode::failed);
    const std::string timed = folder.path() + "/times.json";
    std::ofstream(timed) << times;
    std::vector<std::string> arguments = {network.manifest(), timed, "--model", options.model};
    if (!options.json.empty()) arguments.insert(arguments.end(), {"--json", options.json});
    if (!options.report.empty()) arguments.insert(arguments.end(), {"--report", options.report});
    std::string said;
    const int reported = run_network_script("../network_report.py", arguments, &said);
    fmt::print("{}", said);
    return reported;
}

}  // namespace kiln::tools
