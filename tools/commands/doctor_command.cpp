// `kiln doctor`: what kiln needs of this machine besides itself, whether it is there, and how to get it.
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <vector>

#include "commands/commands.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kiln/cpu.h"
#include "kiln/gpu.h"
#include "layers/onnx_model.h"
#include "nlohmann/json.hpp"
#include "system/messages.h"
#include "system/process.h"
#include "system/share_folder.h"
#include "targets/target_model.h"

namespace kiln::tools {
namespace {

struct Finding {
    std::string what;
    bool there;
    std::string found;   // what it is, where it is there; else what was said
    std::string need;    // what is not possible without it
    std::string remedy;  // how to get it
    bool required = false;
};

// The first line that a command says, where it ends well.
std::optional<std::string> first_line(const std::vector<std::string> &command) {
    try {
        const ProcessResult result = capture_process(command);
        if (result.status != 0) return std::nullopt;
        return result.output.substr(0, result.output.find('\n'));
    } catch (const Error &) {
        return std::nullopt;
    }
}

Finding program(const std::string &what, const std::vector<std::string> &command, const std::string &need,
                const std::string &remedy) {
    std::vector<std::string> asking = command;
    asking.push_back("--version");
    const std::optional<std::string> line = first_line(asking);
    return {what, line.has_value(), line.value_or(fmt::format("there is no {}", fmt::join(command, " "))), need,
            remedy};
}

Finding own_files() {
    std::error_code error;
    const std::filesystem::path folder = share_folder();
    const bool there = std::filesystem::exists(folder / "tools/harness/main.cpp", error) &&
                       std::filesystem::exists(folder / "onnx_import", error);
    return {"files of Kiln",      there, folder.string(), "verify, bench, run and reading models",
            "install Kiln again", true};
}

Finding processor() {
    const uint64_t features = kiln_cpu_features();
    const TargetModel *best = nullptr;
    for (const TargetModel &target : target_models()) {
        if (best == nullptr && !target.is_gpu() && (features & target.features) == target.features) best = &target;
    }
    const std::string names = fmt::format("{}", fmt::join(feature_names(features), " "));
    return {"processor", best != nullptr, best != nullptr ? fmt::format("{}, by its {}", best->name, names) : names,
            "running kernels here: others can be compiled for", "a machine whose processor has AVX2"};
}

Finding cxx_compiler() {
    const char *named = std::getenv("CXX");
    const std::string command = named != nullptr && *named != '\0' ? named : "c++";
    Finding finding =
        program("C++ compiler", split_words(command), "verify, bench, run, tune and linking what is compiled",
                "apt-get install g++, or name one in CXX");
    finding.required = true;
    return finding;
}

Finding python_package(const std::string &package) {
    const std::string python = find_python();
    const std::string script = fmt::format("import {0}; print({0}.__version__)", package);
    const std::optional<std::string> version = first_line({python, "-c", script});
    return {package, version.has_value(),
            version ? fmt::format("{} in {}", *version, python) : fmt::format("{} has none", python),
            "reading ONNX models",
            fmt::format("{} -m pip install {}, or name another Python in KILN_PYTHON", python, package)};
}

// Compilers and emulators of other architectures, each once.
void add_cross_tools(std::vector<Finding> *findings) {
    std::set<std::string> seen;
    for (const TargetModel &target : target_models()) {
        if (is_own_architecture(target) || target.is_gpu()) continue;
        if (const char *compiler = target.cross.compiler; compiler != nullptr && seen.insert(compiler).second) {
            const std::string triple = std::string(compiler).substr(0, std::string(compiler).rfind('-'));
            findings->push_back(program(compiler, split_words(compiler),
                                        fmt::format("programs of {}", target.architecture),
                                        fmt::format("apt-get install g++-{}, or name one with --cxx", triple)));
        }
        if (const char *emulator = target.cross.emulator; emulator != nullptr) {
            const std::string name = split_words(emulator).front();
            if (!seen.insert(name).second) continue;
            findings->push_back(program(name, {name}, fmt::format("running programs of {} here", target.architecture),
                                        "apt-get install qemu-user, or name another with --runner"));
        }
    }
}

Finding gpu(const std::string &what, kiln_gpu_api api, const std::string &remedy) {
    kiln_gpu *opened = nullptr;
    const bool there = kiln_gpu_open(api, 0, &opened) == kiln_ok;
    Finding finding = {what, there, there ? kiln_gpu_name(opened) : kiln_gpu_message(),
                       fmt::format("running kernels of {}", what), remedy};
    kiln_gpu_close(opened);
    return finding;
}

std::vector<Finding> examine() {
    std::vector<Finding> findings = {own_files(), processor(), cxx_compiler()};
    findings.push_back(
        program("CMake", {"cmake"}, "kiln_add_library()", "apt-get install cmake, or pip install cmake"));
    findings.push_back(program("python3", {find_python()}, "reading ONNX models, pages of kiln tune",
                               "apt-get install python3, or name one in KILN_PYTHON"));
    findings.push_back(python_package("onnx"));
    add_cross_tools(&findings);
    findings.push_back(gpu("opencl", kiln_gpu_opencl,
                           "the GPU's driver; apt-get install pocl-opencl-icd ocl-icd-libopencl1 runs "
                           "them on the processor"));
    findings.push_back(gpu("cuda", kiln_gpu_cuda, "NVIDIA's driver, which brings libcuda.so.1"));
    return findings;
}

void print_text(const std::vector<Finding> &findings) {
    const bool colour = may_colour(1);
    for (const Finding &f : findings) {
        const char *mark = f.there ? "ok" : f.required ? "MISSING" : "missing";
        const char *shade = f.there ? "32" : f.required ? "1;31" : "33";
        const std::string shown =
            colour ? fmt::format("\x1b[{}m{:<8}\x1b[0m", shade, mark) : fmt::format("{:<8}", mark);
        fmt::print("{} {:<24} {}\n", shown, f.what, f.found);
        if (!f.there) fmt::print("{:34}for {}\n{:34}get it: {}\n", "", f.need, "", f.remedy);
    }
}

}  // namespace

int doctor_command(const DoctorOptions &options) {
    const std::vector<Finding> findings = examine();
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    bool good = true;
    for (const Finding &f : findings) {
        list.push_back({{"what", f.what},
                        {"there", f.there},
                        {"found", f.found},
                        {"need", f.need},
                        {"remedy", f.remedy},
                        {"required", f.required}});
        good = good && (f.there || !f.required);
    }
    if (options.json) {
        fmt::print("{}\n", list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    } else {
        print_text(findings);
    }
    return good ? 0 : 1;
}

}  // namespace kiln::tools
