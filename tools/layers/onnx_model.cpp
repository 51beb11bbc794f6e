// Finds a Python and the importer's script, runs it as a child process, and turns its JSON into a Spec.
#include "layers/onnx_model.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "system/process.h"
#include "system/share_folder.h"
#include "system/temp_folder.h"

namespace kiln::tools {
namespace {

namespace fs = std::filesystem;

// The importer's exit statuses, as onnx_import has them.
constexpr int refused = 1, no_onnx = 3;

std::string find_script() {
    std::error_code error;
    const fs::path script = share_folder() / "onnx_import";
    if (!fs::exists(script, error))
        throw Error(fmt::format("Kiln's installation is incomplete: {} is missing", script.string()));
    return script.string();
}

ProcessResult run_python(const std::vector<std::string> &command) {
    try {
        return capture_process(command);
    } catch (const Error &error) {
        throw Error(fmt::format("{}. Reading ONNX models needs a python3 with the onnx package; KILN_PYTHON names one",
                                error.what()),
                    error.code);
    }
}

std::vector<std::string> import_command(const std::string &path, const std::string &answer,
                                        const SpecOptions &options) {
    std::vector<std::string> command = {find_python(), find_script(), path, answer};
    if (!options.weights_folder.empty()) {
        command.push_back("--weights");
        command.push_back(options.weights_folder);
    }
    if (options.network) command.push_back("--network");
    if (options.callbacks) command.push_back("--callbacks");
    for (const std::string &name : options.output_names) command.insert(command.end(), {"--output-name", name});
    for (const std::string &size : options.sizes) command.insert(command.end(), {"--size", size});
    append_shapes(options, command);
    return command;
}

[[noreturn]] void report(const std::string &path, const std::string &python, ProcessResult result) {
    while (!result.output.empty() && result.output.back() == '\n') result.output.pop_back();
    if (result.status == no_onnx)
        throw Error(
            fmt::format("{}: reading ONNX models needs the onnx package, which {} has not. Install it there "
                        "(pip install onnx), or name another Python in KILN_PYTHON",
                        path, python));
    if (result.status == refused) throw Error(result.output);
    throw Error(fmt::format("{}: the importer ended with status {}:\n{}", path, result.status, result.output));
}

}  // namespace

// A checkout's build links its own Python environment into the share folder.
std::string find_python() {
    if (const char *python = std::getenv("KILN_PYTHON"); python && *python) return python;
    std::error_code error;
    const fs::path own = share_folder() / ".venv/bin/python3";
    return fs::exists(own, error) ? own.string() : "python3";
}

namespace {

LayerSpec::Source source_of(const nlohmann::json &layer) {
    const nlohmann::json &source = layer.at("source");
    LayerSpec::Source result = {source.at("node"), source.at("operator"), source.at("output"), {}};
    const nlohmann::json &inputs = source.at("inputs");
    for (const char *role : {"x", "w", "bias", "offset", "mask", "residual"})
        if (inputs.contains(role)) result.inputs.emplace_back(role, inputs.at(role));
    return result;
}

}  // namespace

void append_shapes(const SpecOptions &options, std::vector<std::string> &command) {
    for (const auto &[input, sizes] : options.shapes) {
        std::vector<std::string> words;
        for (int64_t size : sizes) words.push_back(size == open_size ? "?" : fmt::format("{}", size));
        command.push_back("--shape");
        command.push_back(fmt::format("{}={}", input, fmt::join(words, "x")));
    }
}

Spec spec_from_import(const nlohmann::json &imported) {
    Spec spec;
    spec.convolutions = imported.at("convolutions");
    if (imported.contains("networks")) spec.networks = imported.at("networks"), spec.sizes = imported.at("sizes");
    spec.name = imported.at("name").get<std::string>();
    spec.notes = imported.at("notes").get<std::vector<std::string>>();
    for (const nlohmann::json &failure : imported.at("failures"))
        spec.failures.push_back(
            {failure.at("layer").get<std::string>(),
             failure.at("code") == "unsupported" ? StatusCode::unsupported : StatusCode::invalid_argument,
             failure.at("message").get<std::string>(), failure.at("node").get<std::string>()});
    for (nlohmann::json layer : imported.at("layers")) {
        const LayerSpec::Source source = source_of(layer);
        layer.erase("source");
        try {
            spec.layers.push_back(layer_from_json(layer, "/"));
            spec.layers.back().source = source;
        } catch (const Error &error) {
            spec.failures.push_back({layer.at("name").get<std::string>(), error.code, error.what(), source.node});
        }
    }
    return spec;
}

Spec load_onnx_model(const std::string &path, const SpecOptions &options) {
    const TempFolder folder;
    const std::string answer = folder.path() + "/model.json";
    const std::vector<std::string> command = import_command(path, answer, options);
    const ProcessResult result = run_python(command);
    if (result.status != 0) report(path, command[0], result);
    std::ifstream file(answer);
    try {
        return spec_from_import(nlohmann::json::parse(file));
    } catch (const nlohmann::json::exception &error) {
        throw Error(fmt::format("{}: the importer's answer makes no sense: {}", path, error.what()));
    }
}

}  // namespace kiln::tools
