#include "network/network_build.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "layers/onnx_model.h"
#include "system/process.h"
#include "system/share_folder.h"

namespace kiln::tools {

namespace {

bool uses(const NetworkSet &set, const std::string &layer) {
    return std::any_of(set.networks.begin(), set.networks.end(), [&](const Network &network) {
        return std::any_of(network.steps.begin(), network.steps.end(),
                           [&](const NetworkStep &step) { return step.what == layer; });
    });
}

void save_answer(const NetworkModel &model, size_t index, const std::string &folder) {
    std::filesystem::create_directories(folder);
    std::ofstream(answer_file(folder)) << model.spec.networks.at(index);
}

// Throws Error where nobody can compute all of a model.
void refuse_failures(const std::string &path, const NetworkModel &model) {
    std::vector<std::string> failures;
    for (const Network &network : model.set.networks)
        for (const NetworkFailure &failure : network.failures)
            failures.push_back(fmt::format("\n  {} {}: {}", failure.op, failure.node, failure.message));
    if (!failures.empty())
        throw Error(
            fmt::format("{}: {} of its nodes cannot be computed:{}", path, failures.size(), fmt::join(failures, "")),
            StatusCode::unsupported);
    for (const Spec::Failure &failure : model.spec.failures)
        if (uses(model.set, failure.layer))
            throw Error(fmt::format("{}: layer {}: {}", path, failure.layer, failure.message), failure.code);
}

// Keeps the network alone that the file's inputs fit.
void pick_by_inputs(const std::string &inputs, const std::string &folder, NetworkModel *model) {
    std::vector<std::string> arguments = {"pick", inputs};
    for (size_t i = 0; i < model->set.networks.size(); i++) arguments.push_back(answer_file(network_folder(folder, i)));
    std::string said;
    if (run_network_script("network_values.py", arguments, &said) != 0)
        throw Error(fmt::format("{}: the network's inputs are not there", inputs));
    const size_t index = std::stoul(said);
    model->set = {{}, {model->set.networks.at(index)}};
    save_answer(*model, index, network_folder(folder, 0));
    std::vector<LayerSpec> &layers = model->spec.layers;
    layers.erase(std::remove_if(layers.begin(), layers.end(),
                                [&](const LayerSpec &layer) { return !uses(model->set, layer.name); }),
                 layers.end());
}

// Writes the inputs of the network whose folder it is: those of the file, or random ones.
void write_inputs(const NetworkOptions &options, const std::string &folder) {
    std::vector<std::string> arguments = {"inputs", answer_file(folder), folder};
    if (options.inputs.empty())
        arguments.insert(arguments.end(), {"--seed", std::to_string(options.seed)});
    else
        arguments.insert(arguments.end(), {"--inputs", options.inputs});
    if (run_network_script("network_values.py", arguments) != 0)
        throw Error(fmt::format("{}: the network's inputs are not there",
                                options.inputs.empty() ? options.model : options.inputs));
}

}  // namespace

std::string network_folder(const std::string &folder, size_t index) {
    return fmt::format("{}/{}", folder, index);
}

std::string answer_file(const std::string &folder) {
    return folder + "/network.json";
}

NetworkModel load_network(const std::string &path, SpecOptions options, const std::string &folder) {
    if (std::filesystem::path(path).extension() != ".onnx")
        throw Error(fmt::format("{}: a network is an ONNX model (.onnx)", path));
    options.network = true;
    options.weights_folder = folder + "/values";
    NetworkModel model = {load_spec(path, options), {}};
    try {
        model.set = networks_from_json(model.spec.sizes, model.spec.networks);
    } catch (const nlohmann::json::exception &error) {
        throw Error(fmt::format("{}: the importer's answer makes no sense: {}", path, error.what()),
                    StatusCode::failed);
    }
    for (size_t i = 0; i < model.set.networks.size(); i++) save_answer(model, i, network_folder(folder, i));
    refuse_failures(path, model);
    return model;
}

void require_layers(const CompiledLibrary &library) {
    if (library.failures.empty()) return;
    std::string text = "the network cannot be made:";
    for (const Spec::Failure &failure : library.failures)
        text += fmt::format("\n  layer {}: {}: {}", failure.layer, to_string(failure.code), failure.message);
    throw Error(text, library.failures[0].code);
}

NetworkModel load_with_inputs(const NetworkOptions &options, const std::string &folder) {
    NetworkModel model = load_network(options.model, options.spec_options, folder);
    if (model.set.networks.size() > 1 && !options.inputs.empty()) pick_by_inputs(options.inputs, folder, &model);
    for (const Network &network : model.set.networks)
        for (const NetworkStep &step : network.steps)
            if (step.kind == NetworkStep::Kind::callback)
                throw Error(fmt::format("{}: {} must be computed by a program of one's own: {}", options.model,
                                        step.node, step.source),
                            StatusCode::unsupported);
    for (size_t i = 0; i < model.set.networks.size(); i++) write_inputs(options, network_folder(folder, i));
    return model;
}

NetworkProgram build_network(const NetworkOptions &options, NetworkModel loaded, NetworkExtra extra,
                             const std::string &folder) {
    NetworkProgram result = {std::move(loaded), {}, {}, folder};
    const NetworkModel &model = result.model;
    const std::string target = options.target.empty() ? "host" : options.target;
    const Toolchain toolchain = find_toolchain(options.cxx, options.runner, find_target(target));
    NetworkRequest request = {{}, model.set, extra, toolchain.cxx};
    request.library.name = model.spec.name;
    request.library.layers = model.spec.layers;
    request.library.targets = {target};
    request.library.folder = folder;
    request.library.decisions = options.decisions;
    request.library.jobs = options.jobs;
    request.library.time_limit = options.time_limit;
    request.library.fallbacks = options.fallbacks;
    request.library.embed_weights = Embedding::packed;
    {
        Progress progress("compiling", items_of(request));
        result.compiled = compile_network(request, progress);
        for (const std::string &warning : result.compiled.library.warnings) progress.note("kiln: warning: " + warning);
    }
    require_layers(result.compiled.library);
    const std::string &name = request.library.name;
    ProgramParts parts = {
        "tools/network_program/main.cpp", result.compiled.library.header, result.compiled.library.archive, {}};
    parts.defines.push_back(
        fmt::format("KILN_NETWORK={}_network{}_at", name, extra == NetworkExtra::kept ? "_kept" : ""));
    if (extra == NetworkExtra::kept) parts.defines.push_back(fmt::format("KILN_NETWORK_PLANNED={}_network_at", name));
    if (extra == NetworkExtra::traced)
        parts.defines.push_back(fmt::format("KILN_NETWORK_STEPS={}_network_traced_at", name));
    result.program = build_program(parts, toolchain, folder, options.jobs);
    return result;
}

int run_network_script(const std::string &script, const std::vector<std::string> &arguments, std::string *output) {
    std::vector<std::string> command = {find_python(), (share_folder() / "onnx_import" / script).string()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    std::string said;
    const int status = run_process(command, [&](const std::string &line) { said += line + "\n"; });
    if (output != nullptr) *output = said;
    return status;
}

void run_network_program(const NetworkOptions &options, const NetworkProgram &network) {
    const int status = run_process(network.program.command({"run", network.folder, std::to_string(options.threads)}));
    if (status != 0)
        throw Error(status > 128 ? fmt::format("the network's program was ended by signal {}", status - 128)
                                 : fmt::format("the network's program ended with status {}", status),
                    StatusCode::failed);
}

}  // namespace kiln::tools
