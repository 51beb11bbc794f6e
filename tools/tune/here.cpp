#include "tune/here.h"

#include <cstdlib>
#include <stdexcept>

#include "fmt/format.h"
#include "kiln/cpu.h"
#include "kiln/gpu.h"
#include "library/jobs.h"

namespace kiln::tools {
namespace {

// Asked in a process of its own: a driver starts threads, and may bring an LLVM of its own beside Halide's.
std::string why_no_gpu(const TargetModel &target) {
    const Job open = [&target]() -> std::string {
        kiln_gpu *gpu = nullptr;
        const char *number = std::getenv("KILN_GPU");  // as the timing programs' harness
        const int index = number != nullptr ? std::atoi(number) : 0;
        return kiln_gpu_open(target.gpu.api, index, &gpu) == kiln_ok ? "" : kiln_gpu_message();
    };
    std::string why;
    run_jobs({open}, 1, 60, [&](size_t, const JobResult &result) { why = result.text; });
    return why;
}

}  // namespace

std::string why_not_here(const TargetModel &target) {
    if (target.is_gpu()) {
        return why_no_gpu(target);
    }
    try {
        const TargetModel &host = find_target("host");
        const bool runs =
            std::string(host.architecture) == target.architecture && (target.features & ~kiln_cpu_features()) == 0;
        return runs ? "" : fmt::format("its processor, a {}, cannot run {}", host.name, target.name);
    } catch (const std::invalid_argument &error) {
        return error.what();
    }
}

}  // namespace kiln::tools
