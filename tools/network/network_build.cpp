#include "network/network_build.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "fmt/format.h"
#include "layers/onnx_model.h"
#include "system/process.h"
#include "system/share_folder.h"

namespace kiln::tools {

NetworkModel load_network(const std::string &path, SpecOptions options, const std::string &folder) {
    if (std::filesystem::path(path).extension() != ".onnx")
        throw Error(fmt::format("{}: a network is an ONNX model (.onnx)", path));
    options.network = true;
    options.weights_folder = folder + "/values";
    NetworkModel model = {load_spec(path, options), {}};
    try {
        model.network = network_from_json(model.spec.network);
    } catch (const nlohmann::json::exception &error) {
        throw Error(fmt::format("{}: the importer's answer makes no sense: {}", path, error.what()),
                    StatusCode::failed);
    }
    for (NetworkStep &step : model.network.steps)
        if (step.kind == NetworkStep::Kind::tail) step.source = options.weights_folder + "/" + step.source;
    std::ofstream(folder + "/network.json") << model.spec.network;
    if (!model.network.failures.empty()) {
        std::string text = fmt::format("{}: {} of its nodes cannot be computed:", path, model.network.failures.size());
        for (const NetworkFailure &failure : model.network.failures)
            text += fmt::format("\n  {} {}: {}", failure.op, failure.node, failure.message);
        throw Error(text, StatusCode::unsupported);
    }
    for (const Spec::Failure &failure : model.spec.failures) {
        const bool used = std::any_of(model.network.steps.begin(), model.network.steps.end(),
                                      [&](const NetworkStep &step) { return step.what == failure.layer; });
        if (used) throw Error(fmt::format("{}: layer {}: {}", path, failure.layer, failure.message), failure.code);
    }
    return model;
}

void require_layers(const CompiledLibrary &library) {
    if (library.failures.empty()) return;
    std::string text = "the network cannot be made:";
    for (const Spec::Failure &failure : library.failures)
        text += fmt::format("\n  layer {}: {}: {}", failure.layer, to_string(failure.code), failure.message);
    throw Error(text, library.failures[0].code);
}

NetworkProgram build_network(const NetworkOptions &options, NetworkExtra extra, const std::string &folder) {
    NetworkProgram result = {load_network(options.model, options.spec_options, folder), {}, {}, folder};
    const std::string target = options.target.empty() ? "host" : options.target;
    const Toolchain toolchain = find_toolchain(options.cxx, options.runner, find_target(target));
    for (const NetworkStep &step : result.model.network.steps)
        if (step.kind == NetworkStep::Kind::callback)
            throw Error(fmt::format("{}: {} must be computed by a program of one's own: {}", options.model, step.node,
                                    step.source),
                        StatusCode::unsupported);
    NetworkRequest request = {{}, result.model.network, extra, toolchain.cxx};
    request.library.name = result.model.spec.name;
    request.library.layers = result.model.spec.layers;
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
    parts.defines.push_back(fmt::format("KILN_NETWORK={}_network{}", name, extra == NetworkExtra::kept ? "_kept" : ""));
    if (extra == NetworkExtra::traced)
        parts.defines.push_back(fmt::format("KILN_NETWORK_STEPS={}_network_traced", name));
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

void write_network_inputs(const NetworkOptions &options, const NetworkProgram &network) {
    std::vector<std::string> arguments = {"inputs", network.answer(), network.folder};
    if (options.inputs.empty())
        arguments.insert(arguments.end(), {"--seed", std::to_string(options.seed)});
    else
        arguments.insert(arguments.end(), {"--inputs", options.inputs});
    if (run_network_script("network_values.py", arguments) != 0)
        throw Error(fmt::format("{}: the network's inputs are not there",
                                options.inputs.empty() ? options.model : options.inputs));
}

void run_network_program(const NetworkOptions &options, const NetworkProgram &network) {
    const int status = run_process(network.program.command({"run", network.folder, std::to_string(options.threads)}));
    if (status != 0)
        throw Error(status > 128 ? fmt::format("the network's program was ended by signal {}", status - 128)
                                 : fmt::format("the network's program ended with status {}", status),
                    StatusCode::failed);
}

}  // namespace kiln::tools
