// `kiln targets`: what Kiln compiles for.
#include "commands/commands.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kiln/cpu.h"
#include "kiln/gpu.h"
#include "nlohmann/json.hpp"
#include "targets/target_model.h"

namespace kiln::tools {
namespace {

bool runs_here(const TargetModel &target) {
    if (!target.is_gpu()) {
        return (kiln_cpu_features() & target.features) == target.features;
    }
    kiln_gpu *gpu = nullptr;
    const bool opens = kiln_gpu_open(target.gpu.api, 0, &gpu) == kiln_ok;
    kiln_gpu_close(gpu);
    return opens;
}

std::vector<std::string> requirements(const TargetModel &target) {
    switch (target.gpu.api) {
        case kiln_gpu_cuda:
            return {"a CUDA GPU"};
        case kiln_gpu_opencl:
            return {"an OpenCL device"};
        default:
            return feature_names(target.features);
    }
}

std::string text_of(const char *text) {
    return text == nullptr ? "" : text;
}

}  // namespace

int targets_command(const TargetsOptions &options) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const TargetModel &target : target_models()) {
        list.push_back({{"name", target.name},
                        {"halide", target.halide},
                        {"requires", requirements(target)},
                        {"compiler", is_own_architecture(target) ? "c++" : text_of(target.cross.compiler)},
                        {"emulator", is_own_architecture(target) ? "" : text_of(target.cross.emulator)},
                        {"runs_here", runs_here(target)}});
    }
    if (options.json) {
        fmt::print("{}\n", list.dump(2));
        return 0;
    }
    fmt::print("{:<28}{:<46}{:<12}{}\n", "target", "requires", "runs here", "Halide's string");
    for (const auto &target : list) {
        fmt::print("{:<28}{:<46}{:<12}{}\n", target["name"].get<std::string>(),
                   fmt::format("{}", fmt::join(target["requires"].get<std::vector<std::string>>(), " ")),
                   target["runs_here"].get<bool>() ? "yes" : "no", target["halide"].get<std::string>());
    }
    return 0;
}

}  // namespace kiln::tools
